## kernel vector: a vector type that may lie at any element, and its fused multiply-add
##
## `vload`, `vstore` and `fma` are library functions, and a runtime whose library was built for another
## processor than it runs on calls them one by one instead of inlining them (PoCL: 10 times slower).
##
## param ctype: str           element type
## param width: int           lanes, a power of two
<%def name="types(ctype, width)">
#pragma OPENCL FP_CONTRACT ON
typedef ${ctype}${width} __attribute__((aligned(sizeof(${ctype})))) vector;

inline ${ctype}${width} multiply_add(const ${ctype}${width} x, const ${ctype}${width} y, const ${ctype}${width} sum)
{
    return x * y + sum;
}
</%def>
