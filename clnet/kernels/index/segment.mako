## kernel segment: sums over runs of equal keys, after a stable sort
##
## param  ctype: str                 type of the elements
## param  real: str                  type they are summed in
## param  flat: int|long             type of a place, long beyond 2^31 elements
## param  vector: int                elements of a vector
## param  stream: bool               y goes past the caches, rows being whole vectors of a line
## param  lanes: int                 neighbouring columns a group takes
## param  slices: int                parts a run is summed in, a power of 2
## param  piece: int                 positions of a piece
## param  name: str                  of a group along its second axis
## def    segment_starts, segment_marks
## arg    rows: int                           keys below this one have a run
## arg    n: int                              sorted keys
## arg    starts: out int[rows + 1]           the first position of a key that is not smaller
## arg    keys: in int[n]
## def    segment_sum_elements, segment_sum_rows, segment_sum_tree
## arg    outer: int                          batches; all share the keys
## arg    rows, n: int
## arg    inner: int                          elements of a row
## arg    y: out ctype[outer][rows][inner]    y[o, r] = sum of x[o, order[j]] over r's run
## arg    x: in ctype[outer][n][inner]
## arg    starts: in int[rows + 1]
## arg    order: in int[n]
## def    segment_sum_pieces, segment_sum_joined
## arg    outer, rows, n, inner: int
## arg    ids: int                            pieces of runs, and no fewer
## arg    starts: in int[rows + 1]
## def    segment_sum_pieces
## arg    x: in ctype[outer][n][inner]
## arg    order: in int[n]
## arg    parts: out real[outer][ids][inner]  sums of pieces
## def    segment_sum_joined
## arg    parts: in real[outer][ids][inner]
## arg    y: out ctype[outer][rows][inner]
## def    segment_last
## arg    outer, rows, n, inner: int
## arg    y: inout ctype[outer][rows][inner]  y[o, r] = x[o, order[j]], the last j of r's run
## arg    x: in ctype[outer][n][inner]
## arg    starts: in int[rows + 1]
## arg    order: in int[n]
##
## launch   segment_starts, segment_sum_elements, segment_last: an item per element. segment_marks:
##          an item per key, and one more. segment_sum_rows: (rows, outer), groups of one.
##          segment_sum_tree: (inner up to lanes, slices * rows, outer), groups of (lanes, slices,
##          1); segment_sum_pieces likewise for each of ids, segment_sum_joined for each row
## numerics sums in the order of the positions (in groups `slices` interleaved sums, then a fixed
##          tree, of pieces first and then of runs): the same bits every run
##
## Runs are cut where a multiple of `piece` positions is. A row or a cut begins another piece, so
## that run r's part behind cut p is piece p + r: no two have the same number.
<%namespace name="prelude" file="/lib/prelude.mako"/>
<%namespace name="vectors" file="/lib/vector.mako"/>
<%def name="segment_starts()">
__kernel void segment_starts(...)
{
    const int row = get_global_id(0);
    keys += keys_offset;
    if (row <= rows) {
        int low = 0, high = n;
        while (low < high) {
            const int middle = low + (high - low) / 2;
            if (keys[middle] < row)
                low = middle + 1;
            else
                high = middle;
        }
        starts[starts_offset + row] = low;
    }
}
</%def>
<%def name="segment_marks()">
__kernel void segment_marks(...)
{
    /* Rows after the last key's, up to this one's, begin here. */
    const int i = get_global_id(0);
    keys += keys_offset;
    if (i <= n) {
        const int last = i < n && keys[i] < rows ? keys[i] : rows;
        for (int row = i > 0 ? keys[i - 1] + 1 : 0; row <= last; ++row)
            starts[starts_offset + row] = i;
    }
}
</%def>
<%def name="advance()">
    y += y_offset;
    x += x_offset;
    starts += starts_offset;
    order += order_offset;
