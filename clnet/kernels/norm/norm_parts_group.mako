## kernel norm_parts_group: the two sums of parts of channels, by groups of work-items
##
## For parts that the items of a group cannot keep in registers, and channels side by side.
##
## math     as in norm.mako
## layout   x and gy dense (n, channels, inner); columns: inner is 1
## param    columns: bool                inner is 1: neighbouring items have neighbouring channels
## param    grad: bool                   the sums of the gradient instead of the statistics
## param    ctype: str                   element type in memory, of C or "bfloat16"
## param    acc: str                     element type in registers, and of statistics
## param    group: int                   work-items of a group, a power of two
## param    reduce_items: int            of these, how many share one channel, a power of two
## param    kept_items: int              channels of a group
## param    value: str                   an expression of v (and g) that is summed
## arg      channels, inner: int
## arg      total: int                         elements of a channel
## arg      part_size, parts: int
## arg      first: out acc[channels, parts]    mean, or sum gy
## arg      second: out acc[channels, parts]   squares, or sum gy (x - mean)
## arg      x: in ctype
## % if grad:
## arg      gy: in ctype
## arg      mean: in acc[channels]
## % endif
## launch   a group takes one part of (group / reduce_items) channels
## numerics two passes over each part; an item adds in order, items are joined by a tree
<%namespace name="lib" file="/lib/fold.mako"/>
<%namespace name="stored" file="/lib/stored.mako"/>
<%def name="group_sum(value, ctype, acc, reduce_items, kept_items, grad)">
    {
        ${acc} sum = 0;
        for (int i = from + lane; i < end; i += ${reduce_items}) {
            const int row = i / inner, column = i - row * inner;
            const long at = ((long)row * channels + channel) * inner + column;
            ${stored.load(ctype, acc, "v", "x", "at")}
% if grad:
            ${stored.load(ctype, acc, "g", "gy", "at")}
% endif
            sum += ${value};
        }
        partial[lane * ${kept_items} + kept] = sum;
        ${lib.tree("sum", "partial", reduce_items, kept_items)}
    }
</%def>
<%def name="norm_parts_group(columns, grad, ctype, acc, group, reduce_items)">
<% kept_items = group // reduce_items %>
${lib.join("sum", acc, 1)}
__kernel void norm_parts_group(...) {
    __local ${acc} partial[${group}];
    first += first_offset;
    second += second_offset;
    x += x_offset;
    ${lib.places(reduce_items, kept_items, columns)}
    const int part = get_group_id(0) % parts;
    const int channel = get_group_id(0) / parts * ${kept_items} + kept;
    const int inside = channel < channels;
    const int from = part * part_size, end = inside ? min(from + part_size, total) : from;
% if grad:
    gy += gy_offset;
    const ${acc} centre = inside ? mean[mean_offset + channel] : 0;
    ${group_sum("g", ctype, acc, reduce_items, kept_items, grad)}
    const ${acc} one = partial[kept];
    barrier(CLK_LOCAL_MEM_FENCE);
    ${group_sum("g * (v - centre)", ctype, acc, reduce_items, kept_items, grad)}
% else:
    ${group_sum("v", ctype, acc, reduce_items, kept_items, grad)}
    const ${acc} one = partial[kept] / max(end - from, 1);
    barrier(CLK_LOCAL_MEM_FENCE);
    ${group_sum("(v - one) * (v - one)", ctype, acc, reduce_items, kept_items, grad)}
% endif
    if (lane == 0 && inside) {
        first[channel * parts + part] = one;
        second[channel * parts + part] = partial[kept];
    }
}
</%def>
