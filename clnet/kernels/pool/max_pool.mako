## kernel max_pool: maxima over windows of planes with their positions, and the gradient
##
## param  ctype: str                 type of the elements; of max_pool and max_pool_gradient also
##                                   half or "bfloat16"
## param  real: str                  type they are compared and summed in
## param  index_type: str            int or long, positions within a plane
## param  with_index: bool           positions of the maxima are stored too
## param  by_rows: bool              an item makes a row (CPU) instead of an element (GPU)
## param  kh, kw, sh, sw, ph, pw, dh, dw: int  height and width of the window, steps from window to
##                                  window, padding above and before, steps within a window
## param  lanes: int                 elements of a vector, which fill a line of the caches
## param  room: int                  elements of local memory for a plane, whole vectors of which go
##                                   past the caches to gx; 0: without
## param  unchecked: all|some|none   windows that are taken to lie inside their plane: their
##                                   elements are written out
## def    max_pool
## arg    rows: int      rows of y, all planes together
## arg    out_h, out_w: int
## arg    height: int    of a plane of x
## arg    width: int
## arg    y: out ctype[rows][out_w]
## % if with_index:
## arg    index: out index_type[rows][out_w]
## % endif
## arg    x: in ctype
## def    max_pool_gradient
## arg    rows: int      rows of gx, all planes together
## arg    out_h, out_w, height, width: int
## arg    gx: out ctype[rows][width]
## arg    gy: in ctype
## arg    index: in index_type
## def    max_pool_gradient_planes
## arg    in_size: int   elements of a plane of gx
## arg    out_size: int  elements of a plane of gy
## arg    gx: out ctype
## arg    gy: in ctype
## arg    index: in index_type
##
## launch   max_pool: by_rows one item per row of y, groups of one; else one item per element.
##          max_pool_gradient: one item per element of gx. max_pool_gradient_planes: one item per
##          plane, groups of one
## numerics maxima exact, the first of equal ones, NaN wins; gradients are summed in the windows'
##          order by both kernels: the same bits
<%namespace name="plane" file="/lib/plane.mako"/>
<%namespace name="prelude" file="/lib/prelude.mako"/>
<%namespace name="stored" file="/lib/stored.mako"/>
<%namespace name="vectors" file="/lib/vector.mako"/>
<%def name="max_pool(
    ctype, real, index_type, with_index, by_rows, unchecked, kh, kw, sh, sw, ph, pw, dh, dw)">
__kernel void max_pool(...)
{
    x += x_offset;
    y += y_offset;
% if with_index:
    index += index_offset;
% endif
    ${plane.windows(
        by_rows, unchecked,
        capture(window_inside, ctype, real, with_index, kh, kw, sh, sw, ph, pw, dh, dw),
        capture(window_checked, ctype, real, with_index, kh, kw, sh, sw, ph, pw, dh, dw),
        kh, kw, sh, sw, ph, pw, dh, dw)}
}
</%def>
<%def name="window_inside(ctype, real, with_index, kh, kw, sh, sw, ph, pw, dh, dw)">
        ${corner(ctype, sh, sw, ph, pw)}
        const int corner = top * width + left;
        ${stored.load(ctype, real, "first", "source", "corner")}
        ${real} best = first;
        int where = corner;
% for i in range(kh):
% for j in range(kw):
% if i or j:
        {
            const int at = corner + ${i * dh} * width + ${j * dw};
            ${stored.load(ctype, real, "value", "source", "at")}
            const int better = value > best || value != value;
            best = better ? value : best;
            where = better ? at : where;
        }
% endif
% endfor
% endfor
        ${keep(ctype, with_index)}
</%def>
<%def name="window_checked(ctype, real, with_index, kh, kw, sh, sw, ph, pw, dh, dw)">
        ${corner(ctype, sh, sw, ph, pw)}
        ${real} best = -INFINITY;
        int where = -1;
        for (int i = 0; i < ${kh}; ++i) {
            const int at_y = top + i * ${dh};
            if (at_y >= 0 && at_y < height)
                for (int j = 0; j < ${kw}; ++j) {
                    const int at_x = left + j * ${dw};
                    if (at_x >= 0 && at_x < width) {
                        ${stored.load(
                            ctype, real, "value", "source", "at_y * width + at_x")}
                        if (value > best || value != value || where < 0) {
                            best = value;
                            where = at_y * width + at_x;
                        }
                    }
                }
        }
        ${keep(ctype, with_index)}
</%def>
<%def name="corner(ctype, sh, sw, ph, pw)">
        const int top = row % out_h * ${sh} - ${ph};
        const int left = column * ${sw} - ${pw};
        __global const ${"ushort" if ctype == "bfloat16" else ctype} *source =
            x + row / out_h * (height * width);
</%def>
<%def name="keep(ctype, with_index)">
        ${stored.store(ctype, "y", "row * out_w + column", "best")}
% if with_index:
        index[row * out_w + column] = where;
% endif
</%def>
<%def name="max_pool_gradient(ctype, real, index_type, kh, kw, sh, sw, ph, pw, dh, dw)">
__kernel void max_pool_gradient(...)
{
    /* At most so many windows cover a pixel; which of them chose it, the index says. */
    ${plane.visit(False, "width")}
        const int at_y = row % height;
        const int base = row / height * (out_h * out_w);
        const int first_y = (at_y + ${ph}) / ${sh} - ${(dh * (kh - 1)) // sh};
        const int first_x = (column + ${pw}) / ${sw} - ${(dw * (kw - 1)) // sw};
        ${real} sum = 0;
        for (int i = 0; i <= ${(dh * (kh - 1)) // sh}; ++i) {
            const int oy = first_y + i;
            if (oy >= 0 && oy < out_h)
                for (int j = 0; j <= ${(dw * (kw - 1)) // sw}; ++j) {
                    const int ox = first_x + j;
                    if (ox >= 0 && ox < out_w) {
                        const int from = base + oy * out_w + ox;
                        if (index[index_offset + from] == at_y * width + column) {
                            ${stored.load(ctype, real, "g", "gy", "gy_offset + from")}
                            sum += g;
                        }
                    }
                }
        }
        ${stored.store(ctype, "gx", "gx_offset + row * width + column", "sum")}
    }
}
</%def>
<%def name="max_pool_gradient_planes(ctype, index_type, lanes, room)">
% if room:
${vectors.types(ctype, lanes)}
${prelude.stream(ctype, lanes)}
% endif
__kernel void max_pool_gradient_planes(...)
{
    /* One item owns a plane, so it can add where the index says: no other item writes there. */
    const long from = get_global_id(0) * out_size;
    gx += gx_offset + get_global_id(0) * in_size;
% if room:
    __local ${ctype} sums[${room}] __attribute__((aligned(64)));
% else:
    __global ${ctype} *const sums = gx;
% endif
    for (int i = 0; i < in_size; ++i)
        sums[i] = 0;
    for (long i = from; i < from + out_size; ++i)
        sums[index[index_offset + i]] += gy[gy_offset + i];
% if room:
    for (int i = 0; i < in_size; i += ${lanes})
        stream(*(__local const vector *)(sums + i), (__global ${ctype}${lanes} *)(gx + i));
% endif
}
</%def>
