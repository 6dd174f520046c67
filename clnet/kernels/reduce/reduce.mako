## kernel reduce: out[kept] = scale of the sum, product, largest or smallest of x[kept, reduced]
##
## layout   x is any strided array, its axes sorted by stride, then merged; axes are kept or
##          reduced, the last of each kind is fastest. The reduced elements of an output, in flat
##          order, are cut into parts; each part gives one partial result, which a second launch
##          reduces.
## param    kind: sum|prod|max|min
## param    load: plain|square|nonzero   what is reduced: x, x * x, or x != 0
## param    ctype: str                   element type of x, of C or "bfloat16"
## param    out_ctype: str               element type of out
## param    acc: str                     type partial results have in registers
## param    wide: str                    acc, or the type that sums of chains of floats become
## param    lanes: int                   lanes of a vector of acc
## param    dense: bool                  the last reduced axis has stride 1
## param    mean: bool                   divide the result
## param    kept_rank: int               number of kept axes
## param    reduced_rank: int            number of reduced axes
## param    block: int                   columns one work-item takes, a multiple of lanes
## param    group: int                   work-items of a group, a power of two
## param    reduce_items: int            of these, how many share one output, a power of two
## param    kept_fast: bool              neighbouring work-items take neighbouring outputs
## param    flat: int|long               type of sizes and flat indices: long where need be
## param    index: str                   an expression: the flat index to take apart
## param    type: int|long               its type
## param    axis: kept|reduced           over which axes
## param    rank: int                    their number
## param    steps: dict                  offset variable -> array whose strides move it
## param    rows: int                    rows joined before they are added to the partial results
## def      reduce_rows
## arg      jobs: flat         outputs times parts
## arg      jobs_per_item: flat
## def      reduce_columns
## arg      blocks: flat       blocks of columns: the last kept axis, of stride 1
## arg      rows_total: flat   reduced elements of each output
## arg      part_rows: flat    reduced elements of a part
## def      reduce_group
## arg      outs: flat         number of outputs
## def      all
## arg      parts: int         parts of each output
## arg      part_stride: long  step in out from part to part
## def      reduce_rows, reduce_group
## arg      total: flat        reduced elements of each output
## arg      part_size: flat    reduced elements of a part
## def      all
## % for i in range(kept_rank):
## arg      kept_size{i}: flat    for each kept axis its size
## arg      kept_x{i}: long       and its stride in x
## arg      kept_out{i}: long     and in out
## % endfor
## % for i in range(reduced_rank):
## arg      reduced_size{i}: flat  for each reduced axis its size
## arg      reduced_x{i}: long    and its stride in x
## % endfor
## arg      out: out out_ctype
## arg      x: in ctype
## % if mean:
## arg      divisor: acc
## % endif
## launch   rows: local 1, an item takes jobs_per_item jobs. columns: local 1, an item takes a block
##          of columns of one part. group: a group takes (group / reduce_items) outputs of one part.
## numerics partial results of vectors, segments and parts are joined in a fixed order
<%namespace name="lib" file="/lib/fold.mako"/>
<%namespace name="prelude" file="/lib/prelude.mako"/>
<%namespace name="source" file="/lib/load.mako"/>
<%def name="stored(ctype)" filter="trim">
${"ushort" if ctype == "bfloat16" else ctype}
</%def>
<%def name="decode(index, type, axis, rank, steps)">
    {
        ${type} rest = ${index};
% for i in reversed(range(rank)):
% for variable, stride in steps.items():
        ${variable} += ${f"(rest % {axis}_size{i})" if i else "rest"} * ${axis}_${stride}${i};
% endfor
% if i:
        rest /= ${axis}_size${i};
% endif
% endfor
    }
</%def>
<%def name="reduce_rows(
    kind, load, ctype, out_ctype, acc, wide, lanes, dense, mean, flat, kept_rank, reduced_rank)">
<%
    vector = f"{acc}{lanes}" if lanes > 1 else acc
    sign = {"sum": "+", "prod": "*"}.get(kind)
    # Chains of floats' additions are short where vectors take a run, and one by one of doubles.
    segment = 4096 if wide != acc else 16384
    one_type = acc if dense and lanes > 1 else wide
    join_one = f"{kind}_join1(one, {{}})" if one_type == acc else f"one {sign} {{}}"
    join_result = f"{kind}_join1(result, one)" if wide == acc else f"result {sign} one"
