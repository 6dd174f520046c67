## kernel top: where the few largest or smallest elements of lines are, in order
##
## layout   dense lines of n
## param    ctype: str                 element type
## param    largest: bool              else the smallest
## param    floating: bool             there may be NaN, which is larger than infinity
## param    k: int                     how many
## param    group: int                 work-items of a line, a power of two
## param    value, other: str          C expressions, elements
## param    raw, kind, top, infinity: str  as order.mako's
## param    descending: bool           the largest are asked for
## param    bits: int                  of an element
## param    room: int                  a power of two, k or more
## param    among: bool                those at places that are given, instead of all of a line
## param    place: int|long            what is found lies in order if it is long, else in any
## param    number, limit: str         C expressions, whose digits are counted, and what is higher
##                                     of those that are
## def      top_items, top_group
## arg      n: int                     k or more
## def      top_items
## arg      lines: int
## def      top_items, top_group
## arg      y: out long[lines][k]
## arg      x: in ctype[lines][n]
## def      top_select
## arg      n: int                     elements of a line, or places given of one
## arg      length: int                elements of a line
## arg      parts: int                 of a line
## arg      count: int                 how many are found in each part, which has as many or more
## arg      y: out place[lines][parts][count]
## arg      x: in raw[lines][length]
## % if among:
## arg      given: in int[lines][n]
## % endif
## launch   items: an item a line, which keeps what it has found in order. group: a group a line; in
##          each of k turns it looks for the best of those behind the one before. select: a group a
##          part of a line; it counts digits, the highest first, and leaves out what cannot be
## numerics comparisons alone; of equal elements the first ones. Atomics count, or say where in
##          local memory what is sorted then lies
<%def name="better(largest, floating, value, other)" filter="trim">
<%
    compared = f"{value} {'>' if largest else '<'} {other}"
    low, high = (value, other) if largest else (other, value)
