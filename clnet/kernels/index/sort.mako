## kernel sort: stable sort of keys with their positions, by radix or in local memory
##
## param  radix: int                 values of a digit, a power of 2
## param  group: int                 work-items of a group
## param  per_item: int              keys an item takes, one after the other
## param  word: uint|ulong           holds a key and, below it, its position
## param  room: int                  keys that a group sorts, a power of 2
## def    radix_count, radix_count_local
## arg    n: int                         keys
## arg    per_block: int                 keys of a block
## arg    shift: int                     the digit's lowest bit
## arg    counts: out int[radix][blocks]
## arg    keys: in int[n]                0 or more
## def    radix_scan, radix_scan_local
## arg    n: int                         counts
## arg    counts: inout int[n]           becomes the sum of those before
## def    radix_scatter, radix_scatter_local
## arg    n, per_block, shift: int
## arg    sorted_keys: out int[n]
## arg    sorted_order: out int[n]
## arg    counts: in int[radix][blocks]  where a block's keys of a digit go
## arg    keys: in int[n]
## arg    order: in int[n]
## def    sort_near
## arg    n: int                         up to room
## arg    sorted_keys: out int[n]
## arg    sorted_order: out int[n]
## arg    keys: in int[n]
## arg    order: in int[n]
##
## launch   sort_near: one group. radix_count, radix_scatter: one item per block, groups of one;
##          radix_scan: one item.
##          Their _local twins: groups of `group` items, one per block, one for the scan
## numerics exact. The integer atomics only count, so the order they happen in does not show
<%namespace name="groups" file="/lib/group_scan.mako"/>
<%def name="radix_count(radix)">
__kernel void radix_count(...)
{
    const int block = get_global_id(0);
    const int end = min(n, (block + 1) * per_block);
    int found[${radix}];
    counts += counts_offset;
    keys += keys_offset;
    for (int d = 0; d < ${radix}; ++d)
        found[d] = 0;
    for (int i = block * per_block; i < end; ++i)
        ++found[(keys[i] >> shift) & ${radix - 1}];
    for (int d = 0; d < ${radix}; ++d)
        counts[d * get_global_size(0) + block] = found[d];
}
</%def>
<%def name="radix_scan()">
__kernel void radix_scan(...)
{
    int total = 0;
    counts += counts_offset;
    for (int i = 0; i < n; ++i) {
        const int count = counts[i];
        counts[i] = total;
        total += count;
    }
}
</%def>
<%def name="radix_scatter(radix)">
__kernel void radix_scatter(...)
{
    const int block = get_global_id(0);
    const int end = min(n, (block + 1) * per_block);
    int next[${radix}];
    sorted_keys += sorted_keys_offset;
    sorted_order += sorted_order_offset;
    counts += counts_offset;
    keys += keys_offset;
    order += order_offset;
    for (int d = 0; d < ${radix}; ++d)
        next[d] = counts[d * get_global_size(0) + block];
    for (int i = block * per_block; i < end; ++i) {
        const int key = keys[i];
        const int to = next[(key >> shift) & ${radix - 1}]++;
        sorted_keys[to] = key;
        sorted_order[to] = order[i];
    }
}
</%def>
<%def name="radix_count_local(radix, group)">
__kernel void radix_count_local(...)
{
    __local int found[${radix}];
    const int item = get_local_id(0);
    const int block = get_group_id(0);
    const int end = min(n, (block + 1) * per_block);
    counts += counts_offset;
    keys += keys_offset;
    for (int d = item; d < ${radix}; d += ${group})
        found[d] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = block * per_block + item; i < end; i += ${group})
        atomic_inc(&found[(keys[i] >> shift) & ${radix - 1}]);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int d = item; d < ${radix}; d += ${group})
        counts[d * get_num_groups(0) + block] = found[d];
}
</%def>
<%def name="radix_scan_local(group)">
${groups.scan_group(group)}
__kernel void radix_scan_local(...)
{
    __local int sums[${group}];
    const int length = (n + ${group - 1}) / ${group};
    const int first = get_local_id(0) * length;
    const int end = min(n, first + length);
    int total = 0;
    counts += counts_offset;
    for (int i = first; i < end; ++i)
        total += counts[i];
    total = scan_group(sums, total);
    for (int i = first; i < end; ++i) {
        const int count = counts[i];
        counts[i] = total;
        total += count;
    }
}
</%def>
<%def name="radix_scatter_local(radix, group, per_item)">
${groups.scan_group(group)}
__kernel void radix_scatter_local(...)
{
    /* ranks[d][item]: how many keys of the block come before the item's first of digit d. */
    __local int ranks[${radix} * ${group}];
    __local int starts[${radix}];
    __local int sums[${group}];
    const int item = get_local_id(0);
    const int block = get_group_id(0);
    const int first = block * per_block + item * ${per_item};
    const int end = min(n, first + ${per_item});
    sorted_keys += sorted_keys_offset;
    sorted_order += sorted_order_offset;
    counts += counts_offset;
    keys += keys_offset;
    order += order_offset;
    for (int d = 0; d < ${radix}; ++d)
        ranks[d * ${group} + item] = 0;
    for (int i = first; i < end; ++i)
        ++ranks[((keys[i] >> shift) & ${radix - 1}) * ${group} + item];
    barrier(CLK_LOCAL_MEM_FENCE);
    int total = 0;
    for (int i = item * ${radix}; i < (item + 1) * ${radix}; ++i)
        total += ranks[i];
    total = scan_group(sums, total);
    for (int i = item * ${radix}; i < (item + 1) * ${radix}; ++i) {
        const int count = ranks[i];
        ranks[i] = total;
        total += count;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int d = item; d < ${radix}; d += ${group})
        starts[d] = counts[d * get_num_groups(0) + block] - ranks[d * ${group}];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = first; i < end; ++i) {
        const int key = keys[i];
        const int d = (key >> shift) & ${radix - 1};
        const int to = starts[d] + ranks[d * ${group} + item]++;
        sorted_keys[to] = key;
        sorted_order[to] = order[i];
    }
}
</%def>
##
## Batcher's bitonic sort (1968), of words of which none are equal: what is beyond the keys comes
## last.
<%def name="sort_near(word, room, group)">
__kernel void sort_near(...)
{
    __local ${word} words[${room}];
    const int item = get_local_id(0);
    keys += keys_offset;
    for (int i = item; i < ${room}; i += ${group})
        words[i] = i < n ? (${word})(uint)keys[i] * ${room} + i : ~(${word})0 - ${room - 1} + i;
    for (int block = 2; block <= ${room}; block *= 2)
        for (int apart = block / 2; apart > 0; apart /= 2) {
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int t = item; t < ${room // 2}; t += ${group}) {
                const int low = t & (apart - 1);
                const int i = 2 * (t - low) + low, j = i + apart;
                const ${word} here = words[i], there = words[j];
                if ((here > there) == ((i & block) == 0)) {
                    words[i] = there;
                    words[j] = here;
                }
            }
        }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = item; i < n; i += ${group}) {
        sorted_keys[sorted_keys_offset + i] = (int)(uint)(words[i] / ${room});
        sorted_order[sorted_order_offset + i] = order[order_offset + (int)(words[i] % ${room})];
    }
}
</%def>
