## kernel copy: y = x between any strides and dtypes; constants and ranges
##
## param  ctype: str                 type of y's elements
## param  source: str                type of x's elements
## param  to_bool: bool              y holds truth values: 1 where x is not 0
## param  ndim: int                  axes given by sizes and strides
## param  tile: int                  edge of the square block that is turned over at once
## param  stream: bool               y goes past the caches; blocks lie at whole lines
## param  group_rows: int            work-items along a block's edge on a GPU
## param  real: str                  float or double, arithmetic of a floating range; long of others
## param  value: str                 C expression
## param  width: int                 elements of a vector that an item moves, one of its own type;
##                                   counts and steps are of vectors, of a fill y is dense then
## def    copy_elements, fill, arange
## arg    n: int         elements
## def    fill_rows
## arg    n: int         elements of a row
## arg    share: int     of these, how many an item fills
## def    copy_squares
## arg    share: int     rows of an item, a multiple of tile
## def    copy_squares, copy_transposed, copy_transposed_local
## arg    rows: int      axis along which x is dense
## arg    columns: int   axis along which y is dense
## arg    y_row: int     step in y from row to row
## arg    x_column: int  step in x from column to column
## def    copy_elements, copy_squares, copy_transposed, copy_transposed_local, fill, fill_rows
## % for d in range(ndim):
## arg    size_{d}: int      the shape of the other axes
## % endfor
## % for d in range(ndim):
## arg    y_stride_{d}: int  steps in y from row to row
## % endfor
## def    copy_elements, copy_squares, copy_transposed, copy_transposed_local
## % for d in range(ndim):
## arg    x_stride_{d}: int  steps in x from row to row
## % endfor
## def    copy_elements, copy_squares, copy_transposed, copy_transposed_local, fill, fill_rows
## arg    y: out ctype
## def    copy_elements, copy_transposed, copy_transposed_local
## arg    x: in source
## def    copy_squares
## arg    x: in ctype
## def    fill, fill_rows
## arg    value: ctype
## def    arange
## arg    y: out ctype[n]
## arg    start, step: real
##
## launch   copy_elements, fill, arange: one item per element.
##          fill_rows: (n / share, rows), groups of one
##          copy_transposed: (columns / tile, rows / tile, others), groups of one.
##          copy_transposed_local: (tile, group_rows) items for each block.
##          copy_squares: (columns / tile, rows / share, others), groups of one; at least a block
##          of rows and columns, the last of which overlaps the one before
## numerics C's conversions: towards zero from floating to integer
<%namespace name="strided" file="/lib/strided.mako"/>
<%namespace name="vectors" file="/lib/vector.mako"/>
<%namespace name="prelude" file="/lib/prelude.mako"/>
<%def name="converted(ctype, to_bool, value)">${(
    f"({value} != 0)" if to_bool else f"({ctype})({value})")}</%def>
