## kernel axis_map: a sparse linear map along one axis: padding, interpolation, the taps of windows
##
## math     y[o, i, c] = sum over t of weight[t] * x[o, index[t], c], starts[i] <= t < starts[i + 1]
##
## param    ctype: str        type of the elements in memory
## param    stored: str       the same, or "bfloat16"
## param    real: str         type they are added in
## param    weighted: bool    whether there are weights; without, all are 1
## param    terms: int        how many every output has; 0: different numbers
## param    row: str          C expression, index of the mapped axis of y
## param    place: str        C expression, where x is read for term t
##
## def      axis_map
## arg      count: int  elements of y
## def      axis_map_rows
## arg      count: int  runs of y: of `inner` elements, or of n where inner is 1
## def axis_map, axis_map_rows
## arg      n: int      sizes of the mapped axis of y
## arg      rows: int   and of x
## arg      inner: int  elements from one index of that axis to the next
## arg      y: out ctype
## arg      x: in ctype
## arg      starts: in int[n + 1]
## arg      index: in int
## % if weighted:
## arg      weight: in real
## % endif
##
## launch   axis_map: one item per element of y. axis_map_rows: one per run, groups of one
## numerics terms are added in the table's order; an output without terms is 0
<%namespace name="memory" file="/lib/stored.mako"/>
<%namespace name="vectors_of" file="/lib/vector.mako"/>
<%def name="axis_map(ctype, stored, real, weighted)">
#pragma OPENCL FP_CONTRACT OFF
__kernel void axis_map(...) {
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
            const long from = (long)index[t] * inner;
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
<%def name="axis_map_rows(ctype, stored, real, weighted, terms)">
% if not terms and ctype == real:
${vectors_of.types(ctype, 16)}
% endif
#pragma OPENCL FP_CONTRACT ON
__kernel void axis_map_rows(...) {
    const int run = get_global_id(0);
    x += x_offset;
    y += y_offset + (long)run * (inner == 1 ? n : inner);
    starts += starts_offset;
    index += index_offset;
% if weighted:
    weight += weight_offset;
% endif
    if (inner == 1) {
        x += (long)run * rows;
        for (int at = 0; at < n; ++at) {
            ${real} sum = 0;
            ${total(stored, real, weighted, terms, "at", "index[t]")}
            ${memory.store(stored, "y", "at", "sum")}
        }
    } else {
        const int row = run % n;
        x += (long)(run / n) * rows * inner;
        int at = 0;
% if not terms and ctype == real:
        /* a loop around one of unknown length is not made wide */
        const int end = starts[row + 1];
        for (; at + 16 <= inner; at += 16) {
            ${real}16 sum = 0;
            for (int t = starts[row]; t < end; ++t)
                sum += *(__global const vector *)(x + (long)index[t] * inner + at)${
                    " * weight[t]" if weighted else ""};
            *(__global vector *)(y + at) = sum;
        }
% endif
        for (; at < inner; ++at) {
            ${real} sum = 0;
            ${total(stored, real, weighted, terms, "row", "(long)index[t] * inner + at")}
            ${memory.store(stored, "y", "at", "sum")}
        }
    }
}
</%def>
<%def name="total(stored, real, weighted, terms, row, place)">
% if terms:
            #pragma unroll
            for (int k = 0; k < ${terms}; ++k) {
                const int t = ${row} * ${terms} + k;
% else:
            for (int t = starts[${row}]; t < starts[${row} + 1]; ++t) {
% endif
                const long from = ${place};
                ${memory.load(stored, real, "value", "x", "from")}
                sum += value${" * weight[t]" if weighted else ""};
            }
</%def>