%>
${lib.fold(kind, acc, lanes)}
${source.loads(load, ctype, acc, lanes)}
${prelude.fetch_ahead()}
__kernel void reduce_rows(...) {
    out += out_offset, x += x_offset;
    ${lib.identity(kind, acc)}
    const ${flat} run = reduced_size${reduced_rank - 1};
    const ${flat} first = get_global_id(0) * jobs_per_item;
    const ${flat} last = min(first + jobs_per_item, jobs);
    for (${flat} job = first; job < last; job++) {
        const ${flat} kept = parts == 1 ? job : job / parts, part = job - kept * parts;
        long x_start = 0, out_at = part * part_stride;
        ${decode("kept", flat, "kept", kept_rank, {"x_start": "x", "out_at": "out"})}
        ${flat} at = part * part_size;
        const ${flat} end = min(at + part_size, total);
        ${wide} result = identity;
        while (at < end) {
% if reduced_rank > 1:
            const ${flat} row = at / run, column = at - row * run;
% else:
            const ${flat} column = at;
% endif
            /* Segments bound the length of a chain of additions, and with it the rounding error. */
            const int n = min(min(run - column, end - at), (${flat})${segment});
            long offset = x_start + column * reduced_x${reduced_rank - 1};
% if reduced_rank > 1:
            ${decode("row", flat, "reduced", reduced_rank - 1, {"offset": "x"})}
% endif
            __global const ${stored(ctype)} *p = x + offset;
            ${one_type} one = identity;
% if dense and lanes > 1:
            int i = 0;
            if (n >= ${lanes}) {
                ${vector} a = identity, b = identity, c = identity, d = identity;
                for (; i <= n - ${4 * lanes}; i += ${4 * lanes}) {
% for k, name in enumerate("abcd"):
                    FETCH_AHEAD(p + i + ${k * lanes + 2048});
                    ${name} = ${kind}_join${lanes}(${name}, load${lanes}(p + i + ${k * lanes}));
% endfor
                }
                for (; i <= n - ${lanes}; i += ${lanes})
                    a = ${kind}_join${lanes}(a, load${lanes}(p + i));
                a = ${kind}_join${lanes}(${kind}_join${lanes}(a, b), ${kind}_join${lanes}(c, d));
                one = ${kind}_fold(a);
            }
            for (; i < n; i++)
                one = ${join_one.format("load1(p + i)")};
% else:
            for (int i = 0; i < n; i++)
                one = ${join_one.format(f"load1(p + i * reduced_x{reduced_rank - 1})")};
% endif
            result = ${join_result};
            at += n;
        }
        out[out_at] = result${" / divisor" if mean else ""};
    }
}
</%def>
<%def name="reduce_columns(
    kind, load, ctype, out_ctype, acc, wide, lanes, mean, flat, block, kept_rank, reduced_rank)">
<%
    staged, sign = wide != acc, {"sum": "+", "prod": "*"}.get(kind)
    result, rest = "each[k]", f"tail[i - vectors * {lanes}]"
    if lanes == 1:
        result = "sums[i]"
    if staged:
        place = "i" if lanes == 1 else f"i * {lanes} + k"
        result, rest = f"(joined[{place}] {sign} {result})", f"(joined[i] {sign} {rest})"
    vector = f"{acc}{lanes}" if lanes > 1 else acc
    last = kept_rank - 1
    divide = " / divisor" if mean else ""
