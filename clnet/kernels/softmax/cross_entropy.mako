## kernel cross_entropy: loss of class scores against target classes, and its gradient
##
## math     top = max_c x[c],  l = log sum_c exp(x[c] - top),  p = exp(x - top - l)
##          loss = (1 - s) w[t] (l - (x[t] - top)) + s / n sum_c w[c] (l - (x[c] - top))
##          gx[c] = g ((1 - s) w[t] (p[c] - (c == t)) + s / n (p[c] sum w - w[c]))
## layout   x and gx dense (outer, n, inner), n classes; groups leave room between outer items.
##          targets, loss, counted (outer, inner); lse the same twice, (2, outer, inner): every top,
##          then every l, whose sum would round l away. gx may lie where x does. A target that is
##          ignored gives loss 0 and counts 0; one outside the classes gives NaN.
## param    normalize: bool              x are scores; else logarithms of probabilities, top and l
##                                       are 0
## param    weighted: bool               classes have weights
## param    smooth: bool                 s is not 0
## param    reduction: none|sum|mean     how the losses were reduced, for the gradient
## param    ctype: str                   element type
## param    x_type, gx_type: str         in memory, of groups; of C, or bfloat16
## param    acc: str                     element type in registers
## param    lanes: int                   lanes of a vector of acc
## param    group: int                   work-items of a group, a power of two
## param    reduce_items: int            of these, how many share one loss, a power of two
## param    stream: bool                 gx goes past the caches; its rows are whole vectors of a
##                                       line
## param    kept_fast: bool              neighbouring work-items take neighbouring inner elements
## param    check: bool                  a target outside the classes is reported
## def cross_entropy_rows, cross_entropy_grad_rows, cross_entropy_group, cross_entropy_grad_group
## arg      rows: int                         outer times inner
## def      cross_entropy_rows, cross_entropy_grad_rows
## arg      rows_per_item: int
## def      cross_entropy_columns, cross_entropy_grad_columns
## arg      rows: int
## arg      blocks: int                       vectors that cover inner
## arg      inner: int
## def      cross_entropy_group, cross_entropy_grad_group
## arg      inner: int
## arg      x_outer: long                     from an outer item of x to the next
## def      cross_entropy_grad_group
## arg      gx_outer: long                    the same of gx
## def all
## arg      n: int
## arg      ignored: long
## arg      smoothing: acc
## def      cross_entropy_rows, cross_entropy_columns, cross_entropy_group
## arg      loss: out ctype[outer, inner]
## % if normalize:
## arg      lse: out ctype[2, outer, inner]
## % endif
## arg      counted: out ctype[outer, inner]  weight of the target, 0 when it is ignored
## def      cross_entropy_grad_rows, cross_entropy_grad_columns
## arg      gx: out ctype[outer, n, inner], may alias
## def      cross_entropy_grad_group
## arg      gx: out gx_type[outer, n, inner], may alias
## def      cross_entropy_grad_rows, cross_entropy_grad_columns, cross_entropy_grad_group
## arg      gy: in ctype[1 or outer, inner]
## % if normalize:
## arg      lse: in ctype[2, outer, inner]
## % endif
## % if reduction == "mean":
## arg      total: in ctype[1]
## % endif
## def      cross_entropy_rows, cross_entropy_columns
## arg      x: in ctype[outer, n, inner], may alias
## def      cross_entropy_grad_rows, cross_entropy_grad_columns
## arg      x: in ctype[outer, n, inner], may alias
## def      cross_entropy_group, cross_entropy_grad_group
## arg      x: in x_type[outer, n, inner], may alias
## def all
## arg      targets: in long[outer, inner]
## % if weighted:
## arg      weight: in ctype[n]
## % endif
## def      cross_entropy_rows, cross_entropy_columns, cross_entropy_group
## % if check:
## arg      fault: inout int                  where to report
## arg      site: int                         its number
## % endif
## launch   rows: local 1, rows_per_item rows an item. columns: one vector of inner an item.
##          group: (group / reduce_items) losses a group.
## numerics the largest score is subtracted first, before the logarithm of the sum is; sums in a
##          fixed order, of a group's items less the largest score so far
<%namespace name="lib" file="/lib/fold.mako"/>
<%namespace name="ragged" file="/lib/ragged.mako"/>
<%namespace name="decay" file="/lib/decay.mako"/>
<%namespace name="faults" file="/lib/fault.mako"/>
<%namespace name="stored" file="/lib/stored.mako"/>
<%def name="memory(x_type)" filter="trim">
${"ushort" if x_type == "bfloat16" else x_type}
</%def>
<%def name="scores(x_type, acc)">
inline ${acc} score(__global const ${memory(x_type)} *from, const long at)
{
    ${stored.load(x_type, acc, "value", "from", "at")}
    return value;
}
</%def>
<%def name="own_weight(weighted, acc)">
        const long target = targets[targets_offset + row];
        const int inside = target >= 0 && target < n;
        const ${acc} own = ${"inside ? weight[weight_offset + target] : 1" if weighted else "1"};
