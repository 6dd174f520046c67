## lib erfc: 1 - erf(x) of floats and vectors of them, with all digits where it is small
##
## exp(-a^2) times a polynomial in s = 2 / (a + 2) times s, for a = |x|. The square comes in two
## parts, the first exact, since an error of it counts whole. Without a branch: 1 - erf, which few
## numbers around 0 could take, would be computed for all.
##
## param real: str                   the type: float or a vector of it
## param whole: str                  its integer type
## param suffix: str                 of the name: the lanes, nothing for a scalar
## numerics at most 4.5 ulp (tests/test_elementary.py); products and sums contract; subnormals where
##          the device has them. The polynomial is minimax for the relative error, of
##          exp(a^2) erfc(a) / s in s - 1/2
<%namespace name="elementary" file="elementary.mako"/>
<%namespace name="powers" file="power.mako"/>
<%def name="erfc(real, whole, suffix)">
${real} clnet_erfc${suffix}(const ${real} x)
{
#pragma OPENCL FP_CONTRACT ON
    ${real} a = as_${real}(as_${whole}(x) & 0x7fffffff);
    a = a > 10.5f ? (${real})(10.5f) : a;  /* beyond it is 0 */
    /* Less what rounding lost of a + 2. */
    const ${real} d = a + 2.0f, s = 2.0f / d, lost = s * (0.5f * s) * (a - (d - 2.0f));
    const ${real} u = (s - 0.5f) - lost;
    const ${real} v = ${elementary.polynomial(("4.235205954e-2", "-1.909494736e-2",
        "-7.621363069e-2", "5.53081757e-2", "9.779284294e-2", "-1.038210075e-1",
        "-1.720214917e-1", "1.457751914e-1", "5.58942861e-1", "6.87160609e-1",
        "5.107913569e-1"), "u")};
    const ${real} q = s * v - lost * v;
    const ${real} upper = ${powers.upper(real, whole, "a")};
    const ${real} square = upper * upper, rest = (a - upper) * (a + upper);
    /* As exp of two numbers: see lib/elementary.mako. */
    const ${real} shifted = 12583166.0f - a * a * 1.44269504f, n = shifted - 12583166.0f;
    const ${real} r = ((-square - n * 0.693359375f) + n * 2.12194440e-4f) - rest;
    const ${real} p = ${elementary.polynomial(("1.395171857e-3", "8.369598538e-3",
        "4.166618735e-2", "1.666651219e-1", "0.5"), "r")};
    const ${whole} both = as_${whole}(shifted), first = both >> 1;
    const ${real} y = (1.0f + (r + r * r * p)) * q * as_${real}(first << 23)
        * as_${real}((both - first) << 23);
    return x < 0.0f ? 2.0f - y : y;
}
</%def>
