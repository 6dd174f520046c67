## lib elementary: of floats exp, expm1, log, log2, log1p, tanh, erf, erfc, sigmoid, sin, cos, tan,
## pow and fmod
##
## OpenCL's own may differ by some ulps from device to device, and PoCL calls them for one element
## after the other when its library was built for another processor than it runs on. These are
## inlined, become vectors in every compiler, and give the same bits wherever + - * / are rounded to
## nearest.
##
## param functions: tuple[str]       their names in OpenCL
## param ctype: str                  element type; for all but float OpenCL's functions are left
## param lanes: int                  lanes of the vector, 1 for a scalar
## param function: str               name of a logarithm
## param real: str                   the type: float or a vector of it
## param whole: str                  its integer type
## param suffix: str                 of the names: the lanes, nothing for a scalar
## param coefficients: tuple[str]    of a polynomial, highest power first
## param variable: str               C expression
## param base: e|2                   of a logarithm
## param name: sin|cos|tan           which
## numerics at most 2.5 ulp, tan 3.5, erfc 4.5, sigmoid 3 by NVIDIA's division
##          (tests/test_elementary.py asserts each); subnormals where the device has them;
##          contraction off, but for sigmoid and erfc. Arguments are reduced as in Cody and Waite,
##          Software Manual for the Elementary Functions, 1980; the error of a rounded sum is kept
##          as in Muller, Elementary Functions, 3rd ed. 2016 (2Sum). erf is its own polynomial near
##          0, and beyond 1 - erfc, as in Cody, Rational Chebyshev approximations for the error
##          function, Math. Comp. 23, 1969, but erfc is the fourth power of a polynomial there.
##          Polynomials are minimax for the relative error of the result, by Remez's algorithm.
##
## `define` defines functions and those they are made of: clnet_exp, of vectors clnet_exp16.
<%namespace name="complements" file="erfc.mako"/>
<%namespace name="powers" file="power.mako"/>
<%namespace name="rests" file="rest.mako"/>
<%def name="define(functions, ctype, lanes)">
% if ctype == "float":
<%
    suffix = str(lanes) if lanes > 1 else ""
    real, whole = f"float{suffix}", f"int{suffix}"
