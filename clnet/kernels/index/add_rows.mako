## kernel add_rows: y[o, r] = sum of x[o, i] over the i with index[i] == r, the last of them, or
##                  what they make of what is there
##
## layout   blocks of eight rows of y go to items in turns; an item looks at every index, and adds
##          what points to its own rows, so that nobody else writes there
## param  how: add|put|times|most|least
##                                   rows are added up, all others 0; or, as in gather.mako, they
##                                   meet what is there
## param  ctype: str                 type of the elements
## param  index_type: str            int or long
## param  vector: int                elements of a vector; 1 of complex numbers
## param  beside: int                batches that an item takes at once; more than 1 of rows of one
##                                   element, of which there is one item
## param  wrap: bool                 indices in [-limit, 0) count from the end
## param  check: bool                an index out of range is reported
## arg    outer: int                 batches
## arg    n: int                     indices
## arg    inner: int                 elements of a row
## arg    limit: int                 rows of y
## arg    skip: int                  a row treated as out of range, -1 for none
## arg    y: inout ctype[outer][limit][inner]
## arg    x: in ctype[outer][n][inner]
## arg    index: in index_type[n]
## % if check:
## arg    fault: inout int           where to report
## arg    site: int                  its number
## % endif
##
## launch   (a power of 2, outer / beside), groups of one
## numerics sums in the order of the positions: the bits of segment_sum_rows
<%namespace name="gather" file="gather.mako"/>
<%namespace name="faults" file="/lib/fault.mako"/>
<%namespace name="vectors" file="/lib/vector.mako"/>
<%def name="add_rows(how, ctype, index_type, vector, beside, wrap, check)">
% if vector > 1:
${vectors.types(ctype, vector)}
% endif
${faults.define(check)}
__kernel void add_rows(...)
{
    const int item = get_global_id(0), items = get_global_size(0);
    const int batch = get_global_id(1) * ${beside};
    y += y_offset + (long)batch * limit * inner;
    x += x_offset + (long)batch * n * inner;
    index += index_offset;
% if beside > 1:
    const int count = min(outer - batch, ${beside});
% if how == "add":
    for (long j = 0; j < (long)limit * count; ++j)
        y[j] = 0;
% endif
    for (int i = 0; i < n; ++i) {
        ${index_type} at = index[i];
        ${gather.checked(index_type, wrap)}
        ${faults.index(check, wrap, "i", "batch == 0")}
        if (!inside || at == skip)
            continue;
        if (count == ${beside}) {
% for k in range(beside):
            ${gather.join(ctype, how, f"y[{k}l * limit + at]", f"x[{k}l * n + i]")}
% endfor
        } else {
            for (long k = 0; k < count; ++k)
                ${gather.join(ctype, how, "y[k * limit + at]", "x[k * n + i]")}
        }
    }
% else:
% if how == "add":
    for (int row = item * 8; row < limit; row += items * 8) {
        const int end = row + 8 < limit ? row + 8 : limit;
        for (int j = row * inner; j < end * inner; ++j)
            y[j] = 0;
    }
% endif
    for (int i = 0; i < n; ++i) {
        ${index_type} at = index[i];
        ${gather.checked(index_type, wrap)}
        ${faults.index(check, wrap, "i", "item == 0 && batch == 0")}
        if (!inside || at == skip || ((int)at >> 3 & items - 1) != item)
            continue;
        __global ${ctype} *to = y + (long)at * inner;
        __global const ${ctype} *from = x + (long)i * inner;
        int column = 0;
% if vector > 1:
        for (; column + ${vector} <= inner; column += ${vector})
            ${gather.join("vector", how, "*(__global vector *)(to + column)",
                          "*(__global const vector *)(from + column)")}
% endif
        for (; column < inner; ++column)
            ${gather.join(ctype, how, "to[column]", "from[column]")}
    }
% endif
}
</%def>
