## kernel running_extreme: the largest or smallest of an element and all before it, and where it is
##
## math     of equal ones the last; NaN stays from where it is on, the last NaN
## layout   dense (outer, n, inner), along n
## param    ctype: str                 element type
## param    largest: bool              else the smallest
## param    floating: bool             there may be NaN
## param    abreast: int               lines that an item goes along at once, whose inner is 1
## param    group: int                 work-items of a line, a power of two
## param    value, best: str           C expressions, a later element and an earlier one
## arg      n: int
## def      running_extreme_items
## arg      lines, inner: int
## def      running_extreme_lines
## arg      lines, share: int           lines, and of these, how many an item takes
## def      all
## arg      values: out ctype[outer][n][inner]
## arg      y: out long[outer][n][inner]  where they are
## arg      x: in ctype[outer][n][inner]
## launch   items: an item a line. lines: an item some lines, groups of one. group: a group a
##          line, whose inner is 1
## numerics comparisons alone: the same in any order
<%def name="better(largest, floating, value, best)" filter="trim">
<% compared = f"{value} {'>=' if largest else '<='} {best}" %>
${f"isnan({value}) || (!isnan({best}) && {compared})" if floating else compared}
</%def>
<%def name="running_extreme_items(ctype, largest, floating)">
__kernel void running_extreme_items(...)
{
    const int line = get_global_id(0);
    if (line >= lines)
        return;
    const long start = (long)(line / inner) * n * inner + line % inner;
    x += x_offset + start;
    y += y_offset + start;
    values += values_offset + start;
    ${ctype} best = x[0];
    long place = 0;
    for (int i = 0; i < n; ++i) {
        const ${ctype} value = x[(long)i * inner];
        if (${better(largest, floating, "value", "best")}) {
            best = value;
            place = i;
        }
        y[(long)i * inner] = place;
        values[(long)i * inner] = best;
    }
}
</%def>
##
## Lines side by side: each element waits for the one before, and a branch is guessed wrong.
<%def name="running_extreme_lines(ctype, largest, floating, abreast)">
__kernel void running_extreme_lines(...)
{
    const int first = get_global_id(0) * share, last = min(lines, first + share);
    x += x_offset;
    y += y_offset;
    values += values_offset;
    for (int line = first; line < last; line += ${abreast}) {
% for k in range(abreast):
        const long at_${k} = (long)min(line + ${k}, last - 1) * n;
        ${ctype} best_${k} = x[at_${k}];
        int place_${k} = 0;
% endfor
        for (int i = 0; i < n; ++i) {
% for k in range(abreast):
            const ${ctype} value_${k} = x[at_${k} + i];
            const int wins_${k} = ${wins(largest, floating, f"value_{k}", f"best_{k}")};
            best_${k} = wins_${k} ? value_${k} : best_${k};
            place_${k} = wins_${k} ? i : place_${k};
            y[at_${k} + i] = place_${k};
            values[at_${k} + i] = best_${k};
% endfor
        }
    }
}
</%def>
<%def name="wins(largest, floating, value, best)" filter="trim">
<% beaten = f"{value} {'<' if largest else '>'} {best}" %>
${f"({value} != {value}) | (({best} == {best}) & !({beaten}))" if floating else f"!({beaten})"}
</%def>
<%def name="running_extreme_group(ctype, largest, floating, group)">
__kernel void running_extreme_group(...)
{
    __local ${ctype} bests[${group}];
    __local int places[${group}];
    const int item = get_local_id(0);
    x += x_offset + (long)get_group_id(0) * n;
    y += y_offset + (long)get_group_id(0) * n;
    values += values_offset + (long)get_group_id(0) * n;
    for (int first = 0; first < n; first += ${group}) {
        const int i = first + item;
        ${ctype} best = x[min(i, n - 1)];
        int place = min(i, n - 1);
        ## The first item goes on from the last one of the part before.
        if (item == 0 && first > 0) {
            const ${ctype} before = bests[${group - 1}];
            if (!(${better(largest, floating, "best", "before")})) {
                best = before;
                place = places[${group - 1}];
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        bests[item] = best;
        places[item] = place;
% for step in [1 << k for k in range(group.bit_length() - 1)]:
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item >= ${step}) {
            const ${ctype} before = bests[item - ${step}];
            if (!(${better(largest, floating, "best", "before")})) {
                best = before;
                place = places[item - ${step}];
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        bests[item] = best;
        places[item] = place;
% endfor
        if (i < n) {
            y[i] = place;
            values[i] = best;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
</%def>
