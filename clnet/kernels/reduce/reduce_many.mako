## kernel reduce_many: partial results of many arrays, in one launch
##
## math     partial[g] = join of load(x_k[i]) over the elements i of group g's block of its segment
##          k
## layout   dense arrays of any sizes; a group reduces one block of one segment
## param    kind: sum|max             how two partial results become one
## param    load: square|magnitude    what is reduced: x * x, or |x|
## param    ctype: float|double       type of the elements and of the results
## param    lanes: int                lanes of a vector, a power of two; 1 in groups of several
##                                    items
## param    group: int                work-items of a group, a power of two
## param    segments: int             number of segments
## % for k in range(segments):
## arg      x_{k}: in ctype, may alias
## arg      n_{k}: int                     elements of segment k
## arg      first_{k}: int                 its first group; beyond all groups for a segment that is
##                                         none
## % endfor
## arg      partial: out ctype, may alias  one result for each group
## arg      block: int                     elements of a group
## launch   groups of all segments; local group
## numerics lanes, work-items and blocks are joined in a fixed order
<%namespace name="lib" file="/lib/fold.mako"/>
<%namespace name="vectors" file="/lib/vector.mako"/>
<%def name="reduce_many(kind, load, ctype, lanes, group, segments)">
<%
    n = str(lanes) if lanes > 1 else ""
    # No fabs: it is a library function, see lib/vector.mako. Of -0 it is 0, too.
    value = {
        "square": "({0}) * ({0})", "magnitude": "(({0}) > 0 ? ({0}) : 0 - ({0}))"
    }[load]
%>
${lib.fold(kind, ctype, lanes)}
${vectors.types(ctype, lanes) if lanes > 1 else ""}
__kernel void reduce_many(...)
{
    const int at = (int)get_group_id(0);
    int n = n_0;
    int first = first_0;
    __global const ${ctype} *x = x_0 + x_0_offset;
% for k in range(1, segments):
    if (at >= first_${k}) {
        n = n_${k};
        first = first_${k};
        x = x_${k} + x_${k}_offset;
    }
% endfor
    ${lib.identity(kind, ctype)}
    const int begin = (at - first) * block;
    const int end = n - begin > block ? begin + block : n;
    ${ctype} result = identity;
% if group > 1:
    __local ${ctype} joined[${group}];
    ${lib.places(group, 1, False)}
    for (int i = begin + lane; i < end; i += ${group})
        result = ${kind}_join1(result, ${value.format("x[i]")});
    joined[lane] = result;
    ${lib.tree(kind, "joined", group, 1)}
    if (lane == 0)
        partial[partial_offset + at] = joined[kept];
% else:
    int i = begin;
% if lanes > 1:
    ${ctype}${n} a = identity, b = identity, c = identity, d = identity;
    for (; i <= end - ${4 * lanes}; i += ${4 * lanes}) {
% for k, name in enumerate("abcd"):
        const ${ctype}${n} v${k} = ((__global const vector *)(x + i))[${k}];
        ${name} = ${kind}_join${lanes}(${name}, ${value.format(f"v{k}")});
% endfor
    }
    result = ${kind}_fold(${kind}_join${lanes}(${kind}_join${lanes}(a, b),
        ${kind}_join${lanes}(c, d)));
% endif
    for (; i < end; i++)
        result = ${kind}_join1(result, ${value.format("x[i]")});
    partial[partial_offset + at] = result;
% endif
}
</%def>
