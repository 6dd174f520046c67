## kernel conv_matrix_weight: a filter's gradient from images whose channels are dense
##
## A product whose rows are the gradient's channels, whose columns are channels of x at each tap,
## and whose sums run over the pixels of gy, in slices; conv_matrix_sum adds these up. Both operands
## lie with their pixels as lines. Where the pixels of a stage lie in x is kept in local memory, one
## stage ahead: {in x, its y, its x}.
##
## layout   x, gy: channels dense, in aligned runs of 16 bytes
## param    ctype: 'half'|'bfloat16'|'float'  element type; float is rounded to TF32
## param    unit: MatrixUnit     how the unit is spoken to, see device/matrix_units.py
## param    tile: MatrixTile     shapes, see gemm/gemm_matrix.py
## param    steps: int           pixels of a stage
## param    a_loads: MatrixLoads how gy comes in, see gemm/gemm_matrix.py
## param    b_loads: MatrixLoads how x comes in
## param    loads: MatrixLoads   one of them
## param    name: 'a'|'b'        the operand
## param    i: int               number of an item's read
## def      conv_matrix_weight
## arg      m, n: int            channels of gy in a group; taps times channels
## arg      k: int               pixels of gy, of all images
## arg      slice_k, slices: int  pixels of a slice, in whole stages; slices
## arg      parts: out float[slices][groups][m][n]
## arg      gy, x: in ctype
## arg      gy_pixel, gy_group: int  elements from pixel to pixel, and from group to group
## arg      channels: int        of x in a group, in whole runs
## arg      h, w, pixel: int     the size of x, elements from pixel to pixel
## arg      oh, ow, sh, sw, ph, pw, dh, dw, kw: int  see conv_geometry.py
## def      conv_matrix_sum
## arg      out: out ctype[oc][ic][taps]
## arg      parts: in float[slices][rows][taps][channels]
## arg      oc, rows, ic, taps, channels, slices: int  filters are the first of the rows
##
## launch   conv_matrix_weight: global (tiles * groups * slices * items,), local (items,);
##          conv_matrix_sum: an item for each element of out
## numerics products of 16-bit numbers are exact; each sum runs over a slice's pixels in order,
##          unit.steps at once, in float; slices are added in order
<%namespace name="stored" file="/lib/stored.mako"/>
<%namespace name="units" file="/lib/matrix.mako"/>
<%def name="conv_matrix_weight(ctype, unit, tile)">
<%
    a_loads = tile.loads(tile.m, "tile", ctype)
    b_loads = tile.loads(tile.n, "tile", ctype)
    element = "float" if ctype == "float" else "ushort"
    sums = unit.sums
    form = "acc_%d_%d[%d]" if unit.way == "ptx" else "acc_%d_%d.s%x"
    steps = a_loads.steps
