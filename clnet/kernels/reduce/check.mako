## kernel check: elements that an op is not defined for are reported
##
## param  ctype: str             type of the elements
## param  bad: str               C expression: whether the element v is bad, with low and high
## param  block: int             elements of a work-item
## param  kind: 0|1|2            how a value is reported: a whole number, a float, a double
## param  gate: str              type of the gate; "": there is none
## arg    n: int            elements
## arg    low, high: ctype
## arg    x: in ctype[n]
## % if gate:
## arg    gate: in gate[1]  unless it is NaN, nothing is looked at
## % endif
## arg    fault: inout int  where to report
## arg    site: int         the check's number
## launch   ceil(n / block) work-items, rounded up
## numerics exact
<%namespace name="faults" file="/lib/fault.mako"/>
<%def name="check_elements(ctype, bad, block, kind, gate)">
<% bits = ("v", "as_int(v)", "as_long(v)")[kind] %>
${faults.define(True)}
__kernel void check_elements(...) {
% if gate:
    if (!isnan(gate[gate_offset]))
        return;
% endif
    x += x_offset;
% if block == 1:
    const int i = get_global_id(0);
    if (i < n) {
        const ${ctype} v = x[i];
        if (${bad})
            report(fault + fault_offset, site, ${bits}, i, 0, ${kind});
    }
% else:
    const long start = (long)get_global_id(0) * ${block};
    const int first = min(start, (long)n), last = min(start + ${block}, (long)n);
    int found = 0;
    for (int i = first; i < last; ++i) {
        const ${ctype} v = x[i];
        found |= ${bad};
    }
    if (found)
        for (int i = first; i < last; ++i) {
            const ${ctype} v = x[i];
            if (${bad})
                report(fault + fault_offset, site, ${bits}, i, 0, ${kind});
        }
% endif
}
</%def>
