## kernel copy_lines: y = x along short lines, and along lines that lie backwards, on CPUs
##
## param  ctype: str             type of y's elements
## param  source: str            type of x's elements
## param  to_bool: bool          y holds truth values: 1 where x is not 0
## param  ndim: int              axes given by sizes and strides
## param  lanes: int             elements of a vector, 2 or more
## param  few: int               elements of a line, fewer than a vector has
## param  flat: tuple[str]       arrays whose lines lie behind each other, and elements in them
## param  array: str             y or x
## def    copy_backwards
## arg    n: int                 elements of a line, at least lanes
## arg    share: int             of these, how many an item takes, whole vectors
## arg    count: int             lines
## arg    lines: int             of these, how many an item takes
## def    copy_short
## arg    lines: int             lines along the last axis but one
## arg    y_line: int            step in y from line to line
## arg    x_line: int            step in x from line to line
## arg    y_step: int            step in y along a line
## arg    x_step: int            step in x along a line
## def    all
## % for d in range(ndim):
## arg    size_{d}: int          the shape of the other axes
## % endfor
## % for d in range(ndim):
## arg    y_stride_{d}: int      steps in y along them
## % endfor
## % for d in range(ndim):
## arg    x_stride_{d}: int      steps in x along them
## % endfor
## arg    y: out ctype
## def    copy_backwards
## arg    x: in ctype
## def    copy_short
## arg    x: in source
##
## launch   copy_short: (lines times few, others), one item per element. copy_backwards: (n / share,
##          count / lines), groups of one
## numerics C's conversions: towards zero from floating to integer
<%namespace name="strided" file="/lib/strided.mako"/>
<%namespace name="vectors" file="/lib/vector.mako"/>
<%namespace name="prelude" file="/lib/prelude.mako"/>
<%def name="copy_backwards(ctype, ndim, lanes)">
${vectors.types(ctype, lanes)}
__kernel void copy_backwards(...)
{
    const int from = get_global_id(0) * share, end = min(n, from + share);
    const int first = get_global_id(1) * lines, last = min(count, first + lines);
    for (int line = first; line < last; ++line) {
        ${strided.locate(ndim, "line", ("y", "x"))}
        __global ${ctype} *to = y + y_offset + at_y;
        __global const ${ctype} *behind = x + x_offset + at_x + 1;
        for (int i = from; i < end; i += ${lanes}) {
            const int at = min(i, n - ${lanes});  /* the last vector overlaps the one before */
            const ${ctype}${lanes} v = *(__global const vector *)(behind - at - ${lanes});
            *(__global vector *)(to + at) = v.s${"fedcba9876543210"[-lanes:]};
        }
    }
}
</%def>
<%def name="copy_short(ctype, source, to_bool, ndim, few, flat)">
${prelude.side_by_side()}
SIDE_BY_SIDE
__kernel void copy_short(...)
{
    /* A division by a number that the compiler knows is no obstacle to vectors of items. */
    const int place = get_global_id(0), line = (uint)place / ${few};
    ${strided.locate(ndim, "get_global_id(1)", ("y", "x"))}
    y += y_offset + at_y;
    x += x_offset + at_x;
    const int to = ${within("y", few, flat)}, from = ${within("x", few, flat)};
    if (line < lines)
        y[to] = ${f'(x[from] != 0)' if to_bool else f'({ctype})(x[from])'};
}
</%def>
<%def name="within(array, few, flat)" filter="trim">
${"place" if array in flat else f"line * {array}_line + (place - {few} * line) * {array}_step"}
</%def>
