## kernel random: random numbers from a seed and a counter, and dropout
##
## param  ctype: str                 type of y's elements
## param  real: str                  float or double, the type arithmetic is done in
## param  lane: int                  which of an item's numbers
## def    random_bits
## arg    n: int                     elements
## arg    y: out int[n]
## arg    seed: ulong                 the generator's key
## arg    offset: long               the first counter
## def    random_uniform
## arg    n: int
## arg    y: out ctype[n]
## arg    seed: ulong
## arg    offset: long
## arg    low: real                  least value
## arg    span: real                 high - low
## arg    high: real                 never reached
## def    random_normal
## arg    n: int
## arg    y: out ctype[n]
## arg    seed: ulong
## arg    offset: long
## arg    mean: real
## arg    std: real                  standard deviation
## def    random_bernoulli
## arg    n: int
## arg    y: out ctype[n]
## arg    seed: ulong
## arg    offset: long
## arg    p: float                   probability of 1
## def    random_integer
## arg    n: int
## arg    y: out ctype[n]
## arg    seed: ulong
## arg    offset: long
## arg    low: long                  least value
## arg    span: long                 how many values
## def    dropout
## arg    n: int
## arg    y: out ctype[n]
## arg    x: in ctype[n]
## arg    seed: ulong
## arg    offset: long
## arg    p: float                   probability of 0
## arg    scale: ctype               factor of what is kept
##
## launch   one item per counter: four elements of 32 random bits, or two of 64
## numerics integers and uniforms are the same bits everywhere; normals to a few units in the last
##          place, as log, sinpi and cospi are
<%namespace name="generator" file="lib/philox.mako"/>
<%def name="uniform(real, lane)">
% if real == "double":
((double)((((ulong)bits_${2 * lane + 1} << 32) | bits_${2 * lane}) >> 11) * 0x1p-53)
% else:
((float)(bits_${lane} >> 8) * 0x1p-24f)
% endif
</%def>
<%def name="random_bits()">
__kernel void random_bits(
    const int n, __global int *restrict y, const long y_offset, const ulong seed, const long offset)
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
__kernel void random_uniform(
    const int n, __global ${ctype} *restrict y, const long y_offset,
    const ulong seed, const long offset,
    const ${real} low, const ${real} span, const ${real} high)
{
    const int i = get_global_id(0) * ${2 if real == "double" else 4};
    y += y_offset;
    ${generator.draw()}
% for lane in range(2 if real == "double" else 4):
    if (i + ${lane} < n) {
        const ${real} value = fma(${uniform(real, lane)}, span, low);
        y[i + ${lane}] = value < high ? value : low; /* rounding may have reached high */
    }
% endfor
}
</%def>
<%def name="random_normal(ctype, real)">
#pragma OPENCL FP_CONTRACT OFF
__kernel void random_normal(
    const int n, __global ${ctype} *restrict y, const long y_offset,
    const ulong seed, const long offset, const ${real} mean, const ${real} std)
{
    const int i = get_global_id(0) * ${2 if real == "double" else 4};
    y += y_offset;
    ${generator.draw()}
% for lane in range(0, 2 if real == "double" else 4, 2):
    {
        /* Box and Muller. The radius takes all bits and never log(0). */
% if real == "double":
        const double u = fma(${uniform(real, 0)}, 1.0, 0x1p-54);
% else:
        const float u = fma((float)bits_${lane}, 0x1p-32f, 0x1p-33f);
% endif
        const ${real} radius = sqrt(-2 * log(u));
        const ${real} turn = 2 * ${uniform(real, lane + 1)};
        if (i + ${lane} < n)
            y[i + ${lane}] = fma(radius * cospi(turn), std, mean);
        if (i + ${lane + 1} < n)
            y[i + ${lane + 1}] = fma(radius * sinpi(turn), std, mean);
    }
% endfor
}
</%def>
<%def name="random_bernoulli(ctype)">
__kernel void random_bernoulli(
    const int n, __global ${ctype} *restrict y, const long y_offset,
    const ulong seed, const long offset, const float p)
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
__kernel void random_integer(
    const int n, __global ${ctype} *restrict y, const long y_offset,
    const ulong seed, const long offset, const long low, const long span)
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
__kernel void dropout(
    const int n, __global ${ctype} *restrict y, const long y_offset,
    __global const ${ctype} *restrict x, const long x_offset,
    const ulong seed, const long offset, const float p, const ${ctype} scale)
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
