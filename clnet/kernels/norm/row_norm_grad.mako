## kernel row_norm_grad: gradients of rows divided by their deviation, or root mean square
##
## Rows are read once from memory: input gradients and the sums over rows come of the same pass.
##
## math     with z = (x - mean) invstd and g = gy weight: gx = invstd (g - mean(g) - z mean(g z)),
##          without the means of x and g unless centred; gweight = sum gy z, gbias = sum gy, over
##          rows
## layout   all arrays dense; each part of the rows gives sums of its own, which are joined
##          elsewhere
## param    centred: bool                the mean was subtracted
## param    weighted: bool               there is a weight
## param    summed: bool                 gweight and gbias are summed, too
## param    ctype: str                   element type of gx, gy and x, of C or "bfloat16"
## param    wtype: str                   that of weight
## param    acc: str                     element type in registers, of statistics and of sums
## param    lanes: int                   lanes of a vector of acc
## param    stream: bool                 results go past the caches; their rows are whole vectors
## param    rows: int                    rows that are computed at once
## def      row_norm_grad_rows
## arg      rows: int
## arg      rows_per_item: int
## arg      n: int
## arg      part_step: int      from one part's sums to the next's: whole vectors
## arg      gx: out ctype[rows, n]
## % if summed:
## arg      gweight: out acc[parts, part_step]  a part is what an item takes
## % if centred:
## arg      gbias: out acc[parts, part_step]    and centred
## % endif
## % endif
## arg      gy, x: in ctype[rows, n]
## % if centred:
## arg      mean: in acc[rows]
## % endif
## arg      invstd: in acc[rows]
## % if weighted:
## arg      weight: in wtype[n]
## % endif
## launch   local 1: an item computes a part
## numerics sums in a fixed order
<%namespace name="lib" file="/lib/fold.mako"/>
<%namespace name="ragged" file="/lib/ragged.mako"/>
<%namespace name="prelude" file="/lib/prelude.mako"/>
<%namespace name="stored" file="/lib/stored.mako"/>
##
## A few rows at once: their sums do not wait for each other, and sums over rows are loaded once.
<%def name="rows_pass(rows, centred, weighted, summed, ctype, wtype, acc, lanes)">
<%
    vector = f"{acc}{lanes}"
    of_weight = "load_ragged" if wtype == ctype else "load_weight"
    slope = lambda r: f"load_ragged(slopes + {r}l * n + i, n - i, 0)"
    load = lambda r, fill: f"load_ragged(from + {r}l * n + i, n - i, {fill})"
    distance = lambda r: f"({load(r, f'mean_{r}')} - mean_{r})" if centred else load(r, 0)
    normed = lambda r: f"{distance(r)} * scale_{r}"
%>
        __global const ${stored.memory(ctype)} *slopes = gy + gy_offset + (long)row * n;
        __global const ${stored.memory(ctype)} *from = x + x_offset + (long)row * n;
        __global ${stored.memory(ctype)} *to = gx + gx_offset + (long)row * n;
% for r in range(rows):
% if centred:
        const ${acc} mean_${r} = mean[mean_offset + row + ${r}];
% endif
        const ${acc} scale_${r} = invstd[invstd_offset + row + ${r}];
        ${vector} sums_${r} = 0, products_${r} = 0;
% endfor
        for (int i = 0; i < n; i += ${lanes}) {
% if weighted:
            const ${vector} w = ${of_weight}(weight + weight_offset + i, n - i, 0);
% endif
            ${vector} sum = 0, product = 0;
% for r in range(rows):
            const ${vector} g_${r} = ${slope(r)}, p_${r} = g_${r} * (${normed(r)});
            sum += g_${r};
            product += p_${r};
            sums_${r} += g_${r}${" * w" if weighted else ""};
            products_${r} += p_${r}${" * w" if weighted else ""};
% endfor
% if summed:
            *(__global ${vector} *)(gweight + i) += product;
% if centred:
            *(__global ${vector} *)(gbias + i) += sum;
% endif
% endif
        }
% for r in range(rows):
% if centred:
        const ${acc} level_${r} = sum_fold(sums_${r}) / n;
% endif
        const ${acc} tilt_${r} = sum_fold(products_${r}) / n;
% endfor
        for (int i = 0; i < n; i += ${lanes}) {
% if weighted:
            const ${vector} w = ${of_weight}(weight + weight_offset + i, n - i, 0);
% endif
% for r in range(rows):
            FETCH_AHEAD(slopes + ${rows + r}l * n + i);
            FETCH_AHEAD(from + ${rows + r}l * n + i);
            const ${vector} g_${r} = ${slope(r)}${" * w" if weighted else ""};
            store_ragged(to + ${r}l * n + i, n - i,
                scale_${r} * (g_${r}${f" - level_{r}" if centred else ""}
                - ${normed(r)} * tilt_${r}));
% endfor
        }
</%def>
<%def name="row_norm_grad_rows(
    centred, weighted, summed, ctype, wtype, acc, lanes, stream)">
${lib.fold("sum", acc, lanes)}
${ragged.load(ctype, acc, lanes)}
% if weighted and wtype != ctype:
${ragged.load(wtype, acc, lanes, 'load_weight')}
% endif
${ragged.store(ctype, acc, lanes, stream)}
${prelude.fetch_ahead()}
__kernel void row_norm_grad_rows(...) {
    const int part = get_global_id(0);
    int row = part * rows_per_item;
    const int last = min(row + rows_per_item, rows);
% if summed:
    gweight += gweight_offset + (long)part * part_step;
% if centred:
    gbias += gbias_offset + (long)part * part_step;
% endif
    for (int i = 0; i < part_step; i++)
        gweight[i] = ${"gbias[i] = " if centred else ""}0;
% endif
    for (; row + 3 < last; row += 4) {
        ${rows_pass(4, centred, weighted, summed, ctype, wtype, acc, lanes)}
    }
    for (; row < last; row++) {
        ${rows_pass(1, centred, weighted, summed, ctype, wtype, acc, lanes)}
    }
}
</%def>
