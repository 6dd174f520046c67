## kernel gemm_tiled: out = activation(alpha * a @ b + beta * out + bias) in tiles of local memory
##
## A group computes tile_m x tile_n elements of out, an item item_m x item_n of them, in runs of
## four:
##
##      a_tile[2][tile_k][tile_m]   b_tile[2][tile_k][tile_n]   acc_<row>_<run of four columns>
##
## While a tile is multiplied, the next one is on its way into registers. Beyond the edges of a and
## b the tiles hold zeros, and nothing is stored.
##
## layout   out, a, b: any strides; fast where *_vector holds
## param    ctype: str           element type, and the type of the sums
## param    tile_m: int          rows of a tile of out
## param    tile_n: int          its columns
## param    tile_k: int          steps of k in the tiles of a and b
## param    item_m: int          rows of an item, a multiple of 4
## param    item_n: int          its columns, a multiple of 4
## param    a_major: 'm'|'k'     axis of a along which neighbouring items read
## param    b_major: 'n'|'k'     the same of b
## param    a_vector: bool       runs of four along it are dense, aligned, and cross no edge
## param    b_vector: bool       the same of b
## param    out_vector: bool     the same of out along n
## param    raster: int          rows of tiles that are computed column by column, for the cache
## param    bias: None|'m'|'n'   the axis bias lies along
## param    activation: None|str see lib/epilogue.mako
## param    name: 'a'|'b'        the operand
## param    axis: 'm'|'n'        its axis that is not k
## param    start: str           where the tile begins along it
## param    tile: int            the tile's extent along it
## param    major: str           axis along which neighbouring items read
## param    vector: bool         runs of four along it are one load
## param    items: int           work-items of the group
## param    half: str            the half of the tile buffer, an expression
## arg      m: int                 rows of out
## arg      n: int                 columns of out
## arg      k: int                 length of the sums
## arg      out: inout ctype         read only where beta != 0
## arg      a: in ctype
## arg      b: in ctype
## arg      bias: in ctype            these two only with a bias
## arg      bias_step: long                its stride
## arg      alpha: ctype               factor of the product
## arg      beta: ctype               factor of what out holds
## arg      out_m: long                strides of the matrices
## arg      out_n: long
## arg      a_m: long
## arg      a_k: long
## arg      b_k: long
## arg      b_n: long
## arg      inner: int                batch item z lies at z / inner * *_outer + z % inner * *_inner
## arg      out_outer: long
## arg      out_inner: long
## arg      a_outer: long
## arg      a_inner: long
## arg      b_outer: long
## arg      b_inner: long
## arg      slices: int                 parts of the sums, computed by groups of their own
## arg      slice_k: int                 slice s sums k in [s * slice_k, (s + 1) * slice_k)
## arg      out_slice: long                ... into out + s * out_slice
## launch   global (tiles * slices * batch * items,), local (items,), items = tile_m / item_m *
##          tile_n / item_n
## numerics each sum runs over k in order, by fma
<%namespace name="epilogue" file="lib/epilogue.mako"/>
<%def name="gemm_tiled(
    ctype, tile_m, tile_n, tile_k, item_m, item_n, a_major, b_major, a_vector, b_vector, out_vector,
    raster, bias, activation)">
<%
    items_m, items_n = tile_m // item_m, tile_n // item_n
    items = items_m * items_n
