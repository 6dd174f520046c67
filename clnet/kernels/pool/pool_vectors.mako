## kernel pool_vectors: maxima over windows of planes with their positions, and means, in vectors
##
## `lanes` neighbouring windows are a vector. Where they step by two, the even elements of 2 * lanes
## - 1 are what one tap of them reads. Of a row at least `lanes` windows lie between its ends: the
## last vector overlaps the one before it. What reaches over an end is made one by one.
##
## param  with_index: bool          positions of the maxima are stored too
## param  include_pad: bool         padding counts in the mean
## param  divisor: int              what to divide by instead, or 0
## param  lanes: int                windows of a vector, a power of two
## param  kh, kw, sh: int           height and width of the window, steps from window to window
## param  sw: 1|2                   horizontal step
## param  ph: int                   rows of padding above the plane
## param  pw: int                   columns of padding before it
## param  dh: int                   vertical step within a window
## param  dw: int                   horizontal step
## param  at_begin: bool|str        the first window may begin before the row; C that makes `lanes`
##                                  such
## param  between: str              C that makes `lanes` windows from `column` on
## param  one: str                  C that makes the window at `column`, of taps [begin, end)
## param  mask: str                 a variable: a vector of 0 and -1
## param  j: int                    column of a tap
## param  none: str                 C expression: what a tap outside the row is taken for
## def    max_pool_vectors
## arg    rows: int    of y, all planes together
## arg    some: int    rows that an item makes
## arg    out_h, out_w: int
## arg    height: int  of a plane of x
## arg    width: int
## arg    y: out float[rows][out_w]
## % if with_index:
## arg    index: out int[rows][out_w]
## % endif
## arg    x: in float
## def    avg_pool_vectors
## arg    rows, some, out_h, out_w, height, width: int
## arg    y: out float[rows][out_w]
## arg    x: in float
##
## launch   one item for `some` rows of y, groups of one
## numerics maxima exact, the first of equal ones, NaN wins; sums in the window's order
<%namespace name="vectors" file="/lib/vector.mako"/>
<%namespace name="prelude" file="/lib/prelude.mako"/>
<%def name="max_pool_vectors(with_index, lanes, kh, kw, sh, sw, ph, pw, dh, dw)">
${vectors.types("float", lanes)}
${vectors.second("float", lanes)}
${prelude.fetch_ahead()}
typedef int${lanes} __attribute__((aligned(4))) whole;
__kernel void max_pool_vectors(...)
{
    const int${lanes} steps = (int${lanes})(${", ".join(str(i * sw) for i in range(lanes))});
% if with_index:
    index += index_offset;
% endif
    ${begin(sh, ph)}
    for (int row = begins; row < ends; row++) {
        ${taps(kh, pw, dh)}
        int${lanes} strange = 0;
        ${vectors_of_row(
            capture(largest, True, with_index, lanes, kw, sw, pw, dw),
            capture(largest, False, with_index, lanes, kw, sw, pw, dw),
            lanes, kw, sh, sw, pw, dw)}
        ${any_lane("strange", lanes)}
        if (any) { left = out_w; right = out_w; }
        ${others_of_row(capture(largest_alone, with_index, sw, pw, dw), sw, pw, dw, kw)}
        ${move_on(sh, ph)}
    }
}
</%def>
<%def name="avg_pool_vectors(include_pad, divisor, lanes, kh, kw, sh, sw, ph, pw)">
${vectors.types("float", lanes)}
${vectors.second("float", lanes)}
${prelude.fetch_ahead()}
__kernel void avg_pool_vectors(...)
{
    ${begin(sh, ph)}
    for (int row = begins; row < ends; row++) {
        ${taps(kh, pw, 1)}
        ${vectors_of_row(
            capture(mean, True, include_pad, divisor, lanes, kh, kw, sw, pw, ph),
            capture(mean, False, include_pad, divisor, lanes, kh, kw, sw, pw, ph),
            lanes, kw, sh, sw, pw, 1)}
        ${others_of_row(capture(mean_alone, include_pad, divisor, kh, kw, sw, pw, ph), sw, pw, 1,
            kw)}
        ${move_on(sh, ph)}
    }
}
</%def>
##
## The item's rows, and where in their plane of x the windows of the first one begin.
<%def name="begin(sh, ph)">
    const int begins = get_global_id(0) * some, ends = begins + some < rows ? begins + some : rows;
    int plane = begins / out_h, top = (begins - plane * out_h) * ${sh} - ${ph};
    x += x_offset;
    y += y_offset;
</%def>
<%def name="move_on(sh, ph)">
        top += ${sh};
        if (top == out_h * ${sh} - ${ph}) {
            top = ${-ph};
            plane++;
        }
</%def>
##
## The windows' rows of taps [first, last) lie in the plane.
<%def name="taps(kh, pw, dh)">
        const int row_step = ${dh} * width;
        const int first = top < 0 ? (${dh - 1} - top) / ${dh} : 0;
        const int below = (height - 1 - top) / ${dh} + 1, last = below < ${kh} ? below : ${kh};
        __global const float *const source = x + plane * (height * width) + top * width - ${pw};
        __global float *const to = y + row * out_w;
