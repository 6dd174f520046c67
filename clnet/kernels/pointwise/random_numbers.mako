## kernel random_numbers: random numbers from a seed and a counter, and dropout
##
## param  ctype: str                 type of y's elements
## param  real: str                  float or double, the type arithmetic is done in
## param  lane: int                  which of an item's numbers
## param  narrow: bool               span has 32 bits
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
<%def name="random_normal(ctype, real)">
#pragma OPENCL FP_CONTRACT OFF
${prelude.side_by_side()}
% if real == "float":
${generator.box_muller()}
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
<%def name="random_integer(ctype, narrow)">
${prelude.side_by_side()}
SIDE_BY_SIDE
__kernel void random_integer(...)
{
    const int i = get_global_id(0) * 2;
    y += y_offset;
    ${generator.draw()}
% for lane in range(2):
    if (i + ${lane} < n) {
% if narrow:
        /* The upper half of the product without mul_hi, which PoCL calls for one number at a
           time. */
        const ulong upper = (ulong)bits_${2 * lane + 1} * (uint)span;
        const ulong lower = (ulong)bits_${2 * lane} * (uint)span;
        y[i + ${lane}] = (${ctype})(low + (long)((upper + (lower >> 32)) >> 32));
% else:
        const ulong word = ((ulong)bits_${2 * lane + 1} << 32) | bits_${2 * lane};
        y[i + ${lane}] = (${ctype})(low + (long)mul_hi(word, (ulong)span));
% endif
    }
% endfor
}
</%def>
<%def name="dropout(ctype)">
${prelude.side_by_side()}
SIDE_BY_SIDE
__kernel void dropout(...)
{
    const int i = get_global_id(0) * 4;
    y += y_offset;
    x += x_offset;
    ${generator.draw()}
    /* The last element again behind the end: a load under a condition keeps items from lanes. */
% for lane in range(4):
    const ${ctype} scaled_${lane} = x[i + ${lane} < n ? i + ${lane} : n - 1] * scale;
% endfor
% for lane in range(4):
    if (i + ${lane} < n)
        y[i + ${lane}] = ${uniform("float", lane)} < p ? 0 : scaled_${lane};
% endfor
}
</%def>