%>
${store_run(ctype, out_vector, bias, activation)}
__attribute__((reqd_work_group_size(${items}, 1, 1)))
__kernel void gemm_tiled(
    const int m, const int n, const int k,
    __global ${ctype} *restrict out, const long out_offset,
    __global const ${ctype} *restrict a, const long a_offset,
    __global const ${ctype} *restrict b, const long b_offset,
% if bias:
    __global const ${ctype} *restrict bias, const long bias_offset, const long bias_step,
% endif
    const ${ctype} alpha, const ${ctype} beta,
    const long out_m, const long out_n, const long a_m, const long a_k, const long b_k, const long b_n,
    const int inner, const long out_outer, const long out_inner,
    const long a_outer, const long a_inner, const long b_outer, const long b_inner,
    const int slices, const int slice_k, const long out_slice)
{
    __local ${ctype} a_tile[2][${tile_k}][${tile_m + 4}] __attribute__((aligned(${32 if ctype == "double" else 16})));
    __local ${ctype} b_tile[2][${tile_k}][${tile_n + 4}] __attribute__((aligned(${32 if ctype == "double" else 16})));
    const int tiles_m = (m + ${tile_m - 1}) / ${tile_m}, tiles_n = (n + ${tile_n - 1}) / ${tile_n};
    const int place = get_group_id(0) % (tiles_m * tiles_n), z = get_group_id(0) / (tiles_m * tiles_n);
    const int slice = z % slices, item = z / slices;
    const int first = place / (${raster} * tiles_n) * ${raster}, height = min(${raster}, tiles_m - first);
    const int row0 = (first + place % (${raster} * tiles_n) % height) * ${tile_m};
    const int column0 = place % (${raster} * tiles_n) / height * ${tile_n};
    out += out_offset + item / inner * out_outer + item % inner * out_inner + slice * out_slice;
    a += a_offset + item / inner * a_outer + item % inner * a_inner;
    b += b_offset + item / inner * b_outer + item % inner * b_inner;
% if bias:
    bias += bias_offset;
% endif
    const int self = get_local_id(0), self_m = self / ${items_n}, self_n = self % ${items_n};
    const int end_k = min(k, (slice + 1) * slice_k);

% for i in range(item_m):
    ${ctype}4 ${", ".join(f"acc_{i}_{j} = 0" for j in range(item_n // 4))};
% endfor
    int k0 = slice * slice_k, now = 0;
    ${fetch("a", ctype, "m", "row0", tile_m, tile_k, a_major, a_vector, items)}
    ${fetch("b", ctype, "n", "column0", tile_n, tile_k, b_major, b_vector, items)}
    ${stage("a", ctype, tile_m, tile_k, a_major, items, "0")}
    ${stage("b", ctype, tile_n, tile_k, b_major, items, "0")}
    barrier(CLK_LOCAL_MEM_FENCE);
    for (k0 += ${tile_k}; ; k0 += ${tile_k}) {
        ${fetch("a", ctype, "m", "row0", tile_m, tile_k, a_major, a_vector, items)}
        ${fetch("b", ctype, "n", "column0", tile_n, tile_k, b_major, b_vector, items)}
        #pragma unroll
        for (int step = 0; step < ${tile_k}; step++) {
% for i in range(item_m // 4):
            const ${ctype}4 a_${i} = *(__local const ${ctype}4 *)&a_tile[now][step][${i * items_m * 4} + self_m * 4];
% endfor
% for j in range(item_n // 4):
            const ${ctype}4 b_${j} = *(__local const ${ctype}4 *)&b_tile[now][step][${j * items_n * 4} + self_n * 4];
% endfor
% for i in range(item_m):
% for j in range(item_n // 4):
            acc_${i}_${j} = fma((${ctype}4)(a_${i // 4}.s${i % 4}), b_${j}, acc_${i}_${j});
% endfor
% endfor
        }
        if (k0 >= end_k)
            break;
        now ^= 1;
        ${stage("a", ctype, tile_m, tile_k, a_major, items, "now")}
        ${stage("b", ctype, tile_n, tile_k, b_major, items, "now")}
        barrier(CLK_LOCAL_MEM_FENCE);
    }
% for i in range(item_m):
    {
        const int row = row0 + ${i // 4 * items_m * 4 + i % 4} + self_m * 4;
        if (row < m) {
% for j in range(item_n // 4):
            {
                const int column = column0 + ${j * items_n * 4} + self_n * 4;
                store_run(out + row * out_m + column * out_n, acc_${i}_${j}, n - column, out_n, alpha, beta
                    ${", bias + %s * bias_step, bias_step" % ("row" if bias == "m" else "column") if bias else ""});
            }
% endfor
        }
    }
% endfor
}
</%def>
##
## Read the item's runs of the tile that begins at k0 into registers.
<%def name="fetch(name, ctype, axis, start, tile, tile_k, major, vector, items)">
% for i in range(tile * tile_k // 4 // items):
    ${ctype}4 ${name}_run_${i} = 0;
    {
% if major == "k":
        const int at = ${start} + (self + ${i * items}) / ${tile_k // 4}, step = k0 + (self + ${i * items}) % ${tile_k // 4} * 4;
% else:
        const int at = ${start} + (self + ${i * items}) % ${tile // 4} * 4, step = k0 + (self + ${i * items}) / ${tile // 4};
% endif
        __global const ${ctype} *source = ${name} + at * ${name}_${axis} + step * ${name}_k;
% if vector:
        if (at < ${axis} && step < end_k)
            ${name}_run_${i} = *(__global const ${ctype}4 *)source;
% else:
% for lane in range(4):
        if (at${" + %d" % lane if major != "k" else ""} < ${axis} && step${" + %d" % lane if major == "k" else ""} < end_k)
            ${name}_run_${i}.s${lane} = source[${lane} * ${name}_${major}];
% endfor
% endif
    }
% endfor
</%def>
##
## Put the item's runs into local memory.
<%def name="stage(name, ctype, tile, tile_k, major, items, half)">
% for i in range(tile * tile_k // 4 // items):
% if major == "k":
% for lane in range(4):
    ${name}_tile[${half}][(self + ${i * items}) % ${tile_k // 4} * 4 + ${lane}][(self + ${i * items}) / ${tile_k // 4}] = ${name}_run_${i}.s${lane};
% endfor
% else:
    *(__local ${ctype}4 *)&${name}_tile[${half}][(self + ${i * items}) / ${tile // 4}][(self + ${i * items}) % ${tile // 4} * 4] = ${name}_run_${i};
% endif
% endfor
</%def>
##
<%def name="store_run(ctype, out_vector, bias, activation)">
inline void store_run(
    __global ${ctype} *restrict out, ${ctype}4 x, const int valid, const long out_n,
    const ${ctype} alpha, const ${ctype} beta
    ${", __global const %s *restrict bias, const long bias_step" % ctype if bias else ""})
{
    x *= alpha;
% if out_vector:
    if (valid > 0) {
        if (beta != 0)
            x += beta * *(__global const ${ctype}4 *)out;
% if bias == "m":
        x += *bias;
% elif bias == "n":
        x += (${ctype}4)(bias[0], bias[bias_step], bias[2 * bias_step], bias[3 * bias_step]);
% endif
        *(__global ${ctype}4 *)out = ${epilogue.activate(activation, "x", ctype + "4")};
    }
% else:
% for lane in range(4):
    if (${lane} < valid) {
        if (beta != 0)
            x.s${lane} += beta * out[${lane} * out_n];
% if bias:
        x.s${lane} += bias[${"0" if bias == "m" else "%d * bias_step" % lane}];
% endif
        out[${lane} * out_n] = ${epilogue.activate(activation, "x.s%d" % lane, ctype)};
    }
% endfor
% endif
}
</%def>
