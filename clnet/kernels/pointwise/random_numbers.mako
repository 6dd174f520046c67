## kernel random_numbers: random numbers from a seed and a counter, and dropout
##
## param  ctype: str                 type of y's elements
## param  real: str                  float or double, the type arithmetic is done in
## param  lane: int                  which of an item's numbers
## def    all
## arg    n: int        elements
## def    random_bits
## arg    y: out int[n]
## def    random_uniform, random_normal, random_bernoulli, random_integer, dropout
## arg    y: out ctype[n]
## def    dropout
## arg    x: in ctype[n]
## def    all
## arg    seed: ulong   the generator's key
## arg    offset: long  the first counter
## def    random_uniform
## arg    low: real     least value
## arg    span: real    high - low
## arg    high: real    never reached
## def    random_normal
## arg    mean: real
## arg    std: real     standard deviation
## def    random_bernoulli, dropout
## arg    p: float      probability of 1
## def    random_integer
## arg    low: long     least value
## arg    span: long    how many values
## def    dropout
## arg    scale: ctype  factor of what is kept
##
## launch   one item per counter: four elements of 32 random bits, or two of 64
## numerics the same bits everywhere, but for normals of double, which differ by a few units in the
##          last place as log, sinpi and cospi do. Float's are made of + - * alone, since PoCL calls
##          fma, sqrt and their like for one element after the other, and then no item is a lane.
<%namespace name="generator" file="/lib/philox.mako"/>
<%namespace name="prelude" file="/lib/prelude.mako"/>
<%namespace name="elementary" file="/lib/elementary.mako"/>
<%def name="uniform(real, lane)">
% if real == "double":
((double)((((ulong)bits_${2 * lane + 1} << 32) | bits_${2 * lane}) >> 11) * 0x1p-53)
% else:
((float)(bits_${lane} >> 8) * 0x1p-24f)
% endif
</%def>
<%def name="random_bits()">
__kernel void random_bits(...)
{
    const int i = get_global_id(0) * 4;
    y += y_offset;
    ${generator.draw()}
% for lane in range(4):
    if (i + ${lane} < n)
        y[i + ${lane}] = as_int(bits_${lane});
% endfor
}
</%def>
<%def name="random_uniform(ctype, real)">
#pragma OPENCL FP_CONTRACT OFF
${prelude.side_by_side()}
SIDE_BY_SIDE
__kernel void random_uniform(...)
{
    const int i = get_global_id(0) * ${2 if real == "double" else 4};
    y += y_offset;
    ${generator.draw()}
% for lane in range(2 if real == "double" else 4):
    if (i + ${lane} < n) {
        const ${real} value = ${uniform(real, lane)} * span + low;
        y[i + ${lane}] = value < high ? value : low; /* rounding may have reached high */
    }
% endfor
}
</%def>
<%def name="box_muller()">
/* sqrt(-2 log(x)) for x from 2^-33 to 1. */
inline float radius_of(const float x)
{
    /* x = (1 + f) 2^n with 1 + f from sqrt(1/2) to sqrt(2). */
    const int power = (as_int(x) - 0x3f3504f3) >> 23;
    const float f = as_float(as_int(x) - (power << 23)) - 1.0f, n = (float)power;
    ${elementary.log_polynomial("float")}
    const float square = -2.0f * ((f + (f * z * p - n * 2.12194440e-4f - 0.5f * z))
        + n * 0.693359375f);
    /* Newton's steps to 1 / sqrt, and one to sqrt. */
    float inverse = as_float(0x5f375a86 - (as_int(square) >> 1));
% for _ in range(3):
    inverse = inverse * (1.5f - 0.5f * square * inverse * inverse);
% endfor
    const float root = square * inverse;
    return root + 0.5f * inverse * (square - root * root);
}
/* Cosine and sine of a turn in 2^24 parts: by minimax polynomials (Remez) from the nearest quarter
   on. */
inline float2 on_circle(const uint turn)
{
    const int quarter = (int)(turn + (1u << 21)) >> 22;
    const float r = (float)((int)turn - (quarter << 22)) * 0x1p-23f, z = r * r;
    const float c = (((0.231260926f * z - 1.33503592f) * z + 4.05870676f) * z - 4.93480206f) * z
        + 1.0f;
    const float s = r * (((-0.589012206f * z + 2.54976106f) * z - 5.16770792f) * z + 3.14159274f);
    const float x = quarter & 1 ? s : c, y = quarter & 1 ? c : s;
    return (float2)((quarter + 1) & 2 ? -x : x, quarter & 2 ? -y : y);
}
</%def>
<%def name="random_normal(ctype, real)">
#pragma OPENCL FP_CONTRACT OFF
${prelude.side_by_side()}
% if real == "float":
${box_muller()}
SIDE_BY_SIDE
% endif
__kernel void random_normal(...)
{
    const int i = get_global_id(0) * ${2 if real == "double" else 4};
    y += y_offset;
    ${generator.draw()}
% for lane in range(0, 2 if real == "double" else 4, 2):
    {
        /* Box and Muller. The radius takes all bits and never log(0). */
% if real == "double":
        const double radius = sqrt(-2 * log(${uniform(real, 0)} + 0x1p-54));
        const double turn = 2 * ${uniform(real, lane + 1)};
        const double2 point = (double2)(cospi(turn), sinpi(turn));
% else:
        const float radius = radius_of((float)bits_${lane} * 0x1p-32f + 0x1p-33f);
        const float2 point = on_circle(bits_${lane + 1} >> 8);
% endif
        if (i + ${lane} < n)
            y[i + ${lane}] = radius * point.x * std + mean;
        if (i + ${lane + 1} < n)
            y[i + ${lane + 1}] = radius * point.y * std + mean;
    }
% endfor
}
</%def>
<%def name="random_bernoulli(ctype)">
${prelude.side_by_side()}
SIDE_BY_SIDE
__kernel void random_bernoulli(...)
{
    const int i = get_global_id(0) * 4;
    y += y_offset;
    ${generator.draw()}
% for lane in range(4):
    if (i + ${lane} < n)
        y[i + ${lane}] = ${uniform("float", lane)} < p;
% endfor
}
</%def>
<%def name="random_integer(ctype)">
__kernel void random_integer(...)
{
    const int i = get_global_id(0) * 2;
    y += y_offset;
    ${generator.draw()}
% for lane in range(2):
    if (i + ${lane} < n) {
        const ulong word = ((ulong)bits_${2 * lane + 1} << 32) | bits_${2 * lane};
        y[i + ${lane}] = (${ctype})(low + (long)mul_hi(word, (ulong)span));
    }
% endfor
}
</%def>
<%def name="dropout(ctype)">
__kernel void dropout(...)
{
    const int i = get_global_id(0) * 4;
    y += y_offset;
    x += x_offset;
    ${generator.draw()}
% for lane in range(4):
    if (i + ${lane} < n)
        y[i + ${lane}] = ${uniform("float", lane)} < p ? 0 : x[i + ${lane}] * scale;
% endfor
}
</%def>
