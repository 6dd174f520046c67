## kernel gather: elements and rows picked by an index, and the index as keys to sort by
##
## param  ctype: str                 type of the elements
## param  index_type: str            int or long
## param  missing: str               C expression, what an index out of range gives: NAN or 0
## param  wrap: bool                 indices in [-limit, 0) count from the end
## param  ndim: int                  axes of the index
## param  count: int                 arrays of indices
## param  how: put|add|times|most|least
##                                   elements replace what is there, are added to it, multiply it,
##                                   or the larger or smaller of both stays (a NaN always does)
## param  check: bool                an index out of range is reported
## param  flat: int|long             type of a flat index, long beyond 2^31 elements
## param  place, own: str            C expressions, where y is written and where x is read
## param  there, here: str           C expressions, what is written and what is read
## def    gather_rows
## arg    outer: int             batches; all share the index
## arg    n: int                 indices
## arg    share: int             of these, how many an item takes
## arg    inner: int             elements of a row
## arg    limit: int             rows of x
## arg    x_outer: {flat}        step in x from batch to batch
## arg    x_row: {flat}          step in x from row to row
## arg    y: out ctype[outer][n][inner]
## arg    x: in ctype
## arg    index: in index_type[n]
## % if check:
## arg    fault: inout int       where to report
## arg    site: int              its number
## % endif
## def    gather_row_elements
## arg    outer: int             batches; all share the index
## arg    n: int                 indices
## arg    inner: int             elements of a row
## arg    limit: int             rows of x
## arg    x_outer: {flat}        step in x from batch to batch
## arg    x_row: {flat}          step in x from row to row
## arg    y: out ctype[outer][n][inner]
## arg    x: in ctype
## arg    index: in index_type[n]
## % if check:
## arg    fault: inout int       where to report
## arg    site: int              its number
## % endif
## def    gather_along
## arg    n: int                 elements of y
## arg    limit: int             size of the axis of x that is indexed
## arg    x_step: {flat}         step in x along it
## % for d in range(ndim):
## arg    size_{d}: int          the shape of y and index
## % endfor
## % for d in range(ndim):
## arg    x_stride_{d}: {flat}   steps in x, 0 along the axis that is indexed
## % endfor
## % for d in range(ndim):
## arg    index_stride_{d}: int  steps in index
## % endfor
## arg    y: out ctype[n]
## arg    x: in ctype
## arg    index: in index_type
## % if check:
## arg    fault: inout int       where to report
## arg    site: int              its number
## % endif
## def    scatter_lines
## arg    lines: int             lines of the index along the axis
## arg    n: int                 elements of a line
## arg    limit: int             size of the axis of y that is indexed
## arg    y_step: {flat}         step in y along it
## arg    index_step: int        step in index and x along it
## % for d in range(ndim):
## arg    size_{d}: int          the shape of the lines
## % endfor
## % for d in range(ndim):
## arg    y_stride_{d}: {flat}   steps in y from line to line
## % endfor
## % for d in range(ndim):
## arg    index_stride_{d}: int  steps in index and x from line to line
## % endfor
## arg    y: inout ctype         y[..., index[..., i, ...], ...] = x[..., i, ...], or +=
## arg    x: in ctype
## arg    index: in index_type
## % if check:
## arg    fault: inout int       where to report
## arg    site: int              its number
## % endif
## def    keys_along
## arg    n, limit: int
## arg    x_step: int            step along the axis in a dense array of x's shape
## arg    last: int              the key of an index out of range
## % for d in range(ndim):
## arg    size_{d}: int
## % endfor
## % for d in range(ndim):
## arg    x_stride_{d}: int      steps in a dense array of x's shape
## % endfor
## % for d in range(ndim):
## arg    index_stride_{d}: int
## % endfor
## arg    keys: out int[n]
## arg    order: out int[n]      0, 1, 2 ...
## arg    index: in index_type
## % if check:
## arg    fault: inout int       where to report
## arg    site: int              its number
## % endif
## def    keys_of_rows
## arg    n: int
## arg    limit: int             also the key of an index out of range
## arg    skip: int              a row treated as out of range, -1 for none
## arg    keys: out int[n]
## arg    order: out int[n]
## arg    index: in index_type[n]
## % if check:
## arg    fault: inout int       where to report
## arg    site: int              its number
## % endif
## def    fold_indices
## arg    n: int
## % for d in range(count):
## arg    size_{d}: int          sizes of the axes
## % endfor
## arg    y: out int[n]          the row-major position; their product if an index is out
##                                of range
## % for d in range(count):
## arg    index_{d}: in index_type[n]
## % endfor
## % if check:
## arg    fault: inout int       where to report
## arg    site: int              its number
## % endif
##
## launch   gather_rows: (n / share, outer), groups of one; scatter_lines: an item per line; the
##          others: one item per element
## numerics exact; no index, whatever its value, reads outside x
<%namespace name="strided" file="/lib/strided.mako"/>
<%namespace name="faults" file="/lib/fault.mako"/>
<%def name="checked(index_type, wrap)">
% if wrap:
    if (at < 0)
        at += limit;
% endif
    const bool inside = at >= 0 && at < limit;
