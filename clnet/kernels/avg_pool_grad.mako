## kernel avg_pool_grad: to each element of a plane its share of the gradients of windows' means
##
## param  ctype: str                 type of the elements
## param  real: str                  type they are summed in
## param  unchecked: all|some|none   windows that are taken to lie inside their plane: none, or those
##                                   that do
## param  include_pad: bool          padding counts in the mean
## param  divisor: int               what was divided by instead, or 0
## param  kh: int                    height of the window
## param  kw: int                    its width
## param  sh: int                    vertical step from window to window
## param  sw: int                    horizontal step
## param  ph: int                    rows of padding above the plane
## param  pw: int                    columns of padding before it
## param  lanes: int                 steps of sw columns that are made at once
## param  rows: int                  rows of windows that lie over a row of the plane
## param  across: int                windows of such a row that lie over a step of sw columns
## param  grads: str                 C expression: gradients of windows, row {0} of rows, {1} before i
## def    avg_pool_gradient
## arg    rows: int                  rows of gx
## arg    out_h: int
## arg    out_w: int
## arg    height: int
## arg    width: int
## arg    gx: out ctype[rows][width]
## arg    gy: in ctype
## def    avg_pool_gradient_planes
## arg    out_h: int
## arg    out_w: int
## arg    height: int
## arg    width: int
## arg    gx: out ctype
## arg    gy: in ctype
##
## launch   one item per element; _planes: one item per plane, groups of one
## numerics sums in the windows' order (those of a plane: column by column of windows, each times its
##          share): the same bits every run
<%namespace name="vectors" file="lib/vector.mako"/>
<%namespace name="plane" file="lib/plane.mako"/>
<%def name="avg_pool_gradient(ctype, real, include_pad, divisor, kh, kw, sh, sw, ph, pw)">
__kernel void avg_pool_gradient(
    const int rows, const int out_h, const int out_w, const int height, const int width,
    __global ${ctype} *restrict gx, const long gx_offset,
    __global const ${ctype} *restrict gy, const long gy_offset)
{
    ${plane.visit(False, "width")}
        const int at_y = row % height;
        __global const ${ctype} *source = gy + gy_offset + row / height * (out_h * out_w);
        __global ${ctype} *to = gx + gx_offset + row * width;
        ${gathered(real, include_pad, divisor, kh, kw, sh, sw, ph, pw)}
    }
}
</%def>
<%def name="gathered(real, include_pad, divisor, kh, kw, sh, sw, ph, pw)">
        const int last_y = min((at_y + ${ph}) / ${sh}, out_h - 1);
        const int last_x = min((column + ${pw}) / ${sw}, out_w - 1);
        ${real} sum = 0;
        for (int oy = max((at_y + ${ph}) / ${sh} - ${(kh - 1) // sh}, 0); oy <= last_y; ++oy)
            for (int ox = max((column + ${pw}) / ${sw} - ${(kw - 1) // sw}, 0); ox <= last_x; ++ox) {
            ${plane.share(include_pad, divisor, kh, kw, sh, sw, ph, pw)}
                if (at_y >= top && at_y < bottom && column >= left && column < right)
                    sum += source[oy * out_w + ox] / count;
            }
        to[column] = sum;
</%def>
<%def name="avg_pool_gradient_planes(
    ctype, unchecked, include_pad, divisor, kh, kw, sh, sw, ph, pw, lanes)">
<% across, first = (kw - 1) // sw + 1, -(-pw // sw) %>
${vectors.types(ctype, lanes)}
${vectors.zip(ctype, lanes)}
__kernel void avg_pool_gradient_planes(
    const int out_h, const int out_w, const int height, const int width,
    __global ${ctype} *restrict gx, const long gx_offset,
    __global const ${ctype} *restrict gy, const long gy_offset)
{
    __global const ${ctype} *const source = gy + gy_offset + get_global_id(0) * out_h * out_w;
% if unchecked != "none":
    /* [begin, end): steps of ${sw} columns, the windows over which are all there, and of full width. */
    const int begin = ${max(across - 1, first) if include_pad or divisor else first + across - 1};
    const int inside = min(out_w, (width + ${pw}) / ${sw});
    const int end = width < ${kw - pw} ? begin : max(begin, min(inside, (width - ${kw - pw}) / ${sw} + 1));
    const int before = begin * ${sw} - ${pw}, after = end * ${sw} - ${pw};
% endif
    for (int at_y = 0; at_y < height; ++at_y) {
        __global ${ctype} *const to = gx + gx_offset + (get_global_id(0) * height + at_y) * width;
% if unchecked == "none":
        for (int column = 0; column < width; ++column) {
            ${gathered(ctype, include_pad, divisor, kh, kw, sh, sw, ph, pw)}
        }
% else:
        const int first_y = max((at_y + ${ph + sh - kh}) / ${sh}, 0);
        switch (min((at_y + ${ph}) / ${sh}, out_h - 1) - first_y + 1) {
% for rows in range(1, (kh - 1) // sh + 2):
        case ${rows}: {
            ${shares(rows, ctype, include_pad, divisor, kh, kw, sh, ph)}
            ${steps(rows, across, ctype, kw, sw, pw, lanes)}
            ${edges(rows, ctype, include_pad, divisor, kw, sw, pw)}
            break;
        }
% endfor
        default:
            for (int column = 0; column < width; ++column)
                to[column] = 0;
        }
% endif
    }
}
</%def>
<%def name="shares(rows, ctype, include_pad, divisor, kh, kw, sh, ph)">
% for r in range(rows):
            __global const ${ctype} *const grads_${r} = source + (first_y + ${r}) * out_w;
% if divisor:
            const ${ctype} share_${r} = (${ctype})1 / ${divisor};
% else:
            const int top_${r} = (first_y + ${r}) * ${sh} - ${ph};
            const ${ctype} share_${r} = (${ctype})1 / ((min(top_${r} + ${kh}, height${f" + {ph}" if include_pad else ""}) - ${f"top_{r}" if include_pad else f"max(top_{r}, 0)"}) * ${kw});
% endif
% endfor
</%def>
##
## Steps between the edges: vectors of them, the last of which overlap, or one by one.
<%def name="steps(rows, across, ctype, kw, sw, pw, lanes)">
% if sw <= 2:
            if (end - begin >= ${lanes})
                for (int at = begin; at < end; at += ${lanes}) {
                    const int i = min(at, end - ${lanes});
                    ${windows(f"{ctype}{lanes}", rows, across, kw, sw, "*(__global const vector *)(grads_{0} + i - {1})")}
                    __global ${ctype} *const place = to + i * ${sw} - ${pw};
% if sw == 1:
                    *(__global vector *)place = step_0;
% else:
                    *(__global vector *)place = zip_lo(step_0, step_1);
                    *(__global vector *)(place + ${lanes}) = zip_hi(step_0, step_1);
% endif
                }
            else
% endif
            for (int i = begin; i < end; ++i) {
                ${windows(ctype, rows, across, kw, sw, "grads_{0}[i - {1}]")}
% for p in range(sw):
                to[i * ${sw} + ${p - pw}] = step_${p};
% endfor
            }
</%def>
<%def name="edges(rows, ctype, include_pad, divisor, kw, sw, pw)">
            for (int i = 0; i < width - after + before; ++i) {
                const int column = i < before ? i : i - before + after;
                const int last_x = min((column + ${pw}) / ${sw}, out_w - 1);
                ${ctype} sum = 0;
                for (int ox = max((column + ${pw + sw - kw}) / ${sw}, 0); ox <= last_x; ++ox) {
                    const ${ctype} part = ${" + ".join(f"grads_{r}[ox] * share_{r}" for r in range(rows))};
% if divisor:
                    sum += part;
% else:
                    const int left = ox * ${sw} - ${pw};
                    sum += part * ${kw} / (min(left + ${kw}, width${f" + {pw}" if include_pad else ""}) - ${"left" if include_pad else "max(left, 0)"});
% endif
                }
                to[column] = sum;
            }
</%def>
<%def name="windows(real, rows, across, kw, sw, grads)">
% for j in range(across):
                const ${real} window_${j} = ${" + ".join(f"{grads.format(r, j)} * share_{r}" for r in range(rows))};
% endfor
% for p in range(sw):
                const ${real} step_${p} = ${" + ".join(f"window_{j}" for j in range(across) if p + j * sw < kw) or "0"};
% endfor
</%def>