</%def>
##
## Windows [left, right) of a row. The first of them may begin before the row, where they find an
## element of the row before, if there is one, and leave it out.
<%def name="vectors_of_row(at_begin, between, lanes, kw, sh, sw, pw, dw)">
        const int inside = (width - ${(kw - 1) * dw + 1 - pw}) / ${sw} + 1;
        int right = inside < out_w ? inside : out_w;
        int left = ${-(-pw // sw)}, at = left;
% if pw:
        if (plane > 0 || top > 0) {
            const int column = 0;
            ${at_begin}
            left = 0;
            at = ${lanes};
        }
% endif
        for (; at < right; at += ${lanes}) {
            const int column = at < right - ${lanes} ? at : right - ${lanes};
% for line in range(lanes * sw * sh // 16):
            FETCH_AHEAD(source + at * ${sw * sh} + ${2048 + 16 * line});
% endfor
            ${between}
        }
</%def>
##
## All other windows of the row, of taps [begin, end).
<%def name="others_of_row(one, sw, pw, dw, kw)">
        for (int i = 0; i < out_w - right + left; i++) {
            const int column = i < left ? i : i - left + right;
            const int before = ${pw} - column * ${sw}, after = (width - 1 + before) / ${dw} + 1;
            const int begin = before > 0 ? (before + ${dw - 1}) / ${dw} : 0;
            const int end = after < ${kw} ? after : ${kw};
            ${one}
        }
</%def>
<%def name="any_lane(mask, lanes)">
<% half, name = lanes // 2, mask %>
% while half > 1:
        const int${half} ${mask}_${half} = ${name}.lo | ${name}.hi;
<% name, half = f"{mask}_{half}", half // 2 %>
% endwhile
        const int any = ${name}.x | ${name}.y;
</%def>
##
## What a tap of `lanes` windows reads: no element beyond the last one's. `none`: what those that
## begin before the row get.
<%def name="tap(j, at_begin, none, lanes, sw, pw, dw)">
% if sw == 1:
                float${lanes} value = *(__global const vector *)(from + ${j * dw});
% else:
                float${lanes} value = second(*(__global const vector *)(from + ${j * dw}),
                    *(__global const vector *)(from + ${j * dw + lanes - 1}));
% endif
% if at_begin and j * dw < pw:
                value = (int${lanes})(${", ".join(str(-(i * sw + j * dw < pw))
                    for i in range(lanes))}) ? (float${lanes})(${none}) : value;
% endif
</%def>
##
## NaN is above all: the sum of a window's elements is NaN if one of them is, or there are
## infinities of both signs. Then the row is made again, one by one.
<%def name="largest(at_begin, with_index, lanes, kw, sw, pw, dw)">
            float${lanes} best = -INFINITY, sum = 0;
% if at_begin:
            int${lanes} where = (int${lanes})(${", ".join(str(max(-((i * sw - pw) // dw), 0) * dw)
                for i in range(lanes))}) + first * row_step;
% else:
            int${lanes} where = first * row_step;
% endif
            for (int i = first; i < last; i++) {
                __global const float *from = source + column * ${sw} + i * row_step;
% for j in range(kw):
                {
                ${tap(j, at_begin, "-INFINITY", lanes, sw, pw, dw)}
                const int${lanes} better = value > best;
                best = better ? value : best;
                where = better ? (int${lanes})(i * row_step + ${j * dw}) : where;
                sum += value;
                }
% endfor
            }
            strange |= sum != sum;
            *(__global vector *)(to + column) = best;
% if with_index:
            *(__global whole *)(index + row * out_w + column) =
                where + steps + (top * width + column * ${sw} - ${pw});
% endif
</%def>
<%def name="largest_alone(with_index, sw, pw, dw)">
            float best = -INFINITY;
            int where = first * row_step + begin * ${dw};
            for (int i = first; i < last; i++)
                for (int j = begin; j < end; j++) {
                    const float value = source[column * ${sw} + i * row_step + j * ${dw}];
                    const int better = (value > best) | (value != value);
                    best = better ? value : best;
                    where = better ? i * row_step + j * ${dw} : where;
                }
            to[column] = best;
% if with_index:
            index[row * out_w + column] = top * width + column * ${sw} - ${pw} + where;
% endif
</%def>
<%def name="mean(at_begin, include_pad, divisor, lanes, kh, kw, sw, pw, ph)">
            float${lanes} sum = 0;
            for (int i = first; i < last; i++) {
                __global const float *from = source + column * ${sw} + i * row_step;
% for j in range(kw):
                {
                ${tap(j, at_begin, "0", lanes, sw, pw, 1)}
                sum += value;
                }
% endfor
            }
% if divisor:
            *(__global vector *)(to + column) = sum / ${divisor};
% elif at_begin and not include_pad:
            *(__global vector *)(to + column) =
                sum / ((float${lanes})(${", ".join(str(min(kw, kw - pw + i * sw))
                for i in range(lanes))}) * ${down(include_pad, kh, ph).strip()});
% else:
            *(__global vector *)(to + column) =
                sum / (${kw} * ${down(include_pad, kh, ph).strip()});
% endif
</%def>
<%def name="mean_alone(include_pad, divisor, kh, kw, sw, pw, ph)">
            float sum = 0;
            for (int i = first; i < last; i++)
                for (int j = begin; j < end; j++)
                    sum += source[column * ${sw} + i * row_step + j];
% if divisor:
            to[column] = sum / ${divisor};
% elif include_pad:
            const int beyond = width + ${pw} + before;
            to[column] = sum / (${down(include_pad, kh, ph).strip()} * (beyond < ${kw} ? beyond
                : ${kw}));
% else:
            to[column] = sum / (${down(include_pad, kh, ph).strip()} * (end - begin));
% endif
</%def>
##
## Rows that a window counts.
<%def name="down(include_pad, kh, ph)">
% if include_pad:
(height + ${ph} - top < ${kh} ? height + ${ph} - top : ${kh})
% else:
(last - first)
% endif
</%def>
