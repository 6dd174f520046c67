## lib tf32_parts: a float as the sum of two numbers that TF32 holds
##
## The first is the float rounded, the second what rounding left of it, cut: that has either sign,
## so cutting adds up to nothing. A number too large for TF32's rounding is cut. What is left of an
## infinity or a NaN is a NaN.
##
## param to: str              C expression, where the first is stored
## param apart: str           C expression, elements from there to the second
## param value: str           C expression, a name
<%def name="stored(to, apart, value)">
            const uint bits = as_uint(${value}), up = bits + 0x1000;
            const float large =
                as_float(((up & 0x7f800000) == 0x7f800000 ? bits : up) & 0xffffe000);
            ${to}[0] = large;
            ${to}[${apart}] = as_float(as_uint(${value} - large) & 0xffffe000);
</%def>
