## kernel copy_pairs: y = x turned over, of 16-bit elements: two neighbours at once on both sides
##
## A group turns over a square block of 64 through local memory. Its rows there have an odd number
## of words, so that a column's neighbours lie in different banks.
##
## layout x is dense along rows, y along columns; both numbers, all steps and offsets are even
## param  ndim: int         other axes
## arg    rows: int         axis along which x is dense
## arg    columns: int      axis along which y is dense
## arg    y_row: int        step in y from row to row
## arg    x_column: int     step in x from column to column
## % for d in range(ndim):
## arg    size_{d}: int      the shape of the other axes
## % endfor
## % for d in range(ndim):
## arg    y_stride_{d}: int  steps in y along them
## % endfor
## % for d in range(ndim):
## arg    x_stride_{d}: int  steps in x along them
## % endfor
## arg    y: out ushort
## arg    x: in ushort
## launch (columns / 64 * 32, rows / 64 * 8, others), groups of (32, 8, 1)
## numerics bits are kept
<%namespace name="strided" file="/lib/strided.mako"/>
<%def name="copy_pairs(ndim)">
__attribute__((reqd_work_group_size(32, 8, 1)))
__kernel void copy_pairs(...)
{
    __local uint block[64][33];
    const int lane = get_local_id(0), line = get_local_id(1);
    const int first_column = get_group_id(0) * 64, first_row = get_group_id(1) * 64;
    ${strided.locate(ndim, "get_group_id(2)", ("y", "x"))}
    y += y_offset + at_y;
    x += x_offset + at_x;
    uint read[8];
% for i in range(8):
    {
        const int column = first_column + line + ${8 * i}, row = first_row + 2 * lane;
        read[${i}] = column < columns && row < rows
            ? *(__global const uint *)(x + (long)column * x_column + row) : 0;
    }
% endfor
% for i in range(8):
    block[line + ${8 * i}][lane] = read[${i}];
% endfor
    barrier(CLK_LOCAL_MEM_FENCE);
% for i in range(8):
    {
        const int row = line + ${8 * i}, shift = row % 2 * 16;
        const uint pair = (block[2 * lane][row / 2] >> shift & 0xffff)
            | block[2 * lane + 1][row / 2] >> shift << 16;
        if (first_row + row < rows && first_column + 2 * lane < columns)
            *(__global uint *)(y + (long)(first_row + row) * y_row + first_column + 2 * lane)
                = pair;
    }
% endfor
}
</%def>
