## kernel avg_pool: means over windows of planes, nearly equal parts and all of them
##
## param  ctype: str                 type of the elements
## param  real: str                  type they are summed in
## param  by_rows: bool              an item makes a row (CPU) instead of an element (GPU)
## param  unchecked: all|some|none   windows that are taken to lie inside their plane: their
##                                   elements are written out
## param  include_pad: bool          padding counts in the mean
## param  divisor: int               what to divide by instead, or 0
## param  kh, kw, sh, sw, ph, pw: int  height and width of the window, steps from window to window,
##                                  padding above and before
## param  h: int                      height of an input plane
## param  w: int                      its width
## param  oh: int                     height of an output plane
## param  ow: int                     its width
## param  vector: int                elements of a vector
## param  group: int                 work-items of a group, a power of 2
## def    avg_pool
## arg    rows: int         rows of y
## arg    out_h, out_w, height, width: int
## arg    y: out ctype[rows][out_w]
## arg    x: in ctype
## def    adaptive_avg_pool
## arg    rows: int         rows of y
## arg    y: out ctype[rows][ow]
## arg    x: in ctype
## def    adaptive_avg_pool_gradient
## arg    rows: int         rows of gx
## arg    gx: out ctype[rows][w]
## arg    gy: in ctype
## def    adaptive_avg_pool_gradient_planes
## arg    gx: out ctype
## arg    gy: in ctype
## def    plane_mean
## arg    planes: int
## arg    planes_each: int  planes of an item
## def    plane_mean, plane_mean_local
## arg    n: int            elements of a plane
## arg    y: out ctype[planes]
## arg    x: in ctype[planes][n]
##
## launch   by_rows: one item per row of y, groups of one; else, and for gradients, one per element.
##          The gradient _planes: one item per plane, groups of one. plane_mean: one for
##          planes_each. plane_mean_local: a group per plane
## numerics sums in the window's order, gradients in the parts' order, means of whole planes by a
##          fixed tree: the same bits every run
<%namespace name="lib" file="/lib/fold.mako"/>
<%namespace name="vectors" file="/lib/vector.mako"/>
<%namespace name="plane" file="/lib/plane.mako"/>
<%namespace name="prelude" file="/lib/prelude.mako"/>
<%def name="avg_pool(
    ctype, real, by_rows, unchecked, include_pad, divisor, kh, kw, sh, sw, ph, pw)">
__kernel void avg_pool(...)
{
    x += x_offset;
    y += y_offset;
    ${plane.windows(
        by_rows, unchecked,
        capture(mean_inside, ctype, real, divisor, kh, kw, sh, sw, ph, pw),
        capture(mean_checked, ctype, real, include_pad, divisor, kh, kw, sh, sw, ph, pw),
        kh, kw, sh, sw, ph, pw)}
}
</%def>
<%def name="mean_inside(ctype, real, divisor, kh, kw, sh, sw, ph, pw)">
        __global const ${ctype} *source = x + row / out_h * (height * width)
            + (row % out_h * ${sh} - ${ph}) * width + column * ${sw} - ${pw};
        ${real} sum = 0;
% for i in range(kh):
% for j in range(kw):
        sum += source[${i} * width + ${j}];
% endfor
% endfor
        y[row * out_w + column] = sum / ${divisor or kh * kw};
</%def>
<%def name="mean_checked(ctype, real, include_pad, divisor, kh, kw, sh, sw, ph, pw)">
            const int oy = row % out_h;
            const int ox = column;
            __global const ${ctype} *source = x + row / out_h * (height * width);
            ${plane.share(include_pad, divisor, kh, kw, sh, sw, ph, pw)}
            ${real} sum = 0;
            for (int at_y = top; at_y < bottom; ++at_y)
                for (int at_x = left; at_x < right; ++at_x)
                    sum += source[at_y * width + at_x];
            y[row * out_w + column] = sum / count;
