## kernel scan: out[i] = x[0] joined with x[1] ... x[i], along one axis
##
## layout   x and out are [outer, n, inner]; steps along n may be negative, which scans from the
##          end. The axis is cut into parts of part_size, each scanned by itself; then the scan of
##          the parts' last elements is joined to the parts that follow.
## param    kind: sum|prod
## param    ctype: str                type of x, out and the running value
## param    group: int                work-items that share a part, a power of two
## param    a: str                    an expression: the value so far
## param    b: str                    an expression: what it takes next
## param    job: str                  an expression: which part of which line
## def      scan_items
## arg      jobs: int        outer times parts times inner
## arg      n: int           elements along the axis
## arg      inner: int       neighbours that are scanned apart
## arg      parts: int       parts of the axis
## arg      part_size: int
## arg      out_outer: long  step of out along outer
## arg      out_step: long   step of out along the axis
## arg      x_outer, x_step: long
## arg      out: out ctype   at the first element of the axis
## arg      x: in ctype
## def      scan_group
## arg      n, inner, parts, part_size: int
## arg      out_outer, out_step, x_outer, x_step: long
## arg      out: out ctype
## arg      x: in ctype
## def      scan_carry
## arg      jobs: int        elements of out behind the first part
## arg      n, inner, part_size: int
## arg      out_outer, out_step: long
## arg      out: inout ctype
## arg      before: in ctype[outer, parts - 1, inner]  scan of the parts' totals
## launch   items: one item a part. group: one group a part. carry: one item an element
## numerics within a part from its first element on (group: a tree of fixed shape), a sum from 0 on,
##          so that it is never -0; no atomics
<%def name="join(kind, a, b)">
(${a} ${"+" if kind == "sum" else "*"} ${b})
</%def>
<%def name="begin(kind, a)">
${"0 + " if kind == "sum" else ""}${a}
</%def>
<%def name="start(job)">
    const int neighbour = ${job} % inner, part = ${job} / inner % parts;
    const int outer = ${job} / inner / parts;
    const int first = part * part_size, end = min(first + part_size, n);
    x += x_offset + outer * x_outer + first * x_step + neighbour;
    out += out_offset + outer * out_outer + first * out_step + neighbour;
</%def>
<%def name="scan_items(kind, ctype)">
#pragma OPENCL FP_CONTRACT OFF
__kernel void scan_items(...) {
    const int job = get_global_id(0);
    if (job >= jobs)
        return;
    ${start("job")}
    ${ctype} value = ${begin(kind, "x[0]").strip()};
    out[0] = value;
    for (int i = 1; i < end - first; ++i) {
        value = ${join(kind, "value", "x[i * x_step]").strip()};
        out[i * out_step] = value;
    }
}
</%def>
<%def name="scan_group(kind, ctype, group)">
#pragma OPENCL FP_CONTRACT OFF
__kernel void scan_group(...) {
    __local ${ctype} values[${group}];
    const int job = get_group_id(0), item = get_local_id(0);
    ${start("job")}
    ${ctype} before = ${0 if kind == "sum" else 1};
    for (int from = 0; from < end - first; from += ${group}) {
        const int i = from + item;
        values[item] = i < end - first ? x[i * x_step] : 0;
        for (int step = 1; step < ${group}; step *= 2) {
            barrier(CLK_LOCAL_MEM_FENCE);
            const ${ctype} own = values[item], left = values[max(item - step, 0)];
            barrier(CLK_LOCAL_MEM_FENCE);
            values[item] = item >= step ? ${join(kind, "left", "own").strip()} : own;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (i < end - first)
            out[i * out_step] = ${join(kind, "before", "values[item]").strip()};
        before = ${join(kind, "before", f"values[{group - 1}]").strip()};
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
</%def>
<%def name="scan_carry(kind, ctype)">
#pragma OPENCL FP_CONTRACT OFF
__kernel void scan_carry(...) {
    const int job = get_global_id(0);
    if (job >= jobs)
        return;
    out += out_offset;
    before += before_offset;
    const int neighbour = job % inner, behind = job / inner % (n - part_size);
    const int outer = job / inner / (n - part_size);
    const int total = outer * ((n - 1) / part_size) + behind / part_size;
    const long at = outer * out_outer + (behind + part_size) * out_step + neighbour;
    out[at] = ${join(kind, "before[total * inner + neighbour]", "out[at]").strip()};
}
</%def>
