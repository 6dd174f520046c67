## kernel gather_runs: elements picked by an index along an axis, line by line
##
## param  ctype: str                 type of the elements
## param  index_type: str            int or long
## param  ndim: int                  axes of the lines
## param  missing: str               C expression, what an index out of range gives: NAN or 0
## param  wrap: bool                 indices in [-limit, 0) count from the end
## param  shared: bool               all lines read one line of the index, which the first reports;
##                                   an item makes places of it once
## param  room: int                  of how many
## param  check: bool                an index out of range is reported
## param  flat: int|long             type of a flat index, long beyond 2^31 elements
## param  own, place: str            C expressions: a line of the index, and where element i stands
## arg    lines, n: int          lines of y along its last axis, elements of one
## arg    share, part: int       lines that an item takes, and elements of each of them
## arg    limit: int             size of the axis of x that is indexed
## arg    x_step: {flat}         step in x along it
## arg    x_along: {flat}        step in x along y's last axis, 0 if that is indexed
## arg    index_along: int       step in index along it
## % for d in range(ndim):
## arg    size_{d}: int          the shape of the lines
## % endfor
## % for d in range(ndim):
## arg    x_stride_{d}: {flat}   steps in x from line to line
## % endfor
## % for d in range(ndim):
## arg    index_stride_{d}: int  steps in index
## % endfor
## arg    y: out ctype[lines][n]
## arg    x: in ctype
## arg    index: in index_type
## % if check:
## arg    fault: inout int       where to report
## arg    site: int              its number
## % endif
##
## launch   (lines / share, n / part), groups of one
## numerics exact; no index, whatever its value, reads outside x
<%namespace name="gather" file="gather.mako"/>
<%namespace name="strided" file="/lib/strided.mako"/>
<%namespace name="faults" file="/lib/fault.mako"/>
##
## A loop without branches, so that compilers make vectors of it; who is out of range is looked for
## in another. `x_along` is 0 where the index is shared.
<%def name="gather_runs(ctype, index_type, ndim, missing, wrap, shared, room, check, flat)">
${faults.define(check)}
__kernel void gather_runs(...)
{
    const int end = min(lines, ((int)get_global_id(0) + 1) * share);
    const int start = get_global_id(1) * part, stop = min(n, start + part);
    x += x_offset;
    y += y_offset;
    index += index_offset;
% if shared:
    __local ${flat} near[${room}];
    int outside = 0;
    for (int i = start; i < stop; ++i) {
        ${index_type} at = index[i * index_along];
        ${gather.checked(index_type, wrap)}
        outside += !inside;
        near[i - start] = inside ? (${flat})at * x_step : 0;
    }
% if check:
    if (outside && get_global_id(0) == 0)
        ${report(index_type, wrap, "index", "i")}
% endif
% endif
    for (int line = get_global_id(0) * share; line < end; ++line) {
        ${strided.locate(ndim, "line", ("x", "index"), flat)}
        __global const ${ctype} *from = x + at_x;
        __global ${ctype} *to = y + (${flat})line * n;
% if shared:
        for (int i = start; i < stop; ++i)
            to[i] = from[near[i - start]];
        if (outside)
            for (int i = start; i < stop; ++i) {
                ${index_type} at = index[i * index_along];
                ${gather.checked(index_type, wrap)}
                if (!inside)
                    to[i] = (${ctype})${missing};
            }
% else:
        __global const ${index_type} *own = index + at_index;
        int outside = 0;
        for (int i = start; i < stop; ++i) {
            ${index_type} at = own[i * index_along];
            ${gather.checked(index_type, wrap)}
            outside += !inside;
            ## What lies at 0 is there to read: an axis without elements is no such axis.
            const ${flat} near = inside ? (${flat})at : 0;
            const ${ctype} found = from[near * x_step + i * x_along];
            to[i] = inside ? found : (${ctype})${missing};
        }
% if check:
        if (outside)
            ${report(index_type, wrap, "own", "line * n + i")}
% endif
% endif
    }
}
</%def>
<%def name="report(index_type, wrap, own, place)">
    for (int i = start; i < stop; ++i) {
        ${index_type} at = ${own}[i * index_along];
        ${gather.checked(index_type, wrap)}
        ${faults.index(True, wrap, place, "true")}
    }
</%def>