</%def>
<%def name="meet(ctype, how, place, own)">
    if (inside)
        ${join(ctype, how, f"y[{place}]", f"x[{own}]")}
</%def>
## One statement, of elements or of vectors.
<%def name="join(ctype, how, there, here)">
% if how in ("most", "least"):
    {
        const ${ctype} before = ${there}, found = ${here};
        ## No branch for a guess that fails.
        ${there} =
            (found ${">" if how == "most" else "<"} before) | (found != found) ? found : before;
    }
% else:
    ${there} ${{"add": "+=", "times": "*="}.get(how, "=")} ${here};
% endif
</%def>
<%def name="gather_rows(ctype, index_type, missing, wrap, check, flat)">
${faults.define(check)}
__kernel void gather_rows(...)
{
    const int first = get_global_id(0) * share, last = first + share < n ? first + share : n;
    const int batch = get_global_id(1);
    index += index_offset;
    y += y_offset + (${flat})batch * n * inner;
    x += x_offset + batch * x_outer;
    for (int i = first; i < last; ++i) {
        ${index_type} at = index[i];
        ${checked(index_type, wrap)}
        ${faults.index(check, wrap, "i", "batch == 0")}
        __global ${ctype} *to = y + (${flat})i * inner;
        if (inside) {
            __global const ${ctype} *from = x + (${flat})at * x_row;
            for (int column = 0; column < inner; ++column)
                to[column] = from[column];
        } else {
            for (int column = 0; column < inner; ++column)
                to[column] = ${missing};
        }
    }
}
</%def>
<%def name="gather_row_elements(ctype, index_type, missing, wrap, check, flat)">
${faults.define(check)}
__kernel void gather_row_elements(...)
{
    const ${flat} i = get_global_id(0);
    if (i < (${flat})outer * n * inner) {
        const int column = i % inner;
        ${index_type} at = index[index_offset + i / inner % n];
        ${checked(index_type, wrap)}
        ${faults.index(check, wrap, "i / inner", f"i < ({flat})n * inner && column == 0")}
        x += x_offset + i / inner / n * x_outer + column;
        y[y_offset + i] = inside ? x[(${flat})at * x_row] : (${ctype})${missing};
    }
}
</%def>
<%def name="gather_along(ctype, index_type, ndim, missing, check, flat)">
${faults.define(check)}
__kernel void gather_along(...)
{
    const int i = get_global_id(0);
    if (i < n) {
        ${strided.locate(ndim, "i", ("x", "index"), flat)}
        ${index_type} at = index[index_offset + at_index];
        ${checked(index_type, False)}
        ${faults.index(check, False, "i", "true")}
        x += x_offset + at_x;
        y[y_offset + i] = inside ? x[(${flat})at * x_step] : (${ctype})${missing};
    }
}
</%def>
<%def name="scatter_lines(ctype, index_type, ndim, how, check, flat)">
${faults.define(check)}
__kernel void scatter_lines(...)
{
    /* One item owns a line of y: it writes there in order, and no other does. */
    const int line = get_global_id(0);
    if (line < lines) {
        ${strided.locate(ndim, "line", ("y", "index"), flat)}
        y += y_offset + at_y;
        x += x_offset + at_index;
        index += index_offset + at_index;
        for (int i = 0; i < n; ++i) {
            const ${flat} own = (${flat})i * index_step;
            ${index_type} at = index[own];
            ${checked(index_type, False)}
            ${faults.index(check, False, "at_index + own", "true")}
            ${meet(ctype, how, f"({flat})at * y_step", "own")}
        }
    }
}
</%def>
<%def name="keys_along(index_type, ndim, check)">
${faults.define(check)}
__kernel void keys_along(...)
{
    const int i = get_global_id(0);
    if (i < n) {
        ${strided.locate(ndim, "i", ("x", "index"))}
        ${index_type} at = index[index_offset + at_index];
        ${checked(index_type, False)}
        ${faults.index(check, False, "i", "true")}
        keys[keys_offset + i] = inside ? at_x + (int)at * x_step : last;
        order[order_offset + i] = i;
    }
}
</%def>
<%def name="keys_of_rows(index_type, wrap, check)">
${faults.define(check)}
__kernel void keys_of_rows(...)
{
    const int i = get_global_id(0);
    if (i < n) {
        ${index_type} at = index[index_offset + i];
        ${checked(index_type, wrap)}
        ${faults.index(check, wrap, "i", "true")}
        keys[keys_offset + i] = inside && at != skip ? (int)at : limit;
        order[order_offset + i] = i;
    }
}
</%def>
<%def name="fold_indices(index_type, count, check)">
${faults.define(check)}
__kernel void fold_indices(...)
{
    const int i = get_global_id(0);
    if (i < n) {
        int position = 0, total = 1;
        bool valid = true;
% for d in range(count):
        {
            const int limit = size_${d};
            ${index_type} at = index_${d}[index_${d}_offset + i];
            ${checked(index_type, True)}
            ${faults.index(check, True, "i", "true")}
            valid = valid && inside;
            position = position * limit + (inside ? (int)at : 0);
            total *= limit;
        }
% endfor
        y[y_offset + i] = valid ? position : total;
    }
}
</%def>
