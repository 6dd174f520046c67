## kernel join_rows: rows of several arrays beside each other, in one launch
##
## What a concatenation is, whichever axis is joined: rows are what lies before the axis. A group
## works on one array; all arrays begin and end at whole vectors.
##
## math     y[r][start_k + i] = x_k[r][i] for each array k and i below length_k
## layout   rows of x_k and of y are dense; from row to row of x_k are x_row_k vectors
## param    ctype: str        OpenCL type of the elements
## param    width: int        elements of a vector; all counts, starts and steps are of vectors
## param    group: int        work-items of a group
## param    segments: int     arrays
## arg      y: out ctype
## arg      rows, y_row: int  rows of all arrays; vectors from row to row of y
## % for k in range(segments):
## arg      x_{k}: in ctype
## arg      x_row_{k}: int    vectors from row to row
## arg      length_{k}: int   vectors of a row, 1 or more
## arg      start_{k}: int    where they lie in a row of y
## arg      first_{k}: int    its first group; beyond all groups for an array that is none
## % endfor
## launch   groups of all arrays, one item a vector
## numerics bits are kept
<%def name="join_rows(ctype, width, group, segments)">
<% vector = ctype if width == 1 else f"{ctype}{width}" %>
__attribute__((reqd_work_group_size(${group}, 1, 1)))
__kernel void join_rows(...)
{
    const int group = (int)get_group_id(0);
    __global const ${ctype} *x = x_0 + x_0_offset;
    int x_row = x_row_0, length = length_0, start = start_0, first = first_0;
% for k in range(1, segments):
    if (group >= first_${k}) {
        x = x_${k} + x_${k}_offset;
        x_row = x_row_${k};
        length = length_${k};
        start = start_${k};
        first = first_${k};
    }
% endfor
    const int i = (group - first) * ${group} + (int)get_local_id(0);
    const int row = i / length, column = i - row * length;
    if (row < rows)
        ((__global ${vector} *)(y + y_offset))[row * y_row + start + column]
            = ((__global const ${vector} *)x)[row * x_row + column];
}
</%def>
