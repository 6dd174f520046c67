## kernel blocked_norm: moments of the channels of a blocked array, and sums of expressions
##
## math     parts of a channel give (mean, squares = sum (x - mean)^2), joined by Chan's formula;
##          sums: of expression_k(x_0, x_1, ...) over images and pixels; the first ones are stored
## layout   x is (n, groups, pixels, lanes): a vector holds neighbouring channels. The vectors of a
##          group, image by image, are cut into parts so small that the second pass over one finds
##          it in a cache
## param    lanes: int                channels of a block: 4, 8 or 16
## param    run: int                  vectors of a chain of sums
## param    sums: int                 how many sums
## param    statements: tuple[str]    C declarations of temporaries
## param    results: tuple[str]       C text of what is stored, then of what each sum adds up
## param    made: int                 how many of them are stored
## param    stream: bool              they go past the caches; they lie at whole vectors
## param    functions: tuple[str]     elementary functions that they call
## param    inputs: tuple[bool]       whether an input is blocked, or a value for each channel
## param    scalars: int              number of run-time scalars
## param    at: str                   C expression of a vector's number
## param    chain: int                which of two chains of sums it goes to
## def      blocked_moments
## arg      groups, pixels: int
## arg      total: int                        vectors of a group: images * pixels
## arg      part_size, parts: int
## arg      means: out float[groups, parts, lanes]
## arg      squares: out float[groups, parts, lanes]
## arg      x: in float[n, groups, pixels, lanes]
## arg      image_step: int                   from image to image
## arg      group_step: int                   from group to group
## def      blocked_statistics
## arg      total, part_size, parts: int
## arg      eps: float
## arg      mean: out float[groups, lanes]
## arg      invstd: out float[groups, lanes]  1 / sqrt(variance + eps)
## arg      var: out float[groups, lanes]     the unbiased variance
## arg      means: in float[groups, parts, lanes]
## arg      squares: in float[groups, parts, lanes]
## def      blocked_sums
## arg      groups, pixels, total, part_size, parts: int
## arg      partial: out float[groups, parts, sums, lanes]
## % for k in range(made):
## arg      y_{k}: out float[n, groups, pixels, lanes], may alias  what is stored
## % endfor
## % for j, blocked in enumerate(inputs):
## arg      x_{j}: in float, may alias
## % if blocked:
## arg      x_{j}_image: int                  from image to image
## arg      x_{j}_group: int                  from group to group
## % endif
## % endfor
## % for j in range(scalars):
## arg      s_{j}: float                      scalar j
## % endfor
## def      blocked_join
## arg      parts: int
## % for k in range(sums):
## arg      sum_{k}: out float[groups, lanes]
## % endfor
## arg      partial: in float[groups, parts, sums, lanes]
## launch   moments, sums: one item takes one part of one group; the others: one item a group.
##          Groups of one
## numerics two passes over each part of a mean; sums of run vectors in two chains, then of those:
##          batch norms over few elements enlarge what longer chains round off; contraction off, so
##          that a recomputed expression has the bits of pointwise.mako; everything is joined in a
##          fixed order
<%namespace name="prelude" file="/lib/prelude.mako"/>
<%namespace name="elementary" file="/lib/elementary.mako"/>
<%def name="types(lanes)">
#pragma OPENCL FP_CONTRACT OFF
typedef float${lanes} __attribute__((aligned(4))) vector;
</%def>
<%def name="blocked_moments(lanes, run)">
${types(lanes)}
__kernel void blocked_moments(...)
{
    const int group = get_global_id(0) / parts, part = get_global_id(0) - group * parts;
    const int from = part * part_size, end = min(from + part_size, total);
    x += x_offset + (long)group * group_step;
    float${lanes} sum = 0, square = 0;
    for (int begin = from, count; begin < end; begin += count) {
        const int image = begin / pixels, pixel = begin - image * pixels;
        count = min(pixels - pixel, end - begin);
        __global const vector *source = (__global const vector *)(x + (long)image * image_step
            + pixel * ${lanes});
        for (int done = 0; done < count; done += ${run}) {
            const int to = min(done + ${run}, count);
            float${lanes} sum0 = 0, sum1 = 0;
            for (int i = done; i + 2 <= to; i += 2) {
                sum0 += source[i];
                sum1 += source[i + 1];
            }
            if (to & 1)
                sum0 += source[to - 1];
            sum += sum0 + sum1;
        }
    }
    const float${lanes} mean = sum / (float)(end - from);
    // What rounding left of the mean is the mean of the distances to it.
    float${lanes} rest = 0;
    for (int begin = from, count; begin < end; begin += count) {
        const int image = begin / pixels, pixel = begin - image * pixels;
        count = min(pixels - pixel, end - begin);
        __global const vector *source = (__global const vector *)(x + (long)image * image_step
            + pixel * ${lanes});
        for (int done = 0; done < count; done += ${run}) {
            const int to = min(done + ${run}, count);
            float${lanes} rest0 = 0, rest1 = 0, square0 = 0, square1 = 0;
            for (int i = done; i + 2 <= to; i += 2) {
                const float${lanes} one = source[i] - mean, other = source[i + 1] - mean;
                square0 += one * one;
                square1 += other * other;
                rest0 += one;
                rest1 += other;
            }
            if (to & 1) {
                const float${lanes} one = source[to - 1] - mean;
                square0 += one * one;
                rest0 += one;
            }
            square += square0 + square1;
            rest += rest0 + rest1;
        }
    }
    rest /= (float)(end - from);
    const long to = (long)get_global_id(0) * ${lanes};
    *(__global vector *)(means + means_offset + to) = mean + rest;
    const float${lanes} left = square - rest * rest * (float)(end - from);
    *(__global vector *)(squares + squares_offset + to) =
        square == INFINITY ? square : left < 0 ? 0 : left;
}
</%def>
<%def name="blocked_statistics(lanes)">
${types(lanes)}
__kernel void blocked_statistics(...)
{
    const int group = get_global_id(0);
    means += means_offset + (long)group * parts * ${lanes};
    squares += squares_offset + (long)group * parts * ${lanes};
    float${lanes} centre = 0, square = 0;
    for (int part = 0; part < parts; part++) {
        const int before = part * part_size, here = min(part_size, total - before);
        const float share = (float)here / (before + here);
        const float${lanes} step = *(__global const vector *)(means + part * ${lanes}) - centre;
        centre += step * share;
        square += *(__global const vector *)(squares + part * ${lanes})
            + step * (step * (before * share));
    }
    *(__global vector *)(mean + mean_offset + group * ${lanes}) = centre;
    *(__global vector *)(var + var_offset + group * ${lanes}) = square / (float)(total - 1);
    const float${lanes} shifted = square / (float)total + eps;
    float each[${lanes}];
    *(vector *)each = shifted;
    for (int lane = 0; lane < ${lanes}; lane++)
        invstd[invstd_offset + group * ${lanes} + lane] = 1 / sqrt(each[lane]);
}
</%def>
<%def name="terms(statements, results, made, stream, lanes, inputs, at, chain)">
        {
% for j, blocked in enumerate(inputs):
    % if blocked:
            const float${lanes} v_${j} = *(__global const vector *)(from_${j} + (${at}) * ${lanes});
    % endif
% endfor
% for statement in statements:
            ${statement}
% endfor
% for k, result in enumerate(results):
    % if k >= made:
            sum_${k}_${chain} += ${result};
    % elif stream:
            stream(${result}, (__global float${lanes} *)(to_${k} + (${at}) * ${lanes}));
    % else:
            *(__global vector *)(to_${k} + (${at}) * ${lanes}) = ${result};
    % endif
% endfor
        }
