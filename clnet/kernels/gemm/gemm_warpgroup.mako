## kernel gemm_warpgroup: out = activation(alpha * a @ b + beta * out + bias), 128 items at once
##
## Groups take tiles of out in turn. Of a group, one item copies boxes of a and b into a ring of
## `stages` in local memory, zeros beyond the edges; every other 128 items, a team, multiply 64 rows
## of the tile as soon as a stage is full, and say when they have left it: nobody waits for all.
## See lib/warpgroup.mako. Sums go to memory through local memory, so that rows are stored in runs.
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
## param    out_dense: bool      runs of 16 bytes of out along n are dense, aligned, and cross no
##                               edge
## param    rank: 2|4            axes of the tensor maps: 2 without a batch
## param    raster: int          rows of tiles that are computed column by column, for the cache
## param    bias: None|'m'|'n'   the axis bias lies along
## param    activation: None|str see lib/epilogue.mako
## param    emulated: bool       plain C copies and multiplies, all items in step
## param    form: int            word of the tensor maps, see device/warpgroups.py
## param    name: 'a'|'b'        the operand
## param    axis: 'm'|'n'        its axis that is not k
## param    along: 'tile'|'k'    its dense axis
## param    steps: int           of k in a stage
## param    base: int            bytes of a stage before the operand
## param    start: str           where the tile begins along its axis that is not k, in C
## param    element: 'ushort'|'float'  as a pointer to out leads to
## param    extent: int          of the tile along the other axis
## arg      m: int                         rows of out
## arg      n: int                         columns of out
## arg      k: int                         length of the sums
## arg      maps: inout uint[groups][64], may alias  memory for the tensor maps, at multiples of 256
##                                         bytes
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
<%namespace name="sums_of" file="/lib/matrix_sums.mako"/>
<%namespace name="units" file="/lib/warpgroup.mako"/>
<%def name="gemm_warpgroup(
    ctype, sum_ctype, unit, tile, a_along, b_along, out_dense, rank, raster, bias, activation,
    emulated, form)">
<%
    element = "float" if sum_ctype == "float" else "ushort"
    steps = tile.steps(ctype)
