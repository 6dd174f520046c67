## kernel scatter_product_slope: the gradient of products of elements where an index along a line
##                               points
##
## math     gx[i] = what y[at] was before x[i] came * the product of g[at] and those behind x[i]
## layout   blocks as in scatter_rows.mako: an item owns columns, down and up again
## param  ctype: str                 type of the elements
## param  index_type: str            int or long
## param  ndim: int                  axes of the blocks of rows
## param  flat: int|long             type of a flat index, long beyond 2^31 elements
## arg    n: int                     rows of index, x and gx
## arg    inner: int                 columns
## arg    share: int                 of these, how many an item takes
## arg    limit: int                 rows of before and after
## arg    y_step: {flat}             step in them from row to row
## arg    index_step: int            step in index, x and gx from row to row
## % for d in range(ndim):
## arg    size_{d}: int              the shape of the blocks
## % endfor
## % for d in range(ndim):
## arg    y_stride_{d}: {flat}       steps in before and after from block to block
## % endfor
## % for d in range(ndim):
## arg    index_stride_{d}: int      steps in index, x and gx from block to block
## % endfor
## arg    before: inout ctype        what the products begin with; is lost
## arg    after: inout ctype         their gradient; becomes that of what they begin with
## arg    gx: out ctype
## arg    x: in ctype
## arg    index: in index_type
##
## launch   (inner / share, blocks), groups of one
## numerics no division: exact beside zeros and infinities; 0 for an index out of range
<%namespace name="strided" file="/lib/strided.mako"/>
<%def name="scatter_product_slope(ctype, index_type, ndim, flat)">
__kernel void scatter_product_slope(...)
{
    const int first = get_global_id(0) * share;
    const int last = first + share < inner ? first + share : inner;
    ${strided.locate(ndim, "(int)get_global_id(1)", ("y", "index"), flat)}
    before += before_offset + at_y;
    after += after_offset + at_y;
    gx += gx_offset + at_index;
    x += x_offset + at_index;
    index += index_offset + at_index;
% for pass_ in ("before", "after"):
    for (int i = ${"0; i < n; ++i" if pass_ == "before" else "n - 1; i >= 0; --i"}) {
        const ${flat} row = (${flat})i * index_step;
        for (int column = first; column < last; ++column) {
            const ${flat} own = row + column;
            const ${index_type} at = index[own];
            if (at >= 0 && at < limit) {
                const ${flat} place = (${flat})at * y_step + column;
                const ${ctype} others = ${pass_}[place];
                gx[own] ${"=" if pass_ == "before" else "*="} others;
                ${pass_}[place] = others * x[own];
            }
% if pass_ == "before":
            else {
                gx[own] = 0;
            }
% endif
        }
    }
% endfor
}
</%def>
