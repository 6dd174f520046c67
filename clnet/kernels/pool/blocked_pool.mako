## kernel blocked_pool: maxima over windows of blocked planes, and their gradients
##
## layout  arrays are (n, groups, h, w, lanes); a vector holds neighbouring channels of one pixel,
##         so nothing here depends on where a window lies but the loops' bounds
## param   lanes: int                channels of a block: 4, 8 or 16
## param   with_index: bool          positions of the maxima are stored too
## param   stream: bool              gradients go past the caches; a pixel is a line of them
## param   kh, kw, sh, sw, ph, pw, dh, dw: int  height and width of the window, steps from window
##                                   to window, padding above and before, steps within a window
## param   at: str                   C expression, an element's number in its plane
## param   inside: bool              the window lies within the row
## def     blocked_max_pool
## arg     groups, out_h, out_w: int
## arg     height: int      of a plane of x
## arg     width: int
## arg     y: out float
## % if with_index:
## arg     index: out int
## % endif
## arg     x: in float
## arg     image_step: int  of x
## arg     group_step: int  of x
## def     blocked_max_pool_gradient
## arg     out_h, out_w, height, width: int
## arg     gx: out float
## arg     gy: in float
## arg     index: in int
## launch  one item a row of what is written, groups of one
## numerics maxima exact, the first of equal ones, NaN wins; sums in the windows' order
<%namespace name="blocked" file="/lib/blocked.mako"/>
<%namespace name="prelude" file="/lib/prelude.mako"/>
<%def name="blocked_max_pool(lanes, with_index, kh, kw, sh, sw, ph, pw, dh, dw)">
${blocked.types(lanes)}
${prelude.fetch_ahead()}
__kernel void blocked_max_pool(...)
{
    ${blocked.row("out_h")}
    ${blocked.source(lanes)}
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
        ${window(lanes, with_index, kw, sh, sw, pw, dh, dw, False)}
    }
    for (int column = inner; column < outer; column++) {
        ${window(lanes, with_index, kw, sh, sw, pw, dh, dw, True)}
    }
    for (int column = outer; column < out_w; column++) {
        ${window(lanes, with_index, kw, sh, sw, pw, dh, dw, False)}
    }
}
</%def>
<%def name="window(lanes, with_index, kw, sh, sw, pw, dh, dw, inside)">
        const int left = column * ${sw} - ${pw};
% if inside:
        const int first_x = 0;
% else:
        const int first_x = left < 0 ? (-left + ${dw - 1}) / ${dw} : 0;
        const int end_x = min(${kw}, (width - 1 - left) / ${dw} + 1);
% endif
% if inside:
% for line in range(sw * sh):
        FETCH_AHEAD(x + ((long)row * ${sh} * width + column * ${sw * sh}
            + ${128 + line}) * ${lanes});
% endfor
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
                const float${lanes} value =
                    *(__global const vector *)(x + (long)(${at}) * ${lanes});
                const int${lanes} better = (value > best) | (value != value);
                best = better ? value : best;
                where = better ? (int${lanes})(${at}) : where;
            }
</%def>
<%def name="blocked_max_pool_gradient(lanes, stream, kh, kw, sh, sw, ph, pw, dh, dw)">
<% last = dw * (kw - 1) // sw %>
${blocked.types(lanes, stream)}
__kernel void blocked_max_pool_gradient(...)
{
    ${blocked.row("height")}
    gx += gx_offset + (long)get_global_id(0) * width * ${lanes};
    gy += gy_offset + (long)plane * out_h * out_w * ${lanes};
    index += index_offset + (long)plane * out_h * out_w * ${lanes};
    ${blocked.windows("y", "row", False, "height", "out_h", dh * (kh - 1) + 1, sh, ph)}
    /* In between, ${sw} elements at a time share the windows that may hold them: the
       one that begins there and ${last} before it. */
    const int inner = max(${last}, ${-(-pw // sw)}) * ${sw} - ${pw};
    const int outer = min(out_w - 1, (width + ${pw - sw}) / ${sw}) * ${sw} + ${sw - pw};
    for (int column = 0; column < min(inner, width); column++) {
        ${chosen_of(lanes, stream, kw, sw, pw, dw)}
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
        ${blocked.store(f"sum_{f}", f"gx + (column + {f}) * {lanes}", lanes, stream)}
% endfor
    }
    for (int column = max(outer, inner); column < width; column++) {
        ${chosen_of(lanes, stream, kw, sw, pw, dw)}
    }
}
</%def>
<%def name="chosen_of(lanes, stream, kw, sw, pw, dw)">
        ${blocked.windows("x", "column", False, "width", "out_w", dw * (kw - 1) + 1, sw, pw)}
        float${lanes} sum = 0;
        for (int oy = low_y; oy <= high_y; oy++)
            for (int ox = low_x; ox <= high_x; ox++) {
                const int at = (oy * out_w + ox) * ${lanes};
                const int${lanes} chosen =
                    *(__global const whole *)(index + at) == row * width + column;
                sum += chosen ? *(__global const vector *)(gy + at) : (float${lanes})(0);
            }
        ${blocked.store("sum", f"gx + column * {lanes}", lanes, stream)}
</%def>
