## lib taps: the sums of a filter's taps that a group's items have, added up
##
## Items have them in registers sum_<row>_<column>; the kernel has first (the group's first column
## of the filter), lane (the item's number) and gw (where the filter begins).
##
## param ctype: str           element type
## param kh, kw: int               height and width of the filter
## param span: int            columns that the group sums up
## param group_size: int      items of the group, a power of two
##
## To global memory, as trees of one shape.
<%def name="add_up(ctype, kh, kw, span, group_size)">
<%
    taps = []
    for r in range(kh):
        for q in range(span):
            taps.append((r, q))
    # Taps that are added up at once, items that share one, and elements from one to the next,
    # which lie in other banks.
    together = min(max(8, 2048 // group_size), group_size)
    pieces = group_size // together
    pitch = group_size + pieces
%>
    __local ${ctype} partial[${together * pitch}];
% for begin in range(0, len(taps), together):
    barrier(CLK_LOCAL_MEM_FENCE);
% for u, tap in enumerate(taps[begin:begin + together]):
    partial[${u * pitch} + lane] = sum_${tap[0]}_${tap[1]};
% endfor
    barrier(CLK_LOCAL_MEM_FENCE);
    {
        const int tap = lane / ${pieces}, piece = lane % ${pieces}, number = ${begin} + tap;
        __local ${ctype} *row = partial + tap * ${pitch};
        ${ctype} sum = 0;
        if (number < ${len(taps)})
            for (int i = piece; i < ${group_size}; i += ${pieces})
                sum += row[i];
        barrier(CLK_LOCAL_MEM_FENCE);
        row[piece] = sum;
% for share in [pieces >> i for i in range(1, pieces.bit_length())]:
        barrier(CLK_LOCAL_MEM_FENCE);
        if (piece < ${share})
            row[piece] += row[piece + ${share}];
% endfor
        const int s = first + number % ${span};
        if (piece == 0 && number < ${len(taps)} && s < ${kw})
            gw[number / ${span} * ${kw} + s] = row[0];
    }
% endfor
</%def>