</%def>
<%def name="finish(normalize, weighted, smooth, acc, check)">
        ${own_weight(weighted, acc)}
        ${acc} value = own * (log_sum - (inside ? score(from, target * step) - top : 0));
% if smooth:
        value = (1 - smoothing) * value + smoothing / n * (weights * log_sum - dot);
% endif
% if normalize:
        lse[lse_offset + row] = top;
        lse[lse_offset + rows + row] = log_sum;
% endif
        counted[counted_offset + row] = target == ignored ? 0 : own;
        loss[loss_offset + row] = target == ignored ? 0 : inside ? value : NAN;
% if check:
        if (!inside && target != ignored)
            report(fault + fault_offset, site, target, row, n, 0);
% endif
</%def>
<%def name="slopes(normalize, weighted, reduction, acc)">
        ${own_weight(weighted, acc)}
% if normalize:
        const ${acc} top = lse[lse_offset + row], log_sum = lse[lse_offset + rows + row];
% endif
        ${acc} g = gy[gy_offset${" + row" if reduction == "none" else ""}]
            ${"/ total[total_offset]" if reduction == "mean" else ""};
        if (!inside)
            g = NAN;
        /* What the target's own score gets, every score by its weight, and by its probability. */
        const ${acc} hit = (1 - smoothing) * own * g, spread = smoothing / n * g;
        const ${acc} every = hit + spread * weights;
</%def>
<%def name="cross_entropy_rows(normalize, weighted, smooth, ctype, acc, lanes, check)">
<% vector = f"{acc}{lanes}" %>
${lib.fold("sum", acc, lanes)}
${decay.rows(ctype, acc, lanes)}
${scores(ctype, acc)}
${faults.define(check)}
__kernel void cross_entropy_rows(...) {
    const int first = get_global_id(0) * rows_per_item;
    const int last = min(first + rows_per_item, rows), step = 1;
    for (int row = first; row < last; row++) {
        __global const ${ctype} *from = x + x_offset + (long)row * n;
        const ${acc} top = ${"largest(from, n)" if normalize else "0"};
        const ${acc} log_sum = ${"log(sum_fold(decays(from, n, top)))" if normalize else "0"};
% if smooth:
        ${vector} weight_sums = 0, dots = 0;
        for (int i = 0; i < n; i += ${lanes}) {
            const ${vector} w =
                ${"load_ragged(weight + weight_offset + i, n - i, 0)" if weighted else "1"};
            weight_sums += w;
            dots += w * (load_ragged(from + i, n - i, top) - top);
        }
        const ${acc} weights = ${"sum_fold(weight_sums)" if weighted else "n"},
            dot = sum_fold(dots);
% endif
        ${finish(normalize, weighted, smooth, acc, check)}
    }
}
</%def>
<%def name="cross_entropy_columns(
    normalize, weighted, smooth, ctype, acc, lanes, check)">
<% vector = f"{acc}{lanes}" %>
${lib.join("top", acc, lanes)}
${ragged.load(ctype, acc, lanes)}
${decay.define(acc, lanes)}
${scores(ctype, acc)}
${faults.define(check)}
__kernel void cross_entropy_columns(...) {
    const int outer = get_global_id(0) / blocks, column = get_global_id(0) % blocks * ${lanes};
    const int count = inner - column, step = inner;
    __global const ${ctype} *corner = x + x_offset + (long)outer * n * inner + column;
    ${vector} tops = ${"-INFINITY" if normalize else "0"}, sums = ${"0" if normalize else "1"};
% if normalize:
    for (int i = 0; i < n; i++)
        tops = top_join${lanes}(tops, load_ragged(corner + (long)i * inner, count, 0));
    for (int i = 0; i < n; i++)
        sums += decay(load_ragged(corner + (long)i * inner, count, 0) - tops);
% endif
% if smooth:
    ${acc} weights = 0;
    ${vector} dots = 0;
    for (int i = 0; i < n; i++) {
        const ${acc} w = ${"weight[weight_offset + i]" if weighted else "1"};
        weights += w;
        dots += w * (load_ragged(corner + (long)i * inner, count, 0) - tops);
    }
    ${acc} dot_of[${lanes}];
    vstore${lanes}(dots, 0, dot_of);
% endif
    ${acc} top_of[${lanes}], log_sum_of[${lanes}];
    vstore${lanes}(tops, 0, top_of);
    vstore${lanes}(log(sums), 0, log_sum_of);
    for (int k = 0; k < min(${lanes}, count); k++) {
        const int row = outer * inner + column + k;
        __global const ${ctype} *from = corner + k;
        const ${acc} top = top_of[k], log_sum = log_sum_of[k];
% if smooth:
        const ${acc} dot = dot_of[k];
% endif
        ${finish(normalize, weighted, smooth, acc, check)}
    }
}
</%def>
<%def name="cross_entropy_group(
    normalize, weighted, smooth, ctype, x_type, acc, group, reduce_items, kept_fast, check)">
