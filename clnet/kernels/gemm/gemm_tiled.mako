## kernel gemm_tiled: out = activation(alpha * a @ b + beta * out + bias) in tiles of local memory
##
## A group computes a tile of out as lib/tile.mako describes. Beyond the edges of a and b the tiles
## hold zeros, and nothing is stored.
##
## layout   out, a, b: any strides; fast where *_dense holds
## param    ctype: str           element type, and the type of the sums
## param    tile: Tile           shapes, see tile.py
## param    a_along: 'tile'|'k'  axis of a along which neighbouring items read; 'tile' is m
## param    b_along: 'tile'|'k'  the same of b; 'tile' is n
## param    a_dense: bool        runs of four along it are dense, aligned, and cross no edge
## param    b_dense: bool        the same of b
## param    out_dense: bool      the same of out along n
## param    raster: int          rows of tiles that are computed column by column, for the cache
## param    bias: None|'m'|'n'   the axis bias lies along
## param    activation: None|str see lib/epilogue.mako
## param    finish: FinishParams|None  see lib/finish.mako: applied behind the activation
## param    together: int         products that share m, k and strides but for out_m, one after the
##                               other; of several there is one item and slice each, and no finish
## param    first: int            of four rows of an item
## param    i: int                row of an item
## param    j: int                run of four columns in it
## param    name: 'a'|'b'        the operand
## param    axis: 'm'|'n'        its axis that is not k
## param    start: str           where the tile begins along it
## param    loads: Loads         how it comes in, see tile.py
## param    a_loads: Loads       how a comes in
## param    b_loads: Loads       how b comes in
## arg      m: int                         rows of out
## arg      k: int                         length of the sums
## % if together == 1:
## arg      n: int                         columns of out
## arg      out: inout ctype, may alias    read only where beta != 0
## arg      a: in ctype
## arg      b: in ctype
## arg      out_m: long                    step in out from row to row
## % else:
## % for j in range(together):
## arg      n_{j}: int                     of each product the same
## arg      out_{j}: out ctype
## arg      a_{j}: in ctype
## arg      b_{j}: in ctype
## arg      out_m_{j}: long
## % endfor
## % endif
## % if bias and together == 1:
## arg      bias: in ctype
## % endif
## % if bias and together > 1:
## % for j in range(together):
## arg      bias_{j}: in ctype
## % endfor
## % endif
## % if bias:
## arg      bias_step: long                its stride
## % endif
## % if finish:
## % for j in range(1, len(finish.wide.results)):
## arg      y_{j}: inout ctype, may alias  these three as finish says
## % endfor
## % for j in range(finish.reads):
## arg      x_{j}: in ctype, may alias
## % endfor
## % for j in range(finish.scalars):
## arg      s_{j}: ctype
## % endfor
## % endif
## arg      alpha: ctype                   factor of the product
## arg      beta: ctype                    factor of what out holds
## arg      out_n, a_m, a_k, b_k, b_n: long  strides of the matrices
## arg      inner: int                     batch item z lies at z / inner * *_outer + z % inner *
##                                         *_inner
## arg      out_outer, out_inner, a_outer, a_inner, b_outer, b_inner: long
## arg      slices: int                    parts of the sums, computed by groups of their own
## arg      slice_k: int                   slice s sums k in [s * slice_k, (s + 1) * slice_k)
## arg      out_slice: long                ... into out + s * out_slice
## launch   global (tiles * slices * batch * items,), local (items,)
## numerics each sum runs over k in order, or a team's part of it; parts are added in order
<%namespace name="epilogue" file="/lib/epilogue.mako"/>
<%namespace name="core" file="/lib/tile.mako"/>
<%namespace name="copying" file="/lib/tile_copies.mako"/>
<%namespace name="finishing" file="/lib/finish.mako"/>
<%def name="gemm_tiled(
    ctype, tile, a_along, b_along, a_dense, b_dense, out_dense, raster, bias, activation, finish,
    together)">
<%
    a_loads = tile.loads(tile.tile_m, a_along, dense=a_dense)
    b_loads = tile.loads(tile.tile_n, b_along, dense=b_dense)
