## kernel cross_entropy_grad: the gradient of cross_entropy with respect to the scores
##
## math     p = exp(x - top - l)
##          gx[c] = g ((1 - s) w[t] (p[c] - (c == t)) + s / n (p[c] sum w - w[c]))
## layout   as cross_entropy.mako's; gx lies as x, and may lie where x does
## param    normalize: bool              x are scores; else logarithms of probabilities
## param    weighted: bool               classes have weights
## param    smooth: bool                 s is not 0
## param    reduction: none|sum|mean     how the losses were reduced
## param    ctype: str                   element type
## param    x_type, gx_type: str         in memory, of groups; of C, or bfloat16
## param    acc: str                     element type in registers
## param    lanes: int                   lanes of a vector of acc
## param    group: int                   work-items of a group, a power of two
## param    reduce_items: int            of these, how many share one loss, a power of two
## param    stream: bool                 gx goes past the caches; its rows are whole vectors of a
##                                       line
## param    kept_fast: bool              neighbouring work-items take neighbouring inner elements
## arg      rows: int                         outer times inner
## def      cross_entropy_grad_rows
## arg      rows_per_item: int
## def      cross_entropy_grad_columns
## arg      blocks: int                       vectors that cover inner
## arg      inner: int
## def      cross_entropy_grad_group
## arg      inner: int
## arg      x_outer: long                     from an outer item of x to the next
## arg      gx_outer: long                    the same of gx
## def      all
## arg      n: int
## arg      ignored: long
## arg      smoothing: acc
## def      cross_entropy_grad_rows, cross_entropy_grad_columns
## arg      gx: out ctype[outer, n, inner], may alias
## def      cross_entropy_grad_group
## arg      gx: out gx_type[outer, n, inner], may alias
## def      all
## arg      gy: in ctype[1 or outer, inner]
## % if normalize:
## arg      lse: in ctype[2, outer, inner]
## % endif
## % if reduction == "mean":
## arg      total: in ctype[1]
## % endif
## def      cross_entropy_grad_rows, cross_entropy_grad_columns
## arg      x: in ctype[outer, n, inner], may alias
## def      cross_entropy_grad_group
## arg      x: in x_type[outer, n, inner], may alias
## def      all
## arg      targets: in long[outer, inner]
## % if weighted:
## arg      weight: in ctype[n]
## % endif
## launch   rows: local 1, rows_per_item rows an item. columns: one vector of inner an item.
##          group: (group / reduce_items) losses a group.
## numerics scores less the largest, then less the logarithm
<%namespace name="lib" file="/lib/fold.mako"/>
<%namespace name="ragged" file="/lib/ragged.mako"/>
<%namespace name="decay" file="/lib/decay.mako"/>
<%namespace name="classes" file="/lib/classes.mako"/>
<%namespace name="stored" file="/lib/stored.mako"/>
<%def name="slopes(normalize, weighted, reduction, acc)">
        ${classes.own_weight(weighted, acc)}
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
typedef ${vector} __attribute__((aligned(sizeof(${acc})))) unaligned;
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
    const ${vector} ${name}_lanes = *(const unaligned *)${name}_of;
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
${classes.scores(x_type, acc)}
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
    __global const ${classes.memory(x_type)} *from =
        x + x_offset + row / inner * x_outer + row % inner;
    __global ${classes.memory(gx_type)} *to =
        gx + gx_offset + row / inner * gx_outer + row % inner;
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
