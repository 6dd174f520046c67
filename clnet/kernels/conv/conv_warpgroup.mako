## kernel conv_warpgroup: convolutions of images whose channels are dense, 128 items at once
##
## The product of conv_matrix: rows are results' pixels, columns channels of the result, and sums
## run over the taps and, within each, over the source's channels. Here a tile's rows are a box of
## pixels, box_x wide, box_y high, of box_n images, so that one copy brings the pixels that all of
## them meet at a tap, `step` apart, zeros beyond the image. See lib/warpgroup.mako. Where filters
## come in two parts items split x. Of input gradients, results that meet the same taps are a phase;
## a launch has tiles of all. A phase that meets no tap sums a stage of zeros, from beyond x.
##
## layout   x: (images, h, w, channels), pixels and channels dense, in whole runs of 16 bytes;
##          weight: (n, taps, parts, channels), channels or n dense, likewise; out: channels dense
## param    ctype: 'half'|'bfloat16'|'float'  element type of x and weight; float is rounded to TF32
## param    sum_ctype: 'half'|'bfloat16'|'float'  element type of out
## param    unit: WarpgroupUnit  see device/warpgroups.py
## param    tile: WarpgroupTile  shapes, see gemm/gemm_warpgroup.py
## param    b_along: 'tile'|'k'  axis of weight that is dense; 'tile' is n
## param    phases_y, phases_x: int  down and to the right
## param    out_dense: bool      channels of out come in whole aligned runs of 16 bytes
## param    boxed: bool          out's pixels begin at whole runs, and there are no slices
## param    bias: bool           whether there is a bias
## param    activation: None|str see lib/epilogue.mako
## param    emulated: bool       plain C copies and multiplies, all items in step
## param    form, a_form, out_form: int  words of the tensor maps, see device/warpgroups.py
## param    raw: int             of what a copy takes for one, in an element of x
## param    element: 'ushort'|'float'  as a pointer to out leads to
## param    steps: int           of channels in a stage
## param    name, axis, count: str, str, int  an argument of phases along an axis, so many
## def      conv_warpgroup
## arg      maps: inout uint[groups][${32 * (2 + phases_y * phases_x * boxed)}], may alias  tensor
##                                         maps, at multiples of 128 bytes
## arg      n: int                         channels of a result
## arg      out: out sum_ctype, may alias
## arg      x: in ctype                    the source
## arg      weight: in ctype
## % if bias:
## arg      bias: in ctype[n]
## % endif
## arg      images, channels, h, w: int    of the source
## arg      part: int                      of weight, if it has two: channels in whole stages
## arg      taps: int                      of a filter, also those that are not met here
## arg      weight_tap, weight_row: int    strides of weight, of taps and the axis that is not dense
## arg      box_x, box_y, box_n: int       see above
## arg      step_y, step_x, move_y, move_x: int  see conv_matrix
## arg      w_y, w_x: int                  taps, likewise
## arg      out_image, out_y, out_x: int   where results lie
## % for p in range(phases_y):
## arg      grid_y_{p}, first_y_{p}, taps_y_{p}, w_y_{p}, out_y_{p}: int  likewise, of each phase
## % endfor
## % for p in range(phases_x):
## arg      grid_x_{p}, first_x_{p}, taps_x_{p}, w_x_{p}, out_x_{p}: int
## % endfor
## arg      slices, slice_steps: int       slices of the sums, each of so many stages
## arg      out_slice: long                how far slices of sums lie apart
## launch   global (groups * items,), local (items,); as many groups as wanted
## numerics products of 16-bit numbers are exact; each sum runs in order in float, which the unit
##          rounds towards zero: over taps, then channels
<%namespace name="boxes" file="/lib/warpgroup_boxes.mako"/>
<%namespace name="epilogue" file="/lib/epilogue.mako"/>
<%namespace name="sums_of" file="/lib/matrix_sums.mako"/>
<%namespace name="tiles_of" file="/lib/warpgroup_tiles.mako"/>
<%def name="conv_warpgroup(
    ctype, sum_ctype, unit, tile, b_along, phases_y, phases_x, out_dense, boxed, bias, activation,
    emulated, form, a_form, out_form)">
