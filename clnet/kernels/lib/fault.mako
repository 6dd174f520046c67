## lib fault: what kernels do with data that an op is not defined for
##
## `report` writes into a cell which check found what, and where: the first to come stays, the
## others are counted (clnet/device/fault.py reads it). Only bad data costs anything.
##
## param check: bool          whether there is anything to report
## param wrap: bool           negative indices were moved by `limit`
## param place: str           C expression: where the index stands
## param once: str            C expression, whether this work-item is the one to report it
<%def name="define(check)">
% if check:
inline void report(
    __global int *fault, const int site, const long value, const long place, const long bound,
    const long kind)
{
    if (atomic_cmpxchg(fault, 0, site) == 0) {
        __global long *const what = (__global long *)(fault + 2);
        what[0] = value;
        what[1] = place;
        what[2] = bound;
        what[3] = kind;
    } else {
        atomic_inc(fault + 1);
    }
}
% endif
</%def>
##
## `index` reports `at`, unless it is `inside`.
<%def name="index(check, wrap, place, once)">
% if check:
    if (!inside && (${once}))
        report(fault + fault_offset, site, ${"at < 0 ? at - limit : at" if wrap else "at"},
            ${place},
               limit, 0);
% endif
</%def>
