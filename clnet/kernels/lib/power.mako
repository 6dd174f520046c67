## lib power: x to the power y, of floats and vectors of them
##
## 2^(y log2 x), with the logarithm as a sum of two floats, since an error of it counts up to 128
## times. Products of halves of floats (12 bits) are exact, as in Dekker, A floating-point technique
## for extending the available precision, 1971; no device has to contract them.
##
## param real: str                   the type: float or a vector of it
## param whole: str                  its integer type
## param suffix: str                 of the name: the lanes, nothing for a scalar
## param value: str                  C expression
## numerics at most 1.5 ulp (tests/test_power.py); subnormals where the device has them; specials as
##          C has them. Polynomials are minimax, of log2((1 + s) / (1 - s)) in s^2 and of 2^r
<%namespace name="elementary" file="elementary.mako"/>
<%def name="upper(real, whole, value)">as_${real}(as_${whole}(${value}) & -4096)</%def>
<%def name="power(real, whole, suffix)">
${real} clnet_pow${suffix}(const ${real} x, const ${real} y)
{
#pragma OPENCL FP_CONTRACT OFF
    const ${real} a = as_${real}(as_${whole}(x) & 0x7fffffff);
    const ${whole} small = a < 1.17549435e-38f;
    const ${whole} bits = as_${whole}(small ? a * 16777216.0f : a);
    /* |x| = m 2^n with m from sqrt(1/2) to sqrt(2); of 203/256, 1 and 161/128 the nearest is c. */
    const ${whole} power = (bits - 0x3f3504f3) >> 23;
    const ${real} m = as_${real}(bits - (power << 23));
    const ${real} n = as_${real}(power + 0x4b400000)
        - (small ? (${real})(12582936.0f) : (${real})(12582912.0f));
    const ${whole} less = m < 0.8905f, more = m > 1.1215f;
    const ${real} c = less ? (${real})(0.79296875f)
        : (more ? (${real})(1.2578125f) : (${real})(1.0f));
    const ${real} c_high = less ? (${real})(-0.3345947265625f)
        : (more ? (${real})(0.330810546875f) : (${real})(0.0f));
    const ${real} c_low = less ? (${real})(-6.935625424e-5f)
        : (more ? (${real})(1.0633123748e-4f) : (${real})(0.0f));
    /* s + s_low = (m - c) / (m + c) */
    const ${real} f = m - c, g = m + c, g_low = m - (g - c), inverse = 1.0f / g;
    const ${real} s = ${upper(real, whole, "f * inverse")}, g_high = ${upper(real, whole, "g")};
    const ${real} s_low = (((f - s * g_high) - s * (g - g_high)) - s * g_low) * inverse;
    const ${real} t = s + s_low, z = t * t;
    const ${real} p = ${elementary.polynomial(("4.143316207e-1", "5.770737445e-1",
        "9.617966964e-1"), "z")};
    /* high + low = log2 |x|, where log2 c comes in two parts; the factors of s are 2 / ln 2 */
    const ${real} base = n + c_high, first = s * 2.884765625f, sum = base + first;
    const ${real} rest = (first - (sum - base))
        + (c_low + (s * 6.244567921e-4f + (s_low * 2.88539008f + t * z * p)));
    const ${real} high = sum + rest, low = rest - (high - sum);
    /* So far out that all but 1 becomes 0 or infinite. */
    const ${real} b = y > 1e12f ? (${real})(1e12f) : (y < -1e12f ? (${real})(-1e12f) : y);
    const ${real} b_high = ${upper(real, whole, "b")}, b_low = b - b_high;
    const ${real} l_high = ${upper(real, whole, "high")}, l_low = high - l_high;
    const ${real} product = b * high;
    const ${real} lost = (((b_high * l_high - product) + b_high * l_low) + b_low * l_high)
        + b_low * l_low;
    const ${whole} far = (product > 130.0f) | (product < -160.0f);
    const ${real} bound = product > 0.0f ? (${real})(130.0f) : (${real})(-160.0f);
    const ${real} near = far ? bound : product;
    /* 1.5 * 2^23 and 2 * 127, as in lib/elementary.mako's exp */
    const ${real} shifted = near + 12583166.0f;
    const ${real} r = (near - (shifted - 12583166.0f)) + (far ? (${real})(0.0f) : lost + b * low);
    const ${real} q = ${elementary.polynomial(("1.535336191e-4", "1.339887441e-3",
        "9.618437358e-3", "5.550332471e-2", "2.402264791e-1", "6.931472029e-1"), "r")};
    const ${whole} both = as_${whole}(shifted), half_of = both >> 1;
    ${real} v = (1.0f + r * q) * as_${real}(half_of << 23) * as_${real}((both - half_of) << 23);
    const ${real} none = y < 0.0f ? (${real})(INFINITY) : (${real})(0.0f);
    const ${real} all = y < 0.0f ? (${real})(0.0f) : (${real})(INFINITY);
    v = a == 0.0f ? none : v;
    v = a == INFINITY ? all : v;
    /* Bits of y behind the point, as far as there are some, and the one before it. */
    const ${whole} size = as_${whole}(y) & 0x7fffffff, all_bits = (size & 0x7fffff) | 0x800000;
    const ${whole} behind = 150 - (size >> 23);
    const ${whole} by = behind < 0 ? (${whole})(0) : (behind > 24 ? (${whole})(24) : behind);
    const ${whole} broken = (all_bits & (((${whole})(1) << by) - 1)) != 0;
    const ${whole} odd = (behind >= 0) & (broken == 0) & (((all_bits >> by) & 1) != 0);
    const ${whole} negative = as_${whole}(x) < 0;
    v = (negative & odd) ? -v : v;
    v = (negative & broken & (a > 0.0f) & (a < INFINITY)) ? (${real})(NAN) : v;
    v = ((x != x) | (y != y)) ? (${real})(NAN) : v;
    return ((y == 0.0f) | (x == 1.0f)) ? (${real})(1.0f) : v;
}
</%def>
