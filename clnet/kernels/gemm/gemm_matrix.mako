## kernel gemm_matrix: out = activation(alpha * a @ b + beta * out + bias) on matrix units
##
## A group computes a tile of out. Tiles of a and b come into a ring of `stages` in local memory, as
## they lie: [row][step] where steps of k are dense, else [step][row]. Every unit.lanes items
## multiply a patch of patch_m rows and patch_n columns, as lib/matrix.mako describes. Beyond the
## edges tiles hold zeros, and nothing is stored. Tiles come in by PTX's asynchronous copies, else
## through registers: read before the products, written to local memory behind them.
##
## layout   out, a, b: any strides; fast where *_dense holds
## param    ctype: 'half'|'bfloat16'|'float'  element type; float may be rounded to TF32
## param    unit: MatrixUnit     how the unit is spoken to, see device/matrix_units.py
## param    tile: MatrixTile     shapes, see gemm_matrix.py
## param    a_along: 'tile'|'k'  axis of a that is dense; 'tile' is m
## param    b_along: 'tile'|'k'  the same of b; 'tile' is n
## param    a_dense: bool        runs of 16 bytes along it are dense, aligned, and cross no edge
## param    b_dense: bool        the same of b
## param    out_dense: bool      pairs of out along n (PTX), or runs of 16 bytes, are dense,
##                               aligned, and cross no edge
## param    raster: int          rows of tiles that are computed column by column, for the cache
## param    bias: None|'m'|'n'   the axis bias lies along
## param    activation: None|str see lib/epilogue.mako
## param    name: 'a'|'b'        the operand
## param    axis: 'm'|'n'        its axis that is not k
## param    start: str           where the tile begins along it
## param    loads: MatrixLoads   how it comes in, see gemm_matrix.py
## param    element: str         type of elements in local memory: ushort or float
## param    along: 'tile'|'k'    its dense axis
## param    dense: bool          see above
## arg      m: int                         rows of out
## arg      n: int                         columns of out
## arg      k: int                         length of the sums
## arg      out: inout ctype, may alias    read only where beta != 0
## arg      a: in ctype
## arg      b: in ctype
## % if bias:
## arg      bias: in ctype
## arg      bias_step: long                its stride
## % endif
## arg      alpha: float                   factor of the product
## arg      beta: float                    factor of what out holds
## arg      out_m, out_n, a_m, a_k, b_k, b_n: long  strides of the matrices
## arg      inner: int                     batch item z lies at z / inner * *_outer + z % inner *
##                                         *_inner
## arg      out_outer, out_inner, a_outer, a_inner, b_outer, b_inner: long
## launch   global (tiles * batch * items,), local (items,)
## param    i: int               number of an item's read
## param    run: int             elements of 16 bytes
## numerics products of 16-bit numbers are exact; each sum runs over k in order, unit.steps at once,
##          in float
<%namespace name="sums_of" file="/lib/matrix_sums.mako"/>
<%namespace name="units" file="/lib/matrix.mako"/>
<%def name="gemm_matrix(
    ctype, unit, tile, a_along, b_along, a_dense, b_dense, out_dense, raster, bias, activation)">
<%
    a_loads = tile.loads(tile.m, a_along, ctype)
    b_loads = tile.loads(tile.n, b_along, ctype)
    element = "float" if ctype == "float" else "ushort"
    staged = out_dense and unit.way != "ptx"
    width = 2 if unit.way == "ptx" else a_loads.run if staged else 1
    sums = unit.sums
    def at_once(i, j, e):
        form = "acc_%d_%d[%d]" if unit.way == "ptx" else "acc_%d_%d.s%x"
        return ", ".join(form % (i, j, e + each) for each in range(width))
