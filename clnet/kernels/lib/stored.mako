## lib stored: elements of 16 bits, which are kept in memory as they are and computed on in float
##
## Kernels need no 16-bit arithmetic for it. A `bfloat16` is the upper half of a float; OpenCL C has
## no such type, memory holds a ushort.
##
## param ctype: str           element type in memory, of C or "bfloat16"
## param compute: str         type it is computed in
## param name: str            of the variable declared
## param pointer: str         C expression
## param at: str              C expression, the element's number; of vectors, their pointer
## param value: str           C expression of an arithmetic type
## param ctypes: list[str]    element types of a kernel
## param lanes: int           elements of a vector; of floats it is the type `vector`
## param wide: bool           a vector begins there
<%namespace name="prelude" file="prelude.mako"/>
<%def name="load(ctype, compute, name, pointer, at)">
% if ctype == "half":
    const ${compute} ${name} = (${compute})vload_half(${at}, ${pointer});
% elif ctype == "bfloat16":
    const ${compute} ${name} = (${compute})as_float((uint)${pointer}[${at}] << 16);
% else:
    const ${compute} ${name} = (${compute})${pointer}[${at}];
% endif
</%def>
<%def name="store(ctype, pointer, at, value)">
% if ctype == "half":
    vstore_half_rte((float)(${value}), ${at}, ${pointer});
% elif ctype == "bfloat16":
    {
        const float value = (float)(${value});
        const uint bits = as_uint(value);
        const uint rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;  /* to nearest,
            halves to even */
        ${pointer}[${at}] = isnan(value) ? (ushort)0x7fc0 : (ushort)rounded;
    }
% else:
    ${pointer}[${at}] = (${ctype})(${value});
% endif
</%def>
##
## An element as a number of registers, and the type of elements in memory.
<%def name="element(ctype, pointer, at)" filter="trim">
% if ctype == "half":
vload_half(${at}, ${pointer})
% elif ctype == "bfloat16":
as_float((uint)(${pointer})[${at}] << 16)
% else:
${pointer}[${at}]
% endif
</%def>
<%def name="memory(ctype)" filter="trim">
${"ushort" if ctype == "bfloat16" else ctype}
</%def>
##
## Functions that take four aligned neighbours of 16 bits as floats, and store them: the same bits.
<%def name="fours(ctypes)">
% if "half" in ctypes:
inline float4 wide_half(__global const half *from)
{
    const ushort4 bits = *(__global const ushort4 *)from;
    return vload_half4(0, (const half *)&bits);
}
inline void store_half(const float4 x, __global half *to)
{
    ushort4 bits;
    vstore_half4_rte(x, 0, (half *)&bits);
    *(__global ushort4 *)to = bits;
}
% endif
% if "bfloat16" in ctypes:
inline float4 wide_bfloat16(__global const ushort *from)
{
    return as_float4(convert_uint4(*(__global const ushort4 *)from) << 16);
}
inline void store_bfloat16(const float4 x, __global ushort *to)
{
    const uint4 bits = as_uint4(x);
    const uint4 nearest = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    *(__global ushort4 *)to = convert_ushort4(select(nearest, (uint4)(0x7fc0), isnan(x)));
}
% endif
</%def>
##
## The same of vectors, which need not be aligned, for CPUs: PoCL takes 20 times as long for 16-bit
## numbers one by one. Their bits are of `ushort`, and become floats and are made of them at once.
## Each of PoCL's functions is a call here, before which all vectors go to memory (see
## lib/vector.mako), so conversions are the compiler's own where it has them.
<%def name="vectors(ctypes, lanes)">
% if "half" in ctypes or "bfloat16" in ctypes:
typedef ushort${lanes} __attribute__((aligned(2))) sixteens;
% endif
% if "half" in ctypes:
${prelude.halves(lanes)}
inline float${lanes} widened_half(const ushort${lanes} bits)
{
    return WIDE_HALVES(bits);
}
inline ushort${lanes} narrowed_half(const float${lanes} x)
{
    ushort${lanes} bits;
    NARROW_FLOATS(x, bits);
    return bits;
}
% endif
% if "bfloat16" in ctypes:
${prelude.widths(lanes)}
inline float${lanes} widened_bfloat16(const ushort${lanes} bits)
{
    return as_float${lanes}(WIDER(bits) << 16);
}
inline ushort${lanes} narrowed_bfloat16(const float${lanes} x)
{
    const uint${lanes} bits = as_uint${lanes}(x);
    const uint${lanes} nearest = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    const uint${lanes} kept = x != x ? (uint${lanes})(0x7fc0) : nearest;
    return NARROWER(kept);
}
% endif
</%def>
##
## Truth values, a byte each, as vectors of masks: 0 or -1 in each lane.
<%def name="truths(ctypes, lanes)">
% if "uchar" in ctypes:
${prelude.convert(lanes)}
typedef float${lanes} floats;
typedef int${lanes} ints;
typedef uchar${lanes} uchars;
typedef uchar${lanes} __attribute__((aligned(1))) truths;
inline int${lanes} widened_uchar(const uchar${lanes} truth)
{
    return CONVERT(truth, ints) != 0;
}
inline uchar${lanes} narrowed_uchar(const int${lanes} mask)
{
    return CONVERT((mask & 1), uchars);
}
% endif
</%def>
##
## A vector of floats, or of masks, that begins at a pointer, or one number for all its lanes.
<%def name="read(ctype, at, wide, lanes)" filter="trim">
% if ctype == "float":
${f"*(__global const vector *)({at})" if wide else f"*({at})"}
% elif wide:
widened_${ctype}(*(__global const ${"truths" if ctype == "uchar" else "sixteens"} *)(${at}))
% elif ctype == "uchar":
-(*(${at}) != 0)
% elif ctype == "half":
vload_half(0, ${at})
% else:
as_float((uint)*(${at}) << 16)
% endif
</%def>
##
## A vector of floats, or of masks as truth values, stored behind a pointer.
<%def name="write(ctype, at, value, lanes)">
% if ctype == "float":
            *(__global vector *)(${at}) = ${value};
% else:
            *(__global ${"truths" if ctype == "uchar" else "sixteens"} *)(${at}) =
                narrowed_${ctype}(${value});
% endif
</%def>
