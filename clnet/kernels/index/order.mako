## kernel order: lines of any type sorted, through keys whose order as unsigned numbers is theirs
##
## param  raw: str                   unsigned type of an element's bits: uchar, ushort, uint, ulong
## param  kind: str                  how bits are ordered: unsigned, signed or floating
## param  top: str                   C literal, the sign bit
## param  infinity: str              C literal, the bits of infinity
## param  descending: bool           the largest first
## param  first: bool                elements are taken as they lie, and `order` begins here
## param  digits: int                bytes of a key
## param  group: int                 work-items of a line
## param  room: int                  elements of it, a power of two
## def    order_keys
## arg    n: int                elements
## arg    shift: int            lowest bit of the 32 that are taken
## arg    keys: out int[n]      bits of the keys of the elements in order
## arg    order: inout int[n]   where they lie
## arg    x: in raw[n]
## def    order_lines
## arg    n: int
## arg    length: int           elements of a line
## arg    keys: out int[n]      the line of each element
## arg    order: in int[n]
## def    order_take
## arg    n, length: int
## arg    values: out raw[n]    the elements in order
## arg    indices: out long[n]  where they lay in their line
## arg    x: in raw[n]
## arg    order: in int[n]
## def    order_rank
## arg    n, length: int
## arg    values: out raw[n]
## arg    indices: out long[n]
## arg    x: in raw[n]
## def    order_items
## arg    lines, length: int
## arg    values: out raw[lines][length]
## arg    indices: out long[lines][length]
## arg    x: in raw[lines][length]
## arg    keys: inout raw[items][2][length]
## arg    places: inout int[items][2][length]
## def    order_group
## arg    length: int
## arg    values: out raw[lines][length]
## arg    indices: out long[lines][length]
## arg    x: in raw[lines][length]
##
## launch   one item per element. order_items: an item has a share of the lines. order_group: a
##          group a line, in local memory
## numerics exact and stable. NaN is larger than infinity, whatever its sign; -0 equals 0
<%def name="key_of(raw, kind, top, infinity, descending)">
${raw} key_of(const ${raw} bits)
{
% if kind == "floating":
    const ${raw} magnitude = bits & (${raw})~${top};
    ${raw} key = bits & ${top} ? (${raw})~bits : (${raw})(bits | ${top});
    key = magnitude ? key : (${raw})${top};
    key = magnitude > ${infinity} ? (${raw})~(${raw})0 : key;
% elif kind == "signed":
    const ${raw} key = bits ^ ${top};
% else:
    const ${raw} key = bits;
% endif
    return ${f"({raw})~key" if descending else "key"};
}
</%def>
<%def name="order_keys(raw, kind, top, infinity, descending, first)">
${key_of(raw, kind, top, infinity, descending)}
__kernel void order_keys(...)
{
    const int i = get_global_id(0);
    if (i < n) {
% if first:
        const int at = i;
        order[order_offset + i] = i;
% else:
        const int at = order[order_offset + i];
% endif
        keys[keys_offset + i] = (int)(uint)(key_of(x[x_offset + at]) >> shift);
    }
}
</%def>
<%def name="order_lines()">
__kernel void order_lines(...)
{
    const int i = get_global_id(0);
    if (i < n)
        keys[keys_offset + i] = order[order_offset + i] / length;
}
</%def>
<%def name="order_take(raw)">
__kernel void order_take(...)
{
    const int i = get_global_id(0);
    if (i < n) {
        const int at = order[order_offset + i];
        values[values_offset + i] = x[x_offset + at];
        indices[indices_offset + i] = at % length;
    }
}
</%def>
<%def name="order_rank(raw, kind, top, infinity, descending)">
${key_of(raw, kind, top, infinity, descending)}
__kernel void order_rank(...)
{
    const int i = get_global_id(0);
    if (i < n) {
        const int start = i / length * length;
        const int here = i - start;
        x += x_offset + start;
        const ${raw} key = key_of(x[here]);
        int rank = 0;
        for (int j = 0; j < length; ++j) {
            const ${raw} other = key_of(x[j]);
            rank += other < key || (other == key && j < here);
        }
        values[values_offset + start + rank] = x[here];
        indices[indices_offset + start + rank] = here;
    }
}
</%def>
##
## All digits are counted as keys are made; one that all keys have costs no pass.
<%def name="order_items(raw, kind, top, infinity, descending, digits)">
${key_of(raw, kind, top, infinity, descending)}
__kernel void order_items(...)
{
    const int item = get_global_id(0);
    keys += keys_offset + (long)item * 2 * length;
    places += places_offset + (long)item * 2 * length;
    for (int line = item; line < lines; line += get_global_size(0)) {
        const long start = (long)line * length;
        __global const ${raw} *row = x + x_offset + start;
        __global ${raw} *from = keys, *to = keys + length;
        __global int *here = places, *there = places + length;
        int counts[${digits}][256];
        for (int d = 0; d < ${digits}; ++d)
            for (int v = 0; v < 256; ++v)
                counts[d][v] = 0;
        for (int i = 0; i < length; ++i) {
            const ${raw} key = key_of(row[i]);
            from[i] = key;
            here[i] = i;
% for d in range(digits):
            ++counts[${d}][(key >> ${8 * d}) & 255];
% endfor
        }
        for (int d = 0; d < ${digits}; ++d) {
            int *next = counts[d];
            if (next[(from[0] >> (8 * d)) & 255] == length)
                continue;
            int sum = 0;
            for (int v = 0; v < 256; ++v) {
                const int count = next[v];
                next[v] = sum;
                sum += count;
            }
            for (int i = 0; i < length; ++i) {
                const ${raw} key = from[i];
                const int at = next[(key >> (8 * d)) & 255]++;
                to[at] = key;
                there[at] = here[i];
            }
            __global ${raw} *other = from;
            from = to;
            to = other;
            __global int *rest = here;
            here = there;
            there = rest;
        }
        for (int i = 0; i < length; ++i) {
            values[values_offset + start + i] = row[here[i]];
            indices[indices_offset + start + i] = here[i];
        }
    }
}
</%def>
<%def name="order_group(raw, kind, top, infinity, descending, group, room)">
${key_of(raw, kind, top, infinity, descending)}
__kernel void order_group(...)
{
    __local ${raw} keys[${room}];
    __local int places[${room}];
    const int item = get_local_id(0);
    const long start = (long)get_group_id(0) * length;
    x += x_offset + start;
    for (int i = item; i < ${room}; i += ${group}) {
        keys[i] = key_of(x[min(i, length - 1)]);
        places[i] = i;
        if (i >= length)
            keys[i] = (${raw})~(${raw})0;
    }
    ## Batcher's bitonic sort (1968), of pairs of which none are equal: what is beyond the line
    ## comes last.
    for (int block = 2; block <= ${room}; block *= 2)
        for (int apart = block / 2; apart > 0; apart /= 2) {
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int t = item; t < ${room // 2}; t += ${group}) {
                const int low = t & (apart - 1);
                const int i = 2 * (t - low) + low, j = i + apart;
                const ${raw} key = keys[i], other = keys[j];
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
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = item; i < length; i += ${group}) {
        values[values_offset + start + i] = x[places[i]];
        indices[indices_offset + start + i] = places[i];
    }
}
</%def>
