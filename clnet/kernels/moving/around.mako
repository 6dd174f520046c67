## kernel around: a dense array with another one in it, and around that one elements of its own
##
## An item writes some rows, one after the other. A row's middle is a row of x; what stands before
## and behind it is picked from the same row, or is one value.
##
## param  ctype: str                 type of the elements
## param  lanes: int                 elements of a vector
## param  mode: reflect|replicate|circular|constant  which elements stand where x has none
## param  ndim: int                  axes but for the last
## arg    rows: int           rows of y
## arg    share: int          of these, how many an item takes
## arg    n: int              elements of a row of y
## arg    m: int              those of a row of x
## arg    low: int            of y before x begins; below 0: of x that are left out
## % for d in range(ndim):
## arg    size_{d}: int       elements of y along the other axes
## arg    x_size_{d}: int     those of x
## arg    low_{d}: int        of y before x begins
## % endfor
## arg    y: out ctype
## arg    x: in ctype
## % if mode == "constant":
## arg    value: ctype
## % endif
##
## launch   one item for each share, groups of one
<%namespace name="vectors" file="/lib/vector.mako"/>
<%def name="around(ctype, lanes, mode, ndim)">
${vectors.types(ctype, lanes)}
<% other = "value" if mode == "constant" else "from[inside(i - low, m)]" %>
% if mode != "constant":
inline int inside(const int at, const int size)
{
% if mode == "replicate":
    return at < 0 ? 0 : at < size ? at : size - 1;
% elif mode == "circular":
    return at < 0 ? at + size : at < size ? at : at - size;
% else:
    const int mirrored = at < 0 ? -at : at;
    return mirrored < size ? mirrored : 2 * (size - 1) - mirrored;
% endif
}
% endif
__kernel void around(...)
{
    const int first = get_global_id(0) * share, last = min(rows, first + share);
    const int before = low < 0 ? 0 : low, behind = low + m < n ? low + m : n;
    int rest = first;
% for d in range(ndim - 1, -1, -1):
    int i_${d} = ${f"rest % size_{d}" if d else "rest"};
% if d:
    rest /= size_${d};
% endif
% endfor
    for (int row = first; row < last; ++row) {
        long at = 0;
% if mode == "constant":
        int outside = 0;
% for d in range(ndim):
        outside |= i_${d} < low_${d} | i_${d} >= low_${d} + x_size_${d};
        at = at * x_size_${d} + (i_${d} - low_${d});
% endfor
        const int begin = outside ? n : before, end = outside ? n : behind;
% else:
        const int begin = before, end = behind;
% for d in range(ndim):
        at = at * x_size_${d} + inside(i_${d} - low_${d}, x_size_${d});
% endfor
% endif
        __global const ${ctype} *from = x + x_offset + at * m;
        __global ${ctype} *to = y + y_offset + (long)row * n;
        for (int i = 0; i < begin; ++i)
            to[i] = ${other};
        int i = begin;
        for (; i + ${lanes} <= end; i += ${lanes})
            *(__global vector *)(to + i) = *(__global const vector *)(from + i - low);
        if (i < end && end - begin >= ${lanes}) {  /* the last vector overlaps the one before */
            i = end - ${lanes};
            *(__global vector *)(to + i) = *(__global const vector *)(from + i - low);
            i = end;
        }
        for (; i < end; ++i)
            to[i] = from[i - low];
        for (; i < n; ++i)
            to[i] = ${other};
% for d in range(ndim - 1, -1, -1):
% if d:
        if (++i_${d} < size_${d})
            continue;
        i_${d} = 0;
% else:
        ++i_0;
% endif
% endfor
    }
}
</%def>
