## kernel row_norm: rows by their mean and deviation, or by their root mean square
##
## math     d = x - mean (d = x, unless centred), invstd = 1 / sqrt(mean(d d) + eps),
##          y = d invstd weight + bias
## layout   all arrays dense
## param    centred: bool                the mean is subtracted
## param    weighted: bool               there is a weight
## param    biased: bool                 there is a bias
## param    ctype: str                   element type of x and y, of C or "bfloat16"
## param    wtype: str                   that of weight and bias
## param    acc: str                     element type in registers, and of statistics
## param    lanes: int                   lanes of a vector of acc
## param    stream: bool                 results go past the caches; their rows are whole vectors
## param    group: int                   work-items of a group, a power of two
## param    reduce_items: int            of these, how many share a row, a power of two
## param    own: int                     elements of a row that an item has in registers; 0: too
##                                       many
## param    rows: int                    rows that are computed at once
## param    kept_items: int              rows of a group
## param    distance: str                C expression of an element less the mean
## param    term: str                    C expression that the items of a row add up
## def      row_norm_rows, row_norm_group
## arg      rows: int
## def      row_norm_rows
## arg      rows_per_item: int
## def      row_norm_rows, row_norm_group
## arg      n: int
## arg      eps: acc
## arg      y: out ctype[rows, n]
## % if centred:
## arg      mean: out acc[rows]
## % endif
## arg      invstd: out acc[rows]
## arg      x: in ctype[rows, n]
## % if weighted:
## arg      weight: in wtype[n]
## % endif
## % if biased:
## arg      bias: in wtype[n]
## % endif
## launch   rows: local 1, rows_per_item rows an item. group: a group computes (group /
##          reduce_items) rows.
## numerics two passes for the deviation; sums in a fixed order
<%namespace name="lib" file="/lib/fold.mako"/>
<%namespace name="ragged" file="/lib/ragged.mako"/>
<%namespace name="prelude" file="/lib/prelude.mako"/>
<%namespace name="stored" file="/lib/stored.mako"/>
##
## A few rows at once: their sums do not wait for each other, and a weight is read once for all.
<%def name="rows_pass(rows, centred, weighted, biased, ctype, wtype, acc, lanes)">
<%
    vector = f"{acc}{lanes}"
    of_weight = "load_ragged" if wtype == ctype else "load_weight"
    load = lambda r, fill: f"load_ragged(from + {r}l * n + i, n - i, {fill})"
    distance = lambda r: f"({load(r, f'mean_{r}')} - mean_{r})" if centred else load(r, 0)
%>
        __global const ${stored.memory(ctype)} *from = x + x_offset + (long)row * n;
        __global ${stored.memory(ctype)} *to = y + y_offset + (long)row * n;
% if centred:
        ${vector} ${", ".join(f"sums_{r} = 0" for r in range(rows))};
        for (int i = 0; i < n; i += ${lanes}) {
% for r in range(rows):
            sums_${r} += ${load(r, 0)};
% endfor
        }
% for r in range(rows):
        const ${acc} mean_${r} = sum_fold(sums_${r}) / n;
        mean[mean_offset + row + ${r}] = mean_${r};
% endfor
% endif
        ${vector} ${", ".join(f"squares_{r} = 0" for r in range(rows))};
        for (int i = 0; i < n; i += ${lanes}) {
% for r in range(rows):
            FETCH_AHEAD(from + ${rows + r}l * n + i);
            const ${vector} d_${r} = ${distance(r)};
            squares_${r} += d_${r} * d_${r};
% endfor
        }
% for r in range(rows):
        const ${acc} scale_${r} = 1 / sqrt(sum_fold(squares_${r}) / n + eps);
        invstd[invstd_offset + row + ${r}] = scale_${r};
% endfor
        for (int i = 0; i < n; i += ${lanes}) {
% if weighted:
            const ${vector} w = ${of_weight}(weight + weight_offset + i, n - i, 0);
% endif
% if biased:
            const ${vector} b = ${of_weight}(bias + bias_offset + i, n - i, 0);
% endif
% for r in range(rows):
            store_ragged(to + ${r}l * n + i, n - i, ${distance(r)} * scale_${r}
                ${"* w" if weighted else ""}${" + b" if biased else ""});
% endfor
        }