<% kept_items = group // reduce_items %>
${lib.join("sum", acc, 1)}
${lib.join("max", acc, 1)}
${scores(x_type, acc)}
${faults.define(check)}
__kernel void cross_entropy_group(...) {
    __local ${acc} partial[${group}];
    ${lib.places(reduce_items, kept_items, kept_fast)}
    const int row = get_group_id(0) * ${kept_items} + kept, step = inner;
    const int size = row < rows ? n : 0;
    __global const ${memory(x_type)} *from = x + x_offset + row / inner * x_outer + row % inner;
    ${acc} top = ${"-INFINITY" if normalize else "0"}, log_sum = 0;
% if normalize:
    /* In one pass: rows of many classes, and groups, do not stay in the caches for another. */
    ${acc} sum = 0;
    for (int i = lane; i < size; i += ${8 * reduce_items}) {
% for j in range(8):
        const ${acc} v_${j} = ${f"i + {j * reduce_items} < size ?" if j else ""}
            score(from, (long)(i + ${j * reduce_items}) * step)${" : -INFINITY" if j else ""};
% endfor
        ${acc} next = top;
% for j in range(8):
        next = max_join1(next, v_${j});
% endfor
        const ${acc} base = next == -INFINITY ? 0 : next;
        sum = sum * exp(top - base) + (${" + ".join(f"exp(v_{j} - base)" for j in range(8))});
        top = next;
    }
    partial[lane * ${kept_items} + kept] = top;
    ${lib.tree("max", "partial", reduce_items, kept_items)}
    const ${acc} largest = partial[kept];
    barrier(CLK_LOCAL_MEM_FENCE);
    sum *= exp(top - (largest == -INFINITY ? 0 : largest));
    top = largest;
    partial[lane * ${kept_items} + kept] = sum;
    ${lib.tree("sum", "partial", reduce_items, kept_items)}
    log_sum = log(partial[kept]);
% endif
% if smooth:
    ${acc} weights = 0, dot = 0;
    for (int i = lane; i < size; i += ${reduce_items}) {
        const ${acc} w = ${"weight[weight_offset + i]" if weighted else "1"};
        weights += w;
        dot += w * (score(from, (long)i * step) - top);
    }
% for name in ("weights", "dot"):
    barrier(CLK_LOCAL_MEM_FENCE);
    partial[lane * ${kept_items} + kept] = ${name};
    ${lib.tree("sum", "partial", reduce_items, kept_items)}
    ${name} = partial[kept];
% endfor
% endif
    if (lane == 0 && row < rows) {
        ${finish(normalize, weighted, smooth, acc, check)}
    }
}
</%def>
<%def name="cross_entropy_grad_rows(
    normalize, weighted, smooth, reduction, ctype, acc, lanes, stream)">
<% vector = f"{acc}{lanes}" %>
${lib.fold("sum", acc, lanes)}
${ragged.load(ctype, acc, lanes)}
${decay.define(acc, lanes)}
${ragged.store(ctype, acc, lanes, stream)}
__kernel void cross_entropy_grad_rows(...) {
    ${acc} weights = n;
% if weighted and smooth:
    ${vector} weight_sums = 0;
    for (int i = 0; i < n; i += ${lanes})
        weight_sums += load_ragged(weight + weight_offset + i, n - i, 0);
    weights = sum_fold(weight_sums);
% endif
    const int first = get_global_id(0) * rows_per_item;
    const int last = min(first + rows_per_item, rows);
    for (int row = first; row < last; row++) {
        __global const ${ctype} *from = x + x_offset + (long)row * n;
        __global ${ctype} *to = gx + gx_offset + (long)row * n;
        ${slopes(normalize, weighted, reduction, acc)}
        for (int i = 0; i < n; i += ${lanes}) {
            ${vector} v = 0;
            if (target != ignored) {
% if normalize:
                v = decay(load_ragged(from + i, n - i, 0) - top - log_sum) * every;
% endif
% if smooth:
                v -= spread
                    ${"* load_ragged(weight + weight_offset + i, n - i, 0)" if weighted else ""};
% endif
            }
            store_ragged(to + i, n - i, v);
        }
        if (inside && target != ignored)
            to[target] -= hit;
        else if (target != ignored)
            to[0] = NAN;
    }
}
</%def>
<%def name="cross_entropy_grad_columns(
    normalize, weighted, smooth, reduction, ctype, acc, lanes)">
