## lib vector: a vector type that may lie at any element, and functions of such vectors
##
## `vload`, `vstore`, `fma` and even `min` are library functions, and a runtime whose library was
## built for another processor than it runs on calls them one by one instead of inlining them (PoCL:
## 10 times slower). Functions of the program's own are inlined, and their vector parameters also
## tell PoCL's compiler to keep vectors of 64 bytes whole, which it halves otherwise.
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
##
## Lanes of the lower, or of the higher, half of x and of y in turns.
<%def name="zip(ctype, width)">
% for half in ("lo", "hi"):
inline ${ctype}${width} zip_${half}(const ${ctype}${width} x, const ${ctype}${width} y)
{
    ${ctype}${width} z;
    z.even = x.${half};
    z.odd = y.${half};
    return z;
}
% endfor
</%def>