%>
${units.functions(ctype, element, unit, tile.stages)}
__attribute__((reqd_work_group_size(${tile.items}, 1, 1)))
% if unit.attribute and not unit.emulated:
${unit.attribute}
% endif
__kernel void conv_matrix_weight(...)
{
    __local ${element} a_tile[${tile.stages * (a_loads.size + b_loads.size)}]
        __attribute__((aligned(16)));
    __local ${element} *const b_tile = a_tile + ${tile.stages * a_loads.size};
    __local int4 lines[2][${steps}];
    const int self = get_local_id(0), lane = self % ${tile.lanes}, patch = self / ${tile.lanes};
    const int self_m = patch / ${tile.n // tile.patch_n} * ${tile.patch_m},
        self_n = patch % ${tile.n // tile.patch_n} * ${tile.patch_n};
    const int tiles_m = (m + ${tile.m - 1}) / ${tile.m}, tiles_n = (n + ${tile.n - 1}) / ${tile.n};
    const int place = get_group_id(0) % (tiles_m * tiles_n),
        item = get_group_id(0) / (tiles_m * tiles_n), slice = item % slices, group = item / slices;
    const int row0 = place / tiles_n * ${tile.m}, column0 = place % tiles_n * ${tile.n};
    const int begin = slice * slice_k, end = min(k, begin + slice_k);
    const int a_lane = self % ${a_loads.lanes} * ${a_loads.run}, a_line = self / ${a_loads.lanes};
    const int b_lane = self % ${b_loads.lanes} * ${b_loads.run}, b_line = self / ${b_loads.lanes};
    const int tap = (column0 + b_lane) / channels,
        channel = column0 + b_lane - tap * channels;
    const int down = tap / kw * dh, right = tap % kw * dw;
    const bool a_live = row0 + a_lane < m, b_live = column0 + b_lane < n;
    __global const ${element} *a_from = (__global const ${element} *)gy + gy_offset
        + (long)(begin + a_line) * gy_pixel + group * gy_group + row0 + a_lane;
    __global const ${element} *b_from = (__global const ${element} *)x + x_offset
        + group * channels + (down * w + right) * pixel + channel;
    int a_steps = end - begin - a_line, line0 = begin, which = 0;
    ${units.declared(unit, tile, element)}
    const int tiles = (end - begin + ${steps - 1}) / ${steps};
    ${located(steps, tile)}
    for (int slot = 0; slot < ${tile.stages - 1}; slot++) {
        barrier(CLK_LOCAL_MEM_FENCE);
        ${fetch(a_loads, b_loads, tile, unit)}
        ${settle(a_loads, b_loads, unit)}
    }
    int slot = ${tile.stages - 1}, next = 0;
    for (int t = 0; t < tiles; t++) {
% if unit.way == "ptx":
        copies_wait();
% endif
        barrier(CLK_LOCAL_MEM_FENCE);
        ${fetch(a_loads, b_loads, tile, unit)}
        const int a_base = next * ${a_loads.size}, b_base = next * ${b_loads.size};
        ${units.multiplied(
            ctype, unit, tile, steps // unit.steps, a_loads, b_loads, "tile", "tile")}
        ${settle(a_loads, b_loads, unit)}
        slot = next;
        next = next + 1 == ${tile.stages} ? 0 : next + 1;
    }
    __global float *const to = parts + parts_offset
        + ((long)slice * (get_num_groups(0) / (tiles_m * tiles_n * slices)) + group) * m * n;
% for i in range(tile.rows(unit)):
% for e in range(sums.count):
    {
        const int row = row0 + self_m + ${i * unit.rows} + ${sums.line.format(e=e)};
% for j in range(tile.columns(unit)):
        {
            const int column = column0 + self_n + ${j * unit.columns} + ${sums.step.format(e=e)};
            if (row < m && column < n)
                to[row * n + column] = ${form % (i, j, e)};
        }
% endfor
    }
% endfor
% endfor
}
</%def>
##
## Where the pixels from line0 on lie in x, for the stage that is fetched next.
<%def name="located(steps, tile)">
    for (int i = self; i < ${steps}; i += ${tile.items}) {
        const int at = line0 + i, image = at / (oh * ow), rest = at - image * oh * ow;
        const int y = rest / ow * sh - ph, at_x = rest % ow * sw - pw;
        lines[which][i] = (int4)(((image * h + y) * w + at_x) * pixel,
            at < end ? y : -0x40000000, at_x, 0);
    }
</%def>
##
## Bring the next tiles of both operands into stage `slot`, where they are whole behind `settle`.
<%def name="fetch(a_loads, b_loads, tile, unit)">
% for i in range(b_loads.count):
    const int4 line_${i} = lines[which][b_line + ${i * b_loads.jump}];
    const bool b_valid_${i} = b_live && (uint)(line_${i}.y + down) < (uint)h
        && (uint)(line_${i}.z + right) < (uint)w;
% if unit.way == "ptx":
    copy_run(&${place("b", b_loads, i)}, b_from + line_${i}.x, b_valid_${i});
% else:
    const uint4 b_run_${i} = b_valid_${i}
        ? *(__global const uint4 *)(b_from + line_${i}.x) : (uint4)(0);
% endif
% endfor
% for i in range(a_loads.count):
<% from_ = f"a_from + (long){i * a_loads.jump} * gy_pixel" %>
% if unit.way == "ptx":
    copy_run(&${place("a", a_loads, i)}, ${from_}, a_live && ${i * a_loads.jump} < a_steps);
% else:
    const uint4 a_run_${i} = a_live && ${i * a_loads.jump} < a_steps
        ? *(__global const uint4 *)(${from_}) : (uint4)(0);
% endif
% endfor
% if unit.way == "ptx":
    copies_end();
% endif
    a_from += (long)${a_loads.steps} * gy_pixel;
    a_steps -= ${a_loads.steps};
    line0 += ${a_loads.steps};
    which = 1 - which;
    ${located(a_loads.steps, tile)}
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
## Slices added up, in the order that filters have.
<%def name="conv_matrix_sum(ctype)">
__kernel void conv_matrix_sum(...)
{
    const int at = get_global_id(0), channel = at % ic, tap = at / ic % taps, row = at / ic / taps;
    if (row >= oc)
        return;
    const long slice = (long)rows * taps * channels;
    __global const float *from = parts + parts_offset
        + (long)(row * taps + tap) * channels + channel;
    float sum = 0;
    for (int s = 0; s < slices; s++)
        sum += from[s * slice];
    out += out_offset;
    ${stored.store(ctype, "out", "((long)row * ic + channel) * taps + tap", "sum")}
}
</%def>
