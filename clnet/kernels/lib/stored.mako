## lib stored: elements of 16 bits, which are kept in memory as they are and computed on in float
##
## Kernels need no 16-bit arithmetic for it. A `bfloat16` is the upper half of a float; OpenCL C has
## no such type, memory holds a ushort.
##
## param ctype: str           element type in memory, of C or "bfloat16"
## param compute: str         type it is computed in
## param name: str            of the variable declared
## param pointer: str         C expression
## param at: str              C expression, the element's number
## param value: str           C expression of an arithmetic type
## param ctypes: list[str]    element types of a kernel
## param lanes: int           elements of a vector
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
## The same of vectors, which need not be aligned, for CPUs: 16-bit numbers one by one are 20 times
## as slow on PoCL.
<%def name="vectors(ctypes, lanes)">
% if "half" in ctypes:
inline float${lanes} wide_half(__global const half *from)
{
    return vload_half${lanes}(0, from);
}
inline void store_half(const float${lanes} x, __global half *to)
{
    vstore_half${lanes}_rte(x, 0, to);
}
% endif
% if "bfloat16" in ctypes:
inline float${lanes} wide_bfloat16(__global const ushort *from)
{
    return as_float${lanes}(convert_uint${lanes}(vload${lanes}(0, from)) << 16);
}
inline void store_bfloat16(const float${lanes} x, __global ushort *to)
{
    const uint${lanes} bits = as_uint${lanes}(x);
    const uint${lanes} nearest = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    const uint${lanes} kept = select(nearest, (uint${lanes})(0x7fc0), isnan(x));
    vstore${lanes}(convert_ushort${lanes}(kept), 0, to);
}
% endif
</%def>
