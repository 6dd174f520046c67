## kernel top: where the few largest or smallest elements of lines are, in order
##
## layout   dense lines of n
## param    ctype: str                 element type
## param    largest: bool              else the smallest
## param    floating: bool             there may be NaN, which is larger than infinity
## param    k: int                     how many
## param    group: int                 work-items of a line, a power of two
## param    value, other: str          C expressions, elements
## arg      n: int                     k or more
## def      top_items
## arg      lines: int
## def      top_items, top_group
## arg      y: out long[lines][k]
## arg      x: in ctype[lines][n]
## launch   items: an item a line, which keeps what it has found in order. group: a group a line; in
##          each of k turns it looks for the best of those behind the one before
## numerics comparisons alone; of equal elements the first ones
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
