## kernel blocked_pool: maxima and means over windows of blocked planes, and their gradients
##
## layout  arrays are (n, groups, h, w, lanes); a vector holds neighbouring channels of one pixel, so
##         nothing here depends on where a window lies but the loops' bounds
## param   lanes: int                channels of a block: 4, 8 or 16
## param   with_index: bool          positions of the maxima are stored too
## param   adaptive: bool            windows are the nearly equal parts of a plane
## param   include_pad: bool         padding counts, as zeros
## param   divisor: int              what sums are divided by, 0 for the number of elements
## param   kh: int                   height of the window
## param   kw: int                   its width
## param   sh: int                   vertical step from window to window
## param   sw: int                   horizontal step
## param   ph: int                   rows of padding above the plane
## param   pw: int                   columns of padding before it
## param   dh: int                   vertical step within a window
## param   dw: int                   horizontal step
## param   result_height: str        C expression, rows of a plane of what is written
## param   axis: str                 y or x, in the names of what is declared
## param   o: str                    C expression, the window's number along the axis
## param   at: str                   C expression, an element's number along the axis
## param   size: str                 C expression, elements of the plane along the axis
## param   out: str                  C expression, windows along the axis
## param   k: int                    elements a window spans along the axis
## param   s: int                    step from window to window along the axis
## param   p: int                    padding along the axis
## param   inside: bool              the window lies within the row
## def     blocked_max_pool
## arg     groups: int
## arg     out_h: int
## arg     out_w: int
## arg     height: int               of a plane of x
## arg     width: int
## arg     y: out float
## arg     index: out int            only when with_index
## arg     x: in float
## arg     image_step: int           of x
## arg     group_step: int           of x
## def     blocked_max_pool_gradient
## arg     out_h: int
## arg     out_w: int
## arg     height: int
## arg     width: int
## arg     gx: out float
## arg     gy: in float
## arg     index: in int
## def     blocked_avg_pool
## arg     groups: int
## arg     out_h: int
## arg     out_w: int
## arg     height: int
## arg     width: int
## arg     y: out float
## arg     x: in float
## arg     image_step: int
## arg     group_step: int
## def     blocked_avg_pool_gradient
## arg     out_h: int
## arg     out_w: int
## arg     height: int
## arg     width: int
## arg     gx: out float
## arg     gy: in float
## launch  one item a row of what is written, groups of one
## numerics maxima exact, the first of equal ones, NaN wins; sums in the windows' order
<%def name="row(result_height)">
    const int plane = get_global_id(0) / ${result_height}, row = get_global_id(0) - plane * ${result_height};
</%def>
<%def name="source(lanes)">
    const int image = plane / groups, group = plane - image * groups;
    x += x_offset + (long)image * image_step + (long)group * group_step;
    y += y_offset + (long)get_global_id(0) * out_w * ${lanes};
</%def>
<%def name="types(lanes)">
typedef float${lanes} __attribute__((aligned(4))) vector;
typedef int${lanes} __attribute__((aligned(4))) whole;
</%def>
##
## The part of window `o` along an axis that lies inside the plane, and how many elements it counts.
<%def name="span(axis, o, adaptive, size, out, k, s, p)">
% if adaptive:
    const int first_${axis} = ${o} * ${size} / ${out}, end_${axis} = ((${o} + 1) * ${size} + ${out} - 1) / ${out};
    const int counted_${axis} = end_${axis} - first_${axis};
% else:
    const int start_${axis} = ${o} * ${s} - ${p};
    const int first_${axis} = max(start_${axis}, 0), end_${axis} = min(start_${axis} + ${k}, ${size});
    const int counted_${axis} = min(start_${axis} + ${k}, ${size} + ${p}) - start_${axis};
% endif
</%def>
<%def name="count(adaptive, include_pad, divisor)">
% if divisor:
            const float count = ${divisor};
% elif include_pad or adaptive:
            const float count = counted_y * counted_x;
% else:
            const float count = (end_y - first_y) * (end_x - first_x);
% endif
</%def>
##
## Which windows along an axis may hold element `at`.
<%def name="windows(axis, at, adaptive, size, out, k, s, p)">
% if adaptive:
    const int low_${axis} = ${at} * ${out} / ${size};
    const int high_${axis} = ((${at} + 1) * ${out} + ${size} - 1) / ${size} - 1;