%>
${units.functions(ctype, unit, tile, rank, emulated)}
${sums_of.elements(sum_ctype, element, not emulated)}
${sums_of.stored(sum_ctype, element, out_dense, bias, activation, tile.run(sum_ctype))}
__attribute__((reqd_work_group_size(${tile.items(emulated=emulated)}, 1, 1)))
__kernel void gemm_warpgroup(...)
{
    __local uint4 tiles[${tile.stages * tile.stage_bytes // 16}] __attribute__((aligned(1024)));
    __local float held[${tile.teams * 4 * 1024}] __attribute__((aligned(16)));
% if not emulated:
    __local ulong bars[${2 * tile.stages}] __attribute__((aligned(8)));
    const uint full = (uint)(size_t)bars, left = full + ${8 * tile.stages};
    const uint start = (uint)(size_t)tiles;
% else:
    const uint start = 0;
% endif
    const int self = get_local_id(0), lane = self % 32, warp = self / 32 % 4, team = self / 128;
    const int tiles_m = (m + ${tile.m - 1}) / ${tile.m}, tiles_n = (n + ${tile.n - 1}) / ${tile.n};
    const int all = tiles_m * tiles_n * batch * slices;
    const int stages_k = (k + ${steps - 1}) / ${steps};
    __global uint *const a_map = maps + maps_offset + get_group_id(0) * 64;
    __global uint *const b_map = a_map + 32;
    if (self == ${0 if emulated else tile.teams * 128}) {
        ${mapped("a", "m", a_along, tile.m, steps, tile, rank, form)}
        ${mapped("b", "n", b_along, tile.n, steps, tile, rank, form)}
    }
% if emulated:
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
% else:
    if (self == 0)
        bars_begin(full);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (team == ${tile.teams}) {
        if (self == ${tile.teams * 128}) {
            int slot = 0;
            uint turn = 1;
            for (int at = get_group_id(0); at < all; at += get_num_groups(0)) {
                ${placed(tile, raster)}
                for (int t = first_stage; t < last_stage; t++) {
                    bar_wait(left + 8 * slot, turn);
                    bar_expect(full + 8 * slot);
                    const uint to = start + ${tile.stage_bytes} * slot;
                    ${fetched("a", a_along, "row0", tile.m, 0, steps, tile, rank, emulated)}
                    ${fetched("b", b_along, "column0", tile.n, tile.m * 128, steps, tile, rank,
                        emulated)}
                    slot++;
                    if (slot == ${tile.stages}) {
                        slot = 0;
                        turn ^= 1;
                    }
                }
            }
        }
        return;
    }
% endif
    float acc[${tile.n // 2}];
% if tile.promotes:
    float sums[${tile.n // 2}];
% endif
    int slot = 0;
    uint turn = 0;
    for (int at = get_group_id(0); at < all; at += get_num_groups(0)) {
        ${placed(tile, raster)}
% if tile.promotes:
% for e in range(tile.n // 2):
        sums[${e}] = 0;
% endfor
% endif
        for (int t = first_stage; t < last_stage; t++) {
            const uint to = start + ${tile.stage_bytes} * slot;
% if emulated:
            barrier(CLK_LOCAL_MEM_FENCE);
            ${fetched("a", a_along, "row0", tile.m, 0, steps, tile, rank, emulated)}
            ${fetched("b", b_along, "column0", tile.n, tile.m * 128, steps, tile, rank, emulated)}
            barrier(CLK_LOCAL_MEM_FENCE);
% else:
            bar_wait(full + 8 * slot, turn);
% endif
            ${units.multiplied(ctype, unit, tile, a_along, b_along, emulated)}
            slot++;
            if (slot == ${tile.stages}) {
                slot = 0;
                turn ^= 1;
            }
        }
        ${units.ended(tile, emulated)}
        __global ${element} *to = (__global ${element} *)out + out_offset + slice * out_slice
            + item / inner * out_outer + item % inner * out_inner;
        __local float *own = held + (team * 4 + warp) * 1024;
        ${stored(sum_ctype, element, tile, bias, emulated)}
    }
}
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
    const int first_stage = slice * slice_steps,
        last_stage = min(first_stage + slice_steps, stages_k);
</%def>
##
## Write an operand's tensor map. An axis of one element has any stride, a repeated item none.
<%def name="mapped(name, axis, along, extent, steps, tile, rank, form)">
<%
    length = "2 * part" if tile.parts > 1 else "k"
    sizes, box = (
        ((length, axis), (steps, extent)) if along == "k" else ((axis, length), (64, steps)))
    item = f"sizeof(*{name})"
%>
    map_write(${name}_map, ${form}u, (ulong)(${name} + ${name}_offset),
        ${sizes[0]}, ${sizes[1]}, ${name}_step * ${item}, ${box[0]}, ${box[1]}, ${item}
% if rank == 4:
        , ${name}_inner ? inner : 1, ${name}_inner * ${item},
        ${name}_outer ? batch / inner : 1, ${name}_outer * ${item}
% endif
        );
</%def>
##
## Copy an operand's boxes of stage t.
<%def name="fetched(name, along, start, extent, base, steps, tile, rank, emulated)">
<%
    where = f"{name}_map"
    batch = (
        f", {name}_inner ? item % inner : 0, {name}_outer ? item / inner : 0" if rank == 4 else "")
    tail = f"{batch}, tiles" if emulated else f"{batch}, full + 8 * slot"
%>
% for part in range(tile.parts):
<% to, step = base + part * tile.part_bytes, f"t * {steps}{' + part' if part else ''}" %>
% if along == "k":
    box_copy(to + ${to}, ${where}, ${step}, ${start}${tail});
% else:
% for block in range(extent // 64):
    box_copy(to + ${to + block * 128 * steps}, ${where}, ${start} + ${64 * block}, ${step}${tail});
% endfor
% endif
% endfor
</%def>
##
## Sums go through local memory 64 columns at a time; neighbouring rows use other banks.
<%def name="stored(sum_ctype, element, tile, bias, emulated)">
<% run = tile.run(sum_ctype) %>
% for first in range(0, tile.n, 64):
% for half in range(2):
% for j in range(8):
    *(__local float2 *)(own + (lane / 4 + ${8 * half}) * 64 + (${j} ^ lane / 4 % 4) * 8
        + lane % 4 * 2) = (float2)(acc[${(first // 8 + j) * 4 + 2 * half}],
        acc[${(first // 8 + j) * 4 + 2 * half + 1}]);
% endfor
% endfor
    team_wait();
    for (int e = lane; e < ${16 * 64 // run}; e += 32) {
        const int line = e / ${64 // run}, across = e % ${64 // run} * ${run};
        const int row = row0 + team * 64 + warp * 16 + line, column = column0 + ${first} + across;
        __local const float4 *x = (__local const float4 *)(
            own + line * 64 + (across / 8 ^ line % 4) * 8 + across % 8);
% for part in range(run // 4):
        const float4 x_${part} = x[${part}];
% endfor
        if (row < m && column < n)
            store_sums(to + row * out_m + column * out_n,
                ${", ".join(f"x_{e // 4}.s{e % 4}" for e in range(run))},
                n - column, out_n, alpha, beta
                ${", (__global const %s *)bias + bias_offset + %s * bias_step, bias_step" % (
                    element, "row" if bias == "m" else "column") if bias else ""});
    }
    team_wait();
% endfor
</%def>
