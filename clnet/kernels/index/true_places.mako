## kernel true_places: where the true elements of a mask are, in order
##
## param  group: int                 work-items of a group
## param  per_item: int              elements an item takes, one after the other
## param  ndim: int                  axes
## def    true_count, true_count_local
## arg    n: int                     elements
## arg    per_block: int             elements of a block
## arg    counts: out int[blocks]    true ones of a block
## arg    mask: in uchar[n]
## def    true_scan, true_scan_local
## arg    n: int                     blocks
## arg    counts: inout int[n]       becomes the sum of those before
## arg    total: out int[1]
## def    true_places, true_places_local
## arg    n, per_block: int
## arg    places: out int[n]         ascending; as many are written as there are true elements
## arg    counts: in int[blocks]     true elements of the blocks before
## arg    mask: in uchar[n]
## def    unravel
## arg    n: int                     places
## arg    y: out long[n][ndim]
## arg    places: in int[n]
## arg    sizes: int16               of the axes
##
## launch   true_count, true_places: one item a block, groups of one; true_scan: one item. Their
##          _local twins: groups of `group` items, one a block, one for the scan. unravel: an item
##          a place
## numerics exact
<%namespace name="groups" file="/lib/group_scan.mako"/>
<%def name="true_count()">
__kernel void true_count(...)
{
    const int block = get_global_id(0);
    const int end = min(n, (block + 1) * per_block);
    int found = 0;
    mask += mask_offset;
    for (int i = block * per_block; i < end; ++i)
        found += mask[i] != 0;
    counts[counts_offset + block] = found;
}
</%def>
<%def name="true_scan()">
__kernel void true_scan(...)
{
    int sum = 0;
    counts += counts_offset;
    for (int i = 0; i < n; ++i) {
        const int count = counts[i];
        counts[i] = sum;
        sum += count;
    }
    total[total_offset] = sum;
}
</%def>
##
## What a branch would guess wrong for every other element of a drawn mask, a store beside each
## element does without; it goes to memory of the item's own, since behind a block's last true
## element another block's begin.
<%def name="true_places(per_item)">
__kernel void true_places(...)
{
    const int block = get_global_id(0);
    const int end = min(n, (block + 1) * per_block);
    mask += mask_offset;
    places += places_offset + counts[counts_offset + block];
    for (int first = block * per_block; first < end; first += ${per_item}) {
        int own[${per_item}];
        int found = 0;
        const int size = min(${per_item}, end - first);
        for (int i = 0; i < size; ++i) {
            own[found] = first + i;
            found += mask[first + i] != 0;
        }
        for (int i = 0; i < found; ++i)
            places[i] = own[i];
        places += found;
    }
}
</%def>
<%def name="true_count_local(group)">
__kernel void true_count_local(...)
{
    __local int sums[${group}];
    const int item = get_local_id(0);
    const int block = get_group_id(0);
    const int end = min(n, (block + 1) * per_block);
    int found = 0;
    mask += mask_offset;
    for (int i = block * per_block + item; i < end; i += ${group})
        found += mask[i] != 0;
    sums[item] = found;
% for step in [group >> k for k in range(1, group.bit_length())]:
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < ${step})
        sums[item] += sums[item + ${step}];
% endfor
    if (item == 0)
        counts[counts_offset + block] = sums[0];
}
</%def>
<%def name="true_scan_local(group)">
${groups.scan_group(group)}
__kernel void true_scan_local(...)
{
    __local int sums[${group}];
    const int length = (n + ${group - 1}) / ${group};
    const int first = get_local_id(0) * length;
    const int end = min(n, first + length);
    int sum = 0;
    counts += counts_offset;
    for (int i = first; i < end; ++i)
        sum += counts[i];
    sum = scan_group(sums, sum);
    for (int i = first; i < end; ++i) {
        const int count = counts[i];
        counts[i] = sum;
        sum += count;
    }
    if (get_local_id(0) == ${group - 1})
        total[total_offset] = sum;
}
</%def>
<%def name="true_places_local(group, per_item)">
${groups.scan_group(group)}
__kernel void true_places_local(...)
{
    __local int sums[${group}];
    const int block = get_group_id(0);
    const int first = block * per_block + get_local_id(0) * ${per_item};
    const int end = min(n, first + ${per_item});
    int found = 0;
    mask += mask_offset;
    for (int i = first; i < end; ++i)
        found += mask[i] != 0;
    places += places_offset + counts[counts_offset + block] + scan_group(sums, found);
    for (int i = first; i < end; ++i)
        if (mask[i] != 0)
            *places++ = i;
}
</%def>
<%def name="unravel(ndim)">
__kernel void unravel(...)
{
    const int i = get_global_id(0);
    if (i >= n)
        return;
    uint rest = places[places_offset + i];
    y += y_offset + (long)i * ${ndim};
% for d in reversed(range(1, ndim)):
    {
        const uint before = rest / (uint)sizes.s${f"{d:x}"};
        y[${d}] = rest - before * (uint)sizes.s${f"{d:x}"};
        rest = before;
    }
% endfor
    y[0] = rest;
}
</%def>