<%
    element = "float" if sum_ctype == "float" else "ushort"
    steps = tile.steps(ctype)
    maps = 2 + phases_y * phases_x * boxed
    whole = "2 * part" if tile.parts > 1 else "channels"
    # What is split later is copied as numbers of 16 bits, two for each, which no copy rounds.
    raw = 2 if tile.whole and not emulated else 1
%>
${boxes.functions(ctype, unit, tile, 4, emulated)}
${sums_of.elements(sum_ctype, element, not emulated)}
% if not boxed:
${sums_of.stored(
    sum_ctype, element, out_dense, "n" if bias else None, activation, tile.run(sum_ctype))}
% endif
__attribute__((reqd_work_group_size(${tile.items(emulated=emulated)}, 1, 1)))
__kernel void conv_warpgroup(...)
{
    ${tiles_of.begun(tile, emulated, 0 if boxed else tile.row_bytes)}
% if not boxed:
    __local int *const pixels = (__local int *)further;
% endif
    const int boxes_x = (grid_x_0 + box_x - 1) / box_x, boxes_y = (grid_y_0 + box_y - 1) / box_y,
        boxes_n = (images + box_n - 1) / box_n;
    const int tiles_n = (n + ${tile.n - 1}) / ${tile.n}, boxes = boxes_x * boxes_y * boxes_n;
    const int all = boxes * tiles_n * ${phases_y * phases_x} * slices;
    const int chunks = (channels + ${steps - 1}) / ${steps};
    const int in_box = box_x * box_y * box_n;
    __global ${element} *const out_from = (__global ${element} *)out + out_offset;
    __global uint *const a_map = maps + maps_offset + get_group_id(0) * ${32 * maps};
    __global uint *const b_map = a_map + 32;
    if (self == ${0 if emulated else tile.teams * 128}) {
        const ulong pixel = (ulong)channels * sizeof(*x);
        map_write(a_map, ${a_form}u, (ulong)(x + x_offset), channels * ${raw}, w, pixel,
            ${steps * raw}, box_x, sizeof(*x) / ${raw}, h, pixel * w, images, pixel * w * h, box_y,
            box_n, step_x, step_y);
        const ulong tap = weight_tap * sizeof(*weight), row = weight_row * sizeof(*weight);
% if b_along == "k":
        map_write(b_map, ${form}u, (ulong)(weight + weight_offset), ${whole}, taps, tap,
            ${steps}, 1, sizeof(*weight), n, row, 1, 0, ${tile.n}, 1, 1, 1);
% else:
        map_write(b_map, ${form}u, (ulong)(weight + weight_offset), n, taps, tap,
            64, 1, sizeof(*weight), channels, row, 1, 0, ${steps}, 1, 1, 1);
% endif
% if boxed:
        ${maps_of_out(sum_ctype, phases_y, phases_x, out_form)}
% endif
        maps_written(a_map, ${maps});
    }
% if emulated:
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
% endif
    ${tiles_of.walked(
        ctype, unit, tile, "k", b_along, emulated, capture(placed, tile, phases_y, phases_x),
        capture(fetched, tile, b_along, steps, raw, emulated),
        f"{tile.parts * tile.n * 128} + 128 * in_box",
        capture(stored, sum_ctype, element, tile, bias, activation, boxed, phases_x, emulated))}
}
</%def>
##
## Which tile is the at-th: its phase, its pixels, its channels, and where its sums begin. The last
## phase comes first: of filters as wide as the stride and more, it has most taps.
<%def name="placed(tile, phases_y, phases_x)">
<% phases = phases_y * phases_x %>
    const int place = at / tiles_n, box = place % boxes,
        phase = ${phases - 1} - place / boxes % ${phases}, slice = place / boxes / ${phases};
    const int phase_y = phase / ${phases_x}, phase_x = phase % ${phases_x};
% for axis, count in (("y", phases_y), ("x", phases_x)):
% for name in ("grid", "first", "w", "out", "taps"):
    int ${name}_${axis}_of = ${picked(name, axis, count)};
% endfor
% endfor
    const int column0 = at % tiles_n * ${tile.n};
    const int x0 = box % boxes_x * box_x, y0 = box / boxes_x % boxes_y * box_y,
        image0 = box / boxes_x / boxes_y * box_n;
    const int first_stage = slice * slice_steps,
        last_stage = min(first_stage + slice_steps, taps_y_of * taps_x_of * chunks);
    int chunk = first_stage % chunks, tap_x = first_stage / chunks % taps_x_of,
        tap_y = first_stage / chunks / taps_x_of;
