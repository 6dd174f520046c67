## kernel copy_lines: y = x line by line, and along lines that lie backwards, on CPUs
##
## param  ctype: str             type of y's elements
## param  source: str            type of x's elements
## param  to_bool: bool          y holds truth values: 1 where x is not 0
## param  ndim: int              axes given by sizes and strides
## param  lanes: int             elements of a vector, 2 or more
## param  known: int             elements of a line if the compiler shall know them, else 0
## param  dense: bool            y's lines are dense
## param  step: int              x's step along a line if the compiler shall know it, else -1
## def    copy_backwards
## arg    n: int                 elements of a line, at least lanes
## arg    share: int             of these, how many an item takes, whole vectors
## arg    count: int             lines
## arg    lines: int             of these, how many an item takes
## def    copy_by_lines
## % if not known:
## arg    n, part: int           elements of a line, and of these, how many an item takes
## % endif
## arg    count, share: int      lines, and of these, how many an item takes
## % if not dense:
## arg    y_step: int            step in y along a line
## % endif
## % if step < 0:
## arg    x_step: int            step in x along a line
## % endif
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
## def    copy_by_lines
## arg    x: in source
##
## launch   copy_by_lines: (n / part, 1 of known ones; count / share). copy_backwards: (n / share,
##          count / lines). Groups of one
## numerics C's conversions: towards zero from floating to integer
<%namespace name="strided" file="/lib/strided.mako"/>
<%namespace name="vectors" file="/lib/vector.mako"/>
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
<%def name="copy_by_lines(ctype, source, to_bool, ndim, known, dense, step)">
__kernel void copy_by_lines(...)
{
    const int first = get_global_id(1) * share, last = min(count, first + share);
% if not known:
    const int from = get_global_id(0) * part, end = min(n, from + part);
% endif
    y += y_offset;
    x += x_offset;
    /* Only the first line is looked for by divisions; from line to line places are counted on. */
    int rest = first;
% for d in range(ndim - 1, -1, -1):
    int i_${d} = ${f"rest % size_{d}" if d else "rest"};
    y += (long)i_${d} * y_stride_${d};
    x += (long)i_${d} * x_stride_${d};
% if d:
    rest /= size_${d};
% endif
% endfor
    for (int line = first; line < last; ++line) {
        for (int i = ${"0" if known else "from"}; i < ${known or "end"}; ++i)
            y[i${"" if dense else " * y_step"}] = ${converted(ctype, to_bool, step)};
% for d in range(ndim - 1, -1, -1):
        y += y_stride_${d};
        x += x_stride_${d};
% if d:
        if (++i_${d} < size_${d})
            continue;
        i_${d} = 0;
        y -= (long)size_${d} * y_stride_${d};
        x -= (long)size_${d} * x_stride_${d};
% endif
% endfor
    }
}
</%def>
<%def name="converted(ctype, to_bool, step)" filter="trim">
<% value = f"x[i * {'x_step' if step < 0 else step}]" %>
${f"({value} != 0)" if to_bool else f"({ctype}){value}"}
</%def>
