## kernel draws: random numbers of distributions whose parameters differ from element to element
##
## Each element has counters of its own, of which it takes as many as it needs.
##
## param  ctype: str                 float or double
## param  blocks: int                counters of an element
## param  most: str                  C expression of the largest number, "" for none
## param  below: str                 C expression, the logarithm of a probability
## def    all
## arg    n: int        elements
## arg    y: out ctype[n]
## def    draw_poisson
## arg    rate: in ctype[n]
## def    draw_binomial
## arg    trials: in ctype[n]
## arg    p: in ctype[n]
## def    draw_gamma
## arg    shape: in ctype[n]
## def    all
## arg    seed: ulong   the generator's key
## arg    offset: long  the first counter
##
## launch   one item per element
## numerics counts below 15 on average are exact by counting, others by transformed rejection
##          (Hörmann 1993), with logarithms as sums of differences; gamma variables by Marsaglia and
##          Tsang (2000). Where all attempts are refused (once in 10^9 numbers) the middle is taken.
##          Of NaN comes NaN
<%namespace name="generator" file="/lib/philox.mako"/>
<%namespace name="elementary" file="/lib/elementary.mako"/>
<%def name="begin(ctype)">
#pragma OPENCL FP_CONTRACT OFF
${elementary.define(("exp", "log", "log1p"), ctype, 1)}
typedef ${ctype} real;
#define EXP ${"clnet_exp" if ctype == "float" else "exp"}
#define LOG ${"clnet_log" if ctype == "float" else "log"}
#define LOG1P ${"clnet_log1p" if ctype == "float" else "log1p"}
inline uint4 block_of(const ulong seed, const ulong number)
{
    ${generator.words("number")}
    return (uint4)(bits_0, bits_1, bits_2, bits_3);
}
inline real unit(const uint bits) { return (real)bits * (real)0x1p-32 + (real)0x1p-33; }
</%def>
<%def name="tail()">
/* What Stirling's formula leaves out of log(k!). */
inline real tail(const real k)
{
    const real few[10] = {0.08106146679532726, 0.04134069595540929, 0.02767792568499834,
        0.02079067210376509, 0.01664469118982119, 0.01387612882307075, 0.01189670994589177,
        0.01041126526197209, 0.009255462182712733, 0.008330563433362871};
    if (k < 10)
        return few[(int)k];
    const real after = k + 1, square = after * after;
    return ((real)(1.0 / 12) - ((real)(1.0 / 360) - (real)(1.0 / 1260) / square) / square) / after;
}
</%def>
<%def name="rejected(blocks, most, below)">
    found = floor(middle);
    for (int at = 0; at < ${2 * blocks}; ++at) {
        if (at % 2 == 0)
            words = block_of(seed, first + at / 2);
        const real u = unit(at % 2 ? words.z : words.x) - (real)0.5;
        const real v = unit(at % 2 ? words.w : words.y), us = (real)0.5 - fabs(u);
        const real k = floor((2 * a / us + b) * u + middle);
        if (us >= (real)0.07 && v <= ceiling) {
            found = k;
            break;
        }
        if (k < 0 || (us < (real)0.013 && v > us)${f" || k > {most}" if most else ""})
            continue;
        if (LOG(v * scale / (a / (us * us) + b)) <= ${below}) {
            found = k;
            break;
        }
    }
