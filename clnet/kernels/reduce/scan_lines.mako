## kernel scan_lines: running sums and products on CPUs, several lines or neighbours at once
##
## Of a long axis the parts' totals are known first: those of total_lines or total_neighbours,
## scanned. So each part begins with what comes before it, and is written once. A running value of
## floats is of doubles: each result is rounded once, however many come before it.
##
## A sum waits for the one before it, so an item scans `lines` parts in turns; what the parts are is
## in scan.mako. Neighbours beside the axis are vectors, whose running values stay in the nearest
## cache. With `lanes`, a part's results are collected in blocks and go past the caches.
##
## param    kind: sum|prod
## param    ctype: str                type of x and out
## param    total: str                type of the running value
## param    lines: int                parts of an item
## param    lanes: int                elements of a vector; of scan_lines: which fill a line of the
##                                    caches, inner is 1 and n a whole number of them; or 0; of
##                                    total_lines: x_step is 1 or -1, if more than 1
## param    most: int                 elements of a chunk, at most
## param    reverse: bool             out_step is -1, where lanes are given
## param    carried: bool             there is more than one part
## param    a: str                    an expression: the value so far
## param    b: str                    an expression: what it takes next
## def      scan_lines
## arg      outers: int      lines, neighbours not counted
## def      total_lines
## arg      jobs: int        outer times (parts - 1) times inner
## def      scan_neighbours, total_neighbours
## arg      chunk: int       neighbours of an item
## def      scan_lines, scan_neighbours
## arg      n: int           elements along the axis
## def      all
## arg      inner: int       neighbours that are scanned apart
## arg      parts: int       parts of the axis
## arg      part_size: int
## def      scan_lines, scan_neighbours
## arg      out_outer: long  step of out along outer
## arg      out_step: long   step of out along the axis
## def      all
## arg      x_outer, x_step: long
## def      scan_lines, scan_neighbours
## arg      out: out ctype   at the first element of the axis
## def      total_lines, total_neighbours
## arg      totals: out total[outer, parts - 1, inner]
## def      all
## arg      x: in ctype
## def      scan_lines, scan_neighbours
## % if carried:
## arg      before: in total[outer, parts - 1, inner]  scan of the parts' totals
## % endif
## launch   groups of one. scan_lines: an item for `lines` of outers * parts * inner;
##          scan_neighbours: (chunks of neighbours, parts, outer); total_lines: an item for a few
##          jobs; total_neighbours: (chunks of neighbours, parts - 1, outer)
## numerics within a part from its first element on, as scan_items does; totals in any order
<%namespace name="lib" file="/lib/fold.mako"/>
<%namespace name="prelude" file="/lib/prelude.mako"/>
<%namespace name="vectors" file="/lib/vector.mako"/>
<%def name="join(kind, a, b)">
(${a} ${"+" if kind == "sum" else "*"} ${b})
</%def>
<%def name="begin(kind, a)">
${"0 + " if kind == "sum" else ""}${a}
</%def>
<%def name="scan_lines(kind, ctype, total, lines, lanes, reverse, carried)">
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
    const int part_${r} = job_${r} / (outers * inner), line_${r} = job_${r} % (outers * inner);
    const int first_${r} = part_${r} * part_size;
    const int count_${r} = first_${r} + part_size < n ? part_size : n - first_${r};
    __global const ${ctype} *x_${r} = x + x_offset + line_${r} / inner * x_outer
        + first_${r} * x_step + line_${r} % inner;
    __global ${ctype} *out_${r} = out + out_offset + line_${r} / inner * out_outer
        + first_${r} * out_step + line_${r} % inner;
    ${total} value_${r} = ${begin(kind, f"x_{r}[0]").strip()};
% if carried:
    if (part_${r} > 0) {
        const int at = (line_${r} / inner * (parts - 1) + part_${r} - 1) * inner;
        value_${r} = ${join(kind, f"before[before_offset + at + line_{r} % inner]",
            f"value_{r}").strip()};
    }
% endif
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
<%def name="total_lines(kind, ctype, total, lines, lanes)">
<%
    vector = f"{total}{lanes}" if lanes > 1 else total
    convert = "{}" if ctype == total or lanes == 1 else f"convert_{total}{lanes}({{}})"
