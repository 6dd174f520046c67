## kernel blocked_means: means over windows of blocked planes and over parts of them, and their
## gradients
##
## layout  arrays are (n, groups, h, w, lanes); a vector holds neighbouring channels of one pixel
## param   lanes: int                channels of a block: 4, 8 or 16
## param   stream: bool              gradients go past the caches; a pixel is a line of them
## param   adaptive: bool            windows are the nearly equal parts of a plane
## param   include_pad: bool         padding counts, as zeros
## param   divisor: int              what sums are divided by, 0 for the number of elements
## param   kh, kw, sh, sw, ph, pw: int  height and width of the window, steps from window to
##                                   window, padding above and before
## param   axis: str                 y or x, in the names of what is declared
## param   o: str                    C expression, the window's number along the axis
## param   size: str                 C expression, elements of the plane along the axis
## param   out: str                  C expression, windows along the axis
## param   k: int                    elements a window spans along the axis
## param   s: int                    step from window to window along the axis
## param   p: int                    padding along the axis
## def     blocked_avg_pool
## arg     groups, out_h, out_w, height, width: int
## arg     y: out float
## arg     x: in float
## arg     image_step, group_step: int
## def     blocked_plane_gradient
## arg     planes: int
## arg     each: int  planes of an item
## arg     size: int  pixels of a plane
## arg     gx: out float
## arg     gy: in float
## def     blocked_parts_gradient
## arg     out_h, out_w, height, width: int
## arg     gx: out float
## arg     gy: in float
## def     blocked_avg_pool_gradient
## arg     rows: int  of gx
## arg     each: int  rows of an item
## arg     out_h, out_w, height, width: int
## arg     gx: out float
## arg     gy: in float
## launch  blocked_plane_gradient, blocked_avg_pool_gradient: an item takes `each`; else one item a
##         row of what is written; groups of one
## numerics sums in the windows' order; blocked_avg_pool_gradient: down first, then along the row
<%namespace name="blocked" file="/lib/blocked.mako"/>
<%namespace name="prelude" file="/lib/prelude.mako"/>
##
## The part of window `o` along an axis that lies inside the plane, and how many elements it counts.
<%def name="span(axis, o, adaptive, size, out, k, s, p)">
% if adaptive:
    const int first_${axis} = ${o} * ${size} / ${out},
        end_${axis} = ((${o} + 1) * ${size} + ${out} - 1) / ${out};
    const int counted_${axis} = end_${axis} - first_${axis};
