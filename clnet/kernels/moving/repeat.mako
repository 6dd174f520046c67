## kernel repeat: y[row, :] = x[row], or that over a number; y is dense
##
## A broadcast along the last axis, written as lines of the caches: where rows are no whole number
## of them, a line holds the end of one row and the begin of the next.
##
## param  ctype: str                 type of the elements
## param  whole: str                 the integer type as wide
## param  lanes: int                 elements of a vector
## param  divided: bool              elements are divided
## param  stream: bool               y goes past the caches; it begins at a line, which a vector
##                                   fills
## param  ndim: int                  axes of x given by sizes and strides
## param  row: str                   C expression
## param  name: str                  of the variable set
## def    repeat
## arg    total: int         elements of y
## arg    n: int             elements of a row, at least lanes
## arg    share: int         elements that an item writes, a multiple of lanes
## % for d in range(ndim):
## arg    size_{d}: int      the shape of the rows
## % endfor
## % for d in range(ndim):
## arg    x_stride_{d}: int  steps in x from row to row
## % endfor
## arg    y: out ctype[rows][n]
## arg    x: in ctype
## % if divided:
## arg    divisor: ctype
## % endif
##
## launch   one item for each share, groups of one
## numerics one division an element of x
<%namespace name="strided" file="/lib/strided.mako"/>
<%namespace name="vectors" file="/lib/vector.mako"/>
<%namespace name="prelude" file="/lib/prelude.mako"/>
<%def name="repeat(ctype, whole, lanes, divided, stream, ndim)">
${vectors.types(ctype, lanes)}
% if stream:
${prelude.stream(ctype, lanes)}
% endif
__kernel void repeat(...)
{
    const ${whole}${lanes} lane = (${whole}${lanes})(${", ".join(map(str, range(lanes)))});
    const int end = min((long)(get_global_id(0) + 1) * share, (long)total);
    int at = get_global_id(0) * share, row = at / n, left = n - (at - row * n);
    ${ctype} value, after;
    y += y_offset;
    x += x_offset;
    ${value("value", "row", ndim, divided)}
    while (at < end) {
        const int whole_lines = min(left, end - at) / ${lanes};
        const ${ctype}${lanes} line = value;
        for (int i = 0; i < whole_lines; ++i, at += ${lanes}) {
            ${"stream(line, (__global %s%d *)(y + at))" % (ctype,
                lanes) if stream else "*(__global vector *)(y + at) = line"};
        }
        left -= whole_lines * ${lanes};
        ++row;
        if (at + left < total) {
            ${value("after", "row", ndim, divided)}
        }
        if (at + ${lanes} <= end) {
            if (left > 0) {
                const ${ctype}${lanes} both =
                    lane < (${whole})left ? line : (${ctype}${lanes})after;
                ${"stream(both, (__global %s%d *)(y + at))" % (ctype,
                    lanes) if stream else "*(__global vector *)(y + at) = both"};
                at += ${lanes};
                left -= ${lanes};
            }
        } else
            for (; at < end; ++at, --left)
                y[at] = left > 0 ? value : after;
        value = after;
        left += n;
    }
}
</%def>
<%def name="value(name, row, ndim, divided)">
    {
        ${strided.locate(ndim, row, ("x",))}
        ${name} = x[at_x]${" / divisor" if divided else ""};
    }
</%def>