%>
% if "exp" in functions:
${exp(real, whole, suffix)}
% endif
% if "expm1" in functions:
${expm1(real, whole, suffix)}
% endif
% if "log" in functions:
${logarithm("log", "e", real, whole, suffix)}
% endif
% if "log2" in functions:
${logarithm("log2", "2", real, whole, suffix)}
% endif
% if "log1p" in functions:
${log1p(real, whole, suffix)}
% endif
% if "tanh" in functions:
${tanh(real, whole, suffix)}
% endif
% if "erf" in functions:
${erf(real, whole, suffix)}
% endif
% if "erfc" in functions:
${complements.erfc(real, whole, suffix)}
% endif
% if "sigmoid" in functions:
${sigmoid(real, whole, suffix)}
% endif
% if "pow" in functions:
${powers.power(real, whole, suffix)}
% endif
% if "fmod" in functions:
${rests.fmod(real, whole, suffix, lanes)}
% endif
% if "sin" in functions or "cos" in functions or "tan" in functions:
${quarters(suffix)}
% endif
% for name in ("sin", "cos", "tan"):
% if name in functions:
${wave(name, real, whole, suffix, lanes)}
% endif
% endfor
% endif
</%def>
##
## What is left of quarters of a circle: below 3200, where most are, by pi / 2 in four parts, of
## which products with the first three are exact; beyond by as many digits of 2 / pi as it takes
## (Payne and Hanek, Radian reduction for trigonometric functions, 1983), one by one.
<%def name="wave(name, real, whole, suffix, lanes)">
${real} clnet_${name}${suffix}(const ${real} x)
{
#pragma OPENCL FP_CONTRACT OFF
    const ${real} a = as_${real}(as_${whole}(x) & 0x7fffffff);
    const ${real} shifted = a * 0.636619772f + 12582912.0f, n = shifted - 12582912.0f;
    const ${real} third = ((a - n * 1.570556640625f) - n * 2.396702766418457e-4f)
        - n * 1.5890691429376602e-8f;
    ${real} r = third - n * 2.563344e-12f;
    ${whole} quarter = as_${whole}(shifted);
% if lanes == 1:
    if (!(a < 3200.0f))
        r = clnet_quarters(a, &quarter);
% else:
    const ${whole} far_${lanes} = a < 3200.0f ? (${whole})(0) : (${whole})(1);
% for width in [lanes >> k for k in range(1, lanes.bit_length())]:
    const int${width if width > 1 else ""} far_${width} = far_${2 * width}.lo | far_${2 * width}.hi;
% endfor
    if (far_1) {
        const ${real} numbers = a;
        const float *each = (const float *)&numbers;
        for (int k = 0; k < ${lanes}; ++k)
            if (!(each[k] < 3200.0f))
                ((float *)&r)[k] = clnet_quarters${suffix}(each[k], (int *)&quarter + k);
    }
% endif
    const ${real} z = r * r;
% if name == "tan":
    /* With what rounding lost of r, since a tangent varies up to twice as much. */
    const ${real} lost = a < 3200.0f ? (third - r) - n * 2.563344e-12f : (${real})(0.0f);
    const ${real} tangent = r + (lost + r * (z * ${polynomial(("9.387657844e-3", "3.116165944e-3",
        "2.443243993e-2", "5.341064635e-2", "1.333880692e-1", "3.333315657e-1"), "z")}));
    const ${real} y = (quarter & 1) != 0 ? -1.0f / tangent : tangent;
    return as_${real}(as_${whole}(y) ^ (as_${whole}(x) & (int)0x80000000));
% else:
    const ${real} sine = r + r * (z * ${polynomial(("-1.9515295891e-4", "8.3321608736e-3",
        "-1.6666654611e-1"), "z")});
    const ${real} cosine = 1.0f + z * ${polynomial(("2.443315711809948e-5",
        "-1.388731625493765e-3", "4.166664568298827e-2", "-0.5"), "z")};
% if name == "cos":
    quarter = quarter + 1;
% endif
    const ${real} y = (quarter & 1) != 0 ? cosine : sine;
    const ${whole} sign = (quarter & 2) << 30;
% if name == "cos":
    return as_${real}(as_${whole}(y) ^ sign);
% else:
    return as_${real}(as_${whole}(y) ^ sign ^ (as_${whole}(x) & (int)0x80000000));
% endif
% endif
}
</%def>
<%def name="quarters(suffix)">
inline float clnet_quarters${suffix}(const float a, int *quarter)
{
    /* 2 / pi behind 32 zeros; a is m 2^e. */
    const uint digits[8] = {0, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599,
        0x3c439041, 0xfe5163ab};
    const uint bits = as_uint(a), m = (bits & 0x7fffff) | 0x800000;
    const int first = (int)(bits >> 23) - 120, at = first >> 5, by = first & 31;
    if (bits >= 0x7f800000)
        return NAN;
    /* 96 digits from those on whose products are no whole circles; of the product the first 64. */
    ulong part[3];
    for (int k = 0; k < 3; ++k)
        part[k] = (((((ulong)digits[at + k] << 32) | digits[at + k + 1]) << by) >> 32) * m;
    const ulong second = part[1] + (part[2] >> 32);
    const ulong turned = (part[0] << 32) + second;
    const long rest = (long)(turned << 2);
    *quarter = (int)(turned >> 62) + (rest < 0);
    return (float)rest * 8.515304e-20f;  /* pi / 2 over 2^64 */
}
</%def>
<%def name="polynomial(coefficients, variable)">${"(" * (len(coefficients)
    - 1)}${coefficients[0]}f${"".join(f" * {variable} + {c}f)" for c in coefficients[1:])}</%def>
