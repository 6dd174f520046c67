## kernel conv_warpgroup_weight: filters' gradients of images whose channels are dense, by 128 items
##
## A sum runs over pixels: a stage is a box of them, of as many as a line has elements, which of x
## the copy engine brings as each tap meets it. float32 is multiplied along its lines alone, so
## items turn both, and split them where they come in parts: see lib/warpgroup.mako.
##
## layout   x: (images, h, w, channels), gy: (images, oh, ow, m), dense, in whole runs of 16 bytes
## param    ctype: 'half'|'bfloat16'|'float'  element type of x and gy
## param    unit: WarpgroupUnit  see device/warpgroups.py
## param    tile: WarpgroupTile  shapes, see gemm/gemm_warpgroup.py
## param    emulated: bool       plain C copies and multiplies, all items in step
## param    form: int            a word of the tensor maps, see device/warpgroups.py
## param    steps: int           of pixels in a stage
## param    raw: int             of what a copy takes for one, in an element
## def      conv_warpgroup_weight
## arg      maps: inout uint[groups][64], may alias  tensor maps, at multiples of 256 bytes
## arg      m: int                         channels of gy
## arg      parts: out float[slices][m][taps][channels], may alias
## arg      gy, x: in ctype
## arg      images, channels, h, w: int    of x
## arg      oh, ow, sh, sw, ph, pw, dh, dw, kh, kw: int  see conv_geometry.py
## arg      box_x, box_y, box_n: int       pixels of a stage; boxes cross no edge of an image
## arg      slices, slice_steps: int       slices of the sums, each of so many stages
## launch   global (groups * items,), local (items,); as many groups as wanted
## numerics products of 16-bit numbers are exact; each sum runs over pixels in order, in float,
##          which the unit rounds towards zero; of two parts three products are added, and each
##          stage's sums to those of the stages before it, rounded to nearest
<%namespace name="boxes" file="/lib/warpgroup_boxes.mako"/>
<%namespace name="sums_of" file="/lib/matrix_sums.mako"/>
<%namespace name="tiles_of" file="/lib/warpgroup_tiles.mako"/>
<%def name="conv_warpgroup_weight(ctype, unit, tile, emulated, form)">
<%
    steps = tile.steps(ctype)
    # What is split later is copied as numbers of 16 bits, two for each, which no copy rounds.
    raw = 2 if tile.promotes and not emulated else 1
%>
${boxes.functions(ctype, unit, tile, 4, emulated)}
${sums_of.elements("float", "float", not emulated)}
${sums_of.stored("float", "float", True, None, None, 4)}
__attribute__((reqd_work_group_size(${tile.items(emulated=emulated)}, 1, 1)))
__kernel void conv_warpgroup_weight(...)
{
    ${tiles_of.begun(tile, emulated)}
    const int boxes_x = (ow + box_x - 1) / box_x, boxes_y = (oh + box_y - 1) / box_y,
        stages_k = boxes_x * boxes_y * ((images + box_n - 1) / box_n);
    const int chunks = (channels + 63) / 64, blocks = kh * kw * chunks;
    const int tiles_m = (m + ${tile.m - 1}) / ${tile.m},
        tiles_n = (blocks + ${tile.n // 64 - 1}) / ${tile.n // 64};
    const int all = tiles_m * tiles_n * slices;
    __global float *const sums_from = parts + parts_offset;
    __global uint *const a_map = maps + maps_offset + get_group_id(0) * 64;
    __global uint *const b_map = a_map + 32;
    if (self == ${0 if emulated else tile.teams * 128}) {
        const ulong pixel = (ulong)channels * sizeof(*x), gy_pixel = (ulong)m * sizeof(*gy);
        map_write(a_map, ${form}u, (ulong)(gy + gy_offset), m * ${raw}, ow, gy_pixel,
            ${steps * raw}, box_x, sizeof(*gy) / ${raw}, oh, gy_pixel * ow, images,
            gy_pixel * ow * oh, box_y, box_n, 1, 1);
        map_write(b_map, ${form}u, (ulong)(x + x_offset), channels * ${raw}, w, pixel,
            ${steps * raw}, box_x, sizeof(*x) / ${raw}, h, pixel * w, images, pixel * w * h,
            box_y, box_n, sw, sh);
        maps_written(a_map, 2);
    }
% if emulated:
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
% endif
    ${tiles_of.walked(
        ctype, unit, tile, "tile", "tile", emulated, capture(placed, tile),
        capture(fetched, tile, steps, raw, emulated), tile.stage_bytes,
        capture(stored, tile))}
}
</%def>
##
## Which tile is the at-th: its channels, its taps and channels by 64, and its pixels.
<%def name="placed(tile)">
    const int slice = at / (tiles_m * tiles_n), row0 = at / tiles_n % tiles_m * ${tile.m},
        block0 = at % tiles_n * ${tile.n // 64};
    const int first_stage = slice * slice_steps,
        last_stage = min(first_stage + slice_steps, stages_k);
    int x0 = first_stage % boxes_x * box_x, y0 = first_stage / boxes_x % boxes_y * box_y,
        image0 = first_stage / boxes_x / boxes_y * box_n;
% for i in range(tile.n // 64):
    const int tap_${i} = (block0 + ${i}) / chunks,
        from_${i} = block0 + ${i} < blocks ? (block0 + ${i}) % chunks * 64 : channels;
    const int right_${i} = tap_${i} % kw * dw - pw, down_${i} = tap_${i} / kw * dh - ph;
% endfor
</%def>
##
## Bring a box of pixels, as each tap meets it, and go on to the next.
<%def name="fetched(tile, steps, raw, emulated)">
<% tail = "tiles" if emulated else "full + 8 * slot" %>
% for row in range(0, tile.m, steps):
    box_copy(to + ${row * 128}, a_map, (row0 + ${row}) * ${raw}, x0, y0, image0, ${tail});
% endfor
% for column in range(0, tile.n, steps):
<% i = column // 64 %>
    box_copy(to + ${(tile.m + column) * 128}, b_map, (from_${i} + ${column % 64}) * ${raw},
        x0 * sw + right_${i}, y0 * sh + down_${i}, image0, ${tail});
% endfor
    x0 += box_x;
    if (x0 >= ow) {
        x0 = 0;
        y0 += box_y;
        if (y0 >= oh) {
            y0 = 0;
            image0 += box_n;
        }
    }
</%def>
<%def name="stored(tile)">
    __global float *to = sums_from + (long)slice * m * kh * kw * channels;
    ${tiles_of.stored("float", tile, capture(line), "1, 1.0f, 0.0f")}
</%def>
<%def name="line()">
        const int row = row0 + line, part = block0 + block / 64,
            channel = part % chunks * 64 + across, valid = channels - channel;
        const int inside = row < m && part < blocks && valid > 0;
        __global float *const there =
            to + ((long)row * kh * kw + part / chunks) * channels + channel;
</%def>
