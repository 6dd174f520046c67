## lib vector: a vector type that may lie at any element, and functions of such vectors
##
## `vload`, `vstore`, `fma` and even `min` are library functions, and a runtime whose library was
## built for another processor than it runs on calls them one by one instead of inlining them (PoCL:
## 10 times slower). A vstore16 of its library for AVX-512, which it takes for a Zen 4, in code for
## the Zen 3 that its LLVM knows, ends or stops the compiler. Functions of the program's own are
## inlined, and their vector parameters also tell PoCL's compiler to keep vectors of 64 bytes whole,
## which it halves otherwise.
##
## param ctype: str           element type
## param width: int           lanes, a power of two
## param x: str               C expression, where line {0} of a square is read
## param y: str               C expression, where line {0} is written
## param store: str           function of a value and a place that writes a line; '': a plain store
<%def name="types(ctype, width)">
#pragma OPENCL FP_CONTRACT ON
typedef ${ctype}${width} __attribute__((aligned(sizeof(${ctype})))) vector;

inline ${ctype}${width} multiply_add(const ${ctype}${width} x, const ${ctype}${width} y,
    const ${ctype}${width} sum)
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
##
## Every second element of a run of 2 * width - 1: those of x, and behind them those of y, which
## begins with x's last element.
<%def name="second(ctype, width)">
inline ${ctype}${width} second(const ${ctype}${width} x, const ${ctype}${width} y)
{
    ${ctype}${width} z;
    z.lo = x.even;
    z.hi = y.odd;
    return z;
}
</%def>
##
## Turn a square of width x width over, in registers: columns become lines.
<%def name="turn(ctype, width, x, y, store='')">
<% stages = width.bit_length() - 1 %>
% for i in range(width):
        const ${ctype}${width} s0_${i} = *(__global const vector *)(${x.format(i)});
% endfor
${turn_lines(ctype, width)}
% for i in range(width):
% if store:
        ${store}(s${stages}_${i}, (__global ${ctype}${width} *)(${y.format(i)}));
% else:
        *(__global vector *)(${y.format(i)}) = s${stages}_${i};
% endif
% endfor
</%def>
##
## The same of lines s0_0, s0_1 ...; columns are s<n>_0, s<n>_1 ..., n the number of turns.
<%def name="turn_lines(ctype, width)">
% for stage in range(1, width.bit_length()):
% for i in range(width // 2):
        const ${ctype}${width} s${stage}_${2 * i} =
            zip_lo(s${stage - 1}_${i}, s${stage - 1}_${i + width // 2});
        const ${ctype}${width} s${stage}_${2 * i + 1} =
            zip_hi(s${stage - 1}_${i}, s${stage - 1}_${i + width // 2});
% endfor
% endfor
</%def>
