## lib rest: what is left of a division, fmod of floats and vectors of them
##
## Of quotients below 2^22 by a product of the whole quotient that loses nothing (halves of floats,
## of 12 bits, as in lib/power.mako): differences are exact as long as what is left is less than the
## divisor, and a quotient that was rounded to a whole number too large, or too small, is put right.
## Of others bit by bit, one element after the other.
##
## param real: str                   the type: float or a vector of it
## param whole: str                  its integer type
## param suffix: str                 of the name: the lanes, nothing for a scalar
## param lanes: int                  lanes of the vector, 1 for a scalar
## numerics exact; subnormals where the device has them; specials as C has them
<%namespace name="powers" file="power.mako"/>
<%def name="fmod(real, whole, suffix, lanes)">
inline float clnet_rest${suffix}(const float a, const float b)
{
    const uint x = as_uint(a), y = as_uint(b);
    if (x >= 0x7f800000 || y > 0x7f800000 || y == 0)
        return NAN;
    if (x < y)
        return a;
    const uint divisor = y < 0x800000 ? y : (y & 0x7fffff) | 0x800000;
    uint left = (x < 0x800000 ? x : (x & 0x7fffff) | 0x800000) % divisor;
    const uint least = max(y >> 23, 1u);
    for (uint e = max(x >> 23, 1u); e > least; --e) {
        left <<= 1;
        left -= left >= divisor ? divisor : 0;
    }
    return (float)left * 1.1920929e-7f * as_float(least << 23);
}
${real} clnet_fmod${suffix}(const ${real} x, const ${real} y)
{
#pragma OPENCL FP_CONTRACT OFF
    const ${real} a = as_${real}(as_${whole}(x) & 0x7fffffff);
    const ${real} b = as_${real}(as_${whole}(y) & 0x7fffffff);
    const ${real} quotient = a / b, near = (quotient + 8388608.0f) - 8388608.0f;
    const ${real} n = near > quotient ? near - 1.0f : near;
    const ${real} n_high = ${powers.upper(real, whole, "n")}, n_low = n - n_high;
    const ${real} b_high = ${powers.upper(real, whole, "b")}, b_low = b - b_high;
    const ${real} product = n * b;
    const ${real} lost = (((n_high * b_high - product) + n_high * b_low) + n_low * b_high)
        + n_low * b_low;
    const ${real} difference = a - product;
    ${real} rest = difference - lost;
    rest = rest >= b ? (difference - b) - lost : rest;
    rest = rest < 0.0f ? rest + b : rest;
% if lanes == 1:
    if (!(quotient < 4194304.0f) || !(b < 1e30f))
        rest = clnet_rest(a, b);
% else:
    const ${whole} far_${lanes} = (quotient < 4194304.0f) & (b < 1e30f)
        ? (${whole})(0) : (${whole})(1);
% for width in [lanes >> k for k in range(1, lanes.bit_length())]:
    const int${width if width > 1 else ""} far_${width} = far_${2 * width}.lo | far_${2 * width}.hi;
% endfor
    if (far_1) {
        const ${real} numbers = a, divisors = b;
        const ${whole} far = far_${lanes};
        for (int k = 0; k < ${lanes}; ++k)
            if (((const int *)&far)[k])
                ((float *)&rest)[k] = clnet_rest${suffix}(
                    ((const float *)&numbers)[k], ((const float *)&divisors)[k]);
    }
% endif
    return as_${real}(as_${whole}(rest) | (as_${whole}(x) & (int)0x80000000));
}
</%def>
