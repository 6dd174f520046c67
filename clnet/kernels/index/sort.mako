## kernel sort: stable sort of keys with their positions, by radix or in local memory
##
## param  radix: int                 values of a digit, a power of 2
## param  half: int                  values of half a digit
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
## def    radix_scan
## arg    n: int                         counts
## arg    counts: inout int[n]           becomes the sum of those before
## def    radix_scan_rows
## arg    n: int                         blocks
## arg    counts: inout int[radix][n]    becomes the sum of those of the digit before
## arg    totals: out int[radix]         all keys of a digit
## def    radix_scatter, radix_scatter_local
## arg    n, per_block, shift: int
## arg    sorted_keys: out int[n]
## arg    sorted_order: out int[n]
## arg    counts: in int[radix][blocks]  where a block's keys of a digit go, or of that digit
## arg    keys: in int[n]
## arg    order: in int[n]
## def    radix_scatter_local
## arg    totals: in int[radix]
## def    sort_near
## arg    n: int                         up to room
## arg    sorted_keys: out int[n]
## arg    sorted_order: out int[n]
## arg    keys: in int[n]
## arg    order: in int[n]
##
## launch   sort_near: one group. radix_count, radix_scatter: one item per block, groups of one;
##          radix_scan: one item. radix_count_local, radix_scatter_local: a group a block;
##          radix_scan_rows: a group a digit
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
##
## Several counts of each value: neighbours often have the same highest digit.
<%def name="radix_count_local(radix, group)">
__kernel void radix_count_local(...)
{
    enum { COPIES = 4 };
    __local int found[${radix} * COPIES];
    const int item = get_local_id(0);
    const int block = get_group_id(0);
    const int end = min(n, (block + 1) * per_block);
    counts += counts_offset;
    keys += keys_offset;
    for (int i = item; i < ${radix} * COPIES; i += ${group})
        found[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = block * per_block + item; i < end; i += ${group})
        atomic_inc(found + ((keys[i] >> shift) & ${radix - 1}) * COPIES + item % COPIES);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int d = item; d < ${radix}; d += ${group}) {
        int count = 0;
        for (int i = 0; i < COPIES; ++i)
            count += found[d * COPIES + i];
        counts[d * get_num_groups(0) + block] = count;
    }
}
</%def>
<%def name="radix_scan_rows(group)">
${groups.scan_group(group)}
__kernel void radix_scan_rows(...)
{
    __local int sums[${group}];
    const int item = get_local_id(0);
    const int d = get_group_id(0);
    int total = 0;
    counts += counts_offset + (long)d * n;
    for (int first = 0; first < n; first += ${group}) {
        const int i = first + item;
        const int count = i < n ? counts[i] : 0;
        const int before = scan_group(sums, count);
        if (i < n)
            counts[i] = total + before;
        total += sums[${group - 1}];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (item == 0)
        totals[totals_offset + d] = total;
}
</%def>
##
## A block's keys are put in order in local memory, by each half of the digit, so that what goes to
## one place in memory lies together.
<%def name="radix_scatter_local(radix, half, group, per_item)">
${groups.scan_group(group)}
__kernel void radix_scatter_local(...)
{
    __local int own_keys[${group * per_item}];
    __local int own_order[${group * per_item}];
    /* ranks[d][item]: how many keys of the block come before the item's first of digit d. */
    __local ushort ranks[${half * group}];
    __local int sums[${group}];
    __local int starts[${radix}];
    const int item = get_local_id(0);
    const int block = get_group_id(0);
    const int first = block * ${group * per_item};
    const int size = min(${group * per_item}, n - first);
    const int mine = clamp(size - item * ${per_item}, 0, ${per_item});
    sorted_keys += sorted_keys_offset;
    sorted_order += sorted_order_offset;
    counts += counts_offset;
    totals += totals_offset;
    keys += keys_offset + first;
    order += order_offset + first;
    for (int i = item; i < size; i += ${group}) {
        own_keys[i] = keys[i];
        own_order[i] = order[i];
    }
<% bits = half.bit_length() - 1 %>
    for (int low = shift; low < shift + ${2 * bits}; low += ${bits}) {
        int held_keys[${per_item}], held_order[${per_item}];
        for (int d = 0; d < ${half}; ++d)
            ranks[d * ${group} + item] = 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = 0; i < mine; ++i) {
            held_keys[i] = own_keys[item * ${per_item} + i];
            held_order[i] = own_order[item * ${per_item} + i];
            const int d = (held_keys[i] >> low) & ${half - 1};
            ++ranks[d * ${group} + item];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        int total = 0;
        for (int i = item * ${half}; i < (item + 1) * ${half}; ++i)
            total += ranks[i];
        total = scan_group(sums, total);
        for (int i = item * ${half}; i < (item + 1) * ${half}; ++i) {
            const int count = ranks[i];
            ranks[i] = total;
            total += count;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = 0; i < mine; ++i) {
            const int d = (held_keys[i] >> low) & ${half - 1};
            const int to = ranks[d * ${group} + item]++;
            own_keys[to] = held_keys[i];
            own_order[to] = held_order[i];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    ## Where keys of a digit go, less where they lie in the block.
<% each = -(-radix // group) %>
    int before = 0;
    for (int d = item * ${each}; d < min(${radix}, (item + 1) * ${each}); ++d)
        before += totals[d];
    before = scan_group(sums, before);
    for (int d = item * ${each}; d < min(${radix}, (item + 1) * ${each}); ++d) {
        starts[d] = before + counts[d * get_num_groups(0) + block];
        before += totals[d];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = item; i < size; i += ${group}) {
        const int d = (own_keys[i] >> shift) & ${radix - 1};
        if (i == 0 || d != ((own_keys[i - 1] >> shift) & ${radix - 1}))
            starts[d] -= i;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = item; i < size; i += ${group}) {
        const int to = starts[(own_keys[i] >> shift) & ${radix - 1}] + i;
        sorted_keys[to] = own_keys[i];
        sorted_order[to] = own_order[i];
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
