## kernel gather_wide: rows picked by an index, in vectors, by neighbouring items of a group
##
## param  ctype: str                 type of the elements
## param  lanes: int                 elements of a vector, of which rows and their steps are whole
##                                   numbers; 1, 2, 4, 8 or 16
## param  group: int                 work-items of a group, a power of two
## param  width: int                 of these on a row, a power of two
## param  index_type: str            int or long
## param  missing: str               C expression, what an index out of range gives: NAN or 0
## param  wrap: bool                 indices in [-limit, 0) count from the end
## param  check: bool                an index out of range is reported
## param  flat: int|long             type of a flat index, long beyond 2^31 elements
## arg    outer: int                 batches; all share the index
## arg    n: int                     indices
## arg    inner: int                 elements of a row
## arg    across: int                groups that have a row
## arg    limit: int                 rows of x
## arg    x_outer: {flat}            step in x from batch to batch
## arg    x_row: {flat}              step in x from row to row
## arg    y: out ctype[outer][n][inner]
## arg    x: in ctype
## arg    index: in index_type[n]
## % if check:
## arg    fault: inout int           where to report
## arg    site: int                  its number
## % endif
##
## launch   groups, of which `across` have group / width rows
## numerics exact; no index, whatever its value, reads outside x
<%namespace name="gather" file="gather.mako"/>
<%namespace name="faults" file="/lib/fault.mako"/>
<%def name="gather_wide(ctype, lanes, group, width, index_type, missing, wrap, check, flat)">
<% vector = ctype if lanes == 1 else f"{ctype}{lanes}" %>
${faults.define(check)}
__kernel void gather_wide(...)
{
    const int item = get_local_id(0), block = get_group_id(0) / across;
    const int column =
        ((get_group_id(0) - block * across) * ${width} + item % ${width}) * ${lanes};
    const ${flat} row = (${flat})block * ${group // width} + item / ${width};
    if (column >= inner || row >= (${flat})outer * n)
        return;
    const int batch = outer == 1 ? 0 : row / n;
    const int i = row - (${flat})batch * n;
    ${index_type} at = index[index_offset + i];
    ${gather.checked(index_type, wrap)}
    ${faults.index(check, wrap, "i", "batch == 0 && column == 0")}
    ${vector} value = (${vector})(${missing});
    if (inside) {
        x += x_offset + batch * x_outer + (${flat})at * x_row + column;
        value = *(__global const ${vector} *)x;
    }
    *(__global ${vector} *)(y + y_offset + row * inner + column) = value;
}
</%def>