<% vector = f"{acc}{lanes}" %>
${ragged.load(ctype, acc, lanes)}
${decay.define(acc, lanes)}
${ragged.store(ctype, acc, lanes)}
__kernel void cross_entropy_grad_columns(...) {
    ${acc} weights = n;
% if weighted and smooth:
    weights = 0;
    for (int i = 0; i < n; i++)
        weights += weight[weight_offset + i];
% endif
    const int outer = get_global_id(0) / blocks, column = get_global_id(0) % blocks * ${lanes};
    const int count = inner - column;
    const long corner = (long)outer * n * inner + column;
    __global const ${ctype} *from = x + x_offset + corner;
    __global ${ctype} *to = gx + gx_offset + corner;
<% kept = ["counts", "hit"] + ["top", "log_sum", "every"] * normalize + ["spread"] * smooth %>
% for name in kept:
    ${acc} ${name}_of[${lanes}] = {0};
% endfor
    int classes[${lanes}];
    for (int k = 0; k < min(${lanes}, count); k++) {
        const int row = outer * inner + column + k;
        ${slopes(normalize, weighted, reduction, acc)}
        /* What is ignored has the slope 0, whatever its scores are. */
        const ${acc} counts = target == ignored ? 0 : inside ? 1 : NAN;
        classes[k] = counts == 1 ? target : -1;
% for name in kept:
        ${name}_of[k] = ${name};
% endfor
    }
% for name in kept:
    const ${vector} ${name}_lanes = vload${lanes}(0, ${name}_of);
% endfor
    for (int i = 0; i < n; i++) {
        ${vector} v = 0;
% if normalize:
        const ${vector} score = load_ragged(from + (long)i * inner, count, 0);
        v = decay(score - top_lanes - log_sum_lanes) * every_lanes;
% endif
% if smooth:
        v -= spread_lanes${" * weight[weight_offset + i]" if weighted else ""};
% endif
        store_ragged(to + (long)i * inner, count, counts_lanes == 1 ? v : counts_lanes);
    }
    for (int k = 0; k < min(${lanes}, count); k++)
        if (classes[k] >= 0)
            to[(long)classes[k] * inner + k] -= hit_of[k];
}
</%def>
<%def name="cross_entropy_grad_group(
    normalize, weighted, smooth, reduction, ctype, x_type, gx_type, acc, group, reduce_items,
    kept_fast)">
<% kept_items = group // reduce_items %>
${scores(x_type, acc)}
__kernel void cross_entropy_grad_group(...) {
    ${acc} weights = n;
% if weighted and smooth:
    weights = 0;
    for (int i = 0; i < n; i++)
        weights += weight[weight_offset + i];
% endif
    ${lib.places(reduce_items, kept_items, kept_fast)}
    const int row = get_group_id(0) * ${kept_items} + kept;
    if (row >= rows)
        return;
    __global const ${memory(x_type)} *from = x + x_offset + row / inner * x_outer + row % inner;
    __global ${memory(gx_type)} *to = gx + gx_offset + row / inner * gx_outer + row % inner;
    ${slopes(normalize, weighted, reduction, acc)}
    for (int first = lane; first < n; first += ${4 * reduce_items}) {
% if normalize:
        /* All are read before one is written, so that reads do not wait for each other. */
% for j in range(4):
        const ${acc} x_${j} = ${f"first + {j * reduce_items} < n ?" if j else ""}
            score(from, (long)(first + ${j * reduce_items}) * inner)${" : 0" if j else ""};
% endfor
% endif
% for j in range(4):
        if (first + ${j * reduce_items} < n) {
            const int i = first + ${j * reduce_items};
            ${acc} v = i == target ? -hit : 0;
% if normalize:
            v += exp(x_${j} - top - log_sum) * every;
% endif
% if smooth:
            v -= spread${" * weight[weight_offset + i]" if weighted else ""};
% endif
            ${stored.store(gx_type, "to", "(long)i * inner",
                "target == ignored ? 0 : inside ? v : NAN")}
        }
% endfor
    }
}
</%def>