<%def name="exp(real, whole, suffix)">
${real} clnet_exp${suffix}(${real} x)
{
#pragma OPENCL FP_CONTRACT OFF
    x = x > 89.0f ? (${real})(89.0f) : x;  /* beyond these it is infinite, or 0 */
    x = x < -104.0f ? (${real})(-104.0f) : x;
    /* 1.5 * 2^23, so that no fraction is left, and 2 * 127, for the exponents below. */
    const ${real} shifted = x * 1.44269504f + 12583166.0f;
    const ${real} n = shifted - 12583166.0f;
    const ${real} r = (x - n * 0.693359375f) + n * 2.12194440e-4f;  /* ln 2 in two parts */
    const ${real} p = ${polynomial(("1.395171857e-3", "8.369598538e-3", "4.166618735e-2",
        "1.666651219e-1", "0.5"), "r")};
    /* The power of 2 in two factors, since it may be no normal number. */
    const ${whole} both = as_${whole}(shifted), first = both >> 1;
    return (1.0f + (r + r * r * p)) * as_${real}(first << 23) * as_${real}((both - first) << 23);
}
</%def>
<%def name="expm1(real, whole, suffix)">
${real} clnet_expm1${suffix}(const ${real} x)
{
#pragma OPENCL FP_CONTRACT OFF
    ${real} y = x > 89.0f ? (${real})(89.0f) : x;
    y = y < -25.0f ? (${real})(-25.0f) : y;
    const ${real} shifted = y * 1.44269504f + 12582912.0f;
    const ${real} n = shifted - 12582912.0f;
    const ${real} high = y - n * 0.693359375f, low = n * 2.12194440e-4f;
    const ${real} r = high + low, lost = (high - r) + low;
    const ${real} p = ${polynomial(("1.991562312e-4", "1.394204563e-3", "8.333270438e-3",
        "4.166634381e-2", "1.666666716e-1", "0.5"), "r")};
    /* Half of (2^n - 1) + 2^n r + 2^n (lost + r^2 p), since 2^128 is no float. */
    const ${real} scale = as_${real}((as_${whole}(shifted) - 0x4b400000 + 126) << 23);
    const ${real} a = scale - 0.5f, b = scale * r, sum = a + b, second = sum - a;
    const ${real} rest = (a - (sum - second)) + (b - second);
    const ${real} result = 2.0f * (sum + (rest + scale * (lost + r * r * p)));
    return ((x < 2e-8f) & (x > -2e-8f)) ? x : result;
}
</%def>
<%def name="logarithm(function, base, real, whole, suffix)">
${real} clnet_${function}${suffix}(const ${real} x)
{
#pragma OPENCL FP_CONTRACT OFF
    const ${whole} small = x < 1.17549435e-38f;
    const ${whole} bits = as_${whole}(small ? x * 16777216.0f : x);
    /* x = (1 + f) 2^n with 1 + f from sqrt(1/2) to sqrt(2). */
    const ${whole} power = (bits - 0x3f3504f3) >> 23;
    const ${real} f = as_${real}(bits - (power << 23)) - 1.0f;
    const ${real} n = as_${real}(power + 0x4b400000)
        - (small ? (${real})(12582936.0f) : (${real})(12582912.0f));
    ${log_polynomial(real)}
% if base == "e":
    const ${real} result = (f + (f * z * p - n * 2.12194440e-4f - 0.5f * z)) + n * 0.693359375f;
% else:
    const ${real} rest = f * z * p - 0.5f * z;
    const ${real} result = ((rest * 0.442695041f + f * 0.442695041f) + rest) + f + n;
% endif
    const ${real} beyond = x == 0.0f ? (${real})(-INFINITY) : (${real})(NAN);
    return x > 0.0f ? (x == INFINITY ? x : result) : beyond;
}
</%def>
<%def name="log_polynomial(real)">
    const ${real} z = f * f;
    const ${real} p = ${polynomial(("-7.859622687e-2", "1.288165003e-1", "-1.312875152e-1",
        "1.418119073e-1", "-1.662455499e-1", "2.000228614e-1", "-2.500081062e-1",
        "3.333331645e-1"), "f")};
