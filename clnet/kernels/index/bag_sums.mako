## kernel bag_sums: sums, or means, of the rows of a table that the indices of a bag name
##
## param  ctype: str                 float or double
## param  index_type: str            int or long
## param  vector: int                elements of a vector
## param  ragged: bool               bags begin where an array says, else they have equally many
## param  mean: bool                 the sum by how many there are, 0 of none
## param  check: bool                an index out of range is reported
## param  type: str                  what columns are added up in, of ctype
## param  lanes, vectors: int        elements of such a one, and how many at once
## arg    bags: int
## arg    share: int                 of these, how many an item takes
## arg    n: int                     indices
## arg    each: int                  of a bag, where bags are equal
## arg    width: int                 elements of a row
## arg    limit: int                 rows of x
## arg    skip: int                  a row that does not count, -1 for none
## arg    y: out ctype[bags][width]
## arg    x: in ctype[limit][width]
## arg    index: in index_type[n]
## % if ragged:
## arg    starts: in long[bags]      ascending; what lies elsewhere reads nothing outside
## % endif
## % if check:
## arg    fault: inout int           where to report
## arg    site: int                  its number
## % endif
##
## launch   (bags / share), groups of one
## numerics a bag is summed in order; NaN with an index out of range, which reads nothing
<%namespace name="gather" file="gather.mako"/>
<%namespace name="faults" file="/lib/fault.mako"/>
<%namespace name="vectors" file="/lib/vector.mako"/>
<%def name="bag_sums(ctype, index_type, vector, ragged, mean, check)">
${vectors.types(ctype, vector)}
${faults.define(check)}
__kernel void bag_sums(...)
{
    const int first = get_global_id(0) * share;
    const int last = first + share < bags ? first + share : bags;
    x += x_offset;
    index += index_offset;
    for (int bag = first; bag < last; ++bag) {
% if ragged:
        const long from = starts[starts_offset + bag];
        const long to = bag + 1 < bags ? starts[starts_offset + bag + 1] : n;
        const int start = from < 0 ? 0 : from < n ? (int)from : n;
        const int stop = to < start ? start : to < n ? (int)to : n;
% else:
        const int start = bag * each, stop = start + each;
% endif
        int count = 0, outside = 0;
        for (int i = start; i < stop; ++i) {
            const ${index_type} at = index[i];
            ${gather.checked(index_type, False)}
            ${faults.index(check, False, "i", "true")}
            outside += !inside;
            count += at != skip;
        }
        const ${ctype} by = count > 1 ? count : 1;
        __global ${ctype} *own = y + y_offset + (long)bag * width;
        int column = 0;
        ${columns(index_type, "vector", vector, 4, mean)}
        ${columns(index_type, "vector", vector, 1, mean)}
        ${columns(index_type, ctype, 1, 1, mean)}
        for (column = outside ? 0 : width; column < width; ++column)
            own[column] = NAN;
    }
}
</%def>
##
## As many columns as so many vectors have, again and again. An index is looked at once for them.
<%def name="columns(index_type, type, lanes, vectors, mean)">
        for (; column + ${lanes * vectors} <= width; column += ${lanes * vectors}) {
            ${type} ${", ".join(f"sum_{k} = 0" for k in range(vectors))};
            for (int i = start; i < stop; ++i) {
                const ${index_type} at = index[i];
                if (at < 0 || at >= limit || at == skip)
                    continue;
                __global const ${type} *row =
                    (__global const ${type} *)(x + (long)at * width + column);
% for k in range(vectors):
                sum_${k} += row[${k}];
% endfor
            }
% for k in range(vectors):
            ((__global ${type} *)(own + column))[${k}] = sum_${k}${" / by" if mean else ""};
% endfor
        }
</%def>
