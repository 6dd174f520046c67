## kernel gemm_matrix: out = activation(alpha * a @ b + beta * out + bias) on matrix units
##
## A group computes a tile of out. Tiles of a and b come into a ring of `stages` in local memory, as
## they lie: [row][step] where steps of k are dense, else [step][row]. Every 32 items multiply a
## part of warp_m rows and warp_n columns, as lib/matrix.mako describes. Beyond the edges tiles hold
## zeros, and nothing is stored.
##
## layout   out, a, b: any strides; fast where *_dense holds
## param    ctype: 'half'|'bfloat16'|'float'  element type; float is rounded to TF32
## param    unit: 'ptx'|'emulated'  how the unit is spoken to
## param    tile: MatrixTile     shapes, see gemm_matrix.py
## param    a_along: 'tile'|'k'  axis of a that is dense; 'tile' is m
## param    b_along: 'tile'|'k'  the same of b; 'tile' is n
## param    a_dense: bool        runs of 16 bytes along it are dense, aligned, and cross no edge
## param    b_dense: bool        the same of b
## param    out_dense: bool      pairs of out along n are dense, aligned, and cross no edge
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
## numerics products of 16-bit numbers are exact; each sum runs over k in order, unit_k steps at
##          once, in float
<%namespace name="epilogue" file="/lib/epilogue.mako"/>
<%namespace name="units" file="/lib/matrix.mako"/>
<%def name="gemm_matrix(
    ctype, unit, tile, a_along, b_along, a_dense, b_dense, out_dense, raster, bias, activation)">
<%
    a_loads = tile.loads(tile.m, a_along, ctype)
    b_loads = tile.loads(tile.n, b_along, ctype)
    element = "float" if ctype == "float" else "ushort"
    unit_k = tile.unit_k(ctype)
%>
${units.functions(ctype, element, unit, tile.stages)}
${store_pair(ctype, element, out_dense, bias, activation)}
__attribute__((reqd_work_group_size(${tile.items}, 1, 1)))
__kernel void gemm_matrix(...)
{
    __local ${element} a_tile[${tile.stages * a_loads.size}] __attribute__((aligned(16)));
    __local ${element} b_tile[${tile.stages * b_loads.size}] __attribute__((aligned(16)));
% if unit == "emulated":
    __local uint a_held[${tile.items // 32}][${tile.rows * 4}][32];
    __local uint b_held[${tile.items // 32}][${tile.columns * 2}][32];
    __local int read_at[${tile.items // 32}][32];
% endif
    const int self = get_local_id(0), lane = self % 32, patch = self / 32;
    const int self_m = patch / ${tile.n // tile.warp_n} * ${tile.warp_m},
        self_n = patch % ${tile.n // tile.warp_n} * ${tile.warp_n};
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
% for i in range(tile.rows):
    uint ${", ".join(f"a{p}_{i}_{r}" for p in range(2) for r in range(4))};
% for j in range(tile.columns):
    float acc_${i}_${j}[4] = {0, 0, 0, 0};
% endfor
% endfor
% for j in range(tile.columns):
    uint ${", ".join(f"b{p}_{j}_{r}" for p in range(2) for r in range(2))};
% endfor
    const int tiles = (k + ${a_loads.steps - 1}) / ${a_loads.steps};
    int slot = 0;
    for (int t = 0; t < ${tile.stages - 1}; t++) {
        ${fetch("a", "m", a_loads, a_along, a_dense, element)}
        ${fetch("b", "n", b_loads, b_along, b_dense, element)}
        copies_end();
        slot++;
    }
    for (int t = 0; t < tiles; t++) {
        copies_wait();
        barrier(CLK_LOCAL_MEM_FENCE);
        ${fetch("a", "m", a_loads, a_along, a_dense, element)}
        ${fetch("b", "n", b_loads, b_along, b_dense, element)}
        copies_end();
        slot = slot + 1 == ${tile.stages} ? 0 : slot + 1;
        const int a_base = slot * ${a_loads.size}, b_base = slot * ${b_loads.size};
<% last = a_loads.steps // unit_k - 1 %>
% for step in range(-1, last + 1):
% if step < last:
        ${units.operands_of(ctype, unit, tile, step + 1, unit_k, a_loads, b_loads, a_along,
            b_along)}
% endif
% if step >= 0:
        ${units.products(ctype, unit, tile, step)}
% endif
% endfor
    }
% for i in range(tile.rows):
% for half in range(2):
    {
        const int row = row0 + self_m + ${i * 16 + half * 8} + lane / 4;
        if (row < m) {
% for j in range(tile.columns):
            {
                const int column = column0 + self_n + ${j * 8} + lane % 4 * 2;
                store_pair(to + row * out_m + column * out_n, acc_${i}_${j}[${2 * half}],
                    acc_${i}_${j}[${2 * half + 1}], n - column, out_n, alpha, beta
                    ${", (__global const %s *)bias + bias_offset + %s * bias_step, bias_step" % (
                        element, "row" if bias == "m" else "column") if bias else ""});
            }
% endfor
        }
    }
% endfor
% endfor
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
## Bring the next tile of an operand into stage `slot`.
<%def name="fetch(name, axis, loads, along, dense, element)">
<%
    jumped, run = (axis, "k") if along == "k" else ("k", axis)
    line, lane = ("rest", "steps") if along == "k" else ("steps", "rest")
%>
% for i in range(loads.count):
% if dense:
    copy_run(&${name}_tile[slot * ${loads.size}
        + (${name}_line + ${i * loads.jump}) * ${loads.pitch} + ${name}_lane],
        ${name}_from + ${i * loads.jump} * ${name}_${jumped},
        ${i * loads.jump} < ${name}_${line} && ${name}_${lane} > 0);
% else:
    for (int e = 0; e < ${loads.run}; e++)
        ${name}_tile[slot * ${loads.size} + (${name}_line + ${i * loads.jump}) * ${loads.pitch}
            + ${name}_lane + e] = ${i * loads.jump} < ${name}_${line} && ${name}_${lane} > e
            ? ${name}_from[${i * loads.jump} * ${name}_${jumped} + e * ${name}_${run}] : 0;
% endif
% endfor
    ${name}_from += ${loads.steps} * ${name}_k;
    ${name}_steps -= ${loads.steps};
</%def>
##
## Two elements of a row, of which `valid` are there.
<%def name="store_pair(ctype, element, out_dense, bias, activation)">
inline void store_pair(
    __global ${element} *to, float x_0, float x_1, const int valid, const long out_n,
    const float alpha, const float beta
    ${", __global const %s *bias, const long bias_step" % element if bias else ""})
{
% for lane in range(2):
    if (valid > ${lane}) {
        x_${lane} *= alpha;
        if (beta != 0)
            x_${lane} += beta * read_one(to + ${lane} * out_n);
% if bias:
        x_${lane} += read_one(bias${" + bias_step" if bias == "n" and lane else ""});
% endif
        x_${lane} = ${epilogue.activate(activation, f"x_{lane}", "float")};
    }
% endfor
% if out_dense:
    if (valid > 0) {
% if ctype == "half":
        vstore_half2_rte((float2)(x_0, x_1), 0, (__global half *)to);
% elif ctype == "float":
        *(__global float2 *)to = (float2)(x_0, x_1);
% else:
        *(__global uint *)to = nearest(x_0) | nearest(x_1) << 16;
% endif
    }
% else:
    if (valid > 0)
        store_one(to, x_0);
    if (valid > 1)
        store_one(to + out_n, x_1);
% endif
}
</%def>