</%def>
<%def name="draw_poisson(ctype, blocks)">
${begin(ctype)}
${tail()}
__kernel void draw_poisson(...)
{
    const int i = get_global_id(0);
    if (i >= n)
        return;
    const ulong first = (ulong)offset + (ulong)i * ${blocks};
    const real mean = rate[rate_offset + i];
    uint4 words;
    y += y_offset + i;
    if (!(mean < INFINITY)) {
        *y = mean;
        return;
    }
    if (mean < 15) { /* exponential times until they exceed 1 */
        const real limit = EXP(-mean);
        real product = 1;
        int count = 0;
        for (int at = 0; at < ${blocks} && product > limit; ++at) {
            words = block_of(seed, first + at);
            count += (product *= unit(words.x)) > limit;
            count += (product *= unit(words.y)) > limit;
            count += (product *= unit(words.z)) > limit;
            count += (product *= unit(words.w)) > limit;
        }
        *y = count;
        return;
    }
    const real b = (real)0.931 + (real)2.53 * sqrt(mean), a = (real)-0.059 + (real)0.02483 * b;
    const real middle = mean + (real)0.43, ceiling = (real)0.9277 - (real)3.6224 / (b - 2);
    const real scale = (real)1.1239 + (real)1.1328 / (b - (real)3.4);
    real found;
    const real known = (real)0.5 * LOG(mean) + (real)0.9189385332046727;
    ${rejected(blocks, "", "k + 1 - mean - (k + (real)0.5) * LOG1P((k + 1 - mean) / mean)"
        " - known - tail(k)")}
    *y = found;
}
</%def>
<%def name="draw_binomial(ctype, blocks)">
${begin(ctype)}
${tail()}
__kernel void draw_binomial(...)
{
    const int i = get_global_id(0);
    if (i >= n)
        return;
    const ulong first = (ulong)offset + (ulong)i * ${blocks};
    const real m = trials[trials_offset + i], given = p[p_offset + i];
    const real q = given < 1 - given ? given : 1 - given; /* of the rarer outcome */
    uint4 words;
    y += y_offset + i;
    real found = 0;
    if (isnan(m) || isnan(given)) {
        *y = NAN;
        return;
    }
    if (m * q < 15) { /* trials up to each success, until there are more than all */
        const real each = 1 / LOG1P(-q);
        real tried = 0;
        for (int at = 0; at < ${blocks} && tried <= m && q > 0; ++at) {
            words = block_of(seed, first + at);
            found += (tried += floor(LOG(unit(words.x)) * each) + 1) <= m;
            found += (tried += floor(LOG(unit(words.y)) * each) + 1) <= m;
            found += (tried += floor(LOG(unit(words.z)) * each) + 1) <= m;
            found += (tried += floor(LOG(unit(words.w)) * each) + 1) <= m;
        }
    } else {
        const real spread = sqrt(m * q * (1 - q)), b = (real)1.15 + (real)2.53 * spread;
        const real a = (real)-0.0873 + (real)0.0248 * b + (real)0.01 * q;
        const real middle = m * q + (real)0.5, ceiling = (real)0.92 - (real)4.2 / b;
        const real scale = ((real)2.83 + (real)5.1 / b) * spread;
        /* Differences to the likeliest: logarithms of factorials would lose all digits. */
        const real top = floor((m + 1) * q), rest = m - top;
        const real slope = LOG(q / (1 - q)) - LOG((top + 1) / (rest + 1));
        const real highest = tail(top) + tail(rest);
        ${rejected(blocks, "m", "(k - top) * slope - (k + (real)0.5) * LOG1P((k - top) / (top + 1))"
            " - (m - k + (real)0.5) * LOG1P((top - k) / (rest + 1))"
            " + highest - tail(k) - tail(m - k)")}
    }
    *y = given <= (real)0.5 ? found : m - found;
}
</%def>
<%def name="draw_gamma(ctype, blocks)">
${begin(ctype)}
% if ctype == "float":
${generator.box_muller()}
% endif
__kernel void draw_gamma(...)
{
    const int i = get_global_id(0);
    if (i >= n)
        return;
    const ulong first = (ulong)offset + (ulong)i * ${blocks};
    const real given = shape[shape_offset + i];
    const bool small = given < 1; /* of one more, times u^(1 / shape) */
    const real d = (small ? given + 1 : given) - (real)(1.0 / 3), c = 1 / sqrt(9 * d);
    real found = d;
    for (int at = 0; at + ${2 if ctype == "double" else 1} < ${blocks};) {
        const uint4 words = block_of(seed, first + at++);
% if ctype == "double":
        const uint4 others = block_of(seed, first + at++);
        const double radius = sqrt(-2 * log(${generator.wide("words.x", "words.y")}));
        const double x = radius * cospi(2 * ${generator.wide("words.z", "words.w")});
        const double u = ${generator.wide("others.x", "others.y")};
% else:
        const float x = radius_of(unit(words.x)) * on_circle(words.y >> 8).x;
        const float u = unit(words.z);
% endif
        const real root = 1 + c * x, v = root * root * root;
        if (v > 0 && LOG(u) < (real)0.5 * x * x + d - d * v + d * LOG(v)) {
            found = d * v;
            break;
        }
    }
    if (small) {
        const uint4 words = block_of(seed, first + ${blocks - 1});
% if ctype == "double":
        found *= exp(log(${generator.wide("words.x", "words.y")}) / given);
% else:
        found *= EXP(LOG(unit(words.x)) / given);
% endif
    }
    y[y_offset + i] = isnan(given) ? given : found;
}
</%def>
