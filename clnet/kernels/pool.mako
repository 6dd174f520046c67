## kernel pool: maxima and means over windows of planes, and their gradients as gathers
##
## param  ctype: str                 type of the elements
## param  real: str                  type they are summed in
## param  index_type: str            int or long, positions within a plane
## param  with_index: bool           positions of the maxima are stored too
## param  by_rows: bool              an item makes a row (CPU) instead of an element (GPU)
## param  width: str                 C expression, elements of a row
## param  kh: int                     height of the window
## param  kw: int                     its width
## param  sh: int                     vertical step from window to window
## param  sw: int                     horizontal step
## param  ph: int                     rows of padding above the plane
## param  pw: int                     columns of padding before it
## param  dh: int                     vertical step within a window
## param  dw: int                     horizontal step
## param  include_pad: bool          padding counts in the mean
## param  divisor: int               what to divide by instead, or 0
## param  h: int                      height of an input plane
## param  w: int                      its width
## param  oh: int                     height of an output plane
## param  ow: int                     its width
## param  vector: int                elements of a vector
## param  group: int                 work-items of a group, a power of 2
## def    max_pool
## arg    rows: int                  rows of y, all planes together
## arg    out_h: int
## arg    out_w: int
## arg    height: int                of a plane of x
## arg    width: int
## arg    y: out ctype[rows][out_w]
## arg    index: out index_type[rows][out_w]
## arg    x: in ctype
## def    max_pool_gradient
## arg    rows: int                  rows of gx, all planes together
## arg    out_h: int
## arg    out_w: int
## arg    height: int
## arg    width: int
## arg    gx: out ctype[rows][width]
## arg    gy: in ctype
## arg    index: in index_type
## def    avg_pool
## arg    rows: int                  rows of y
## arg    out_h: int
## arg    out_w: int
## arg    height: int
## arg    width: int
## arg    y: out ctype[rows][out_w]
## arg    x: in ctype
## def    avg_pool_gradient
## arg    rows: int                  rows of gx
## arg    out_h: int
## arg    out_w: int
## arg    height: int
## arg    width: int
## arg    gx: out ctype[rows][width]
## arg    gy: in ctype
## def    adaptive_avg_pool
## arg    rows: int                  rows of y
## arg    y: out ctype[rows][ow]
## arg    x: in ctype
## def    adaptive_avg_pool_gradient
## arg    rows: int                  rows of gx
## arg    gx: out ctype[rows][w]
## arg    gy: in ctype
## def    plane_mean, plane_mean_local
## arg    n: int                     elements of a plane
## arg    y: out ctype[planes]
## arg    x: in ctype[planes][n]
##
## launch   by_rows: one item per row, groups of one; else one item per element. plane_mean: one item
##          per plane, groups of one; plane_mean_local: a group per plane
## numerics maxima exact, the first of equal ones, NaN wins; sums in the window's order, gradients in
##          the windows' order, means of planes by a fixed tree: the same bits every run
<%def name="visit(by_rows, width)">
% if by_rows:
    const int row = get_global_id(0);
    for (int column = 0; column < ${width}; ++column) {
% else:
    if (get_global_id(0) < rows * ${width}) {
        const int row = get_global_id(0) / ${width};
        const int column = get_global_id(0) - row * ${width};
% endif
</%def>
<%def name="max_pool(ctype, index_type, with_index, by_rows, kh, kw, sh, sw, ph, pw, dh, dw)">
__kernel void max_pool(
    const int rows, const int out_h, const int out_w, const int height, const int width,
    __global ${ctype} *restrict y, const long y_offset,
% if with_index:
    __global ${index_type} *restrict index, const long index_offset,
% endif
    __global const ${ctype} *restrict x, const long x_offset)
{
    ${visit(by_rows, "out_w")}
        const int top = row % out_h * ${sh} - ${ph};
        const int left = column * ${sw} - ${pw};
        __global const ${ctype} *plane = x + x_offset + row / out_h * (height * width);
        ${ctype} best = -INFINITY;
        int where = -1;
        for (int i = 0; i < ${kh}; ++i) {
            const int at_y = top + i * ${dh};
            if (at_y >= 0 && at_y < height)
                for (int j = 0; j < ${kw}; ++j) {
                    const int at_x = left + j * ${dw};
                    if (at_x >= 0 && at_x < width) {
                        const ${ctype} value = plane[at_y * width + at_x];
                        if (value > best || isnan(value) || where < 0) {
                            best = value;
                            where = at_y * width + at_x;
                        }
                    }
                }
        }
        y[y_offset + row * out_w + column] = best;
% if with_index:
        index[index_offset + row * out_w + column] = where;
% endif
    }
}
</%def>
<%def name="max_pool_gradient(ctype, real, index_type, by_rows, kh, kw, sh, sw, ph, pw, dh, dw)">
__kernel void max_pool_gradient(
    const int rows, const int out_h, const int out_w, const int height, const int width,
    __global ${ctype} *restrict gx, const long gx_offset,
    __global const ${ctype} *restrict gy, const long gy_offset,
    __global const ${index_type} *restrict index, const long index_offset)
{
    /* At most so many windows cover a pixel; which of them chose it, the index says. */
    ${visit(by_rows, "width")}
        const int at_y = row % height;
        const int plane = row / height * (out_h * out_w);
        const int first_y = (at_y + ${ph}) / ${sh} - ${(dh * (kh - 1)) // sh};
        const int first_x = (column + ${pw}) / ${sw} - ${(dw * (kw - 1)) // sw};
        ${real} sum = 0;
        for (int i = 0; i <= ${(dh * (kh - 1)) // sh}; ++i) {
            const int oy = first_y + i;
            if (oy >= 0 && oy < out_h)
                for (int j = 0; j <= ${(dw * (kw - 1)) // sw}; ++j) {
                    const int ox = first_x + j;
                    if (ox >= 0 && ox < out_w) {
                        const int from = plane + oy * out_w + ox;
                        if (index[index_offset + from] == at_y * width + column)
                            sum += gy[gy_offset + from];
                    }
                }
        }
        gx[gx_offset + row * width + column] = sum;
    }
}
</%def>
<%def name="share(include_pad, divisor, kh, kw, sh, sw, ph, pw)">
            /* The window's part inside the plane, and what its sum is divided by. */
            const int y_first = oy * ${sh} - ${ph};
            const int x_first = ox * ${sw} - ${pw};
            const int top = max(y_first, 0), bottom = min(y_first + ${kh}, height);
            const int left = max(x_first, 0), right = min(x_first + ${kw}, width);
% if divisor:
            const int count = ${divisor};
% elif include_pad:
            const int count = (min(y_first + ${kh}, height + ${ph}) - y_first)
                * (min(x_first + ${kw}, width + ${pw}) - x_first);
% else:
            const int count = (bottom - top) * (right - left);
% endif
</%def>
<%def name="avg_pool(ctype, real, by_rows, include_pad, divisor, kh, kw, sh, sw, ph, pw)">
__kernel void avg_pool(
    const int rows, const int out_h, const int out_w, const int height, const int width,
    __global ${ctype} *restrict y, const long y_offset,
    __global const ${ctype} *restrict x, const long x_offset)
{
    ${visit(by_rows, "out_w")}
            const int oy = row % out_h;
            const int ox = column;
            __global const ${ctype} *plane = x + x_offset + row / out_h * (height * width);
            ${share(include_pad, divisor, kh, kw, sh, sw, ph, pw)}
            ${real} sum = 0;
            for (int at_y = top; at_y < bottom; ++at_y)
                for (int at_x = left; at_x < right; ++at_x)
                    sum += plane[at_y * width + at_x];
            y[y_offset + row * out_w + column] = sum / count;
    }
}
</%def>
<%def name="avg_pool_gradient(ctype, real, by_rows, include_pad, divisor, kh, kw, sh, sw, ph, pw)">
__kernel void avg_pool_gradient(
    const int rows, const int out_h, const int out_w, const int height, const int width,
    __global ${ctype} *restrict gx, const long gx_offset,
    __global const ${ctype} *restrict gy, const long gy_offset)
{
    ${visit(by_rows, "width")}
        const int at_y = row % height;
        __global const ${ctype} *plane = gy + gy_offset + row / height * (out_h * out_w);
        const int last_y = min((at_y + ${ph}) / ${sh}, out_h - 1);
        const int last_x = min((column + ${pw}) / ${sw}, out_w - 1);
        ${real} sum = 0;
        for (int oy = max((at_y + ${ph}) / ${sh} - ${(kh - 1) // sh}, 0); oy <= last_y; ++oy)
            for (int ox = max((column + ${pw}) / ${sw} - ${(kw - 1) // sw}, 0); ox <= last_x; ++ox) {
            ${share(include_pad, divisor, kh, kw, sh, sw, ph, pw)}
                if (at_y >= top && at_y < bottom && column >= left && column < right)
                    sum += plane[oy * out_w + ox] / count;
            }
        gx[gx_offset + row * width + column] = sum;
    }
}
</%def>
<%def name="adaptive_avg_pool(ctype, real, by_rows, h, w, oh, ow)">
__kernel void adaptive_avg_pool(
    const int rows, __global ${ctype} *restrict y, const long y_offset,
    __global const ${ctype} *restrict x, const long x_offset)
{
    ${visit(by_rows, str(ow))}
        const int oy = row % ${oh};
        const int top = oy * ${h} / ${oh}, bottom = (oy * ${h} + ${h + oh - 1}) / ${oh};
        const int left = column * ${w} / ${ow}, right = (column * ${w} + ${w + ow - 1}) / ${ow};
        __global const ${ctype} *plane = x + x_offset + row / ${oh} * ${h * w};
        ${real} sum = 0;
        for (int at_y = top; at_y < bottom; ++at_y)
            for (int at_x = left; at_x < right; ++at_x)
                sum += plane[at_y * ${w} + at_x];
        y[y_offset + row * ${ow} + column] = sum / ((bottom - top) * (right - left));
    }
}
</%def>
<%def name="adaptive_avg_pool_gradient(ctype, real, by_rows, h, w, oh, ow)">
__kernel void adaptive_avg_pool_gradient(
    const int rows, __global ${ctype} *restrict gx, const long gx_offset,
    __global const ${ctype} *restrict gy, const long gy_offset)
{
    ${visit(by_rows, str(w))}
        const int at_y = row % ${h};
        __global const ${ctype} *plane = gy + gy_offset + row / ${h} * ${oh * ow};
        const int last_y = (at_y * ${oh} + ${oh + h - 1}) / ${h};
        const int last_x = (column * ${ow} + ${ow + w - 1}) / ${w};
        ${real} sum = 0;
        for (int oy = at_y * ${oh} / ${h}; oy < last_y; ++oy) {
            const int length_y = (oy * ${h} + ${h + oh - 1}) / ${oh} - oy * ${h} / ${oh};
            for (int ox = column * ${ow} / ${w}; ox < last_x; ++ox) {
                const int length_x = (ox * ${w} + ${w + ow - 1}) / ${ow} - ox * ${w} / ${ow};
                sum += plane[oy * ${ow} + ox] / (length_y * length_x);
            }
        }
        gx[gx_offset + row * ${w} + column] = sum;
    }
}
</%def>
<%def name="plane_mean(ctype, real, vector)">
__kernel void plane_mean(
    const int n, __global ${ctype} *restrict y, const long y_offset,
    __global const ${ctype} *restrict x, const long x_offset)
{
    const int plane = get_global_id(0);
    ${real}${vector} sums = 0;
    int i = 0;
    x += x_offset + plane * n;
    for (; i + ${vector} <= n; i += ${vector})
        sums += vload${vector}(0, x + i);
    ${real} parts[${vector}];
    vstore${vector}(sums, 0, parts);
    for (int lane = 0; i + lane < n; ++lane)
        parts[lane] += x[i + lane];
    for (int half_way = ${vector // 2}; half_way > 0; half_way /= 2)
        for (int lane = 0; lane < half_way; ++lane)
            parts[lane] += parts[lane + half_way];
    y[y_offset + plane] = parts[0] / n;
}
</%def>
<%def name="plane_mean_local(ctype, real, group)">
__kernel void plane_mean_local(
    const int n, __global ${ctype} *restrict y, const long y_offset,
    __global const ${ctype} *restrict x, const long x_offset)
{
    __local ${real} sums[${group}];
    const int item = get_local_id(0);
    ${real} sum = 0;
    x += x_offset + get_group_id(0) * n;
    for (int i = item; i < n; i += ${group})
        sum += x[i];
    sums[item] = sum;
    for (int half_way = ${group // 2}; half_way > 0; half_way /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < half_way)
            sums[item] += sums[item + half_way];
    }
    if (item == 0)
        y[y_offset + get_group_id(0)] = sums[0] / n;
}
</%def>
