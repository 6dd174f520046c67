## kernel row_norm_grad_group: gradients of rows divided by their deviation, or root mean square
##
## As row_norm_grad_rows, where items work in groups: some share the rows of a part. An item's
## elements of all rows are the same ones: they and their sums over rows stay in its registers, if
## they are not too many.
##
## param    centred: bool                the mean was subtracted
## param    weighted: bool               there is a weight
## param    summed: bool                 gweight and gbias are summed, too
## param    ctype: str                   element type of gx, gy and x, of C or "bfloat16"
## param    wtype: str                   that of weight
## param    acc: str                     element type in registers, of statistics and of sums
## param    group: int                   work-items of a group, a power of two
## param    reduce_items: int            of these, how many share rows, a power of two
## param    own: int                     elements of a row that an item has in registers; 0: too
##                                       many
## param    rows: int                    rows that are computed at once: 1, 2 or 4; 4 without own
## param    kept_items: int              parts of a group
## param    term: str                    C expression that the items of a part add up
## param    name: str                    array of sums
## param    own_sum: str                 an item's
## param    r, k: int                    row of those at once, place of an item's element
## param    pointer: str                 C expression
## param    at: str                      that of the place of an element of row {0} of four
## def      row_norm_grad_group, row_norm_grad_join
## def      row_norm_grad_group
## arg      rows: int
## arg      rows_per_part: int  a multiple of 4
## def      row_norm_grad_join
## arg      groups: int
## def      row_norm_grad_group, row_norm_grad_join
## arg      n: int
## arg      part_step: int      from one group's sums to the next's
## def      row_norm_grad_join
## arg      gweight, gbias: out acc[n]
## arg      of_weight, of_bias: in acc[groups, part_step]
## def      row_norm_grad_group
## arg      gx: out ctype[rows, n]
## % if summed:
## arg      gweight: out acc[groups, part_step]
## % if centred:
## arg      gbias: out acc[groups, part_step]   and centred
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
## launch   group: a group computes (group / reduce_items) parts, one if own is 0. join: a group
##          adds up (group / reduce_items) of the 2 n sums.
## numerics sums in a fixed order
<%namespace name="lib" file="/lib/fold.mako"/>
<%namespace name="stored" file="/lib/stored.mako"/>
<%def name="added_up(term, reduce_items, kept_items)">
        partial[lane * ${kept_items} + kept] = ${term};
        ${lib.tree("sum", "partial", reduce_items, kept_items)}
</%def>
##
## The lanes of a vector are four rows, of which those from the last on do not exist.
<%def name="of_rows(pointer, at, ctype, acc)">(${acc}4)(
% for r in range(4):
            row + ${r} < last ? ${stored.element(ctype, pointer, at.format(r))} : 0${"," * (r < 3)}
% endfor
        )</%def>
<%def name="loaded(centred, ctype, acc)">
            const ${acc}4 g = ${of_rows("slopes", "{}l * n + i", ctype, acc)};
            const ${acc}4 z = (${of_rows("from", "{}l * n + i", ctype,
                acc)}${" - centre" if centred else ""}) * scale;
</%def>
<%def name="read_again(centred, weighted, summed, ctype, wtype, acc, reduce_items, kept_items)">
<%
    four = f"{acc}4"
    weigh = " * w" if weighted else ""
%>
% if summed:
    for (int i = lane; i < size; i += ${reduce_items})
        gweight[i] = ${"gbias[i] = " if centred else ""}0;