%>
${lib.fold(kind, total, lanes)}
% if lanes > 1:
${vectors.types(ctype, lanes)}
% endif
#pragma OPENCL FP_CONTRACT OFF
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void total_lines(...) {
    ${lib.identity(kind, total)}
    const int end = get_global_id(0) * ${lines} + ${lines} < jobs
        ? get_global_id(0) * ${lines} + ${lines} : jobs;
    for (int job = get_global_id(0) * ${lines}; job < end; ++job) {
        const int part = job / inner % (parts - 1), outer = job / inner / (parts - 1);
        __global const ${ctype} *p = x + x_offset + outer * x_outer
            + part * part_size * x_step + job % inner;
% if lanes > 1:
        p -= x_step < 0 ? part_size - 1 : 0;
% endif
        ${vector} a = identity, b = identity, c = identity, d = identity;
        int i = 0;
        for (; i <= part_size - ${4 * lanes}; i += ${4 * lanes}) {
% for k, name in enumerate("abcd"):
<%
    place = f"i + {k * lanes}"
    value = f"*(__global const vector *)(p + {place})" if lanes > 1 else f"p[({place}) * x_step]"
%>
            ${name} = ${join(kind, name, convert.format(value)).strip()};
% endfor
        }
        a = ${join(kind, "a", "b").strip()};
        c = ${join(kind, "c", "d").strip()};
        a = ${join(kind, "a", "c").strip()};
        ${total} value = ${kind}_fold(a);
        for (; i < part_size; ++i)
            value = ${join(kind, "value", "p[i]" if lanes > 1 else "p[i * x_step]").strip()};
        totals[totals_offset + job] = value;
    }
}
</%def>
<%def name="neighbours(kind, ctype, total, lanes, most)">
${vectors.types(ctype, lanes)}
typedef ${total}${lanes} __attribute__((aligned(sizeof(${total})))) totals_of_lanes;
#pragma OPENCL FP_CONTRACT OFF
</%def>
<%def name="scan_neighbours(kind, ctype, total, lanes, most, carried)">
<%
    widen = f"convert_{total}{lanes}" if ctype != total else ""
    narrow = f"convert_{ctype}{lanes}" if ctype != total else ""
%>
${neighbours(kind, ctype, total, lanes, most)}
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void scan_neighbours(...) {
    __local ${total} row[${most}] __attribute__((aligned(64)));
    const int begin = get_global_id(0) * chunk, end = begin + chunk < inner ? begin + chunk : inner;
    const int part = get_global_id(1), first = part * part_size, width = end - begin,
        count = first + part_size < n ? part_size : n - first;
    x += x_offset + get_global_id(2) * x_outer + first * x_step + begin;
    out += out_offset + get_global_id(2) * out_outer + first * out_step + begin;
    for (int j = 0; j < width; ++j)
        row[j] = ${0 if kind == "sum" else 1};
% if carried:
    if (part > 0) {
        before += before_offset + (get_global_id(2) * (parts - 1) + part - 1) * inner + begin;
        for (int j = 0; j < width; ++j)
            row[j] = before[j];
    }
% endif
    for (int i = 0; i < count; ++i, x += x_step, out += out_step) {
        int j = 0;
        for (; j + ${lanes} <= width; j += ${lanes}) {
            const ${total}${lanes} value = ${join(kind, "*(__local totals_of_lanes *)(row + j)",
                f"{widen}(*(__global const vector *)(x + j))").strip()};
            *(__local totals_of_lanes *)(row + j) = value;
            *(__global vector *)(out + j) = ${narrow}(value);
        }
        for (; j < width; ++j)
            out[j] = row[j] = ${join(kind, "row[j]", "x[j]").strip()};
    }
}
</%def>
<%def name="total_neighbours(kind, ctype, total, lanes, most)">
<% widen = f"convert_{total}{lanes}" if ctype != total else "" %>
${neighbours(kind, ctype, total, lanes, most)}
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void total_neighbours(...) {
    __local ${total} row[${most}] __attribute__((aligned(64)));
    const int begin = get_global_id(0) * chunk, end = begin + chunk < inner ? begin + chunk : inner;
    const int part = get_global_id(1), width = end - begin;
    x += x_offset + get_global_id(2) * x_outer + part * part_size * x_step + begin;
    totals += totals_offset + (get_global_id(2) * (parts - 1) + part) * inner + begin;
    for (int j = 0; j < width; ++j)
        row[j] = ${0 if kind == "sum" else 1};
    for (int i = 0; i < part_size; ++i, x += x_step) {
        int j = 0;
        for (; j + ${lanes} <= width; j += ${lanes})
            *(__local totals_of_lanes *)(row + j) =
                ${join(kind, "*(__local totals_of_lanes *)(row + j)",
                f"{widen}(*(__global const vector *)(x + j))").strip()};
        for (; j < width; ++j)
            row[j] = ${join(kind, "row[j]", "x[j]").strip()};
    }
    for (int j = 0; j < width; ++j)
        totals[j] = row[j];
}
</%def>
