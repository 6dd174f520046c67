## lib fold: join two partial results, lane by lane, and fold the lanes of a vector into one
##
## param kind: sum|prod|max|min|top  how two partial results become one; top: the largest but NaN
## param ctype: str                  type of a partial result
## param lanes: int                  lanes of the widest vector, a power of two
## param array: str                  local array [reduce_items, kept_items] of partial results
## param reduce_items: int           work-items (lane) whose partial results are joined
## param kept_items: int             results (kept) of the group
## param kept_fast: bool             neighbouring work-items have different kept, not lane
## numerics the lanes fold as a balanced tree; max and min give NaN when either side is NaN
<%def name="join(kind, ctype, lanes)">
% for width in [1 << i for i in range(lanes.bit_length())]:
<% vector = ctype + (str(width) if width > 1 else "") %>
${vector} ${kind}_join${width}(${vector} a, ${vector} b)
{
% if kind == "sum":
    return a + b;
% elif kind == "prod":
    return a * b;
% elif kind == "max":
    return ((b > a) | (b != b)) ? b : a;
% elif kind == "top":
    return b > a ? b : a;
% else:
    return ((b < a) | (b != b)) ? b : a;
% endif
}
% endfor
</%def>
<%def name="identity(kind, ctype)">
% if kind == "sum":
    const ${ctype} identity = 0;
% elif kind == "prod":
    const ${ctype} identity = 1;
% elif ctype in ("float", "double"):
    const ${ctype} identity = ${"-" if kind == "max" else ""}INFINITY;
% else:
    const ${ctype} identity = ${ctype.upper()}_${"MIN" if kind == "max" else "MAX"};
% endif
</%def>
<%def name="fold(kind, ctype, lanes)">
${join(kind, ctype, lanes)}
${ctype} ${kind}_fold(${ctype}${lanes if lanes > 1 else ""} v${lanes})
{
% for width in [lanes >> i for i in range(1, lanes.bit_length())]:
    ${ctype}${width if width > 1 else ""} v${width} =
        ${kind}_join${width}(v${2 * width}.lo, v${2 * width}.hi);
% endfor
    return v1;
}
</%def>
<%def name="tree(kind, array, reduce_items, kept_items)">
    /* Leaves the joined results in ${array}[kept]; every work-item of the group comes here. */
% for share in [reduce_items >> i for i in range(1, reduce_items.bit_length())]:
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < ${share})
        ${array}[lane * ${kept_items} + kept] = ${kind}_join1(
            ${array}[lane * ${kept_items} + kept],
                ${array}[(lane + ${share}) * ${kept_items} + kept]);
% endfor
    barrier(CLK_LOCAL_MEM_FENCE);
</%def>
<%def name="places(reduce_items, kept_items, kept_fast)">
% if kept_fast:
    const int kept = get_local_id(0) % ${kept_items}, lane = get_local_id(0) / ${kept_items};
% else:
    const int kept = get_local_id(0) / ${reduce_items}, lane = get_local_id(0) % ${reduce_items};
% endif
</%def>
