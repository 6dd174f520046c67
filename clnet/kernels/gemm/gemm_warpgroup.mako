## kernel gemm_warpgroup: out = activation(alpha * a @ b + beta * out + bias), 128 items at once
##
## Groups take tiles of out in turn. Of a group, one item copies boxes of a and b into a ring of
## `stages` in local memory, zeros beyond the edges; every other 128 items, a team, multiply 64 rows
## of the tile as soon as a stage is full, and say when they have left it: nobody waits for all. See
## lib/warpgroup_tiles.mako. Results go to memory through local memory, as boxes or in runs.
##
## Of two parts of an operand, the larger and what rounding left of it, three products are added,
## the smallest first; sums of so few products are then added to sums in float, rounded to nearest.
##
## layout   out: any strides; a and b: one axis dense, others of multiples of 16 bytes
## param    ctype: 'half'|'bfloat16'|'float'  element type of a and b; float is rounded to TF32
## param    sum_ctype: 'half'|'bfloat16'|'float'  element type of out
## param    unit: WarpgroupUnit  see device/warpgroups.py
## param    tile: WarpgroupTile  shapes, see gemm_warpgroup.py
## param    a_along: 'tile'|'k'  axis of a that is dense; 'tile' is m
## param    b_along: 'tile'|'k'  the same of b; 'tile' is n
## param    out_along: 'm'|'n'   the axis that runs of 16 bytes of out lie along; 'm' if boxed
## param    out_dense: bool      these are dense, aligned, and cross no edge
## param    boxed: bool          out's lines of runs begin at whole ones, and may end anywhere;
##                               there is one slice
## param    adds: bool           beta is not 0
## param    rank: 2|4            axes of the tensor maps: 2 without a batch
## param    raster: int          rows of tiles that are computed column by column, for the cache
## param    bias: None|'m'|'n'   the axis bias lies along
## param    activation: None|str see lib/epilogue.mako
## param    emulated: bool       plain C copies and multiplies, all items in step
## param    form, out_form: int  words of the tensor maps, see device/warpgroups.py
## param    name: 'a'|'b'        the operand
## param    axis: 'm'|'n'        its axis that is not k
## param    along: 'tile'|'k'    its dense axis
## param    steps: int           of k in a stage
## param    start: str           where the tile begins along its axis that is not k, in C
## param    element: 'ushort'|'float'  as a pointer to out leads to
## param    extent: int          of the tile along the other axis
## arg      m: int                         rows of out
## arg      n: int                         columns of out
## arg      k: int                         length of the sums
## arg      maps: inout uint[groups][${64 + 32 * boxed}], may alias  memory for the tensor maps, at
##                                         multiples of 128 bytes
## arg      out: inout sum_ctype, may alias  read only where beta != 0
## arg      a: in ctype
## arg      b: in ctype
## % if bias:
## arg      bias: in sum_ctype
## arg      bias_step: long                its stride
## % endif
## arg      alpha: float                   factor of the product
## arg      beta: float                    factor of what out holds
## arg      out_m, out_n, a_step, b_step: long  strides; those of a and b of the axis not dense
## arg      batch: int                     products in all
## arg      inner: int                     batch item z lies at z / inner * *_outer + z % inner *
##                                         *_inner
## arg      out_outer, out_inner, a_outer, a_inner, b_outer, b_inner: long
## arg      slices: int                    slices of k, each with sums of its own
## arg      slice_steps: int               stages of k of a slice
## arg      out_slice: long                how far slices of sums lie apart
## % if tile.parts > 1:
## arg      part: int                      elements from part to part, along k
## % endif
## launch   global (groups * items,), local (items,); as many groups as wanted
## numerics products of 16-bit numbers are exact; each sum runs over k in order in float, which the
##          unit rounds towards zero
<%namespace name="boxes" file="/lib/warpgroup_boxes.mako"/>
<%namespace name="epilogue" file="/lib/epilogue.mako"/>
<%namespace name="sums_of" file="/lib/matrix_sums.mako"/>
<%namespace name="tiles_of" file="/lib/warpgroup_tiles.mako"/>
<%def name="gemm_warpgroup(
    ctype, sum_ctype, unit, tile, a_along, b_along, out_along, out_dense, boxed, adds, rank,
    raster, bias, activation, emulated, form, out_form)">