</%def>
<%def name="log1p(real, whole, suffix)">
${real} clnet_log1p${suffix}(const ${real} x)
{
#pragma OPENCL FP_CONTRACT OFF
    /* 1 + x = (1 + f + lost) 2^n, where f + lost is exactly (2^-n - 1) + x 2^-n. */
    const ${whole} power = (as_${whole}(1.0f + x) - 0x3f3504f3) >> 23;
    const ${whole} bounded = power > 100 ? (${whole})(100) : power;
    const ${real} n = as_${real}(power + 0x4b400000) - 12582912.0f;
    const ${real} a = as_${real}((127 - bounded) << 23) - 1.0f;
    const ${real} b = as_${real}(as_${whole}(x) - (power << 23));
    const ${real} f = a + b, second = f - a;
    const ${real} lost = (a - (f - second)) + (b - second);
    ${log_polynomial(real)}
    const ${real} rest = f * z * p + (lost - lost * f) - n * 2.12194440e-4f - 0.5f * z;
    const ${real} result = (f + rest) + n * 0.693359375f;
    const ${real} near = (((x < 2e-8f) & (x > -2e-8f)) | (x == INFINITY)) ? x : result;
    const ${real} beyond = x == -1.0f ? (${real})(-INFINITY) : (${real})(NAN);
    return x > -1.0f ? near : beyond;
}
</%def>
<%def name="tanh(real, whole, suffix)">
${real} clnet_tanh${suffix}(const ${real} x)
{
#pragma OPENCL FP_CONTRACT OFF
    const ${real} a = as_${real}(as_${whole}(x) & 0x7fffffff), z = a * a;
    const ${real} p = ${polynomial(("-5.717045162e-3", "2.065058798e-2", "-5.374349654e-2",
        "1.333149076e-1", "-3.333328366e-1"), "z")};
    /* exp(2 a), of which few bits count; from 9.1 on tanh is 1. */
    const ${real} b = a > 9.5f ? (${real})(9.5f) : a;
    const ${real} shifted = b * 2.88539008f + 12583039.0f;  /* 1.5 * 2^23 and 127, as in exp */
    const ${real} n = shifted - 12583039.0f, r = b - n * 0.346573591f;
    const ${real} e = ${polynomial(("8.844473958e-2", "2.677980959e-1", "6.666924953e-1",
        "1.333321691", "1.999999762", "2.0", "1.0"), "r")} * as_${real}(as_${whole}(shifted) << 23);
    const ${real} small = a + a * (z * p), large = 1.0f - 2.0f / (e + 1.0f);
    return as_${real}(as_${whole}(a < 0.625f ? small : large) | (as_${whole}(x) & (int)0x80000000));
}
</%def>
<%def name="erf(real, whole, suffix)">
${real} clnet_erf${suffix}(const ${real} x)
{
#pragma OPENCL FP_CONTRACT OFF
    const ${real} a = as_${real}(as_${whole}(x) & 0x7fffffff), z = a * a;
    const ${real} p = ${polynomial(("7.531972369e-5", "-7.917903713e-4", "5.178558175e-3",
        "-2.684916928e-2", "1.128349081e-1", "-3.761262000e-1", "1.283791661e-1"), "z")};
    /* The fourth root of 1 - erf(a); from 4 on erf is 1. */
    const ${real} b = (a > 4.0f ? (${real})(4.0f) : a) - 1.0f;
    const ${real} q = ${polynomial(("-1.664135925e-4", "1.888766652e-3", "-6.342060398e-3",
        "-3.025730141e-3", "5.049363896e-2", "4.396976903e-3", "-4.154928029e-1",
        "6.297697425e-1"), "b")}, square = q * q;
    const ${real} small = a + a * p, large = 1.0f - square * square;
    return as_${real}(as_${whole}(a < 1.05f ? small : large) | (as_${whole}(x) & (int)0x80000000));
}
</%def>
##
## Networks compute it as often as all else together, so products and sums contract here where the
## device has an instruction for both, and what is below 2^-126 is 0: half as many operations.
<%def name="sigmoid(real, whole, suffix)">
${real} clnet_sigmoid${suffix}(const ${real} x)
{
#pragma OPENCL FP_CONTRACT ON
    ${real} y = x > 88.0f ? (${real})(88.0f) : x;  /* beyond, exp(-x) is nothing beside 1 */
    y = y < -89.0f ? (${real})(-89.0f) : y;  /* there the power of 2 below is infinite */
    const ${real} shifted = 12583039.0f - y * 1.44269504f;  /* 1.5 * 2^23 and 127, as in exp */
    const ${real} n = shifted - 12583039.0f;
    ${real} r = -y - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    ${real} p = 1.395171857e-3f * r + 8.369598538e-3f;
    p = p * r + 4.166618735e-2f;
    p = p * r + 1.666651219e-1f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return 1.0f / (p * as_${real}(as_${whole}(shifted) << 23) + 1.0f);
}
</%def>