<%def name="copy_elements(ctype, source, to_bool, ndim, width)">
__kernel void copy_elements(...)
{
    const int i = get_global_id(0);
    y += y_offset;
    x += x_offset;
    if (i < n) {
        ${strided.locate(ndim, "i", ("y", "x"))}
% if width > 1:
        ((__global ${ctype}${width} *)y)[at_y] = ((__global const ${source}${width} *)x)[at_x];
% else:
        y[at_y] = ${converted(ctype, to_bool, "x[at_x]")};
% endif
    }
}
</%def>
<%def name="copy_transposed(ctype, source, to_bool, ndim, tile)">
__kernel void copy_transposed(...)
{
    const int first_column = get_global_id(0) * ${tile};
    const int first_row = get_global_id(1) * ${tile};
    const int block_columns = min(${tile}, columns - first_column);
    const int block_rows = min(${tile}, rows - first_row);
    ${strided.locate(ndim, "get_global_id(2)", ("y", "x"))}
    y += y_offset + at_y + first_row * y_row + first_column;
    x += x_offset + at_x + first_column * x_column + first_row;
    ${source} block[${tile}][${tile}];
    if (block_rows == ${tile}) {
        for (int c = 0; c < block_columns; ++c)
            for (int r = 0; r < ${tile}; ++r)
                block[c][r] = x[c * x_column + r];
    } else {
        for (int c = 0; c < block_columns; ++c)
            for (int r = 0; r < block_rows; ++r)
                block[c][r] = x[c * x_column + r];
    }
    if (block_columns == ${tile}) {
        for (int r = 0; r < block_rows; ++r)
            for (int c = 0; c < ${tile}; ++c)
                y[r * y_row + c] = ${converted(ctype, to_bool, "block[c][r]")};
    } else {
        for (int r = 0; r < block_rows; ++r)
            for (int c = 0; c < block_columns; ++c)
                y[r * y_row + c] = ${converted(ctype, to_bool, "block[c][r]")};
    }
}
</%def>
<%def name="copy_squares(ctype, ndim, tile, stream)">
${vectors.types(ctype, tile)}
${vectors.zip(ctype, tile)}
% if stream:
${prelude.stream(ctype, tile)}
% endif
__kernel void copy_squares(...)
{
    const int column = min((int)get_global_id(0) * ${tile}, columns - ${tile});
    const int from = get_global_id(1) * share, end = min(rows, from + share);
    ${strided.locate(ndim, "get_global_id(2)", ("y", "x"))}
    y += y_offset + at_y + column;
    x += x_offset + at_x + (long)column * x_column;
    for (int at = from; at < end; at += ${tile}) {
        const int row = min(at, rows - ${tile});
        ${vectors.turn(ctype, tile, "x + row + {0} * (long)x_column",
            "y + (row + {0}) * (long)y_row", "stream" if stream else "")}
    }
}
</%def>
<%def name="copy_transposed_local(ctype, source, to_bool, ndim, tile, group_rows)">
__kernel void copy_transposed_local(...)
{
    /* One element more in a row keeps a column out of a single bank of local memory. */
    __local ${source} block[${tile}][${tile + 1}];
    const int lane = get_local_id(0);
    const int first_column = get_group_id(0) * ${tile};
    const int first_row = get_group_id(1) * ${tile};
    ${strided.locate(ndim, "get_group_id(2)", ("y", "x"))}
    y += y_offset + at_y;
    x += x_offset + at_x;
    for (int c = get_local_id(1); c < ${tile}; c += ${group_rows})
        if (first_column + c < columns && first_row + lane < rows)
            block[c][lane] = x[(first_column + c) * x_column + first_row + lane];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int r = get_local_id(1); r < ${tile}; r += ${group_rows})
        if (first_row + r < rows && first_column + lane < columns)
            y[(first_row + r) * y_row + first_column + lane] =
                ${converted(ctype, to_bool, "block[lane][r]")};
}
</%def>
<%def name="fill(ctype, ndim, width)">
__kernel void fill(...)
{
    const int i = get_global_id(0);
    y += y_offset;
    if (i < n) {
% if width > 1:
        ((__global ${ctype}${width} *)y)[i] = value;
% else:
        ${strided.locate(ndim, "i", ("y",))}
        y[at_y] = value;
% endif
    }
}
</%def>
## Without a guard for each element, which would make each store one under a mask.
<%def name="fill_rows(ctype, ndim)">
__kernel void fill_rows(...)
{
    ${strided.locate(ndim, "(int)get_global_id(1)", ("y",))}
    const int first = get_global_id(0) * share;
    const int count = n - first < share ? n - first : share;
    y += y_offset + at_y + first;
    for (int i = 0; i < count; ++i)
        y[i] = value;
}
</%def>
<%def name="arange(ctype, real)">
__kernel void arange(...)
{
    const int i = get_global_id(0);
    if (i < n)
        y[y_offset + i] =
            (${ctype})${"(start + i * step)" if real == "long" else f"fma(({real})i, step, start)"};
}
</%def>