% else:
    const int start_${axis} = ${o} * ${s} - ${p};
    const int first_${axis} = max(start_${axis}, 0),
        end_${axis} = min(start_${axis} + ${k}, ${size});
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
<%def name="blocked_avg_pool(lanes, adaptive, include_pad, divisor, kh, kw, sh, sw, ph, pw)">
${blocked.types(lanes)}
${prelude.fetch_ahead()}
__kernel void blocked_avg_pool(...)
{
    ${blocked.row("out_h")}
    ${blocked.source(lanes)}
    ${span("y", "row", adaptive, "height", "out_h", kh, sh, ph)}
    for (int column = 0; column < out_w; column++) {
        ${span("x", "column", adaptive, "width", "out_w", kw, sw, pw)}
        ${count(adaptive, include_pad, divisor)}
% if not adaptive:
% for line in range(sw * sh):
        FETCH_AHEAD(x + ((long)row * ${sh} * width + column * ${sw * sh}
            + ${128 + line}) * ${lanes});
% endfor
% endif
        float${lanes} sum = 0;
        for (int i = first_y; i < end_y; i++)
            for (int j = first_x; j < end_x; j++)
                sum += *(__global const vector *)(x + (long)(i * width + j) * ${lanes});
        *(__global vector *)(y + column * ${lanes}) = sum / count;
    }
}
</%def>
##
## One mean a plane.
<%def name="blocked_plane_gradient(lanes, stream)">
${blocked.types(lanes, stream)}
__kernel void blocked_plane_gradient(...)
{
    const int first = get_global_id(0) * each, last = min(first + each, planes);
    for (int plane = first; plane < last; plane++) {
        const float${lanes} share = *(__global const vector *)(gy + gy_offset
            + (long)plane * ${lanes}) * (1.0f / size);
        __global float *const to = gx + gx_offset + (long)plane * size * ${lanes};
        for (int i = 0; i < size; i++) {
            ${blocked.store("share", f"to + i * {lanes}", lanes, stream)}
        }
    }
}
</%def>
<%def name="blocked_parts_gradient(lanes)">
${blocked.types(lanes)}
__kernel void blocked_parts_gradient(...)
{
    ${blocked.row("height")}
    gx += gx_offset + (long)get_global_id(0) * width * ${lanes};
    gy += gy_offset + (long)plane * out_h * out_w * ${lanes};
    ${blocked.windows("y", "row", True, "height", "out_h", 1, 1, 0)}
    for (int column = 0; column < width; column++) {
        ${blocked.windows("x", "column", True, "width", "out_w", 1, 1, 0)}
        float${lanes} sum = 0;
        for (int oy = low_y; oy <= high_y; oy++) {
            ${span("y", "oy", True, "height", "out_h", 1, 1, 0)}
            for (int ox = low_x; ox <= high_x; ox++) {
                ${span("x", "ox", True, "width", "out_w", 1, 1, 0)}
                ${count(True, True, 0)}
                if (row >= first_y && row < end_y && column >= first_x && column < end_x)
                    sum += *(__global const vector *)(gy
                        + (oy * out_w + ox) * ${lanes}) * (1 / count);
            }
        }
        *(__global vector *)(gx + column * ${lanes}) = sum;
    }
}
</%def>
##
## Of each column of windows what it gives to the row is computed once: columns before it are
## carried along.
<%def name="blocked_avg_pool_gradient(lanes, stream, include_pad, divisor, kh, kw, sh, sw, ph, pw)">
<% down, across = (kh - 1) // sh + 1, (kw - 1) // sw + 1 %>
${blocked.types(lanes, stream)}
${prelude.fetch_ahead()}
__kernel void blocked_avg_pool_gradient(...)
{
    const int first = get_global_id(0) * each, last = min(first + each, rows);
    for (int at = first; at < last; at++) {
        const int plane = at / height, row = at - plane * height;
        __global const float *const from = gy + gy_offset + (long)plane * out_h * out_w * ${lanes};
        __global float *const to = gx + gx_offset + (long)at * width * ${lanes};
        const int low = max((row + ${ph + sh - kh}) / ${sh}, 0),
            high = min((row + ${ph}) / ${sh}, out_h - 1);
        float shares[${down}];
        for (int oy = low; oy <= high; oy++) {
            ${span("y", "oy", False, "height", "out_h", kh, sh, ph)}
            shares[oy - low] = 1.0f / ${(
                divisor or f"({'counted_y' if include_pad else '(end_y - first_y)'} * {kw})")};
        }
% for j in range(1, across):
        float${lanes} window_${j} = 0;
% endfor
        for (int ox = 0, column = ${-pw}; column < width; ox++, column += ${sw}) {
            float${lanes} window_0 = 0;
            if (ox < out_w) {
                for (int oy = low; oy <= high; oy++) {
                    __global const float *const place = from + (oy * out_w + ox) * ${lanes};
                    FETCH_AHEAD(place + ${64 * lanes});
                    window_0 += *(__global const vector *)place * shares[oy - low];
                }
% if not divisor:
                ${span("x", "ox", False, "width", "out_w", kw, sw, pw)}
                const int counted = ${"counted_x" if include_pad else "end_x - first_x"};
                if (counted != ${kw})
                    window_0 *= ${kw}.0f / counted;
% endif
            }
% for p in range(sw):
            if (column + ${p} >= 0 && column + ${p} < width) {
                const float${lanes} sum =
                    ${" + ".join(f"window_{j}" for j in range(across) if p + j * sw < kw) or "0"};
                ${blocked.store("sum", f"to + (column + {p}) * {lanes}", lanes, stream)}
            }
% endfor
% for j in range(across - 1, 0, -1):
            window_${j} = window_${j - 1};
% endfor
        }
    }
}
</%def>
