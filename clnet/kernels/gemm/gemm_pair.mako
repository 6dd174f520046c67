## kernel gemm_pair: elements of 16 bits that follow one another along k, two in 32 bits
##
##      y[item][row][column] = x[0] | x[x_k] << 16
##
## A row of y is a row of x, its columns pairs along k (along); or its rows are pairs, of two rows
## of x, its columns x's. Where k is odd, the last element's pair is 0.
##
## layout   x: any strides along, fast where x_k is 1; else x_n is 1
## param    along: bool          pairs lie along a row
## param    dense: bool          x_k is 1 (along), or x_n
## arg      rows: int                    of y
## arg      n: int                       columns of y
## arg      k: int                       elements of x along the axis of pairs
## arg      y: out uint                  dense, y[item][row][column]
## arg      x: in ushort
## arg      x_row, x_n, x_k: long        from row to row of y, from column to column, along k
## arg      inner: int                   item z lies at z / inner * x_outer + z % inner * x_inner
## arg      x_outer, x_inner: long
## launch   global (rows, items), local (1, 1)
## numerics copies
<%def name="gemm_pair(along, dense)">
__kernel void gemm_pair(...)
{
    const int row = get_global_id(0), item = get_global_id(1);
    if (row >= rows)
        return;
    y += y_offset + ((long)item * rows + row) * n;
    x += x_offset + item / inner * x_outer + item % inner * x_inner + row * x_row;
% if along:
    const int whole = k / 2;
% if dense:
    for (int c = 0; c < whole; c++)
        y[c] = (uint)x[2 * c] | (uint)x[2 * c + 1] << 16;
% else:
    for (int c = 0; c < whole; c++)
        y[c] = (uint)x[c * x_n] | (uint)x[c * x_n + x_k] << 16;
% endif
    if (k % 2)
        y[whole] = x[whole * x_n];
% else:
    /* Behind the last row the first of the two is read again, and all its bits are left out. */
    const int both = 2 * row + 1 < k;
    const uint mask = both ? 0xffff0000u : 0;
    __global const ushort *next = x + (both ? x_k : 0);
    for (int c = 0; c < n; c++)
        y[c] = (uint)x[c] | ((uint)next[c] << 16 & mask);
% endif
}
</%def>
