## kernel scan_lines: running sums and products on CPUs, several lines or neighbours at once
##
## A sum waits for the one before it, so an item scans `lines` parts in turns; what the parts are is
## in scan.mako. Neighbours beside the axis are vectors, which take the row before from where it was
## stored. With `lanes`, a part's results are collected in blocks and go past the caches.
##
## param    kind: sum|prod
## param    ctype: str                type of x, out and the running value
## param    lines: int                parts of an item
## param    lanes: int                elements of a vector; of scan_lines: which fill a line of the
##                                    caches, inner is 1 and n a whole number of them; or 0
## param    reverse: bool             out_step is -1, where lanes are given
## param    a: str                    an expression: the value so far
## param    b: str                    an expression: what it takes next
## def      scan_lines
## arg      outers: int      lines, neighbours not counted
## arg      n: int           elements along the axis
## arg      inner: int       neighbours that are scanned apart
## arg      parts: int       parts of the axis
## arg      part_size: int
## arg      out_outer: long  step of out along outer
## arg      out_step: long   step of out along the axis
## arg      x_outer, x_step: long
## arg      out: out ctype   at the first element of the axis
## arg      x: in ctype
## def      scan_neighbours
## arg      chunk: int       neighbours of an item
## arg      n, inner, part_size: int
## arg      out_outer, out_step, x_outer, x_step: long
## arg      out: out ctype
## arg      x: in ctype
## def      scan_carry_lines
## arg      n, inner, parts, part_size: int
## arg      out_outer: long
## arg      out_step: long   inner or -inner
## arg      out: inout ctype
## arg      before: in ctype[outer, parts - 1, inner]  scan of the parts' totals
## launch   groups of one. scan_lines: an item for `lines` of outers * parts * inner;
##          scan_neighbours: (chunks of neighbours, parts, outer); scan_carry_lines: (parts - 1,
##          outer)
## numerics within a part from its first element on, as scan_items does
<%namespace name="prelude" file="/lib/prelude.mako"/>
<%namespace name="vectors" file="/lib/vector.mako"/>
<%def name="join(kind, a, b)">
(${a} ${"+" if kind == "sum" else "*"} ${b})
</%def>
<%def name="begin(kind, a)">
${"0 + " if kind == "sum" else ""}${a}
</%def>
<%def name="scan_lines(kind, ctype, lines, lanes, reverse)">
% if lanes:
${vectors.types(ctype, lanes)}
${prelude.stream(ctype, lanes)}
% endif
#pragma OPENCL FP_CONTRACT OFF
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void scan_lines(...) {
% if lanes:
    __local ${ctype} done[${lines * 256}] __attribute__((aligned(64)));
% endif
    /* Neighbours in turns are of one part, so that they end together;
        the last one may come twice. */
    const int jobs = outers * inner * parts;
    int common = part_size;
% for r in range(lines):
    const int job_${r} = get_global_id(0) * ${lines} + ${r} < jobs
        ? get_global_id(0) * ${lines} + ${r} : jobs - 1;
    const int first_${r} = job_${r} / (outers * inner) * part_size,
        line_${r} = job_${r} % (outers * inner);
    const int count_${r} = first_${r} + part_size < n ? part_size : n - first_${r};
    __global const ${ctype} *x_${r} = x + x_offset + line_${r} / inner * x_outer
        + first_${r} * x_step + line_${r} % inner;
    __global ${ctype} *out_${r} = out + out_offset + line_${r} / inner * out_outer
        + first_${r} * out_step + line_${r} % inner;
    ${ctype} value_${r} = ${begin(kind, f"x_{r}[0]").strip()};
    common = common < count_${r} ? common : count_${r};
% endfor
% if lanes:
    for (int from = 0; from < common; from += 256) {
        const int some = from + 256 < common ? 256 : common - from;
        if (from == 0) {
% for r in range(lines):
            done[${256 * r} + ${"some - 1" if reverse else "0"}] = value_${r};
% endfor
        }
        for (int i = from == 0; i < some; ++i) {
% for r in range(lines):
            value_${r} = ${join(kind, f"value_{r}",
                f"x_{r}[{'-' if reverse else ''}(from + i)]").strip()};
            done[${256 * r} + ${"some - 1 - i" if reverse else "i"}] = value_${r};
% endfor
        }
        for (int i = 0; i < some; i += ${lanes}) {
% for r in range(lines):
            stream(*(__local const vector *)(done + ${256 * r} + i),
                (__global ${ctype}${lanes} *)(out_${r}
                + ${"1 - from - some" if reverse else "from"} + i));
% endfor
        }
    }
% else:
% for r in range(lines):
    out_${r}[0] = value_${r};
% endfor
    for (int i = 1; i < common; ++i) {
% for r in range(lines):
        value_${r} = ${join(kind, f"value_{r}", f"x_{r}[i * x_step]").strip()};
        out_${r}[i * out_step] = value_${r};
% endfor
    }
% endif
% for r in range(lines):
    for (int i = common; i < count_${r}; ++i) {
        value_${r} = ${join(kind, f"value_{r}", f"x_{r}[i * x_step]").strip()};
        out_${r}[i * out_step] = value_${r};
    }
% endfor
}
</%def>
<%def name="scan_neighbours(kind, ctype, lanes)">
${vectors.types(ctype, lanes)}
#pragma OPENCL FP_CONTRACT OFF
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void scan_neighbours(...) {
    const int begin = get_global_id(0) * chunk, end = begin + chunk < inner ? begin + chunk : inner;
    const int first = get_global_id(1) * part_size,
        count = first + part_size < n ? part_size : n - first;
    x += x_offset + get_global_id(2) * x_outer + first * x_step;
    out += out_offset + get_global_id(2) * out_outer + first * out_step;
    for (int j = begin; j < end; ++j)
        out[j] = ${begin(kind, "x[j]").strip()};
    for (int i = 1; i < count; ++i) {
        int j = begin;
        x += x_step;
        for (; j + ${lanes} <= end; j += ${lanes})
            *(__global vector *)(out + out_step + j) =
                ${join(kind, "*(__global const vector *)(out + j)",
                "*(__global const vector *)(x + j)").strip()};
        for (; j < end; ++j)
            out[out_step + j] = ${join(kind, "out[j]", "x[j]").strip()};
        out += out_step;
    }
}
</%def>
<%def name="scan_carry_lines(kind, ctype, lanes)">
${vectors.types(ctype, lanes)}
#pragma OPENCL FP_CONTRACT OFF
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void scan_carry_lines(...) {
    const int first = (get_global_id(0) + 1) * part_size,
        count = first + part_size < n ? part_size : n - first;
    before += before_offset + (get_global_id(1) * (parts - 1) + get_global_id(0)) * inner;
    /* the part's lowest element in memory */
    out += out_offset + get_global_id(1) * out_outer
        + (out_step < 0 ? first + count - 1 : first) * out_step;
    if (inner == 1) {
        int i = 0;
        for (; i + ${lanes} <= count; i += ${lanes})
            *(__global vector *)(out + i) =
                ${join(kind, "before[0]", "*(__global const vector *)(out + i)").strip()};
        for (; i < count; ++i)
            out[i] = ${join(kind, "before[0]", "out[i]").strip()};
    } else
        for (int i = 0; i < count; ++i, out += inner) {
            int j = 0;
            for (; j + ${lanes} <= inner; j += ${lanes})
                *(__global vector *)(out + j) =
                    ${join(kind, "*(__global const vector *)(before + j)",
                    "*(__global const vector *)(out + j)").strip()};
            for (; j < inner; ++j)
                out[j] = ${join(kind, "before[j]", "out[j]").strip()};
        }
}
</%def>