% endif
    for (int row = first; row < first + rows_per_part; row += 4) {
        __global const ${stored.memory(ctype)} *slopes = gy + gy_offset + (long)row * n;
        __global const ${stored.memory(ctype)} *from = x + x_offset + (long)row * n;
        __global ${stored.memory(ctype)} *to = gx + gx_offset + (long)row * n;
% if centred:
        const ${four} centre = ${of_rows("mean", "mean_offset + row + {}", acc, acc)};
% endif
        const ${four} scale = ${of_rows("invstd", "invstd_offset + row + {}", acc, acc)};
        ${four} level = 0, tilt = 0;
        for (int i = lane; i < size; i += ${reduce_items}) {
            ${loaded(centred, ctype, acc)}
% if weighted:
            const ${acc} w = ${stored.element(wtype, "weight", "weight_offset + i")};
% endif
            const ${four} product = g * z;
% if summed:
            gweight[i] += (product.s0 + product.s1) + (product.s2 + product.s3);
% if centred:
            gbias[i] += (g.s0 + g.s1) + (g.s2 + g.s3);
% endif
% endif
            level += g${weigh};
            tilt += product${weigh};
        }
% if centred:
        ${added_up("level", reduce_items, kept_items)}
        level = partial[kept] / n;
        barrier(CLK_LOCAL_MEM_FENCE);
% endif
        ${added_up("tilt", reduce_items, kept_items)}
        tilt = partial[kept] / n;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = lane; i < size; i += ${reduce_items}) {
            ${loaded(centred, ctype, acc)}
% if weighted:
            const ${acc} w = ${stored.element(wtype, "weight", "weight_offset + i")};
% endif
            const ${four} result = scale * (g${weigh}${" - level" if centred else ""} - z * tilt);
% for r in range(4):
            if (row + ${r} < last) {
                ${stored.store(ctype, "to", f"{r}l * n + i", f"result.s{r}")}
            }
% endfor
        }
    }
</%def>
##
<%def name="has(r, k)" filter="trim">
row + ${r} < last && lane + ${k} < size
</%def>
<%def name="in_registers(
    centred, weighted, summed, ctype, wtype, acc, reduce_items, kept_items, own, rows)">
<%
    places = range(0, own * reduce_items, reduce_items)
    named = lambda name: list(map((name + "_{}").format, range(rows)))
    sums = (named("level") if centred else []) + named("tilt")
    vector = acc + (str(len(sums)) if len(sums) > 1 else "")
    lane_of = lambda i: f".s{i}" if len(sums) > 1 else ""
%>
% for k in places:
% if weighted:
    const ${acc} w_${k} =
        lane + ${k} < size ? ${stored.element(wtype, "weight", f"weight_offset + lane + {k}")} : 0;
% endif
% if summed:
    ${acc} product_${k} = 0${f", sum_{k} = 0" if centred else ""};
% endif
% endfor
    for (int row = first; row < first + rows_per_part; row += ${rows}) {
        __global const ${stored.memory(ctype)} *slopes = gy + gy_offset + (long)row * n + lane;
        __global const ${stored.memory(ctype)} *from = x + x_offset + (long)row * n + lane;
        __global ${stored.memory(ctype)} *to = gx + gx_offset + (long)row * n + lane;
% for r in range(rows):
% if centred:
        const ${acc} centre_${r} = row + ${r} < last ? mean[mean_offset + row + ${r}] : 0;
% endif
        const ${acc} scale_${r} = row + ${r} < last ? invstd[invstd_offset + row + ${r}] : 0;
        ${acc} ${"level_%d = 0, " % r if centred else ""}tilt_${r} = 0;
% for k in places:
        ${acc} g_${r}_${k} =
            ${has(r, k)} ? ${stored.element(ctype, "slopes", f"{r}l * n + {k}")} : 0;
        ${acc} z_${r}_${k} =
            ${has(r, k)} ? ${stored.element(ctype, "from", f"{r}l * n + {k}")} : 0;
% endfor
% endfor
% for r in range(rows):
% for k in places:
        z_${r}_${k} = (z_${r}_${k}${f" - centre_{r}" if centred else ""}) * scale_${r};
% if summed:
        product_${k} += g_${r}_${k} * z_${r}_${k};
% if centred:
        sum_${k} += g_${r}_${k};
% endif
% endif
% if weighted:
        g_${r}_${k} *= w_${k};
% endif
% if centred:
        level_${r} += g_${r}_${k};
% endif
        tilt_${r} += g_${r}_${k} * z_${r}_${k};
% endfor
% endfor
        ${added_up(f"({vector})({', '.join(sums)})", reduce_items, kept_items)}
        const ${vector} means = partial[kept] / n;
        barrier(CLK_LOCAL_MEM_FENCE);
% for r in range(rows):
% for k in places:
        if (${has(r, k)}) {
            ${stored.store(ctype, "to", f"{r}l * n + {k}",
                f"scale_{r} * (g_{r}_{k}{f' - means{lane_of(r)}' if centred else ''}"
                f" - z_{r}_{k} * means{lane_of(len(sums) - rows + r)})")}
        }
% endfor
% endfor
    }
