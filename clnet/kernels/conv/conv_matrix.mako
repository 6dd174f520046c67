## kernel conv_matrix: convolutions of images whose channels are dense, on matrix units
##
## A product whose rows are results' pixels, whose columns are channels of the result, and whose
## sums run over the taps and, within each, over the source's channels. Of the result a grid of
## pixels is computed. The source's pixel for a tap is, down (and to the right likewise),
##
##     grid_y * step_y + first_y + tap_y * move_y
##
## and is zero beyond the image; that tap's weights begin at w_first + tap_y * w_y + tap_x * w_x.
## So both a convolution and its input gradient, one phase of a stride at a time, are this kernel.
##
## Tiles come into a ring of stages in local memory as in gemm_matrix. Where a group's rows lie is
## kept in local memory: {in the source, its y, its x, in out}. Sums go through the tiles' memory,
## so that they are stored in runs along what is dense in out.
##
## layout   x: channels dense, runs of 16 bytes aligned; weight likewise; out: one axis dense
## param    ctype: 'half'|'bfloat16'|'float'  element type; float is rounded to TF32
## param    unit: MatrixUnit     how the unit is spoken to, see device/matrix_units.py
## param    tile: MatrixTile     shapes, see gemm/gemm_matrix.py
## param    inside: bool         every tap of every result is inside the image
## param    across: bool         pixels of out are dense, else its channels
## param    runs: bool           channels of out come in whole aligned runs of 16 bytes
## param    bias: bool           whether there is a bias
## param    activation: None|str see lib/epilogue.mako
## param    element: str         type of elements in local memory: ushort or float
## param    a_loads: MatrixLoads how pixels come in, see gemm/gemm_matrix.py
## param    b_loads: MatrixLoads how filters come in
## param    loads: MatrixLoads   one of them
## param    name: 'a'|'b'        the operand
## param    i: int               number of an item's read
## param    run: int             elements of 16 bytes
## arg      m: int               pixels of all images
## arg      n: int               channels of a result's group
## arg      out: out ctype
## arg      x: in ctype          the source
## arg      weight: in ctype[groups * n][w_row]
## % if bias:
## arg      bias: in ctype[groups * n]
## % endif
## arg      channels: int        of a group, in whole runs
## arg      h, w, pixel: int     the source's size, elements from pixel to pixel
## arg      grid_h, grid_w: int  results of an image
## arg      step_y, step_x, first_y, first_x, taps_y, taps_x, move_y, move_x: int
## arg      w_row, w_first, w_y, w_x: int  elements of a row of weight; taps
## arg      out_first, out_image, out_y, out_x, out_n: int  where results lie
##
## launch   global (tiles * groups * items,), local (items,)
## numerics products of 16-bit numbers are exact; sums run over taps, then channels, unit.steps at
##          once, in float
<%namespace name="epilogue" file="/lib/epilogue.mako"/>
<%namespace name="units" file="/lib/matrix.mako"/>
<%def name="conv_matrix(ctype, unit, tile, inside, across, runs, bias, activation)">
<%
    a_loads = tile.loads(tile.m, "k", ctype)
    b_loads = tile.loads(tile.n, "k", ctype)
    element = "float" if ctype == "float" else "ushort"