%>
${f"({compared} || (isnan({low}) && !isnan({high})))" if floating else f"({compared})"}
</%def>
<%def name="top_items(ctype, largest, floating, k)">
__kernel void top_items(...)
{
    const int line = get_global_id(0);
    if (line >= lines)
        return;
    ${ctype} best[${k}];
    int place[${k}];
    x += x_offset + (long)line * n;
    y += y_offset + (long)line * ${k};
    for (int i = 0; i < n; ++i) {
        const ${ctype} value = x[i];
        if (i >= ${k} && !${better(largest, floating, "value", f"best[{k - 1}]")})
            continue;
        ## The last place of those that are taken; what is worse goes one on, or is forgotten.
        int at = min(i, ${k - 1});
        for (; at > 0; --at) {
            if (!${better(largest, floating, "value", "best[at - 1]")})
                break;
            best[at] = best[at - 1];
            place[at] = place[at - 1];
        }
        best[at] = value;
        place[at] = i;
    }
    for (int j = 0; j < ${k}; ++j)
        y[j] = place[j];
}
</%def>
<%def name="top_group(ctype, largest, floating, k, group)">
inline bool precedes(const ${ctype} a, const int i, const ${ctype} b, const int j)
{
    return ${better(largest, floating, "a", "b")}
        || (i < j && !${better(largest, floating, "b", "a")});
}
__kernel void top_group(...)
{
    __local ${ctype} bests[${group}];
    __local int places[${group}];
    const int item = get_local_id(0);
    x += x_offset + (long)get_group_id(0) * n;
    y += y_offset + (long)get_group_id(0) * ${k};
    ${ctype} last = 0;
    int before = -1;
    for (int turn = 0; turn < ${k}; ++turn) {
        ${ctype} best = 0;
        int place = n;
        for (int i = item; i < n; i += ${group}) {
            const ${ctype} value = x[i];
            if ((before < 0 || precedes(last, before, value, i))
                && (place == n || precedes(value, i, best, place))) {
                best = value;
                place = i;
            }
        }
        bests[item] = best;
        places[item] = place;
% for step in [group >> k for k in range(1, group.bit_length())]:
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < ${step}) {
            const int there = places[item + ${step}], here = places[item];
            if (there < n && (here == n
                    || precedes(bests[item + ${step}], there, bests[item], here))) {
                bests[item] = bests[item + ${step}];
                places[item] = there;
            }
        }
% endfor
        barrier(CLK_LOCAL_MEM_FENCE);
        last = bests[0];
        before = places[0];
        if (item == 0)
            y[turn] = before;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
</%def>
<%namespace name="orders" file="order.mako"/>
<%namespace name="groups" file="/lib/group_scan.mako"/>
##
## One digit, as COPIES counts of each value: neighbours often have the same one.
<%def name="count_digits(group, among, number, limit)">
        for (int i = item; i < 256 * COPIES; i += ${group})
            counts[i] = 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = first + item; i < end; i += ${group}) {
            const int at = ${"given[i]" if among else "i"};
            const raw key = key_of(x[at]);
            if (${limit})
                atomic_inc(counts + (int)(${number} >> shift & 255) * COPIES + item % COPIES);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        pick(counts, sums, picked, rest);
        rest -= picked[1];
        open = picked[2] != rest;
</%def>
##
## What is taken has a key whose higher bits come before those that were found, or the same ones;
## where more have the same key than are wanted, their places are told apart likewise.
<%def name="top_select(raw, kind, top, infinity, descending, bits, group, room, among, place)">
enum { COPIES = 8 };
typedef ${raw} raw;
${orders.key_of(raw, kind, top, infinity, descending)}
${groups.scan_group(group)}
/* The digit of the element that comes at `rest`, how many come before it, and how many have it. */
void pick(__local const int *counts, __local int *sums, __local int *picked, const int rest)
{
    const int first = get_local_id(0) * ${max(1, 256 // group)};
    const int end = min(256, first + ${max(1, 256 // group)});
    int before = 0;
    for (int i = first * COPIES; i < end * COPIES; ++i)
        before += counts[i];
    before = scan_group(sums, before);
    for (int d = first; d < end; ++d) {
        int count = 0;
        for (int i = 0; i < COPIES; ++i)
            count += counts[d * COPIES + i];
        if (before < rest && rest <= before + count) {
            picked[0] = d;
            picked[1] = before;
            picked[2] = count;
        }
        before += count;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}
__kernel void top_select(...)
{
    __local int counts[256 * COPIES];
    __local int sums[${group}];
    __local int picked[3];
    __local raw keys[${room}];
    __local int places[${room}];
    __local int found;
    const int item = get_local_id(0);
    const int line = get_group_id(0) / parts, part = get_group_id(0) % parts;
    const int first = (long)part * n / parts, end = (long)(part + 1) * n / parts;
    x += x_offset + (long)line * length;
% if among:
    given += given_offset + (long)line * n;
% endif
    int rest = count, key_shift = ${bits}, place_shift = 0;
    raw highest = 0;
    uint farthest = UINT_MAX;
    bool open = true;
    while (open && key_shift > 0) {
        const int shift = key_shift - 8;
${count_digits(group, among, "key", "(raw)(key >> shift >> 8) == highest")}
        highest = (raw)((highest << 8) | picked[0]);
        key_shift = shift;
    }
    if (open) {
        farthest = 0;
        place_shift = 32;
    }
    while (open && place_shift > 0) {
        const int shift = place_shift - 8;
${count_digits(group, among, "(uint)at", "key == highest && (uint)at >> shift >> 8 == farthest")}
        farthest = farthest << 8 | picked[0];
        place_shift = shift;
    }
    if (item == 0)
        found = 0;
    for (int i = item; i < ${room}; i += ${group}) {
        keys[i] = (raw)~(raw)0;
        places[i] = INT_MAX;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = first + item; i < end; i += ${group}) {
        const int at = ${"given[i]" if among else "i"};
        const raw key = key_of(x[at]);
        const raw high = (raw)(key >> key_shift);
        if (high < highest || (high == highest && (uint)at >> place_shift <= farthest)) {
            const int to = atomic_inc(&found);
            keys[to] = key;
            places[to] = at;
        }
    }
    y += y_offset + (long)get_group_id(0) * count;
% if place == "long":
    ## Batcher's bitonic sort (1968); what is beyond those found comes last, in any order.
    for (int block = 2; block <= ${room}; block *= 2)
        for (int apart = block / 2; apart > 0; apart /= 2) {
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int t = item; t < ${room // 2}; t += ${group}) {
                const int low = t & (apart - 1);
                const int i = 2 * (t - low) + low, j = i + apart;
                const raw key = keys[i], other = keys[j];
                const int here = places[i], there = places[j];
                const bool behind = key > other || (key == other && here > there);
                if (behind == ((i & block) == 0)) {
                    keys[i] = other;
                    keys[j] = key;
                    places[i] = there;
                    places[j] = here;
                }
            }
        }
% endif
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = item; i < count; i += ${group})
        y[i] = places[i];
}
</%def>
