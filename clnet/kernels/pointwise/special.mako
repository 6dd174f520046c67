## kernel special: functions of one or two numbers that take series, fractions or recurrences
##
## param  ctype: str                  type of the elements
## param  kind: str                   which function
## param  unary: bool                 of x alone
## param  recurrence: tuple[str, ...]  of polynomials: the first, the next by `last`, `value`, `k`,
##                                 and the largest degree
## param  v: str                      a C expression: the number
## param  tables: tuple[tuple[str, tuple[str, ...]], ...]  Chebyshev coefficients by name
## arg    n: int
## arg    y: out ctype[n]
## % if kind == "frexp":
## arg    exponent: out int[n]
## % endif
## arg    x: in ctype[n]
## % if not unary:
## arg    b: in ctype[n]
## % endif
##
## launch   one item per element
## numerics within a few units in the last place of the largest value nearby; igamma within some ten
<%namespace name="gamma" file="/lib/incomplete_gamma.mako"/>
<%def name="chebyshev(tables)">
inline real chebyshev(__constant real *c, const int n, const real t)
{
    real b = 0, before = 0;
    for (int k = n - 1; k > 0; --k) {
        const real next = 2 * t * b - before + c[k];
        before = b;
        b = next;
    }
    return t * b - before + c[0];
}
% for name, values in tables:
__constant real ${name}[${len(values)}] = {
% for at in range(0, len(values), 3):
    ${", ".join(values[at:at + 3])},
% endfor
};
#define at_${name}(t) chebyshev(${name}, ${len(values)}, t)
% endfor
</%def>
<%def name="scaled_erfc()">
// exp(x * x) erfc(x)
inline real scaled_erfc(const real x)
{
    const real size = fabs(x), square = x * x, lost = fma(x, x, -square);
    const real above = at_ERFCX(1 - (real)7.5 / (size + (real)3.75)) / 2 / (size + (real)0.5);
    if (x >= 0)
        return above;
    const real grown = exp(square);
    return isinf(grown) ? grown : x == x ? 2 * (grown + grown * lost) - above : x;
}
</%def>
<%def name="growing(kind, v)">
    const real size = fabs(${v});
<% order = kind[1] %>
    real found = size <= 8 ? at_I${order}E_NEAR(size / 4 - 1)
        : at_I${order}E_FAR(16 / size - 1) / sqrt(size);
% if order == "1":
    found = ${v} < 0 ? -found : found;
    found = size <= 8 ? found * size : found;
% endif
% if not kind.endswith("e"):
    // In two steps: exp alone overflows before the product does.
    found = isinf(${v}) ? ${v if order == "1" else "size"} : found * exp(size / 2) * exp(size / 2);
% endif
</%def>
<%def name="decaying(kind, v)">
<% order = kind[1] %>
    real found = NAN;
    if (${v} == 0) {
        found = INFINITY;
    } else if (${v} > 0 && ${v} <= 2) {
        const real t = ${v} * ${v} / 2 - 1;
        // Half of the least number is 0.
        const real l = ${v} < 1 ? log(${v}) - (real)0.6931471805599453 : log(${v} / 2);
% if order == "0":
        found = at_K0(t) - l * at_I0(t);
% else:
        found = at_K1(t) / ${v} + l * ${v} * at_I1(t);
% endif
% if kind.endswith("e"):
        found *= exp(${v});
% endif
    } else if (${v} > 2) {
        found = at_K${order}E_FAR(4 / ${v} - 1) / sqrt(${v});
% if not kind.endswith("e"):
        found = found * exp(-${v} / 2) * exp(-${v} / 2);
% endif
    }
</%def>
<%def name="oscillating(kind, v)">
<% family, order = kind[0], kind[1] %>
    const real size = fabs(${v});
    real found = NAN;
    if (size <= 8) {
        const real t = size * size / 32 - 1;
% if family == "j":
        found = at_J${order}(t)${" * size" if order == "1" else ""};
% elif order == "0":
        const real two = (real)0.6366197723675814;
        found = ${v} > 0 ? at_Y0(t) + two * log(${v}) * at_J0(t) : ${v} == 0 ? -INFINITY : NAN;
% else:
        const real two = (real)0.6366197723675814;
        found = ${v} > 0 ? at_Y1(t) * ${v} + two * (log(${v}) * at_J1(t) * ${v} - 1 / ${v})
            : ${v} == 0 ? -INFINITY : NAN;
% endif
    } else if (isinf(size)) {
        found = 0;
    } else if (size > 8) {
        const real t = 128 / (size * size) - 1;
        const real p = at_P${order}(t), q = at_Q${order}(t) * 8 / size;
        const real s = sin(size), c = cos(size), root = sqrt(size) * (real)1.772453850905516;
<% wave = {"j0": "p * (c + s) - q * (s - c)", "j1": "p * (s - c) + q * (s + c)",
           "y0": "p * (s - c) + q * (c + s)", "y1": "q * (s - c) - p * (s + c)"}[kind] %>
        found = (${wave}) / root;
    }
% if family == "y":
    found = ${v} < 0 ? (real)NAN : found;
% elif order == "1":
    found = signbit(${v}) ? -found : found;