<%
    element = "float" if sum_ctype == "float" else "ushort"
    steps = tile.steps(ctype)
%>
${boxes.functions(ctype, unit, tile, rank, emulated)}
${sums_of.elements(sum_ctype, element, not emulated)}
% if not boxed:
${sums_of.stored(sum_ctype, element, out_dense, bias, activation, tile.run(sum_ctype))}
% endif
__attribute__((reqd_work_group_size(${tile.items(emulated=emulated)}, 1, 1)))
__kernel void gemm_warpgroup(...)
{
    ${tiles_of.begun(tile, emulated)}
    const int tiles_m = (m + ${tile.m - 1}) / ${tile.m}, tiles_n = (n + ${tile.n - 1}) / ${tile.n};
    const int all = tiles_m * tiles_n * batch * slices;
    const int stages_k = (k + ${steps - 1}) / ${steps};
    __global ${element} *const out_from = (__global ${element} *)out + out_offset;
    __global uint *const a_map = maps + maps_offset + get_group_id(0) * ${64 + 32 * boxed};
    __global uint *const b_map = a_map + 32;
% if boxed:
    __global uint *const out_map = a_map + 64;
% endif
    if (self == ${0 if emulated else tile.teams * 128}) {
        ${mapped("a", "m", a_along, tile.m, steps, tile, rank, form)}
        ${mapped("b", "n", b_along, tile.n, steps, tile, rank, form)}
% if boxed:
        ${map_of_out(tile, sum_ctype, out_along, rank, out_form)}
% endif
        maps_written(a_map, ${2 + boxed});
    }
% if emulated:
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
% endif
    ${tiles_of.walked(
        ctype, unit, tile, a_along, b_along, emulated, capture(placed, tile, raster),
        capture(both, a_along, b_along, steps, tile, rank, emulated), tile.stage_bytes,
        capture(
            stored, sum_ctype, element, tile, bias, activation, out_along, boxed, adds, rank,
            emulated))}
}
</%def>
##
## Bring both operands.
<%def name="both(a_along, b_along, steps, tile, rank, emulated)">
    ${fetched("a", a_along, "row0", tile.m, steps, tile, rank, emulated)}
    ${fetched("b", b_along, "column0", tile.n, steps, tile, rank, emulated)}
</%def>
##
## Which tile is the at-th: where it begins, of which product, and over which stages of k.
<%def name="placed(tile, raster)">
    const int place = at % (tiles_m * tiles_n), slice = at / (tiles_m * tiles_n) % slices,
        item = at / (tiles_m * tiles_n) / slices;
    const int first = place / (${raster} * tiles_n) * ${raster},
        height = min(${raster}, tiles_m - first);
    const int row0 = (first + place % (${raster} * tiles_n) % height) * ${tile.m};
    const int column0 = place % (${raster} * tiles_n) / height * ${tile.n};
    const int first_stage = slice * slice_steps;
% if tile.sided:
    /* An even number of stages, of which the last may lie behind k. */
    const int last_stage = first_stage + (min(slice_steps, stages_k - first_stage) + 1) / 2 * 2;
% else:
    const int last_stage = min(first_stage + slice_steps, stages_k);
% endif
</%def>
##
## Write an operand's tensor map. An axis of one element has any stride, a repeated item none.
<%def name="mapped(name, axis, along, extent, steps, tile, rank, form)">
<%
    length = "2 * part" if tile.parts > 1 else "k"
    sizes, box = (
        ((length, axis), (steps, extent)) if along == "k" else ((axis, length), (steps, steps)))
    item = f"sizeof(*{name})"
%>
    map_write(${name}_map, ${form}u, (ulong)(${name} + ${name}_offset),
        ${sizes[0]}, ${sizes[1]}, ${name}_step * ${item}, ${box[0]}, ${box[1]}, ${item}
% if rank == 4:
        , ${name}_inner ? inner : 1, ${name}_inner * ${item},
        ${name}_outer ? batch / inner : 1, ${name}_outer * ${item}, 1, 1, 1, 1
% endif
        );
