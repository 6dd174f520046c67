## lib tf32_parts: a float as the sum of two numbers that TF32 holds
##
## The first is the float rounded, the second what rounding left of it, rounded too. A number too
## large for TF32's rounding is cut; what is left of an infinity or a NaN is 0.
##
## param to: str              C expression, where the first is stored
## param apart: str           C expression, elements from there to the second
## param value: str           C expression, a name
<%def name="stored(to, apart, value)">
            const uint cut = as_uint(${value}) & 0xffffe000;
            const float near = as_float(as_uint(${value}) + 0x1000 & 0xffffe000);
            const float large =
                !isfinite(${value}) ? ${value} : isfinite(near) ? near : as_float(cut);
            const float rest = isfinite(${value}) ? ${value} - large : 0;
            ${to}[0] = large;
            /* Both rounded up, the largest numbers would add up to an infinity. */
            ${to}[${apart}] = as_float(as_uint(rest) + (isfinite(near) ? 0x1000 : 0) & 0xffffe000);
</%def>
