## kernel count: where values lie among sorted ones, and how often whole numbers occur
##
## param  ctype: str                 of the values
## param  or_equal: bool             equal elements count, too
## param  many: int                  values that an item takes at once
## param  group: int                 work-items of a group
## param  size: int                  numbers whose counts a group keeps in local memory
## def    search_rows
## arg    count, m, n: int           values in all, those of a row, elements of a row
## arg    step: int                  elements to the next values' row: n, or 0
## arg    y: out long[count]
## arg    rows: in ctype[rows][n]    ascending
## arg    values: in ctype[count]
## def    tally_parts
## arg    n, numbers, part: int      keys, numbers, keys of an item
## arg    counts: out int[items][numbers]
## def    tally, tally_near
## arg    n, numbers: int
## arg    counts: inout int[numbers], may alias  0 at first
## def    tally_parts, tally, tally_near
## arg    keys: in long[n]           what lies outside [0, numbers) is left out
##
## launch   search_rows: an item so many values. tally_parts: an item a part of the keys. tally,
##          tally_near: groups go over all keys; the latter's counts are added up in local memory
## numerics half of the rest a step, as PyTorch's: rows that are not sorted, or hold NaN, give the
##          same. Whole numbers are added up, in any order
<%def name="search_rows(ctype, or_equal, many)">
<% below = ">" if or_equal else ">=" %>
__kernel void search_rows(...)
{
% if many > 1:
    const int from = get_global_id(0) * ${many};
    if (from >= count)
        return;
    rows += rows_offset;
    int first[${many}], last[${many}];
    long row[${many}];
    ${ctype} value[${many}];
    for (int i = 0; i < ${many}; ++i) {
        const int at = min(from + i, count - 1);
        first[i] = 0;
        last[i] = n;
        row[i] = (long)(at / m) * step;
        value[i] = values[values_offset + at];
    }
    ## As many steps for all, without branches, which a processor would guess wrong half the time;
    ## only before the last one some may be through.
    for (int rest = n; rest > 1; rest >>= 1)
        for (int i = 0; i < ${many}; ++i) {
            const int middle = (first[i] + last[i]) >> 1;
            const bool less = rows[row[i] + middle] ${below} value[i];
            first[i] = less ? first[i] : middle + 1;
            last[i] = less ? middle : last[i];
        }
    for (int i = 0; i < ${many}; ++i)
        if (first[i] < last[i] && !(rows[row[i] + first[i]] ${below} value[i]))
            ++first[i];
    for (int i = 0; i < ${many}; ++i)
        if (from + i < count)
            y[y_offset + from + i] = first[i];
% else:
    const int at = get_global_id(0);
    if (at >= count)
        return;
    const ${ctype} value = values[values_offset + at];
    rows += rows_offset + (long)(at / m) * step;
    int first = 0, last = n;
    while (first < last) {
        const int middle = first + (last - first) / 2;
        ## False for NaN: what is no number lies behind all.
        if (rows[middle] ${below} value)
            last = middle;
        else
            first = middle + 1;
    }
    y[y_offset + at] = first;
% endif
}
</%def>
<%def name="tally_parts()">
__kernel void tally_parts(...)
{
    const int item = get_global_id(0);
    const long first = (long)item * part;
    counts += counts_offset + (long)item * numbers;
    keys += keys_offset;
    for (int i = 0; i < numbers; ++i)
        counts[i] = 0;
    for (long i = first; i < min(first + part, (long)n); ++i) {
        const long key = keys[i];
        if (key >= 0 && key < numbers)
            ++counts[key];
    }
}
</%def>
<%def name="tally()">
__kernel void tally(...)
{
    counts += counts_offset;
    keys += keys_offset;
    for (long i = get_global_id(0); i < n; i += get_global_size(0)) {
        const long key = keys[i];
        if (key >= 0 && key < numbers)
            atomic_inc(counts + key);
    }
}
</%def>
<%def name="tally_near(group, size)">
__kernel void tally_near(...)
{
    __local int own[${size}];
    const int item = get_local_id(0);
    counts += counts_offset;
    keys += keys_offset;
    for (int i = item; i < numbers; i += ${group})
        own[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (long i = get_global_id(0); i < n; i += get_global_size(0)) {
        const long key = keys[i];
        if (key >= 0 && key < numbers)
            atomic_inc(own + key);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = item; i < numbers; i += ${group})
        if (own[i] != 0)
            atomic_add(counts + i, own[i]);
}
</%def>