</%def>
<%def name="blocked_sums(
    statements, results, functions, made, stream, lanes, run, inputs, scalars)">
${types(lanes)}
% if stream:
${prelude.stream("float", lanes)}
% endif
${elementary.define(functions, "float", lanes)}
__kernel void blocked_sums(...) {
    const int group = get_global_id(0) / parts, part = get_global_id(0) - group * parts;
    const int from = part * part_size, end = min(from + part_size, total);
% for j, blocked in enumerate(inputs):
    % if blocked:
    x_${j} += x_${j}_offset + (long)group * x_${j}_group;
    % else:
    const float${lanes} v_${j} = *(__global const vector *)(x_${j} + x_${j}_offset
        + group * ${lanes});
    % endif
% endfor
% for k in range(made, len(results)):
    float${lanes} total_${k} = 0;
% endfor
    for (int begin = from, count; begin < end; begin += count) {
        const int image = begin / pixels, pixel = begin - image * pixels;
        count = min(pixels - pixel, end - begin);
% for j, blocked in enumerate(inputs):
    % if blocked:
        __global const float *from_${j} = x_${j} + (long)image * x_${j}_image + pixel * ${lanes};
    % endif
% endfor
% for k in range(made):
        __global float *to_${k} = y_${k} + y_${k}_offset
            + (((long)image * groups + group) * pixels + pixel) * ${lanes};
% endfor
        for (int done = 0; done < count; done += ${run}) {
            const int to = min(done + ${run}, count);
% for k in range(made, len(results)):
            float${lanes} sum_${k}_0 = 0, sum_${k}_1 = 0;
% endfor
            for (int i = done; i + 2 <= to; i += 2) {
            ${terms(statements, results, made, stream, lanes, inputs, "i", 0)}
            ${terms(statements, results, made, stream, lanes, inputs, "i + 1", 1)}
            }
            if (to & 1)
            ${terms(statements, results, made, stream, lanes, inputs, "to - 1", 0)}
% for k in range(made, len(results)):
            total_${k} += sum_${k}_0 + sum_${k}_1;
% endfor
        }
    }
    partial += partial_offset + (long)get_global_id(0) * ${(len(results) - made) * lanes};
% for k in range(made, len(results)):
    *(__global vector *)(partial + ${(k - made) * lanes}) = total_${k};
% endfor
}
</%def>
<%def name="blocked_join(lanes, sums)">
${types(lanes)}
__kernel void blocked_join(...)
{
    const int group = get_global_id(0);
    partial += partial_offset + (long)group * parts * ${sums * lanes};
% for k in range(sums):
    float${lanes} total_${k} = 0;
% endfor
    for (int part = 0; part < parts; part++, partial += ${sums * lanes}) {
% for k in range(sums):
        total_${k} += *(__global const vector *)(partial + ${k * lanes});
% endfor
    }
% for k in range(sums):
    *(__global vector *)(sum_${k} + sum_${k}_offset + group * ${lanes}) = total_${k};
% endfor
}
</%def>
