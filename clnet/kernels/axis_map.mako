## kernel axis_map: a sparse linear map along one axis: padding, interpolation, the taps of windows
##
## math     y[o, i, c] = sum over t of weight[t] * x[o, index[t], c], starts[i] <= t < starts[i + 1]
##
## param    ctype: str        type of the elements in memory
## param    stored: str       the same, or "bfloat16"
## param    real: str         type they are added in
## param    weighted: bool    whether there are weights; without, all are 1
##
## def      axis_map
## arg      count: int        elements of y
## arg      n: int            sizes of the mapped axis of y
## arg      rows: int         and of x
## arg      inner: int        elements from one index of that axis to the next
## arg      y: out ctype
## arg      x: in ctype
## arg      starts: in int[n + 1]
## arg      index: in int
## arg      weight: in real   only when weighted
##
## launch   one item per element of y
## numerics terms are added in the table's order; an output without terms is 0
<%namespace name="memory" file="lib/stored.mako"/>
<%def name="axis_map(ctype, stored, real, weighted)">
#pragma OPENCL FP_CONTRACT OFF
__kernel void axis_map(
    const int count, const int n, const int rows, const int inner,
    __global ${ctype} *restrict y, const long y_offset,
    __global const ${ctype} *restrict x, const long x_offset,
    __global const int *restrict starts, const long starts_offset,
    __global const int *restrict index, const long index_offset
% if weighted:
    , __global const ${real} *restrict weight, const long weight_offset
% endif
) {
    const int at = get_global_id(0);
    if (at < count) {
        const int column = at % inner, row = at / inner % n;
        x += x_offset + (long)(at / inner / n) * rows * inner + column;
        y += y_offset;
        starts += starts_offset;
        index += index_offset;
% if weighted:
        weight += weight_offset;
% endif
        ${real} sum = 0;
        for (int t = starts[row]; t < starts[row + 1]; ++t) {
            const int from = index[t] * inner;
            ${memory.load(stored, real, "value", "x", "from")}
% if weighted:
            sum = fma(weight[t], value, sum);
% else:
            sum += value;
% endif
        }
        ${memory.store(stored, "y", "at", "sum")}
    }
}
</%def>
