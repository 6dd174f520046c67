## lib matrix_sums: elements of a product on matrix units are read and stored in float
##
## param ctype: 'half'|'bfloat16'|'float'  element type in memory
## param element: str         ushort or float, as pointers lead to
## param out_dense: bool      runs of `width` are dense, aligned, and cross no edge
## param bias: None|'m'|'n'   the axis bias lies along
## param activation: None|str see lib/epilogue.mako
## param by_ptx: bool         the compiler takes PTX
## param width: int           neighbouring columns that an item stores together
<%namespace name="epilogue" file="/lib/epilogue.mako"/>
<%namespace name="stored_as" file="/lib/stored.mako"/>
##
## Functions that read and store one.
<%def name="elements(ctype, element, by_ptx)">
inline float read_one(__global const ${element} *from)
{
% if ctype == "half":
    return vload_half(0, (__global const half *)from);
% elif ctype == "bfloat16":
    return as_float((uint)*from << 16);
% else:
    return *from;
% endif
}
inline void store_one(__global ${element} *to, const float x)
{
% if ctype == "half":
    vstore_half_rte(x, 0, (__global half *)to);
% else:
    ${stored_as.store(ctype, "to", 0, "x")}
% endif
}
% if ctype != "float" and by_ptx:
<% kind = "bf16x2" if ctype == "bfloat16" else "f16x2" %>
inline uint nearest(const float x, const float y)
{
    uint both;
    asm("cvt.rn.${kind}.f32 %0, %1, %2;" : "=r"(both) : "f"(y), "f"(x));
    return both;
}
% elif ctype == "bfloat16":
inline uint nearest_one(const float x)
{
    const uint bits = as_uint(x);
    return isnan(x) ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
inline uint nearest(const float x, const float y)
{
    return nearest_one(x) | nearest_one(y) << 16;
}
% elif ctype == "half":
inline uint nearest(const float x, const float y)
{
    ushort bits[2];
    vstore_half_rte(x, 0, (half *)bits);
    vstore_half_rte(y, 1, (half *)bits);
    return bits[0] | (uint)bits[1] << 16;
}
% endif
</%def>
##
## Neighbouring elements of a row, of which `valid` are there.
<%def name="stored(ctype, element, out_dense, bias, activation, width)">
inline void store_sums(
    __global ${element} *to, ${", ".join(f"float x_{lane}" for lane in range(width))},
    const int valid, const long out_n, const float alpha, const float beta
    ${", __global const %s *bias, const long bias_step" % element if bias else ""})
{
% if out_dense:
    if (valid <= 0)
        return;
% endif
% for lane in range(width):
% if not out_dense:
    if (valid > ${lane}) {
% else:
    {
% endif
        x_${lane} *= alpha;
        if (beta != 0)
            x_${lane} += beta * read_one(to + ${lane} * out_n);
% if bias:
        x_${lane} += read_one(bias${f" + {lane} * bias_step" if bias == "n" and lane else ""});
% endif
        x_${lane} = ${epilogue.activate(activation, f"x_{lane}", "float")};
    }
% endfor
<% xs = [f"x_{lane}" for lane in range(width)] %>
% if out_dense:
% if ctype == "half":
        ushort bits[${width}];
        vstore_half${width}_rte((float${width})(${", ".join(xs)}), 0, (half *)bits);
        *(__global ushort${width} *)to = vload${width}(0, bits);
% elif ctype == "float":
        *(__global float${width} *)to = (float${width})(${", ".join(xs)});
% else:
        *(__global uint${width // 2 if width > 2 else ""} *)to =
            ${f"(uint{width // 2})" if width > 2 else ""}(${", ".join(
                f"nearest({x}, {y})" for x, y in zip(xs[::2], xs[1::2]))});
% endif
% else:
% for lane in range(width):
    if (valid > ${lane})
        store_one(to + ${lane} * out_n, x_${lane});
% endfor
% endif
}
</%def>