</%def>
<%def name="row_norm_rows(centred, weighted, biased, ctype, wtype, acc, lanes, stream)">
${lib.fold("sum", acc, lanes)}
${ragged.load(ctype, acc, lanes)}
% if wtype != ctype:
${ragged.load(wtype, acc, lanes, 'load_weight')}
% endif
${ragged.store(ctype, acc, lanes, stream)}
${prelude.fetch_ahead()}
__kernel void row_norm_rows(...) {
    int row = get_global_id(0) * rows_per_item;
    const int last = min(row + rows_per_item, rows);
    for (; row + 3 < last; row += 4) {
        ${rows_pass(4, centred, weighted, biased, ctype, wtype, acc, lanes)}
    }
    for (; row < last; row++) {
        ${rows_pass(1, centred, weighted, biased, ctype, wtype, acc, lanes)}
    }
}
</%def>
<%def name="added_up(term, reduce_items, kept_items)">
    partial[lane * ${kept_items} + kept] = ${term};
    ${lib.tree("sum", "partial", reduce_items, kept_items)}
</%def>
<%def name="row_norm_group(
    centred, weighted, biased, ctype, wtype, acc, group, reduce_items, own)">
<%
    kept_items = group // reduce_items
    shift = " - centre" if centred else ""
%>
${lib.join("sum", acc, 1)}
__kernel void row_norm_group(...) {
    __local ${acc} partial[${group}];
    ${lib.places(reduce_items, kept_items, False)}
    const int row = get_group_id(0) * ${kept_items} + kept, size = row < rows ? n : 0;
    __global const ${stored.memory(ctype)} *from = x + x_offset + (long)row * n;
    __global ${stored.memory(ctype)} *to = y + y_offset + (long)row * n;
% for k in range(own):
    const bool has_${k} = lane + ${k * reduce_items} < size;
    ${acc} own_${k} =
        has_${k} ? ${stored.element(ctype, "from", f"lane + {k * reduce_items}")} : 0;
% endfor
% if centred:
    ${acc} sum = 0;
% if own:
% for k in range(own):
    sum += own_${k};
% endfor
% else:
    for (int i = lane; i < size; i += ${reduce_items})
        sum += ${stored.element(ctype, "from", "i")};
% endif
    ${added_up("sum", reduce_items, kept_items)}
    const ${acc} centre = partial[kept] / n;
    barrier(CLK_LOCAL_MEM_FENCE);
% endif
    ${acc} square = 0;
% if own:
% for k in range(own):
    own_${k} = has_${k} ? own_${k}${shift} : 0;
    square += own_${k} * own_${k};
% endfor
% else:
    for (int i = lane; i < size; i += ${reduce_items}) {
        const ${acc} d = ${stored.element(ctype, "from", "i")}${shift};
        square += d * d;
    }
% endif
    ${added_up("square", reduce_items, kept_items)}
    const ${acc} scale = 1 / sqrt(partial[kept] / n + eps);
    if (lane == 0 && row < rows) {
% if centred:
        mean[mean_offset + row] = centre;
% endif
        invstd[invstd_offset + row] = scale;
    }
% if own:
% for k in range(own):
    if (has_${k}) {
        const int i = lane + ${k * reduce_items};
        ${result(f"own_{k}", weighted, biased, ctype, wtype, acc)}
    }
% endfor
% else:
    for (int i = lane; i < size; i += ${reduce_items}) {
        const ${acc} d = ${stored.element(ctype, "from", "i")}${shift};
        ${result("d", weighted, biased, ctype, wtype, acc)}
    }
% endif
}
</%def>
<%def name="result(distance, weighted, biased, ctype, wtype, acc)">
        ${acc} made = ${distance} * scale;
% if weighted:
        made *= ${stored.element(wtype, "weight", "weight_offset + i")};
% endif
% if biased:
        made += ${stored.element(wtype, "bias", "bias_offset + i")};
% endif
        ${stored.store(ctype, "to", "i", "made")}
</%def>
