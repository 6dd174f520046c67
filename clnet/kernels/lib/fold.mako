## lib fold: join two partial results, lane by lane, and fold the lanes of a vector into one
##
## param kind: sum|prod|max|min      how two partial results become one
## param ctype: str                  type of a partial result
## param lanes: int                  lanes of the widest vector, a power of two
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
% else:
    return ((b < a) | (b != b)) ? b : a;
% endif
}
% endfor
</%def>
<%def name="fold(kind, ctype, lanes)">
${join(kind, ctype, lanes)}
${ctype} ${kind}_fold(${ctype}${lanes if lanes > 1 else ""} v${lanes})
{
% for width in [lanes >> i for i in range(1, lanes.bit_length())]:
    ${ctype}${width if width > 1 else ""} v${width} = ${kind}_join${width}(v${2 * width}.lo, v${2 * width}.hi);
% endfor
    return v1;
}
</%def>
