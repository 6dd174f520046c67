## kernel softmax: y = exp(x) / sum(exp(x)) along an axis, its logarithm, and their gradients
##
## math     softmax: gx = y (gy - sum(gy y)); log softmax: gx = gy - exp(y) sum(gy)
## layout   all arrays dense (outer, n, inner), the sums run over n; rows: inner is 1
## param    log: bool                    the logarithm of it
## param    ctype: str                   element type, of C or "bfloat16"
## param    acc: str                     element type in registers
## param    lanes: int                   lanes of a vector of acc
## param    stream: bool                 results go past the caches; their rows are whole vectors
## param    group: int                   work-items of a group, a power of two
## param    reduce_items: int            of these, how many share one sum, a power of two
## param    kept_fast: bool              neighbouring work-items take neighbouring inner elements
## param    room: int                    how long a row is of which an item keeps exponentials;
##                                       0: it computes them again
## param    held: int                    elements of a line that an item keeps, inner is 1 then; 0:
##                                       it reads them again
## def      softmax_rows
## arg      rows, rows_per_item, n: int
## arg      y: out ctype[rows, n]
## arg      x: in ctype[rows, n]
## def      softmax_group
## arg      sums: int    outer times inner
## arg      n, inner: int
## arg      y: out ctype[outer, n, inner]
## arg      x: in ctype[outer, n, inner]
## def      softmax_grad_rows
## arg      rows, rows_per_item, n: int
## arg      gx: out ctype[rows, n]
## arg      gy: in ctype[rows, n]
## arg      y: in ctype[rows, n]
## def      softmax_grad_group
## arg      sums, n, inner: int
## arg      gx: out ctype[outer, n, inner]
## arg      gy: in ctype[outer, n, inner]
## arg      y: in ctype[outer, n, inner]
## launch   rows: local 1, rows_per_item rows an item. group: a group computes (group /
##          reduce_items) sums. Along other axes CPUs have softmax_columns.mako.
## numerics the largest x is subtracted first, in the logarithm too: added to the logarithm of the
##          sum it would round that away; sums in a fixed order
<%namespace name="lib" file="/lib/fold.mako"/>
<%namespace name="ragged" file="/lib/ragged.mako"/>
<%namespace name="decay" file="/lib/decay.mako"/>
<%namespace name="stored" file="/lib/stored.mako"/>
<%def name="softmax_rows(log, ctype, acc, lanes, stream, room)">
${lib.fold("sum", acc, lanes)}
${decay.rows(ctype, acc, lanes)}
${ragged.store(ctype, acc, lanes, stream)}
__kernel void softmax_rows(...) {
    const int first = get_global_id(0) * rows_per_item;
    const int last = min(first + rows_per_item, rows);
% if room:
    __local ${acc}${lanes} kept[${room // lanes + 1}];
% endif
    for (int row = first; row < last; row++) {
        __global const ${stored.memory(ctype)} *from = x + x_offset + (long)row * n;
        __global ${stored.memory(ctype)} *to = y + y_offset + (long)row * n;
        const ${acc} top = largest(from, n);
% if room:
        ${acc}${lanes} sums = 0;
        for (int i = 0; i + ${lanes} <= n; i += ${lanes}) {
            FETCH_AHEAD(from + n + i);
            const ${acc}${lanes} e = decay(load_ragged(from + i, ${lanes}, 0) - top);
            kept[i / ${lanes}] = e;
            sums += e;
        }
        const int rest = n - n % ${lanes};
        if (rest < n)
            sums += decay(load_rest(from, rest, n, -INFINITY) - top);
        const ${acc} sum = sum_fold(sums);
% else:
        const ${acc} sum = sum_fold(decays(from, n, top));
% endif
        const ${acc} ${"log_sum = LOG(sum)" if log else "scale = 1 / sum"};
% if room:
        for (int i = 0; i + ${lanes} <= n; i += ${lanes})
            store_ragged(to + i, ${lanes}, kept[i / ${lanes}] * scale);
        for (int i = rest; i < n; i += ${lanes}) {
% else:
        for (int i = 0; i < n; i += ${lanes}) {
% endif
            const int at = i + ${lanes} <= n || n < ${lanes} ? i : n - ${lanes};
            const ${acc}${lanes} v = load_ragged(from + at, n - at, 0);
            store_ragged(to + at, n - at,
                ${"(v - top) - log_sum" if log else "decay(v - top) * scale"});
        }
    }
}
</%def>
<%def name="softmax_group(log, ctype, acc, group, reduce_items, kept_fast, held)">
<% kept_items = group // reduce_items %>
${lib.join("sum", acc, 1)}
${lib.join("max", acc, 1)}
__kernel void softmax_group(...) {
    __local ${acc} partial[${group}];
    ${lib.places(reduce_items, kept_items, kept_fast)}
    const int at = get_group_id(0) * ${kept_items} + kept;
    const int size = at < sums ? n : 0;
    const long start = (long)(at / inner) * n * inner + at % inner;
    __global const ${stored.memory(ctype)} *from = x + x_offset + start;
    __global ${stored.memory(ctype)} *to = y + y_offset + start;
    ${acc} top = -INFINITY, sum = 0;
% if held:
% for j in range(held):
    const int i_${j} = lane + ${j * reduce_items};
    ${acc} v_${j} = i_${j} < size ? ${stored.element(ctype, "from", f"i_{j}")} : -INFINITY;
    top = max_join1(top, v_${j});
% endfor
% else:
    for (int i = lane; i < size; i += ${reduce_items})
        top = max_join1(top, ${stored.element(ctype, "from", "(long)i * inner")});
% endif
    partial[lane * ${kept_items} + kept] = top;
    ${lib.tree("max", "partial", reduce_items, kept_items)}
    top = partial[kept];
    barrier(CLK_LOCAL_MEM_FENCE);
% if held:
% for j in range(held):
    const ${acc} e_${j} = exp(v_${j} - top);
    sum += i_${j} < size ? e_${j} : 0;
% endfor
% else:
    for (int i = lane; i < size; i += ${reduce_items})
        sum += exp(${stored.element(ctype, "from", "(long)i * inner")} - top);
% endif
    partial[lane * ${kept_items} + kept] = sum;
    ${lib.tree("sum", "partial", reduce_items, kept_items)}
    const ${acc} ${"log_sum = log(partial[kept])" if log else "scale = 1 / partial[kept]"};
% if held:
% for j in range(held):
    if (i_${j} < size) {
        ${stored.store(ctype, "to", f"i_{j}",
            f"(v_{j} - top) - log_sum" if log else f"e_{j} * scale")}
    }
% endfor
% else:
    for (int i = lane; i < size; i += ${reduce_items}) {
        const ${acc} v = ${stored.element(ctype, "from", "(long)i * inner")};
        ${stored.store(ctype, "to", "(long)i * inner",
            "(v - top) - log_sum" if log else "exp(v - top) * scale")}
    }
% endif
}
</%def>
<%def name="softmax_grad_rows(log, ctype, acc, lanes, stream)">
${lib.fold("sum", acc, lanes)}
${ragged.load(ctype, acc, lanes)}
${ragged.rest(ctype, acc, lanes)}
${decay.define(acc, lanes)}
${ragged.store(ctype, acc, lanes, stream)}
__kernel void softmax_grad_rows(...) {
    const int first = get_global_id(0) * rows_per_item;
    const int last = min(first + rows_per_item, rows);
    for (int row = first; row < last; row++) {
        __global const ${stored.memory(ctype)} *g = gy + gy_offset + (long)row * n;
        __global const ${stored.memory(ctype)} *from = y + y_offset + (long)row * n;
        __global ${stored.memory(ctype)} *to = gx + gx_offset + (long)row * n;
        ${acc}${lanes} sums = 0;
        int i = 0;
        for (; i + ${lanes} <= n; i += ${lanes})
            sums += load_ragged(g + i, ${lanes},
                0)${"" if log else f" * load_ragged(from + i, {lanes}, 0)"};
        if (i < n)
            sums += load_rest(g, i, n, 0)${"" if log else " * load_rest(from, i, n, 0)"};
        const ${acc} sum = sum_fold(sums);
        for (i = 0; i < n; i += ${lanes}) {
            const int at = i + ${lanes} <= n || n < ${lanes} ? i : n - ${lanes};
            const ${acc}${lanes} v = load_ragged(from + at, n - at, 0),
                gv = load_ragged(g + at, n - at, 0);
            store_ragged(to + at, n - at, ${"gv - decay(v) * sum" if log else "v * (gv - sum)"});
        }
    }
}
</%def>
<%def name="softmax_grad_group(log, ctype, acc, group, reduce_items, kept_fast, held)">
<% kept_items = group // reduce_items %>
${lib.join("sum", acc, 1)}
__kernel void softmax_grad_group(...) {
    __local ${acc} partial[${group}];
    ${lib.places(reduce_items, kept_items, kept_fast)}
    const int at = get_group_id(0) * ${kept_items} + kept;
    const long size = at < sums ? (long)n * inner : 0;
    const long first = (long)lane * inner, step = ${reduce_items}l * inner;
    const long start = (long)(at / inner) * n * inner + at % inner;
    __global const ${stored.memory(ctype)} *g = gy + gy_offset + start;
    __global const ${stored.memory(ctype)} *from = y + y_offset + start;
    __global ${stored.memory(ctype)} *to = gx + gx_offset + start;
    ${acc} mine = 0;
% if held:
% for j in range(held):
    const int i_${j} = lane + ${j * reduce_items};
    const ${acc} g_${j} = i_${j} < size ? ${stored.element(ctype, "g", f"i_{j}")} : 0,
        v_${j} = i_${j} < size ? ${stored.element(ctype, "from", f"i_{j}")} : 0;
    mine += g_${j}${"" if log else f" * v_{j}"};
% endfor
% else:
    for (long i = first; i < size; i += step)
% if log:
        mine += ${stored.element(ctype, "g", "i")};
% else:
        mine += ${stored.element(ctype, "g", "i")} * ${stored.element(ctype, "from", "i")};
% endif
% endif
    partial[lane * ${kept_items} + kept] = mine;
    ${lib.tree("sum", "partial", reduce_items, kept_items)}
    const ${acc} sum = partial[kept];
% if held:
% for j in range(held):
    if (i_${j} < size) {
        ${stored.store(ctype, "to", f"i_{j}",
            f"g_{j} - exp(v_{j}) * sum" if log else f"v_{j} * (g_{j} - sum)")}
    }
% endfor
% else:
    for (long i = first; i < size; i += step) {
        const ${acc} gv = ${stored.element(ctype, "g", "i")},
            v = ${stored.element(ctype, "from", "i")};
        ${stored.store(ctype, "to", "i",
            "gv - exp(v) * sum" if log else "v * (gv - sum)")}
    }
% endif
}
</%def>
