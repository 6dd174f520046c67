## kernel unordered: elements that meet at places, where no order shows
##
## math     meet: sums of whole numbers, by place; or the largest keys, larger ones of larger
##          numbers (of smaller ones, for the least), 0 where nothing comes, the largest of NaN
##          met: the numbers of keys
## param    element: float|int|short|char|uchar  their type
## param    index_type: str           int or long
## param    ndim: int                 axes of the index
## param    how: add|most|least       what is made of elements that meet
## param    first: str                C text, what stands where nothing came
## param    check: bool               an index out of range is reported
## def      meet
## arg      n: int                    elements
## arg      limit: int                size of the axis of y that is indexed
## arg      y_step: int               step in y along it
## % for d in range(ndim):
## arg      size_{d}: int             the index's shape
## % endfor
## % for d in range(ndim):
## arg      y_stride_{d}: int         steps in y along its other axes
## % endfor
## % for d in range(ndim):
## arg      index_stride_{d}: int
## % endfor
## arg      y: inout uint             sums, or keys
## arg      x: in element[n]
## arg      index: in index_type
## % if check:
## arg      fault: inout int          where to report
## arg      site: int                 its number
## % endif
## def      met
## arg      n: int
## arg      y: out element[n]
## arg      keys: in uint[n]
## launch   one item per element
## numerics exact: sums of whole numbers and extremes are the same in every order of the atomics
<%namespace name="strided" file="/lib/strided.mako"/>
<%namespace name="faults" file="/lib/fault.mako"/>
<%def name="meet(element, index_type, ndim, how, check)">
${faults.define(check)}
__kernel void meet(...)
{
    const int i = get_global_id(0);
    if (i < n) {
        ${strided.locate(ndim, "i", ("y", "index"))}
        const ${index_type} at = index[index_offset + at_index];
        const bool inside = at >= 0 && at < limit;
        ${faults.index(check, False, "i", "true")}
        if (inside) {
            volatile __global uint *place = y + y_offset + at_y + (int)at * y_step;
            const ${element} value = x[x_offset + i];
% if how == "add":
            atomic_add(place, (uint)value);
% else:
    % if element == "float":
            const uint bits = as_uint(value);
            uint key = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    % else:
            uint key = (uint)(int)value ^ 0x80000000u;
    % endif
    % if how == "least":
            key = ~key;
    % endif
    % if element == "float":
            if (value != value)
                key = 0xFFFFFFFFu;
    % endif
            atomic_max(place, key);
% endif
        }
    }
}
</%def>
<%def name="met(element, how, first)">
__kernel void met(...)
{
    const int i = get_global_id(0);
    if (i < n) {
        uint key = keys[keys_offset + i];
        ${element} value = ${first};
% if element == "float":
        if (key == 0xFFFFFFFFu)
            value = NAN;
        else if (key) {
            key = ${"~key" if how == "least" else "key"};
            value = as_float(key & 0x80000000u ? key ^ 0x80000000u : ~key);
        }
% else:
        if (key)
            value = (${element})(int)(${"~key" if how == "least" else "key"} ^ 0x80000000u);
% endif
        y[y_offset + i] = value;
    }
}
</%def>