% else:
    const int high_${axis} = min((${at} + ${p}) / ${s}, ${out} - 1);
    const int low_${axis} = max((${at} + ${p}) / ${s} - ${(k - 1) // s}, 0);
% endif
</%def>
<%def name="blocked_max_pool(lanes, with_index, kh, kw, sh, sw, ph, pw, dh, dw)">
${types(lanes)}
__kernel void blocked_max_pool(
    const int groups, const int out_h, const int out_w, const int height, const int width,
    __global float *restrict y, const long y_offset,
% if with_index:
    __global int *restrict index, const long index_offset,
% endif
    __global const float *restrict x, const long x_offset,
    const int image_step, const int group_step)
{
    ${row("out_h")}
    ${source(lanes)}
% if with_index:
    index += index_offset + (long)get_global_id(0) * out_w * ${lanes};
% endif
    const int top = row * ${sh} - ${ph};
    /* The window's taps inside the plane: at least one is, since padding is at most half of it. */
    const int first_y = top < 0 ? (-top + ${dh - 1}) / ${dh} : 0;
    const int end_y = min(${kh}, (height - 1 - top) / ${dh} + 1);
    /* Windows in between lie within the row: their taps are known beforehand. */
    const int inner = min(${-(-pw // sw)}, out_w);
    const int outer = max(min((width + ${pw - dw * (kw - 1) - 1 + sw}) / ${sw}, out_w), inner);
    for (int column = 0; column < inner; column++) {
        ${window(lanes, with_index, kw, sw, pw, dh, dw, False)}
    }
    for (int column = inner; column < outer; column++) {
        ${window(lanes, with_index, kw, sw, pw, dh, dw, True)}
    }
    for (int column = outer; column < out_w; column++) {
        ${window(lanes, with_index, kw, sw, pw, dh, dw, False)}
    }
}
</%def>
<%def name="window(lanes, with_index, kw, sw, pw, dh, dw, inside)">
        const int left = column * ${sw} - ${pw};
% if inside:
        const int first_x = 0;
% else:
        const int first_x = left < 0 ? (-left + ${dw - 1}) / ${dw} : 0;
        const int end_x = min(${kw}, (width - 1 - left) / ${dw} + 1);
% endif
        const int corner = (top + first_y * ${dh}) * width + left + first_x * ${dw};
        float${lanes} best = *(__global const vector *)(x + (long)corner * ${lanes});
        int${lanes} where = corner;
        for (int i = first_y; i < end_y; i++) {
            const int start = (top + i * ${dh}) * width + left;
% if inside:
    % for j in range(kw):
            ${tap(lanes, "start + %d" % (j * dw))}
    % endfor
% else:
            for (int j = first_x; j < end_x; j++)
            ${tap(lanes, "start + j * %d" % dw)}
% endif
        }
        *(__global vector *)(y + column * ${lanes}) = best;
% if with_index:
        *(__global whole *)(index + column * ${lanes}) = where;
% endif
</%def>
<%def name="tap(lanes, at)">
            {
                const float${lanes} value = *(__global const vector *)(x + (long)(${at}) * ${lanes});
                const int${lanes} better = (value > best) | (value != value);
                best = better ? value : best;
                where = better ? (int${lanes})(${at}) : where;
            }
</%def>
<%def name="blocked_max_pool_gradient(lanes, kh, kw, sh, sw, ph, pw, dh, dw)">
<% last = dw * (kw - 1) // sw %>
${types(lanes)}
__kernel void blocked_max_pool_gradient(
    const int out_h, const int out_w, const int height, const int width,
    __global float *restrict gx, const long gx_offset,
    __global const float *restrict gy, const long gy_offset,
    __global const int *restrict index, const long index_offset)
{
    ${row("height")}
    gx += gx_offset + (long)get_global_id(0) * width * ${lanes};
    gy += gy_offset + (long)plane * out_h * out_w * ${lanes};
    index += index_offset + (long)plane * out_h * out_w * ${lanes};
    ${windows("y", "row", False, "height", "out_h", dh * (kh - 1) + 1, sh, ph)}
    /* In between, ${sw} elements at a time share the windows that may hold them: the
       one that begins there and ${last} before it. */
    const int inner = max(${last}, ${-(-pw // sw)}) * ${sw} - ${pw};
    const int outer = min(out_w - 1, (width + ${pw - sw}) / ${sw}) * ${sw} + ${sw - pw};
    for (int column = 0; column < min(inner, width); column++) {
        ${chosen_of(lanes, kw, sw, pw, dw)}
    }
    for (int column = inner; column < outer; column += ${sw}) {
        const int ox = (column + ${pw}) / ${sw};
        const int place = row * width + column;
% for f in range(sw):
        float${lanes} sum_${f} = 0;
% endfor
        for (int oy = low_y; oy <= high_y; oy++) {
            const int at = (oy * out_w + ox) * ${lanes};
% for j in range(last, -1, -1):
            const int${lanes} index_${j} = *(__global const whole *)(index + at - ${j * lanes});
            const float${lanes} gy_${j} = *(__global const vector *)(gy + at - ${j * lanes});
    % for f in range(sw):
        % if f + j * sw <= dw * (kw - 1) and (f + j * sw) % dw == 0:
            sum_${f} += (index_${j} == place + ${f}) ? gy_${j} : (float${lanes})(0);
        % endif
    % endfor
% endfor
        }
% for f in range(sw):
        *(__global vector *)(gx + (column + ${f}) * ${lanes}) = sum_${f};
% endfor
    }
    for (int column = max(outer, inner); column < width; column++) {
        ${chosen_of(lanes, kw, sw, pw, dw)}
    }
}
</%def>
<%def name="chosen_of(lanes, kw, sw, pw, dw)">
        ${windows("x", "column", False, "width", "out_w", dw * (kw - 1) + 1, sw, pw)}
        float${lanes} sum = 0;
        for (int oy = low_y; oy <= high_y; oy++)
            for (int ox = low_x; ox <= high_x; ox++) {
                const int at = (oy * out_w + ox) * ${lanes};
                const int${lanes} chosen = *(__global const whole *)(index + at) == row * width + column;
                sum += chosen ? *(__global const vector *)(gy + at) : (float${lanes})(0);
            }
        *(__global vector *)(gx + column * ${lanes}) = sum;
</%def>
<%def name="blocked_avg_pool(lanes, adaptive, include_pad, divisor, kh, kw, sh, sw, ph, pw)">
${types(lanes)}
__kernel void blocked_avg_pool(
    const int groups, const int out_h, const int out_w, const int height, const int width,
    __global float *restrict y, const long y_offset,
    __global const float *restrict x, const long x_offset,
    const int image_step, const int group_step)
{
    ${row("out_h")}
    ${source(lanes)}
    ${span("y", "row", adaptive, "height", "out_h", kh, sh, ph)}
    for (int column = 0; column < out_w; column++) {
        ${span("x", "column", adaptive, "width", "out_w", kw, sw, pw)}
        ${count(adaptive, include_pad, divisor)}
        float${lanes} sum = 0;
        for (int i = first_y; i < end_y; i++)
            for (int j = first_x; j < end_x; j++)
                sum += *(__global const vector *)(x + (long)(i * width + j) * ${lanes});
        *(__global vector *)(y + column * ${lanes}) = sum / count;
    }
}
</%def>
<%def name="blocked_avg_pool_gradient(lanes, adaptive, include_pad, divisor, kh, kw, sh, sw, ph, pw)">
${types(lanes)}
__kernel void blocked_avg_pool_gradient(
    const int out_h, const int out_w, const int height, const int width,
    __global float *restrict gx, const long gx_offset,
    __global const float *restrict gy, const long gy_offset)
{
    ${row("height")}
    gx += gx_offset + (long)get_global_id(0) * width * ${lanes};
    gy += gy_offset + (long)plane * out_h * out_w * ${lanes};
    ${windows("y", "row", adaptive, "height", "out_h", kh, sh, ph)}
    for (int column = 0; column < width; column++) {
        ${windows("x", "column", adaptive, "width", "out_w", kw, sw, pw)}
        float${lanes} sum = 0;
        for (int oy = low_y; oy <= high_y; oy++) {
            ${span("y", "oy", adaptive, "height", "out_h", kh, sh, ph)}
            for (int ox = low_x; ox <= high_x; ox++) {
                ${span("x", "ox", adaptive, "width", "out_w", kw, sw, pw)}
                ${count(adaptive, include_pad, divisor)}
                if (row >= first_y && row < end_y && column >= first_x && column < end_x)
                    sum += *(__global const vector *)(gy + (oy * out_w + ox) * ${lanes}) * (1 / count);
            }
        }
        *(__global vector *)(gx + column * ${lanes}) = sum;
    }
}
</%def>