% endif
</%def>
<%def name="airy(v)">
    real found = ${v};
    if (${v} > 2) {
        const real z = ${v} * sqrt(${v}) * 2 / 3;
        const real t = 2 * (real)1.885618083164127 / z - 1;
        found = isinf(${v}) ? 0
            : exp(-z) * at_AI_FAR(t) / ((real)3.544907701811032 * sqrt(sqrt(${v})));
    } else if (${v} >= -5) {
        found = at_AI((${v} + (real)1.5) / (real)3.5);
    } else if (isinf(${v})) {
        found = 0;
    } else if (${v} < -5) {
        const real size = -${v}, z = size * sqrt(size) * 2 / 3;
        const real u = (real)7.453559924999299 / z, t = 2 * u * u - 1;
        const real s = sin(z), c = cos(z), root = (real)0.7071067811865476;
        const real wave = at_AI_P(t) * (s + c) - at_AI_Q(t) / z * (c - s);
        found = wave * root / ((real)1.772453850905516 * sqrt(sqrt(size)));
    }
</%def>
<%def name="special(ctype, kind, unary, recurrence, tables)">
typedef ${ctype} real;
% if ctype in ("float", "double"):
#pragma OPENCL FP_CONTRACT OFF
${chebyshev(tables)}
% endif
% if kind in ("igamma", "igammac"):
${gamma.functions()}
% endif
% if kind in ("erfcx", "log_ndtr"):
${scaled_erfc()}
% endif
__kernel void special(...)
{
    const int i = get_global_id(0);
    if (i >= n)
        return;
    const real v = x[x_offset + i];
% if not unary:
    const real w = b[b_offset + i];
% endif
% if kind == "frexp":
    const int power = isfinite(v) && v != 0 ? (int)logb(v) + 1 : 0;
    const real found = ldexp(ldexp(v, -(power / 2)), power / 2 - power);  // subnormals: two steps
    exponent[exponent_offset + i] = power;
% elif kind == "nextafter":
    const real found = nextafter(v, w);
% elif kind in ("gcd", "lcm"):
    real p = v < 0 ? -v : v, q = w < 0 ? -w : w;
    while (q) {
        const real rest = p % q;
        p = q;
        q = rest;
    }
% if kind == "gcd":
    const real found = p;
% else:
    const real product = p ? v / p * w : 0;
    const real found = product < 0 ? -product : product;
% endif
% elif kind == "zeta":
    // Euler and Maclaurin's formula: a sum, and its tail by Bernoulli's numbers.
    real found = NAN;
    if (v == 1)
        found = INFINITY;
    else if (v > 1 && (w > 0 || w == floor(w) || v == floor(v))) {
        found = INFINITY;
        if (w > 0 || w != floor(w)) {
            real a = w;
            found = 0;
            for (int k = 0; k < 10000 && (k < 9 || a <= 9); ++k, a += 1)
                found += pow(a, -v);
            real term = pow(a, -v);
            found += term * a / (v - 1) + term / 2;
            const real ratios[8] = {
                (real)0.08333333333333333, (real)-0.016666666666666666,
                (real)-0.023809523809523808, (real)-0.025,
                (real)-0.025252525252525252, (real)-0.02531135531135531,
                (real)-0.02532561505065123, (real)-0.025329131652661065,
            };
            term = term == 0 ? 0 : term * v / a;
            for (int k = 0; k < 8 && term != 0; ++k) {
                term *= ratios[k];
                found += term;
                term *= (v + 2 * k + 1) * (v + 2 * k + 2) / (a * a);
            }
        }
    }
% elif kind in ("igamma", "igammac"):
    const real found = incomplete_gamma(v, w, ${int(kind == "igammac")});
% elif recurrence:
    // 1, the first, and so on; below 0 none, and where 64 bits do not hold the degree.
    const bool is_degree = w > -1 && w < (real)9223372036854775808.0;
    const int degree = is_degree ? (int)min(w, (real)100001) : -1;
    real last = 1, value = ${recurrence[0]};
    for (int k = 1; k < degree && degree <= 100000; ++k) {
        const real next = ${recurrence[1]};
        last = value;
        value = next;
    }
    real found = degree < 0 ? 0 : degree == 0 ? 1 : value;
    if (degree > ${recurrence[2]})
        found = NAN;
% elif kind == "erfcx":
    const real found = scaled_erfc(v);
% elif kind == "log_ndtr":
    const real found = v < -1 ? log(scaled_erfc(v * (real)-0.7071067811865476) / 2) - v * v / 2
        : log1p(erfc(v * (real)0.7071067811865476) / -2);
% elif kind == "airy_ai":
${airy("v")}
% elif kind == "spherical_bessel_j0":
    const real found = isinf(v) ? 0 : fabs(v) < (real)0.5
        ? 1 - v * v / 6 * (1 - v * v / 20 * (1 - v * v / 42 * (1 - v * v / 72 * (1 - v * v / 110
        * (1 - v * v / 156)))))
        : sin(v) / v;
% elif kind[0] == "i":
${growing(kind, "v")}
% elif kind[0] == "k":
${decaying(kind, "v")}
% else:
${oscillating(kind, "v")}
% endif
    y[y_offset + i] = found;
}
</%def>