%>
${core.functions(tile, ctype)}
${finishing.functions(finish, ctype, 4 if out_dense else 1, ctype + '4')}
${store_run(ctype, out_dense, bias, activation, finish)}
__attribute__((reqd_work_group_size(${tile.items}, 1, 1)))
__kernel void gemm_tiled(...)
{
    ${core.begin(tile, ctype, a_loads, b_loads)}
    const int tiles_m = (m + ${tile.tile_m - 1}) / ${tile.tile_m};
% if together > 1:
    ${one_of_them(ctype, tile, bias, together)}
% else:
    const int group = get_group_id(0);
% endif
    const int tiles_n = (n + ${tile.tile_n - 1}) / ${tile.tile_n};
    const int place = group % (tiles_m * tiles_n), z = group / (tiles_m * tiles_n);
    const int slice = z % slices, item = z / slices;
    const int first = place / (${raster} * tiles_n) * ${raster},
        height = min(${raster}, tiles_m - first);
    const int row0 = (first + place % (${raster} * tiles_n) % height) * ${tile.tile_m};
    const int column0 = place % (${raster} * tiles_n) / height * ${tile.tile_n};
    const long own = item / inner * out_outer + item % inner * out_inner + slice * out_slice;
    out += out_offset + own;
    ${finishing.begin(finish, 'own')}
    const int k0 = slice * slice_k, end_k = min(k, k0 + slice_k);
    const int tiles = (end_k - k0 + ${tile.tile_k - 1}) / ${tile.tile_k};
    __global const ${ctype} *a_from = a + a_offset + item / inner * a_outer
        + item % inner * a_inner;
    __global const ${ctype} *b_from = b + b_offset + item / inner * b_outer
        + item % inner * b_inner;
    ${aim("a", "m", "row0", a_loads)}
    ${aim("b", "n", "column0", b_loads)}
    ${core.multiply(tile, ctype, a_loads, b_loads, capture(both, tile, ctype, a_loads, b_loads),
        capture(put, tile, ctype, a_loads, b_loads))}
    ${core.gather(tile, ctype)}
% for i in range(tile.item_m):
% if finish and i % 4 == 0:
    ${read_runs(finish, ctype, tile, out_dense, i)}
% endif
    {
        const int row = ${row_of(tile, i)};
        if (row < m${' && team == 0' if tile.teams > 1 else ''}) {
% for j in range(tile.item_n // 4):
            {
                const int column = ${column_of(tile, j)};
                store_run(out + row * out_m + column * out_n, acc_${i}_${j}, n - column, out_n,
                    alpha, beta
                    ${", bias + bias_offset + %s * bias_step, bias_step" % ("row"
                        if bias == "m" else "column") if bias else ""}
                    ${finishing.of(finish, "v_%d_%d_{}" % (i, j))}${finishing.passed(finish,
                        "row * out_m + column * out_n")});
            }
% endfor
        }
    }
% endfor
}
</%def>
##
## The product that the group computes a tile of, and the group's number among those of it.
<%def name="one_of_them(ctype, tile, bias, together)">
    int n = n_0, group = get_group_id(0);
    long out_m = out_m_0;
    __global ${ctype} *out = out_0 + out_0_offset;
    __global const ${ctype} *a = a_0 + a_0_offset, *b = b_0 + b_0_offset;
% if bias:
    __global const ${ctype} *bias = bias_0 + bias_0_offset;
% endif
% for j in range(1, together):
    {
        const int before = tiles_m * ((n + ${tile.tile_n - 1}) / ${tile.tile_n});
        if (group >= before) {
            group -= before;
            n = n_${j};
            out_m = out_m_${j};
            out = out_${j} + out_${j}_offset;
            a = a_${j} + a_${j}_offset;
            b = b_${j} + b_${j}_offset;
% if bias:
            bias = bias_${j} + bias_${j}_offset;
% endif
        }
    }
% endfor
    const long out_offset = 0, a_offset = 0, b_offset = 0${", bias_offset = 0" if bias else ""};
</%def>
##
## Where the item's reads begin, and how many steps of k, or of the other axis, are left from there.
<%def name="aim(name, axis, start, loads)">
% if loads.along == "tile":
    int ${name}_steps = ${start} + ${name}_lane < ${axis} ? end_k - k0 - ${name}_line : 0;
    ${name}_from += (${start} + ${name}_lane) * ${name}_${axis} + (k0 + ${name}_line) * ${name}_k;
% else:
    int ${name}_steps = end_k - k0 - ${name}_lane;
    const int ${name}_rest = ${axis} - ${start} - ${name}_line;
    ${name}_from += (${start} + ${name}_line) * ${name}_${axis} + (k0 + ${name}_lane) * ${name}_k;
% endif
</%def>
<%def name="both(tile, ctype, a_loads, b_loads)">
    ${fetch(tile, ctype, "a", "m", a_loads)}
    ${fetch(tile, ctype, "b", "n", b_loads)}
</%def>
<%def name="put(tile, ctype, a_loads, b_loads)">
% if not tile.ring:
    ${core.stores(tile, ctype, a_loads, "a")}
    ${core.stores(tile, ctype, b_loads, "b")}
% endif
</%def>
<%def name="fetch(tile, ctype, name, axis, loads)">
    {
        const int ${name}_room =
            ${name + "_steps" if loads.along == "tile" else "%s_steps > 0 ? %s_rest : 0" % (name,
            name)};
        ${copying.copies(tile, ctype, loads, name,
            name + ("_k" if loads.along == "tile" else "_" + axis))}
    }
    ${name}_from += ${loads.tile_k} * ${name}_k;
    ${name}_steps -= ${loads.tile_k};
</%def>
##
## What four rows of an item are finished with, all asked for before the first is used: a store
## could change what is read after it, so the compiler would wait for memory once for each run.
## Behind a branch of its own each would be waited for, too; beyond out's edges the begin of b's
## buffer is read, and not used.
<%def name="read_runs(finish, ctype, tile, out_dense, first)">
% for i in range(first, first + 4):
% for j in range(tile.item_n // 4):
    const int valid_${i}_${j} = ${row_of(tile, i)} < m${' && team == 0' if tile.teams > 1 else ''}
        ? n - (${column_of(tile, j)}) : 0;
    const long at_${i}_${j} = (${row_of(tile, i)}) * out_m + (${column_of(tile, j)}) * out_n;
% for r in range(finish.reads):
% if out_dense:
    const ${ctype}4 v_${i}_${j}_${r} = *(__global const ${ctype}4 *)(valid_${i}_${j} > 0
        ? x_${r} + at_${i}_${j} : b);
% else:
    const ${ctype}4 v_${i}_${j}_${r} = (${ctype}4)(${", ".join(
        f"*(valid_{i}_{j} > {lane} ? x_{r} + (at_{i}_{j} + {lane} * out_n) : b)"
        for lane in range(4))});
% endif
% endfor
% endfor
% endfor
</%def>
##
## The item's i-th row, and the first column of its j-th run.
<%def name="row_of(tile, i)">row0 + self_m + ${i // 4 * tile.lanes_m * 4 + i % 4}</%def>
<%def name="column_of(tile, j)">column0 + self_n + ${j * tile.lanes_n * 4}</%def>
##
<%def name="store_run(ctype, out_dense, bias, activation, finish)">
inline void store_run(
    __global ${ctype} *out, ${ctype}4 x, const int valid, const long out_n,
    const ${ctype} alpha, const ${ctype} beta
    ${", __global const %s *restrict bias, const long bias_step" % ctype if bias else ""}
    ${finishing.values(finish, ctype + "4")}${finishing.places(finish, ctype)})
{
    x *= alpha;
% if out_dense:
    if (valid > 0) {
        if (beta != 0)
            x += beta * *(__global const ${ctype}4 *)out;
% if bias == "m":
        x += *bias;
% elif bias == "n":
        x += (${ctype}4)(bias[0], bias[bias_step], bias[2 * bias_step], bias[3 * bias_step]);
% endif
% if finish:
        finish_4(${epilogue.activate(activation, "x", ctype + "4")},
            out${finishing.of(finish, "v_{}")}${finishing.passed(finish, "0")});
% else:
        *(__global ${ctype}4 *)out = ${epilogue.activate(activation, "x", ctype + "4")};
% endif
    }
% else:
% for lane in range(4):
    if (${lane} < valid) {
        if (beta != 0)
            x.s${lane} += beta * out[${lane} * out_n];
% if bias:
        x.s${lane} += bias[${"0" if bias == "m" else "%d * bias_step" % lane}];
% endif
% if finish:
        finish_1(${epilogue.activate(activation, "x.s%d" % lane, ctype)},
            out + ${lane} * out_n${finishing.of(finish,
            "v_{}.s%d" % lane)}${finishing.passed(finish, "%d * out_n" % lane)});
% else:
        out[${lane} * out_n] = ${epilogue.activate(activation, "x.s%d" % lane, ctype)};
% endif
    }
% endfor
% endif
}
</%def>
