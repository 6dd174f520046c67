## lib elementary: exp, expm1, log, log2, log1p, tanh and erf of float and of its vectors
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
## numerics at most 2 ulp (tests/test_elementary.py asserts each); subnormals where the device has
##          them; contraction off. Arguments are reduced as in Cody and Waite, Software Manual for
##          the Elementary Functions, 1980; the error of a rounded sum is kept as in Muller,
##          Elementary Functions, 3rd ed. 2016 (2Sum). erf is its own polynomial near 0, and from 1
##          on 1 - erfc, as in Cody, Rational Chebyshev approximations for the error function, Math.
##          Comp. 23, 1969, except that erfc is exp of a polynomial here.
##          Polynomials are minimax for the relative error of the result, by Remez's algorithm.
##
## `define` defines functions and those they are made of: clnet_exp, of vectors clnet_exp16.
<%def name="define(functions, ctype, lanes)">
% if ctype == "float":
<%
    suffix = str(lanes) if lanes > 1 else ""
    real, whole = f"float{suffix}", f"int{suffix}"
%>
% if not {"exp", "tanh", "erf"}.isdisjoint(functions):
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
% endif
</%def>
<%def name="polynomial(coefficients, variable)">${"(" * (len(coefficients) - 1)}${coefficients[0]}f${"".join(f" * {variable} + {c}f)" for c in coefficients[1:])}</%def>
<%def name="exp(real, whole, suffix)">
${real} clnet_exp${suffix}(${real} x)
{
#pragma OPENCL FP_CONTRACT OFF
    x = x > 89.0f ? (${real})(89.0f) : x;  /* beyond these it is infinite, or 0 */
    x = x < -104.0f ? (${real})(-104.0f) : x;
    const ${real} shifted = x * 1.44269504f + 12582912.0f;  /* 1.5 * 2^23: no fraction is left */
    const ${real} n = shifted - 12582912.0f;
    const ${real} r = (x - n * 0.693359375f) + n * 2.12194440e-4f;  /* ln 2 in two parts */
    const ${real} p = ${polynomial(("1.395171857e-3", "8.369598538e-3", "4.166618735e-2", "1.666651219e-1", "0.5"), "r")};
    const ${whole} power = as_${whole}(shifted) - 0x4b400000, first = power >> 1;
    /* The power of 2 in two factors, since it may be no normal number. */
    return (1.0f + (r + r * r * p)) * as_${real}((first + 127) << 23) * as_${real}((power - first + 127) << 23);
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
    const ${real} p = ${polynomial(("1.991562312e-4", "1.394204563e-3", "8.333270438e-3", "4.166634381e-2", "1.666666716e-1", "0.5"), "r")};
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
    const ${real} n = as_${real}(power + 0x4b400000) - (small ? (${real})(12582936.0f) : (${real})(12582912.0f));
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
    const ${real} p = ${polynomial(("-7.859622687e-2", "1.288165003e-1", "-1.312875152e-1", "1.418119073e-1", "-1.662455499e-1", "2.000228614e-1", "-2.500081062e-1", "3.333331645e-1"), "f")};
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
    const ${real} p = ${polynomial(("-5.717045162e-3", "2.065058798e-2", "-5.374349654e-2", "1.333149076e-1", "-3.333328366e-1"), "z")};
    const ${real} small = a + a * (z * p), large = 1.0f - 2.0f / (clnet_exp${suffix}(2.0f * a) + 1.0f);
    return as_${real}(as_${whole}(a < 0.625f ? small : large) | (as_${whole}(x) & (int)0x80000000));
}
</%def>
<%def name="erf(real, whole, suffix)">
${real} clnet_erf${suffix}(const ${real} x)
{
#pragma OPENCL FP_CONTRACT OFF
    const ${real} a = as_${real}(as_${whole}(x) & 0x7fffffff), z = a * a;
    const ${real} p = ${polynomial(("7.889122935e-5", "-8.020842215e-4", "5.189535674e-3", "-2.685444430e-2", "1.128360033e-1", "-3.761262596e-1", "1.283791661e-1"), "z")};
    /* log(1 - erf(a)); from 4 on erf is 1. */
    const ${real} b = a > 4.0f ? (${real})(4.0f) : a;
    const ${real} q = ${polynomial(("1.855739538e-4", "-2.939606784e-3", "2.180531621e-2", "-1.030373648e-1", "-6.382256746e-1", "-1.127040029", "-3.537202720e-4"), "b")};
    const ${real} small = a + a * p, large = 1.0f - clnet_exp${suffix}(q);
    return as_${real}(as_${whole}(a < 1.0f ? small : large) | (as_${whole}(x) & (int)0x80000000));
}
</%def>
