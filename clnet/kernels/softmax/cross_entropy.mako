## kernel cross_entropy: loss of class scores against target classes
##
## math     top = max_c x[c],  l = log sum_c exp(x[c] - top)
##          loss = (1 - s) w[t] (l - (x[t] - top)) + s / n sum_c w[c] (l - (x[c] - top))
## layout   x dense (outer, n, inner), n classes; groups leave room between outer items. targets,
##          loss, counted (outer, inner); lse the same twice, (2, outer, inner): every top, then
##          every l, whose sum would round l away. A target that is ignored gives loss 0 and counts
##          0; one outside the classes gives NaN.
## param    normalize: bool              x are scores; else logarithms of probabilities, top and l
##                                       are 0
## param    weighted: bool               classes have weights
## param    smooth: bool                 s is not 0
## param    ctype: str                   element type
## param    x_type: str                  in memory, of groups; of C, or bfloat16
## param    acc: str                     element type in registers
## param    lanes: int                   lanes of a vector of acc
## param    group: int                   work-items of a group, a power of two
## param    reduce_items: int            of these, how many share one loss, a power of two
## param    kept_fast: bool              neighbouring work-items take neighbouring inner elements
## param    check: bool                  a target outside the classes is reported
## arg      rows: int                         outer times inner
## def      cross_entropy_rows
## arg      rows_per_item: int
## def      cross_entropy_columns
## arg      blocks: int                       vectors that cover inner
## arg      inner: int
## def      cross_entropy_group
## arg      inner: int
## arg      x_outer: long                     from an outer item of x to the next
## def      all
## arg      n: int
## arg      ignored: long
## arg      smoothing: acc
## arg      loss: out ctype[outer, inner]
## % if normalize:
## arg      lse: out ctype[2, outer, inner]
## % endif
## arg      counted: out ctype[outer, inner]  weight of the target, 0 when it is ignored
## def      cross_entropy_rows, cross_entropy_columns
## arg      x: in ctype[outer, n, inner], may alias
## def      cross_entropy_group
## arg      x: in x_type[outer, n, inner], may alias
## def      all
## arg      targets: in long[outer, inner]
## % if weighted:
## arg      weight: in ctype[n]
## % endif
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
<%namespace name="classes" file="/lib/classes.mako"/>
<%namespace name="faults" file="/lib/fault.mako"/>
<%def name="finish(normalize, weighted, smooth, acc, check)">
        ${classes.own_weight(weighted, acc)}
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
<%def name="cross_entropy_rows(normalize, weighted, smooth, ctype, acc, lanes, check)">
<% vector = f"{acc}{lanes}" %>
${lib.fold("sum", acc, lanes)}
${decay.rows(ctype, acc, lanes)}
${classes.scores(ctype, acc)}
${faults.define(check)}
__kernel void cross_entropy_rows(...) {
    const int first = get_global_id(0) * rows_per_item;
    const int last = min(first + rows_per_item, rows), step = 1;
    for (int row = first; row < last; row++) {
        __global const ${ctype} *from = x + x_offset + (long)row * n;
        const ${acc} top = ${"largest(from, n)" if normalize else "0"};
        const ${acc} log_sum = ${"LOG(sum_fold(decays(from, n, top)))" if normalize else "0"};
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
${classes.scores(ctype, acc)}
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
${classes.scores(x_type, acc)}
${faults.define(check)}
__kernel void cross_entropy_group(...) {
    __local ${acc} partial[${group}];
    ${lib.places(reduce_items, kept_items, kept_fast)}
    const int row = get_group_id(0) * ${kept_items} + kept, step = inner;
    const int size = row < rows ? n : 0;
    __global const ${classes.memory(x_type)} *from =
        x + x_offset + row / inner * x_outer + row % inner;
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