% if summed:
% for k in places:
    ${written("gweight", f"product_{k}", k, reduce_items, kept_items)}
% if centred:
    ${written("gbias", f"sum_{k}", k, reduce_items, kept_items)}
% endif
% endfor
% endif
</%def>
##
## Of the parts of a group the first adds up what all have.
<%def name="written(name, own_sum, k, reduce_items, kept_items)">
% if kept_items > 1:
    of_parts[kept * ${reduce_items} + lane] = ${own_sum};
    barrier(CLK_LOCAL_MEM_FENCE);
    if (kept == 0 && lane + ${k} < n) {
        for (int i = 1; i < ${kept_items}; i++) ${own_sum} += of_parts[i * ${reduce_items} + lane];
        ${name}[lane + ${k}] = ${own_sum};
    }
    barrier(CLK_LOCAL_MEM_FENCE);
% else:
    if (lane + ${k} < n) ${name}[lane + ${k}] = ${own_sum};
% endif
</%def>
<%def name="row_norm_grad_group(
    centred, weighted, summed, ctype, wtype, acc, group, reduce_items, own, rows)">
<%
    kept_items = group // reduce_items
    width = (1 + centred) * rows if own else 4
    vector = acc + (str(width) if width > 1 else "")
    given = (centred, weighted, summed, ctype, wtype, acc, reduce_items, kept_items)
%>
${lib.join("sum", vector, 1)}
__kernel void row_norm_grad_group(...) {
    __local ${vector} partial[${group}];
% if summed and kept_items > 1:
    __local ${acc} of_parts[${group}];
% endif
    ${lib.places(reduce_items, kept_items, False)}
    const int part = get_group_id(0) * ${kept_items} + kept;
    const int first = part * rows_per_part, last = min(first + rows_per_part, rows);
    const int size = first < rows ? n : 0;
% if summed:
    gweight += gweight_offset + get_group_id(0) * part_step;
% if centred:
    gbias += gbias_offset + get_group_id(0) * part_step;
% endif
% endif
    ${in_registers(*given, own, rows) if own else read_again(*given)}
}
</%def>
##
## Both sums over rows in one launch: of all groups of row_norm_grad_group.
<%def name="row_norm_grad_join(acc, group, reduce_items)">
<% kept_items = group // reduce_items %>
${lib.join("sum", acc, 1)}
__kernel void row_norm_grad_join(...) {
    __local ${acc} partial[${group}];
    ${lib.places(reduce_items, kept_items, True)}
    const int column = get_group_id(0) * ${kept_items} + kept, at = column % n;
    __global const ${acc} *from =
        (column < n ? of_weight + of_weight_offset : of_bias + of_bias_offset) + at;
    ${acc} sum = 0;
    if (column < 2 * n)
        for (int i = lane; i < groups; i += ${reduce_items}) sum += from[i * part_step];
    ${added_up("sum", reduce_items, kept_items)}
    if (lane == 0 && column < n) gweight[gweight_offset + at] = partial[kept];
    if (lane == 0 && column >= n && column < 2 * n) gbias[gbias_offset + at] = partial[kept];
}
</%def>