%>
${lib.join(kind, acc, lanes)}
${source.loads(load, ctype, acc, lanes)}
__kernel void reduce_columns(...) {
    out += out_offset, x += x_offset;
    ${lib.identity(kind, acc)}
    const ${flat} item = get_global_id(0);
    const ${flat} column = (item % blocks) * ${block};
    const ${flat} part = item / blocks % parts;
    const int n = min(kept_size${last} - column, (${flat})${block});
    const int vectors = n / ${lanes};
    long x_start = column, out_at = part * part_stride + column * kept_out${last};
% if kept_rank > 1:
    ${decode("item / blocks / parts", flat, "kept", kept_rank - 1,
        {"x_start": "x", "out_at": "out"})}
% endif
    ${vector} sums[${block // lanes}];
    ${acc} tail[${lanes}];
    for (int i = 0; i < vectors; i++)
        sums[i] = identity;
    for (int i = 0; i < ${lanes}; i++)
        tail[i] = identity;
% if staged:
    ${wide} joined[${block}];
    for (int i = 0; i < n; i++)
        joined[i] = identity;
% endif
    const ${flat} end = min((part + 1) * part_rows, rows_total);
    /* Rows are read whole, as memory likes it; the partial results stay in the nearest cache. */
    ${flat} row = part * part_rows;
% if staged:
    /* Few additions of floats in a row: their sums are joined in a wider type. */
    while (row + 128 < end) {
        for (int eights = 0; eights < 16; eights++, row += 8) {
            ${column_step(kind, ctype, lanes, flat, reduced_rank, 8)}
        }
        for (int i = 0; i < vectors * ${lanes}; i++) {
            joined[i] = joined[i] ${sign} ((${acc} *)sums)[i];
            ((${acc} *)sums)[i] = identity;
        }
        for (int i = vectors * ${lanes}; i < n; i++) {
            joined[i] = joined[i] ${sign} tail[i - vectors * ${lanes}];
            tail[i - vectors * ${lanes}] = identity;
        }
    }
% endif
    for (; row + 8 <= end; row += 8) {
        ${column_step(kind, ctype, lanes, flat, reduced_rank, 8)}
    }
    for (; row < end; row++) {
        ${column_step(kind, ctype, lanes, flat, reduced_rank, 1)}
    }
    for (int i = 0; i < vectors; i++) {
% if lanes > 1:
        const ${acc} *each = (const ${acc} *)&sums[i]; /* no vstore: see lib/vector.mako */
        for (int k = 0; k < ${lanes}; k++)
            out[out_at + (i * ${lanes} + k) * kept_out${last}] = ${result}${divide};
% else:
        out[out_at + i * kept_out${last}] = ${result}${divide};
% endif
    }
    for (int i = vectors * ${lanes}; i < n; i++)
        out[out_at + i * kept_out${last}] = ${rest}${divide};
}
</%def>
<%def name="column_step(kind, ctype, lanes, flat, reduced_rank, rows)">
% for r in range(rows):
        long offset${r} = x_start;
        ${decode(f"row + {r}", flat, "reduced", reduced_rank, {f"offset{r}": "x"})}
        __global const ${stored(ctype)} *p${r} = x + offset${r};
% endfor
<%
    def joined(width, at):
        values = [f"load{width}(p{r} + {at})" for r in range(rows)]
        while len(values) > 1:
            values = [f"{kind}_join{width}({a}, {b})" for a, b in zip(values[::2], values[1::2])]
        return values[0]
%>
        for (int i = 0; i < vectors; i++)
            sums[i] = ${kind}_join${lanes}(sums[i], ${joined(lanes, f"i * {lanes}")});
        for (int i = vectors * ${lanes}; i < n; i++)
            tail[i - vectors * ${lanes}] =
                ${kind}_join1(tail[i - vectors * ${lanes}], ${joined(1, "i")});
</%def>
<%def name="reduce_group(
    kind, load, ctype, out_ctype, acc, mean, flat, group, reduce_items, kept_fast, kept_rank,
    reduced_rank)">
<% kept_items, in_flight = group // reduce_items, 8 %>
${lib.join(kind, acc, 1)}
${source.loads(load, ctype, acc, 1)}
__kernel void reduce_group(...) {
    __local ${acc} partial[${group}];
    out += out_offset, x += x_offset;
    ${lib.identity(kind, acc)}
    ${lib.places(reduce_items, kept_items, kept_fast)}
    const int part = get_group_id(0) % parts;
    const ${flat} at = get_group_id(0) / parts * ${kept_items} + kept;
    long x_start = 0, out_at = part * part_stride;
    ${decode("at", flat, "kept", kept_rank, {"x_start": "x", "out_at": "out"})}
    ${acc} result = identity;
    if (at < outs) {
        const ${flat} end = min((part + 1) * part_size, total);
        ${flat} i = part * part_size + lane;
% if reduced_rank == 1:
        for (; i + ${(in_flight - 1) * reduce_items} < end; i += ${in_flight * reduce_items}) {
% for n in range(in_flight):
            const ${acc} next_${n} = load1(x + x_start + (i + ${n * reduce_items}) * reduced_x0);
% endfor
% for n in range(in_flight):
            result = ${kind}_join1(result, next_${n});
% endfor
        }
% endif
        for (; i < end; i += ${reduce_items}) {
            long offset = x_start;
            ${decode("i", flat, "reduced", reduced_rank, {"offset": "x"})}
            result = ${kind}_join1(result, load1(x + offset));
        }
    }
    partial[lane * ${kept_items} + kept] = result;
    ${lib.tree(kind, "partial", reduce_items, kept_items)}
    if (lane == 0 && at < outs)
        out[out_at] = partial[kept]${" / divisor" if mean else ""};
}
</%def>