</%def>
<%def name="adaptive_avg_pool(ctype, real, by_rows, h, w, oh, ow)">
__kernel void adaptive_avg_pool(...)
{
    ${plane.visit(by_rows, str(ow))}
        const int oy = row % ${oh};
        const int top = oy * ${h} / ${oh}, bottom = (oy * ${h} + ${h + oh - 1}) / ${oh};
        const int left = column * ${w} / ${ow}, right = (column * ${w} + ${w + ow - 1}) / ${ow};
        __global const ${ctype} *source = x + x_offset + row / ${oh} * ${h * w};
        ${real} sum = 0;
        for (int at_y = top; at_y < bottom; ++at_y)
            for (int at_x = left; at_x < right; ++at_x)
                sum += source[at_y * ${w} + at_x];
        y[y_offset + row * ${ow} + column] = sum / ((bottom - top) * (right - left));
    }
}
</%def>
<%def name="adaptive_avg_pool_gradient(ctype, real, h, w, oh, ow)">
__kernel void adaptive_avg_pool_gradient(...)
{
    ${plane.visit(False, str(w))}
        const int at_y = row % ${h};
        __global const ${ctype} *source = gy + gy_offset + row / ${h} * ${oh * ow};
        const int last_y = (at_y * ${oh} + ${oh + h - 1}) / ${h};
        const int last_x = (column * ${ow} + ${ow + w - 1}) / ${w};
        ${real} sum = 0;
        for (int oy = at_y * ${oh} / ${h}; oy < last_y; ++oy) {
            const int length_y = (oy * ${h} + ${h + oh - 1}) / ${oh} - oy * ${h} / ${oh};
            for (int ox = column * ${ow} / ${w}; ox < last_x; ++ox) {
                const int length_x = (ox * ${w} + ${w + ow - 1}) / ${ow} - ox * ${w} / ${ow};
                sum += source[oy * ${ow} + ox] / (length_y * length_x);
            }
        }
        gx[gx_offset + row * ${w} + column] = sum;
    }
}
</%def>
<%def name="adaptive_avg_pool_gradient_planes(ctype, h, w, oh, ow)">
__kernel void adaptive_avg_pool_gradient_planes(...)
{
    gx += gx_offset + get_global_id(0) * ${h * w};
    gy += gy_offset + get_global_id(0) * ${oh * ow};
    for (int i = 0; i < ${h * w}; ++i)
        gx[i] = 0;
    for (int oy = 0; oy < ${oh}; ++oy) {
        const int top = oy * ${h} / ${oh}, bottom = (oy * ${h} + ${h + oh - 1}) / ${oh};
        for (int ox = 0; ox < ${ow}; ++ox) {
            const int left = ox * ${w} / ${ow}, right = (ox * ${w} + ${w + ow - 1}) / ${ow};
            const ${ctype} part = gy[oy * ${ow} + ox] / ((bottom - top) * (right - left));
            for (int at_y = top; at_y < bottom; ++at_y)
                for (int at_x = left; at_x < right; ++at_x)
                    gx[at_y * ${w} + at_x] += part;
        }
    }
}
</%def>
<%def name="plane_mean(ctype, real, vector)">
${vectors.types(ctype, vector)}
${lib.fold("sum", real, vector)}
${prelude.fetch_ahead()}
__kernel void plane_mean(...)
{
    const int first = get_global_id(0) * planes_each, last = min(first + planes_each, planes);
    for (int plane = first; plane < last; ++plane) {
        __global const ${ctype} *from = x + x_offset + plane * n;
        ${real}${vector} sums = 0;
        int i = 0;
        for (; i + ${vector} <= n; i += ${vector}) {
            FETCH_AHEAD(from + i + 2048);
            sums += *(__global const vector *)(from + i);
        }
        if (i < n) {
            ${real} parts[${vector}] = {0};
            for (int lane = 0; i + lane < n; ++lane)
                parts[lane] = from[i + lane];
            sums += *(const vector *)parts;
        }
        y[y_offset + plane] = sum_fold(sums) / n;
    }
}
</%def>
<%def name="plane_mean_local(ctype, real, group)">
__kernel void plane_mean_local(...)
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