</%def>
<%def name="segment_sum_elements(ctype, real, flat)">
__kernel void segment_sum_elements(...)
{
    const ${flat} i = get_global_id(0);
    ${advance()}
    if (i < (${flat})outer * rows * inner) {
        const int column = i % inner;
        const int row = i / inner % rows;
        const int batch = i / inner / rows;
        const int end = starts[row + 1];
        ${real} sum = 0;
        x += (${flat})batch * n * inner + column;
        for (int j = starts[row]; j < end; ++j)
            sum += x[(${flat})order[j] * inner];
        y[i] = sum;
    }
}
</%def>
<%def name="segment_sum_rows(ctype, real, flat, vector, stream)">
${vectors.types(ctype, vector)}
% if stream:
${prelude.stream(ctype, vector)}
% endif
__kernel void segment_sum_rows(...)
{
    const int row = get_global_id(0);
    const int batch = get_global_id(1);
    ${advance()}
    const int first = starts[row];
    const int end = starts[row + 1];
    int column = 0;
    x += (${flat})batch * n * inner;
    y += ((${flat})batch * rows + row) * inner;
    for (; column + ${vector} <= inner; column += ${vector}) {
        ${real}${vector} sum = 0;
        for (int j = first; j < end; ++j)
            sum += *(__global const vector *)(
                x + (${flat})order[j] * inner + column);
% if stream:
        stream(sum, (__global ${ctype}${vector} *)(y + column));
% else:
        *(__global vector *)(y + column) = sum;
% endif
    }
    for (; column < inner; ++column) {
        ${real} sum = 0;
        for (int j = first; j < end; ++j)
            sum += x[(${flat})order[j] * inner + column];
        y[column] = sum;
    }
}
</%def>
<%def name="segment_sum_tree(ctype, real, flat, lanes, slices)">
__kernel void segment_sum_tree(...)
{
    ${places(real, lanes, slices, "row")}
    ${advance()}
    const int end = starts[row + 1];
    ${real} sum = 0;
    x += (${flat})batch * n * inner + column;
    if (column < inner)
        for (int j = starts[row] + slice; j < end; j += ${slices})
            sum += x[(${flat})order[j] * inner];
    ${tree(slices)}
    if (slice == 0 && column < inner)
        y[((${flat})batch * rows + row) * inner + column] = sums[0][lane];
}
</%def>
<%def name="segment_sum_pieces(ctype, real, flat, lanes, slices, piece)">
__kernel void segment_sum_pieces(...)
{
    ${places(real, lanes, slices, "id")}
    x += x_offset + (${flat})batch * n * inner + column;
    starts += starts_offset;
    order += order_offset;
    int row = 0;
    for (int above = rows; above - row > 1;) {
        const int middle = row + (above - row) / 2;
        if (starts[middle] / ${piece} + middle <= id)
            row = middle;
        else
            above = middle;
    }
    const int cut = (id - row) * ${piece};
    const int end = min(starts[row + 1], cut + ${piece});
    ${real} sum = 0;
    if (column < inner)
        for (int j = max(starts[row], cut) + slice; j < end; j += ${slices})
            sum += x[(${flat})order[j] * inner];
    ${tree(slices)}
    if (slice == 0 && column < inner)
        parts[parts_offset + ((${flat})batch * ids + id) * inner + column] = sums[0][lane];
}
</%def>
<%def name="segment_sum_joined(ctype, real, flat, lanes, slices, piece)">
__kernel void segment_sum_joined(...)
{
    ${places(real, lanes, slices, "row")}
    starts += starts_offset;
    const int start = starts[row], end = starts[row + 1];
    ${real} sum = 0;
    parts += parts_offset + (${flat})batch * ids * inner + column;
    if (column < inner && start < end)
        for (int cut = start / ${piece} + slice; cut <= (end - 1) / ${piece}; cut += ${slices})
            sum += parts[(${flat})(cut + row) * inner];
    ${tree(slices)}
    if (slice == 0 && column < inner)
        y[y_offset + ((${flat})batch * rows + row) * inner + column] = sums[0][lane];
}
</%def>
##
## What a group of (lanes, slices) sums up, by the name of its second axis.
<%def name="places(real, lanes, slices, name)">
    __local ${real} sums[${slices}][${lanes}];
    const int lane = get_local_id(0);
    const int slice = get_local_id(1);
    const int column = get_global_id(0);
    const int ${name} = get_group_id(1);
    const int batch = get_group_id(2);
</%def>
##
## The sum of all slices' sums, in the first one's place.
<%def name="tree(slices)">
    sums[slice][lane] = sum;
    for (int half_way = ${slices // 2}; half_way > 0; half_way /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (slice < half_way)
            sums[slice][lane] += sums[slice + half_way][lane];
    }
</%def>
<%def name="segment_last(ctype, flat)">
__kernel void segment_last(...)
{
    const ${flat} i = get_global_id(0);
    ${advance()}
    if (i < (${flat})outer * rows * inner) {
        const int column = i % inner;
        const int row = i / inner % rows;
        const int batch = i / inner / rows;
        const int end = starts[row + 1];
        if (starts[row] < end)
            y[i] = x[((${flat})batch * n + order[end - 1]) * inner + column];
    }
}
</%def>
