## kernel place: a dense array of one value, with another array somewhere in it
##
## An item writes `share` elements in a row, whatever rows they belong to. What goes past the caches
## is put together in local memory, and goes to y in whole lines.
##
## param  ctype: str                 type of the elements
## param  lanes: int                 elements of a vector
## param  padded: bool               x does not fill y
## param  stream: bool               y goes past the caches; it begins at a line, which a vector
##                                   fills
## param  room: int                  elements that are put together, whole vectors
## param  ndim: int                  axes but for the last
## def    place
## arg    total: int         elements of y
## arg    share: int         a multiple of lanes
## arg    n: int             elements of y along the last axis
## arg    m: int             those of x
## arg    left: int          where they begin
## % for d in range(ndim):
## arg    size_{d}: int      elements of y along the other axes
## arg    x_size_{d}: int    those of x
## arg    low_{d}: int       where they begin
## arg    x_stride_{d}: int  steps in x; along the last axis it is 1
## % endfor
## arg    y: out ctype
## arg    x: in ctype
## % if padded:
## arg    value: ctype
## % endif
##
## launch   one item for each share, groups of one
<%namespace name="vectors" file="/lib/vector.mako"/>
<%namespace name="prelude" file="/lib/prelude.mako"/>
<%def name="place(ctype, lanes, padded, stream, room, ndim)">
${vectors.types(ctype, lanes)}
<% space = "__local" if stream else "__global" %>
% if stream:
${prelude.spill(ctype, lanes, stream)}
% endif
${prelude.fetch_ahead()}
inline void take(${space} ${ctype} *to, __global const ${ctype} *from, const int n)
{
    if (n < ${lanes}) {
        for (int i = 0; i < n; ++i)
            to[i] = from[i];
        return;
    }
    for (int at = 0; at < n; at += ${lanes}) {
        const int i = min(at, n - ${lanes});
        FETCH_AHEAD(from + i + 1024);
        *(${space} vector *)(to + i) = *(__global const vector *)(from + i);
    }
}
__kernel void place(...)
{
% if stream:
    __local ${ctype} made[${room}] __attribute__((aligned(64)));
% endif
    const int from = get_global_id(0) * share, to = min(from + share, total);
    int column = from % n, rest = from / n;
% for d in range(ndim - 1, -1, -1):
    int at_${d} = rest % size_${d} - low_${d};
    rest /= size_${d};
% endfor
    x += x_offset;
    for (int begin = from; begin < to; begin += ${room}) {
        const int size = min(${room}, to - begin);
% if not stream:
        __global ${ctype} *const made = y + y_offset + begin;
% endif
        for (int at = 0; at < size;) {
            const int count = min(n - column, size - at);
            const int at_x = ${" + ".join(f"at_{d} * x_stride_{d}" for d in range(ndim)) or "0"};
% if padded:
            const int inside = ${" && ".join(f"at_{d} >= 0 && at_{d} < x_size_{d}"
                for d in range(ndim)) or "1"};
            const int first = inside ? clamp(left - column, 0, count) : count;
            const int last = inside ? clamp(left + m - column, first, count) : count;
            for (int i = 0; i < first; ++i)
                made[at + i] = value;
            for (int i = last; i < count; ++i)
                made[at + i] = value;
% else:
            const int first = 0, last = count;
% endif
            take(made + at + first, x + at_x + column + first - left, last - first);
            at += count;
            column += count;
            if (column == n) {
                column = 0;
% if ndim:
                ++at_${ndim - 1};
% endif
% for d in range(ndim - 1, 0, -1):
                if (at_${d} == size_${d} - low_${d}) {
                    at_${d} = -low_${d};
                    ++at_${d - 1};
                }
% endfor
            }
        }
% if stream:
        spill(y + y_offset, begin, made, size);
% endif
    }
}
</%def>