%>
${units.functions(ctype, element, unit, tile.stages)}
${packed(ctype)}
__attribute__((reqd_work_group_size(${tile.items}, 1, 1)))
% if unit.attribute and not unit.emulated:
${unit.attribute}
% endif
__kernel void conv_matrix(...)
{
    __local ${element} a_tile[${tile.stages * (a_loads.size + b_loads.size)}]
        __attribute__((aligned(16)));
    __local ${element} *const b_tile = a_tile + ${tile.stages * a_loads.size};
    __local int4 rows[${tile.m}];
    const int self = get_local_id(0), lane = self % ${tile.lanes}, patch = self / ${tile.lanes};
    const int self_m = patch / ${tile.n // tile.patch_n} * ${tile.patch_m},
        self_n = patch % ${tile.n // tile.patch_n} * ${tile.patch_n};
    const int tiles_m = (m + ${tile.m - 1}) / ${tile.m}, tiles_n = (n + ${tile.n - 1}) / ${tile.n};
    const int place = get_group_id(0) % (tiles_m * tiles_n),
        group = get_group_id(0) / (tiles_m * tiles_n);
    const int row0 = place / tiles_n * ${tile.m}, column0 = place % tiles_n * ${tile.n};
    for (int i = self; i < ${tile.m}; i += ${tile.items}) {
        const int pixel_of = row0 + i, image = pixel_of / (grid_h * grid_w),
            rest = pixel_of - image * grid_h * grid_w;
        const int grid_y = rest / grid_w, grid_x = rest - grid_y * grid_w;
        const int y = grid_y * step_y + first_y, at_x = grid_x * step_x + first_x;
        rows[i] = (int4)(((image * h + y) * w + at_x) * pixel,
            pixel_of < m ? y : -0x40000000, at_x,
            out_first + image * out_image + grid_y * out_y + grid_x * out_x);
    }
    __global const ${element} *x_from = (__global const ${element} *)x + x_offset
        + group * channels;
    const int a_lane = self % ${a_loads.lanes} * ${a_loads.run}, a_line = self / ${a_loads.lanes};
    const int b_lane = a_lane, b_line = self / ${b_loads.lanes};
    const int b_rest = n - column0 - b_line;
    __global const ${element} *w_from = (__global const ${element} *)weight + weight_offset
        + (long)(group * n + column0 + b_line) * w_row;
    ${units.declared(unit, tile, element)}
% if unit.way != "ptx":
    uint4 ${", ".join(f"{name}_run_{i}" for name, loads in (("a", a_loads), ("b", b_loads))
                      for i in range(loads.count))};
% endif
    int channel = a_lane, tap_y = 0, tap_x = 0;
    ${wrap()}
    const int tiles = (taps_y * taps_x * channels + ${a_loads.steps - 1}) / ${a_loads.steps};
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int slot = 0; slot < ${tile.stages - 1}; slot++) {
        ${fetch(a_loads, b_loads, inside, unit)}
        ${settle(a_loads, b_loads, unit)}
    }
    int slot = ${tile.stages - 1}, next = 0;
    for (int t = 0; t < tiles; t++) {
% if unit.way == "ptx":
        copies_wait();
% endif
        barrier(CLK_LOCAL_MEM_FENCE);
        ${fetch(a_loads, b_loads, inside, unit)}
        const int a_base = next * ${a_loads.size}, b_base = next * ${b_loads.size};
        ${units.multiplied(
            ctype, unit, tile, a_loads.steps // unit.steps, a_loads, b_loads, "k", "k")}
        ${settle(a_loads, b_loads, unit)}
        slot = next;
        next = next + 1 == ${tile.stages} ? 0 : next + 1;
    }
% if unit.way == "ptx" and not unit.emulated:
    asm volatile("cp.async.wait_group 0;" ::: "memory");
% endif
    __global ${element} *const to = (__global ${element} *)out + out_offset;
    ${store(ctype, element, unit, tile, across, runs, a_loads.run, bias, activation)}
}
</%def>
##
## The next run of k's channel, where a tap's channels end.
<%def name="wrap()">
    while (channel >= channels && tap_y < taps_y) {
        channel -= channels;
        tap_x++;
        if (tap_x == taps_x) {
            tap_x = 0;
            tap_y++;
        }
    }
</%def>
##
## Bring the next tiles of both operands into stage `slot`, where they are whole behind `settle`.
<%def name="fetch(a_loads, b_loads, inside, unit)">
    {
        const int down = tap_y * move_y, right = tap_x * move_x;
        const int moved = (down * w + right) * pixel + channel;
        const int w_at = (w_first + tap_y * w_y + tap_x * w_x) * channels + channel;
        const bool live = tap_y < taps_y;
% for i in range(a_loads.count):
        const int4 row_${i} = rows[a_line + ${i * a_loads.jump}];
% if inside:
        const bool a_valid_${i} = live && row_${i}.y >= 0;
% else:
        const bool a_valid_${i} = live && (uint)(row_${i}.y + down) < (uint)h
            && (uint)(row_${i}.z + right) < (uint)w;
% endif
% if unit.way == "ptx":
        copy_run(&${place("a", a_loads, i)}, x_from + (row_${i}.x + moved), a_valid_${i});
% endif
% endfor
% if unit.way == "ptx":
% for i in range(b_loads.count):
        copy_run(&${place("b", b_loads, i)}, w_from + (${i * b_loads.jump} * w_row + w_at),
            live && ${i * b_loads.jump} < b_rest);
% endfor
        copies_end();
    }
% else:
% for i in range(a_loads.count):
        a_run_${i} = a_valid_${i}
            ? *(__global const uint4 *)(x_from + (row_${i}.x + moved)) : (uint4)(0);
% endfor
% for i in range(b_loads.count):
        b_run_${i} = live && ${i * b_loads.jump} < b_rest
            ? *(__global const uint4 *)(w_from + (${i * b_loads.jump} * w_row + w_at))
            : (uint4)(0);
% endfor
    }
% endif
    channel += ${a_loads.steps};
    ${wrap()}
</%def>
##
## End what `fetch` began in registers.
<%def name="settle(a_loads, b_loads, unit)">
% if unit.way != "ptx":
% for name, loads in (("a", a_loads), ("b", b_loads)):
% for i in range(loads.count):
    *(__local uint4 *)&${place(name, loads, i)} = ${name}_run_${i};
% endfor
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
## Sums through the tiles' memory, which nobody reads any more, to out.
<%def name="store(ctype, element, unit, tile, across, runs, run, bias, activation)">
<%
    pitch = tile.patch_n + 1
    form = "acc_%d_%d[%d]" if unit.way == "ptx" else "acc_%d_%d.s%x"
    width = run if runs and not across else 1
    each = tile.patch_n // width
%>
    __local float *const held = (__local float *)a_tile + patch * ${unit.rows * pitch};
% for i in range(tile.rows(unit)):
    barrier(CLK_LOCAL_MEM_FENCE);
% for j in range(tile.columns(unit)):
% for e in range(unit.sums.count):
    held[(${unit.sums.line.format(e=e)}) * ${pitch} + ${j * unit.columns}
        + ${unit.sums.step.format(e=e)}] = ${form % (i, j, e)};
% endfor
% endfor
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int at = lane; at < ${unit.rows * each}; at += ${unit.lanes}) {
% if across:
        const int line = at % ${unit.rows}, step = at / ${unit.rows};
% else:
        const int line = at / ${each}, step = at % ${each} * ${width};
% endif
        const int row = self_m + ${i * unit.rows} + line, column = column0 + self_n + step;
        if (row0 + row < m && column < n) {
            __global ${element} *const place_of = to + rows[row].w + (group * n + column) * out_n;
            float x_[${width}];
            for (int e = 0; e < ${width}; e++) {
                x_[e] = held[line * ${pitch} + step + e];
% if bias:
                x_[e] += read_one((__global const ${element} *)bias + bias_offset + group * n
                    + column + e);
% endif
                x_[e] = ${epilogue.activate(activation, "x_[e]", "float")};
            }
% if width > 1 and ctype != "float":
            *(__global uint4 *)place_of = (uint4)(${", ".join(
                f"both(x_[{e}], x_[{e + 1}])" for e in range(0, 8, 2))});
% elif width > 1:
            *(__global float4 *)place_of = (float4)(x_[0], x_[1], x_[2], x_[3]);
% else:
            store_one(place_of, x_[0]);
% endif
        }
    }
% endfor
</%def>
##
## Two neighbours of 16 bits as a word.
<%def name="packed(ctype)">
% if ctype == "half":
inline uint both(const float x, const float y)
{
    ushort lower, upper;
    vstore_half_rte(x, 0, (half *)&lower);
    vstore_half_rte(y, 0, (half *)&upper);
    return lower | (uint)upper << 16;
}
% elif ctype == "bfloat16":
inline uint both(const float x, const float y)
{
    return nearest(x, y);
}
% endif
</%def>
