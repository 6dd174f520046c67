## kernel scatter_rows: elements where an index along a line points, lines side by side
##
## layout   an item owns columns of y, and walks down the rows of index and x: a row's elements lie
##          side by side, those of a line (`scatter_lines` of gather.mako) a row apart
## param  ctype: str                 type of the elements
## param  index_type: str            int or long
## param  ndim: int                  axes of the blocks of rows
## param  how: put|add|times|most|least  as in gather.mako
## param  check: bool                an index out of range is reported
## param  flat: int|long             type of a flat index, long beyond 2^31 elements
## arg    n: int                     rows of index and x
## arg    inner: int                 columns
## arg    share: int                 of these, how many an item takes
## arg    limit: int                 rows of y
## arg    y_step: {flat}             step in y from row to row
## arg    index_step: int            step in index and x from row to row
## % for d in range(ndim):
## arg    size_{d}: int              the shape of the blocks
## % endfor
## % for d in range(ndim):
## arg    y_stride_{d}: {flat}       steps in y from block to block
## % endfor
## % for d in range(ndim):
## arg    index_stride_{d}: int      steps in index and x from block to block
## % endfor
## arg    y: inout ctype             y[..., index[..., i, j], j] = x[..., i, j], +=, *= ...
## arg    x: in ctype
## arg    index: in index_type
## % if check:
## arg    fault: inout int           where to report
## arg    site: int                  its number
## % endif
##
## launch   (inner / share, blocks), groups of one
## numerics each element of y meets those of x in the order of their rows: the bits of scatter_lines
<%namespace name="gather" file="gather.mako"/>
<%namespace name="strided" file="/lib/strided.mako"/>
<%namespace name="faults" file="/lib/fault.mako"/>
<%def name="scatter_rows(ctype, index_type, ndim, how, check, flat)">
${faults.define(check)}
__kernel void scatter_rows(...)
{
    const int first = get_global_id(0) * share;
    const int last = first + share < inner ? first + share : inner;
    ${strided.locate(ndim, "(int)get_global_id(1)", ("y", "index"), flat)}
    y += y_offset + at_y;
    x += x_offset + at_index;
    index += index_offset + at_index;
    for (int i = 0; i < n; ++i) {
        const ${flat} row = (${flat})i * index_step;
        for (int column = first; column < last; ++column) {
            const ${flat} own = row + column;
            ${index_type} at = index[own];
            ${gather.checked(index_type, False)}
            ${faults.index(check, False, "at_index + own", "true")}
            ${gather.meet(ctype, how, f"({flat})at * y_step + column", "own")}
        }
    }
}
</%def>