</%def>
##
## An argument of the tile's phase.
<%def name="picked(name, axis, count)" filter="trim">
${"".join(f"phase_{axis} == {p} ? {name}_{axis}_{p} : " for p in range(1, count))}${name}_${axis}_0
</%def>
##
## Bring a tap's pixels and filters, and go on to the next channels, or taps.
<%def name="fetched(tile, b_along, steps, raw, emulated)">
<% tail = "tiles" if emulated else "full + 8 * slot" %>
    const int tap = w_y_of + w_x_of + tap_y * w_y + tap_x * w_x;
    box_copy(to, a_map, chunk * ${steps * raw}, x0 * step_x
        + first_x_of + tap_x * move_x, y0 * step_y + first_y_of + tap_y * move_y, image0, ${tail});
% for part in range(tile.parts):
% if b_along == "k":
    box_copy(to + ${tile.b_base(part)}, b_map, chunk * ${steps}${" + part" * part}, tap, column0,
        0, ${tail});
% else:
% for i in range(tile.n // 64):
    box_copy(to + ${tile.m * 128 + i * 128 * steps}, b_map, column0 + ${64 * i}, tap,
        chunk * ${steps}, 0, ${tail});
% endfor
% endif
% endfor
    chunk++;
    if (chunk == chunks) {
        chunk = 0;
        tap_x++;
        if (tap_x == taps_x_of) {
            tap_x = 0;
            tap_y++;
        }
    }
</%def>
##
## Write a tensor map of the results of each phase.
<%def name="maps_of_out(sum_ctype, phases_y, phases_x, out_form)">
% for y in range(phases_y):
% for x in range(phases_x):
        map_write(a_map + ${32 * (2 + y * phases_x + x)}, ${out_form}u,
            (ulong)(out + out_offset + out_y_${y} + out_x_${x}), n * ${
                2 if sum_ctype == "float" else 1}, grid_x_${x}, out_x * sizeof(*out), 64, box_x, 2,
            grid_y_${y}, out_y * sizeof(*out), images, out_image * sizeof(*out), box_y, box_n,
            1, 1);
% endfor
% endfor
</%def>
##
## Store a tile's pixels. Without boxes each warp finds where its own 16 lie.
<%def name="stored(sum_ctype, element, tile, bias, activation, boxed, phases_x, emulated)">
% if boxed:
    __global uint *const out_map = b_map + 32 + (phase_y * ${phases_x} + phase_x) * 32;
    ${tiles_of.stored_boxes(
        tile, sum_ctype, "n", emulated, capture(before, element, bias),
        capture(finish, activation), "x0, y0, image0", "")}
% else:
    __global ${element} *to = out_from + slice * out_slice;
    if (lane < 16) {
        const int row = team * 64 + warp * 16 + lane;
        const int grid_x = x0 + row % box_x, grid_y = y0 + row / box_x % box_y,
            image = image0 + row / box_x / box_y;
        const int inside = row < in_box && grid_x < grid_x_of && grid_y < grid_y_of
            && image < images;
        pixels[row] = inside
            ? out_y_of + out_x_of + image * out_image + grid_y * out_y + grid_x * out_x : -1;
    }
    ${tiles_of.stored(sum_ctype, tile, capture(line, element), capture(tail, element, bias))}
% endif
</%def>
<%def name="before(element, bias)">
% if bias:
            __global const ${element} *const added = (__global const ${element} *)bias
                + bias_offset + column;
            if (column < n)
                b_0 = read_one(added);
            if (column + 1 < n)
                b_1 = read_one(added + 1);
% endif
</%def>
<%def name="finish(activation)">
                u = ${epilogue.activate(activation, "u + b_0", "float")};
                v = ${epilogue.activate(activation, "v + b_1", "float")};
</%def>
<%def name="line(element)">
        const int column = column0 + block + across, valid = n - column;
        const int inside = pixels[line] >= 0 && column < n;
        __global ${element} *const there = to + pixels[line] + column;
</%def>
<%def name="tail(element, bias)" filter="trim">
1, 1.0f, 0.0f${f", (__global const {element} *)bias + bias_offset + column, 1" if bias else ""}
</%def>
