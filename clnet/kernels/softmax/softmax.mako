## kernel softmax: y = exp(x) / sum(exp(x)) along an axis, its logarithm, and their gradients
##
## math     softmax: gx = y (gy - sum(gy y)); log softmax: gx = gy - exp(y) sum(gy)
## layout   all arrays dense (outer, n, inner), the sums run over n; rows: inner is 1
## param    log: bool                    the logarithm of it
## param    ctype: str                   element type
## param    acc: str                     element type in registers
## param    lanes: int                   lanes of a vector of acc
## param    stream: bool                 results go past the caches; their rows are whole vectors
## param    group: int                   work-items of a group, a power of two
## param    reduce_items: int            of these, how many share one sum, a power of two
## param    kept_fast: bool              neighbouring work-items take neighbouring inner elements
## param    held: int                    elements of a line that an item keeps, inner is 1 then; 0:
##                                       it reads them again
## def      softmax_rows
## arg      rows, rows_per_item, n: int
## arg      y: out ctype[rows, n]
## arg      x: in ctype[rows, n]
## def      softmax_columns
## arg      blocks: int  vectors that cover inner
## arg      n, inner: int
## arg      y: out ctype[outer, n, inner]
## arg      x: in ctype[outer, n, inner]
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
## def      softmax_grad_columns
## arg      blocks, n, inner: int
## arg      gx: out ctype[outer, n, inner]
## arg      gy: in ctype[outer, n, inner]
## arg      y: in ctype[outer, n, inner]
## def      softmax_grad_group
## arg      sums, n, inner: int
## arg      gx: out ctype[outer, n, inner]
## arg      gy: in ctype[outer, n, inner]
## arg      y: in ctype[outer, n, inner]
## launch   rows: local 1, rows_per_item rows an item. columns: local 1, one vector of columns an
##          item. group: a group computes (group / reduce_items) sums.
## numerics the largest x is subtracted first, in the logarithm too: added to the logarithm of the
##          sum it would round that away; sums in a fixed order
<%namespace name="lib" file="/lib/fold.mako"/>
<%namespace name="ragged" file="/lib/ragged.mako"/>
<%namespace name="decay" file="/lib/decay.mako"/>
<%def name="softmax_rows(log, ctype, acc, lanes, stream)">
${lib.fold("sum", acc, lanes)}
${decay.rows(ctype, acc, lanes)}
${ragged.store(ctype, acc, lanes, stream)}
__kernel void softmax_rows(...) {
    const int first = get_global_id(0) * rows_per_item;
    const int last = min(first + rows_per_item, rows);
    for (int row = first; row < last; row++) {
        __global const ${ctype} *from = x + x_offset + (long)row * n;
        __global ${ctype} *to = y + y_offset + (long)row * n;
        const ${acc} top = largest(from, n), sum = sum_fold(decays(from, n, top));
        const ${acc} ${"log_sum = log(sum)" if log else "scale = 1 / sum"};
        for (int i = 0; i < n; i += ${lanes}) {
            const ${acc}${lanes} v = load_ragged(from + i, n - i, 0);
            store_ragged(to + i, n - i,
                ${"(v - top) - log_sum" if log else "decay(v - top) * scale"});
        }
    }
}
</%def>
<%def name="softmax_columns(log, ctype, acc, lanes)">
${lib.join("max", acc, lanes)}
${ragged.load(ctype, acc, lanes)}
${decay.define(acc, lanes)}
${ragged.store(ctype, acc, lanes)}
__kernel void softmax_columns(...) {
    const int item = get_global_id(0);
    const int column = item % blocks * ${lanes}, count = inner - column;
    const long start = (long)(item / blocks) * n * inner + column;
    __global const ${ctype} *from = x + x_offset + start;
    __global ${ctype} *to = y + y_offset + start;
    ${acc}${lanes} top = -INFINITY, sum = 0;
    for (long i = 0; i < (long)n * inner; i += inner)
        top = max_join${lanes}(top, load_ragged(from + i, count, 0));
    for (long i = 0; i < (long)n * inner; i += inner) {
        const ${acc}${lanes} e = decay(load_ragged(from + i, count, 0) - top);
        sum += e;
% if not log:
        store_ragged(to + i, count, e);
% endif
    }
% if log:
    const ${acc}${lanes} log_sum = log(sum);
    for (long i = 0; i < (long)n * inner; i += inner)
        store_ragged(to + i, count, (load_ragged(from + i, count, 0) - top) - log_sum);
% else:
    const ${acc}${lanes} scale = 1 / sum;
    for (long i = 0; i < (long)n * inner; i += inner)
        store_ragged(to + i, count, load_ragged(to + i, count, 0) * scale);
% endif
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
    __global const ${ctype} *from = x + x_offset + start;
    __global ${ctype} *to = y + y_offset + start;
    ${acc} top = -INFINITY, sum = 0;
% if held:
% for j in range(held):
    const int i_${j} = lane + ${j * reduce_items};
    ${acc} v_${j} = i_${j} < size ? from[i_${j}] : -INFINITY;
    top = max_join1(top, v_${j});
% endfor
% else:
    for (int i = lane; i < size; i += ${reduce_items})
        top = max_join1(top, from[(long)i * inner]);
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
        sum += exp(from[(long)i * inner] - top);
% endif
    partial[lane * ${kept_items} + kept] = sum;
    ${lib.tree("sum", "partial", reduce_items, kept_items)}
    const ${acc} ${"log_sum = log(partial[kept])" if log else "scale = 1 / partial[kept]"};
% if held:
% for j in range(held):
    if (i_${j} < size)
        to[i_${j}] = ${f"(v_{j} - top) - log_sum" if log else f"e_{j} * scale"};
% endfor
% elif log:
    for (int i = lane; i < size; i += ${reduce_items})
        to[(long)i * inner] = (from[(long)i * inner] - top) - log_sum;
% else:
    for (int i = lane; i < size; i += ${reduce_items})
        to[(long)i * inner] = exp(from[(long)i * inner] - top) * scale;
% endif
}
</%def>
<%def name="softmax_grad_rows(log, ctype, acc, lanes, stream)">
${lib.fold("sum", acc, lanes)}
${ragged.load(ctype, acc, lanes)}
${decay.define(acc, lanes)}
${ragged.store(ctype, acc, lanes, stream)}
__kernel void softmax_grad_rows(...) {
    const int first = get_global_id(0) * rows_per_item;
    const int last = min(first + rows_per_item, rows);
    for (int row = first; row < last; row++) {
        __global const ${ctype} *g = gy + gy_offset + (long)row * n;
        __global const ${ctype} *from = y + y_offset + (long)row * n;
        __global ${ctype} *to = gx + gx_offset + (long)row * n;
        ${acc}${lanes} sums = 0;
        for (int i = 0; i < n; i += ${lanes})
            sums += load_ragged(g + i, n - i,
                0)${"" if log else " * load_ragged(from + i, n - i, 0)"};
        const ${acc} sum = sum_fold(sums);
        for (int i = 0; i < n; i += ${lanes}) {
            const ${acc}${lanes} v = load_ragged(from + i, n - i, 0),
                gv = load_ragged(g + i, n - i, 0);
            store_ragged(to + i, n - i, ${"gv - decay(v) * sum" if log else "v * (gv - sum)"});
        }
    }
}
</%def>
<%def name="softmax_grad_columns(log, ctype, acc, lanes)">
${ragged.load(ctype, acc, lanes)}
${decay.define(acc, lanes)}
${ragged.store(ctype, acc, lanes)}
__kernel void softmax_grad_columns(...) {
    const int item = get_global_id(0);
    const int column = item % blocks * ${lanes}, count = inner - column;
    const long start = (long)(item / blocks) * n * inner + column;
    __global const ${ctype} *g = gy + gy_offset + start;
    __global const ${ctype} *from = y + y_offset + start;
    __global ${ctype} *to = gx + gx_offset + start;
    ${acc}${lanes} sum = 0;
    for (long i = 0; i < (long)n * inner; i += inner)
        sum += load_ragged(g + i, count, 0)${"" if log else " * load_ragged(from + i, count, 0)"};
    for (long i = 0; i < (long)n * inner; i += inner) {
        const ${acc}${lanes} v = load_ragged(from + i, count, 0), gv = load_ragged(g + i, count, 0);
        store_ragged(to + i, count, ${"gv - decay(v) * sum" if log else "v * (gv - sum)"});
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
    __global const ${ctype} *g = gy + gy_offset + start;
    __global const ${ctype} *from = y + y_offset + start;
    __global ${ctype} *to = gx + gx_offset + start;
    ${acc} mine = 0;
% if held:
% for j in range(held):
    const int i_${j} = lane + ${j * reduce_items};
    const ${acc} g_${j} = i_${j} < size ? g[i_${j}] : 0, v_${j} = i_${j} < size ? from[i_${j}] : 0;
    mine += g_${j}${"" if log else f" * v_{j}"};
% endfor
% else:
    for (long i = first; i < size; i += step)
        mine += ${"g[i]" if log else "g[i] * from[i]"};
% endif
    partial[lane * ${kept_items} + kept] = mine;
    ${lib.tree("sum", "partial", reduce_items, kept_items)}
    const ${acc} sum = partial[kept];
% if held:
% for j in range(held):
    if (i_${j} < size)
        to[i_${j}] = ${f"g_{j} - exp(v_{j}) * sum" if log else f"v_{j} * (g_{j} - sum)"};
% endfor
% else:
    for (long i = first; i < size; i += step)
        to[i] = ${"g[i] - exp(from[i]) * sum" if log else "from[i] * (g[i] - sum)"};
% endif
}
</%def>