%>
${units.functions(ctype, element, unit, tile.stages)}
${sums_of.stored(ctype, element, out_dense, bias, activation, width)}
__attribute__((reqd_work_group_size(${tile.items}, 1, 1)))
% if unit.attribute and not unit.emulated:
${unit.attribute}
% endif
__kernel void gemm_matrix(...)
{
    __local ${element} a_tile[${tile.stages * (a_loads.size + b_loads.size)}]
        __attribute__((aligned(16)));
    __local ${element} *const b_tile = a_tile + ${tile.stages * a_loads.size};
    const int self = get_local_id(0), lane = self % ${tile.lanes}, patch = self / ${tile.lanes};
    const int self_m = patch / ${tile.n // tile.patch_n} * ${tile.patch_m},
        self_n = patch % ${tile.n // tile.patch_n} * ${tile.patch_n};
    const int tiles_m = (m + ${tile.m - 1}) / ${tile.m}, tiles_n = (n + ${tile.n - 1}) / ${tile.n};
    const int place = get_group_id(0) % (tiles_m * tiles_n),
        item = get_group_id(0) / (tiles_m * tiles_n);
    const int first = place / (${raster} * tiles_n) * ${raster},
        height = min(${raster}, tiles_m - first);
    const int row0 = (first + place % (${raster} * tiles_n) % height) * ${tile.m};
    const int column0 = place % (${raster} * tiles_n) / height * ${tile.n};
    __global ${element} *to = (__global ${element} *)out + out_offset + item / inner * out_outer
        + item % inner * out_inner;
    __global const ${element} *a_from = (__global const ${element} *)a + a_offset
        + item / inner * a_outer + item % inner * a_inner;
    __global const ${element} *b_from = (__global const ${element} *)b + b_offset
        + item / inner * b_outer + item % inner * b_inner;
    ${aim("a", "m", "row0", a_loads, a_along)}
    ${aim("b", "n", "column0", b_loads, b_along)}
    ${units.declared(unit, tile, element)}
    const int tiles = (k + ${a_loads.steps - 1}) / ${a_loads.steps};
    for (int slot = 0; slot < ${tile.stages - 1}; slot++) {
        ${fetch("a", "m", a_loads, a_along, a_dense, element, unit)}
        ${fetch("b", "n", b_loads, b_along, b_dense, element, unit)}
        ${settle("a", a_loads, a_dense, unit)}
        ${settle("b", b_loads, b_dense, unit)}
    }
    int slot = ${tile.stages - 1}, next = 0;
    for (int t = 0; t < tiles; t++) {
% if unit.way == "ptx":
        copies_wait();
% endif
        barrier(CLK_LOCAL_MEM_FENCE);
        ${fetch("a", "m", a_loads, a_along, a_dense, element, unit)}
        ${fetch("b", "n", b_loads, b_along, b_dense, element, unit)}
        const int a_base = next * ${a_loads.size}, b_base = next * ${b_loads.size};
        ${units.multiplied(
            ctype, unit, tile, a_loads.steps // unit.steps, a_loads, b_loads, a_along, b_along)}
        ${settle("a", a_loads, a_dense, unit)}
        ${settle("b", b_loads, b_dense, unit)}
        slot = next;
        next = next + 1 == ${tile.stages} ? 0 : next + 1;
    }
% if staged:
    ${store_runs(unit, tile, a_loads.run, bias, element)}
% else:
% for i in range(tile.rows(unit)):
% for e in range(0, sums.count, width):
    {
        const int row = row0 + self_m + ${i * unit.rows} + ${sums.line.format(e=e)};
        if (row < m) {
% for j in range(tile.columns(unit)):
            {
                const int column = column0 + self_n + ${j * unit.columns}
                    + ${sums.step.format(e=e)};
                store_sums(to + row * out_m + column * out_n, ${at_once(i, j, e)}, n - column,
                    out_n, alpha, beta
                    ${", (__global const %s *)bias + bias_offset + %s * bias_step, bias_step" % (
                        element, "row" if bias == "m" else "column") if bias else ""});
            }
% endfor
        }
    }
% endfor
% endfor
% endif
}
</%def>
##
## Where the item's reads begin, and how many steps of k, or of the other axis, are left from there.
<%def name="aim(name, axis, start, loads, along)">
    const int ${name}_lane = self % ${loads.lanes} * ${loads.run};
    const int ${name}_line = self / ${loads.lanes};
% if along == "k":
    int ${name}_steps = k - ${name}_lane;
    const int ${name}_rest = ${axis} - ${start} - ${name}_line;
    ${name}_from += (${start} + ${name}_line) * ${name}_${axis} + ${name}_lane * ${name}_k;
% else:
    int ${name}_steps = k - ${name}_line;
    const int ${name}_rest = ${axis} - ${start} - ${name}_lane;
    ${name}_from += (${start} + ${name}_lane) * ${name}_${axis} + ${name}_line * ${name}_k;
% endif
</%def>
##
## Bring the next tile of an operand into stage `slot`, where it is whole behind `settle`.
<%def name="fetch(name, axis, loads, along, dense, element, unit)">
<%
    jumped, run = (axis, "k") if along == "k" else ("k", axis)
    line, lane = ("rest", "steps") if along == "k" else ("steps", "rest")
%>
% for i in range(loads.count):
<%
    from_ = f"{name}_from + {i * loads.jump} * {name}_{jumped}"
    valid = f"{i * loads.jump} < {name}_{line} && {name}_{lane} > 0"
%>
% if dense and unit.way == "ptx":
    copy_run(&${place(name, loads, i)}, ${from_}, ${valid});
% elif dense:
    const uint4 ${name}_run_${i} = ${valid} ? *(__global const uint4 *)(${from_}) : (uint4)(0);
% else:
    for (int e = 0; e < ${loads.run}; e++)
        (&${place(name, loads, i)})[e] =
            ${i * loads.jump} < ${name}_${line} && ${name}_${lane} > e
            ? ${name}_from[${i * loads.jump} * ${name}_${jumped} + e * ${name}_${run}] : 0;
% endif
% endfor
    ${name}_from += ${loads.steps} * ${name}_k;
    ${name}_steps -= ${loads.steps};
% if name == "b" and unit.way == "ptx":
    copies_end();
% endif
</%def>
##
## End what `fetch` began in registers.
<%def name="settle(name, loads, dense, unit)">
% if dense and unit.way != "ptx":
% for i in range(loads.count):
    *(__local uint4 *)&${place(name, loads, i)} = ${name}_run_${i};
% endfor
% endif
</%def>
##
## Where an item's read lies in stage `slot`.
<%def name="place(name, loads, i)" filter="trim">
${name}_tile[slot * ${loads.size} + (${name}_line + ${i * loads.jump}) * ${loads.pitch}
            + ${name}_lane]
</%def>
##
## Sums go through local memory, whose tiles nobody reads any more, so that rows are stored in runs.
<%def name="store_runs(unit, tile, run, bias, element)">
<%
    pitch = tile.patch_n + 1
    runs = tile.patch_n // run
%>
    __local float *const held = (__local float *)a_tile + patch * ${unit.rows * pitch};
% for i in range(tile.rows(unit)):
    barrier(CLK_LOCAL_MEM_FENCE);
% for j in range(tile.columns(unit)):
% for e in range(unit.sums.count):
    held[(${unit.sums.line.format(e=e)}) * ${pitch} + ${j * unit.columns}
        + ${unit.sums.step.format(e=e)}] = acc_${i}_${j}.s${"%x" % e};
% endfor
% endfor
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int at = lane; at < ${unit.rows * runs}; at += ${unit.lanes}) {
        const int row = row0 + self_m + ${i * unit.rows} + at / ${runs};
        const int column = column0 + self_n + at % ${runs} * ${run};
        __local const float *x = held + at / ${runs} * ${pitch} + at % ${runs} * ${run};
        if (row < m && column < n)
            store_sums(to + row * out_m + column, ${", ".join(f"x[{e}]" for e in range(run))},
                ${run}, 1, alpha, beta
                ${", (__global const %s *)bias + bias_offset + %s * bias_step, bias_step" % (
                    element, "row" if bias == "m" else "column") if bias else ""});
    }
% endfor
</%def>