</%def>
##
## Copy an operand's boxes of stage t.
<%def name="fetched(name, along, start, extent, steps, tile, rank, emulated)">
<%
    where = f"{name}_map"
    batch = (
        f", {name}_inner ? item % inner : 0, {name}_outer ? item / inner : 0" if rank == 4 else "")
    tail = f"{batch}, tiles" if emulated else f"{batch}, full + 8 * slot"
%>
% for part in range(tile.parts):
<%
    to = tile.a_base(part) if name == "a" else tile.b_base(part)
    step = f"t * {steps}{' + part' if part else ''}"
%>
% if along == "k":
    box_copy(to + ${to}, ${where}, ${step}, ${start}${tail});
% else:
% for block in range(extent // steps):
    box_copy(to + ${to + block * 128 * steps}, ${where}, ${start} + ${steps * block},
        ${step}${tail});
% endfor
% endif
% endfor
</%def>
##
## Write the tensor map of out, which has no slices.
<%def name="map_of_out(tile, sum_ctype, out_along, rank, out_form)">
<%
    along, across = ("n", "m") if out_along == "n" else ("m", "n")
    lines = tile.m if out_along == "n" else tile.columns_stored(sum_ctype)
%>
    map_write(out_map, ${out_form}u, (ulong)(out + out_offset), ${along} * ${
        2 if sum_ctype == "float" else 1}, ${across}, out_${across} * sizeof(*out), 64, ${lines}, 2
% if rank == 4:
        , inner, out_inner * sizeof(*out), batch / inner, out_outer * sizeof(*out), 1, 1, 1, 1
% endif
        );
</%def>
##
## Store a tile's rows.
<%def name="stored(
    sum_ctype, element, tile, bias, activation, out_along, boxed, adds, rank, emulated)">
    __global ${element} *to = out_from + slice * out_slice
        + item / inner * out_outer + item % inner * out_inner;
% if boxed:
    ${tiles_of.stored_boxes(
        tile, sum_ctype, out_along, emulated, capture(before, element, bias),
        capture(finish, element, bias, activation, adds), "row0",
        ", item % inner, item / inner" * (rank == 4))}
% else:
    ${tiles_of.stored(sum_ctype, tile, capture(line, element), capture(tail, element, bias, adds))}
% endif
</%def>
<%def name="before(element, bias)">
% if bias == "n":
            __global const ${element} *const added = (__global const ${element} *)bias
                + bias_offset + column * bias_step;
            if (column < n)
                b_0 = read_one(added);
            if (column + 1 < n)
                b_1 = read_one(added + bias_step);
% endif
</%def>
<%def name="finish(element, bias, activation, adds)">
                u *= alpha;
                v *= alpha;
% if adds:
                if (row0 + row < m) {
                    __global const ${element} *const there = to + (row0 + row) * out_m
                        + column * out_n;
                    if (column < n)
                        u += beta * read_one(there);
                    if (column + 1 < n)
                        v += beta * read_one(there + out_n);
                }
% endif
% if bias == "m":
                if (row0 + row < m)
                    b_0 = b_1 = read_one((__global const ${element} *)bias + bias_offset
                        + (row0 + row) * bias_step);
% endif
                u = ${epilogue.activate(activation, "u + b_0", "float")};
                v = ${epilogue.activate(activation, "v + b_1", "float")};
</%def>
<%def name="line(element)">
        const int row = row0 + line, column = column0 + block + across, valid = n - column;
        const int inside = row < m && column < n;
        __global ${element} *const there = to + row * out_m + column * out_n;
</%def>
<%def name="tail(element, bias, adds)" filter="trim">
out_n, alpha, ${"beta" if adds else "0.0f"}
                ${", (__global const %s *)bias + bias_offset + %s * bias_step, bias_step" % (
                    element, "row" if bias == "m" else "column") if bias else ""}
</%def>
