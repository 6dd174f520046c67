## kernel conv_lines: filters' gradients from images that lie channel by channel
##
## Of float32, 128 items multiply what is dense along the sums, which here run over pixels. So
## images are laid as lines, one for each channel: all of its pixels in a grid that both images
## share, with zeros between them. What a filter's tap meets is the same line further on or back:
##
##     gw[o][tap][c] = sum_at gy_line[o][at] * x_line[c][at + shift(tap)]
##
## A copy must begin at a multiple of 16 bytes, whatever the shift. So of filters of several taps
## four images lie together, a pixel of each behind one another: then a pixel is a run of 16 bytes.
##
## Behind the pixels of a line of the grid are zeros, as many as a tap reaches beyond the image,
## before it or behind it; so are the last lines of an image. With strides x has a line for each
## pixel of a step that a tap meets, its slots: each is the image of every sh-th line, every sw-th
## pixel. Its parts are those of lib/tf32_parts.mako; gy, in one part, is split by items. Zeros fill
## a line behind the images, and take the place of those that four lack.
##
## layout   to: dense; from: any strides, fast where channels or pixels are dense
## param    parts: 1|2
## param    along: 'channel'|'pixel'  axis of from that neighbouring items read along
## param    unit: WarpgroupUnit  see device/warpgroups.py
## param    tile: WarpgroupTile  shapes, see gemm/gemm_warpgroup.py
## param    emulated: bool       plain C copies and multiplies, all items in step
## param    form, a_form: int    words of the tensor maps, see device/warpgroups.py
## param    raw: int             of what a copy takes for one, in an element of gy
## param    steps: int           of a line in a stage
## def      conv_lines
## arg      rows: int            channels
## arg      pitch: int           elements of a part of a line
## arg      to: out float[rows][slots][parts][pitch]
## arg      from: in float
## arg      images, h, w: int    of from
## arg      row_step, image_step, line_step, pixel_step: int  strides of from
## arg      together: int        images that lie so
## arg      grid_h, grid_w: int  see above
## arg      slots_x: int         slots to the right; all of them are global size 2
## arg      sh, sw, ph, pw, dh, dw: int  see conv_geometry.py
## def      conv_warpgroup_lines
## arg      maps: inout uint[groups][64], may alias  memory for the tensor maps, at multiples of 256
##                                         bytes
## arg      m: int                         channels of gy
## arg      ic: int                        channels of x
## arg      channels: int                  of a tap in parts, in whole runs of 16 bytes
## arg      parts: out float[slices][m][taps][channels], may alias
## arg      gy: in float[m][pitch]
## arg      x: in float[ic][slots][2][pitch]
## arg      pitch: int                     as above
## arg      taps: int                      of a filter
## arg      together, grid_w, slots_y, slots_x: int  as above
## arg      sh, sw, ph, pw, dh, dw, kw: int  see conv_geometry.py
## arg      slices, slice_steps: int       slices of the sums, each of so many stages
## launch   conv_lines: global (columns * 32, lines * 8, slots), local (32, 8, 1), a group copies 32
##          by 32; conv_warpgroup_lines: global (groups * items,), local (items,)
## numerics of two parts three products are added; each stage's sums are added in float to those of
##          the stages before it, in order, rounded to nearest
<%namespace name="boxes" file="/lib/warpgroup_boxes.mako"/>
<%namespace name="parts_of" file="/lib/tf32_parts.mako"/>
<%namespace name="sums_of" file="/lib/matrix_sums.mako"/>
<%namespace name="tiles_of" file="/lib/warpgroup_tiles.mako"/>
<%def name="conv_lines(along, parts)">
__attribute__((reqd_work_group_size(32, 8, 1)))
__kernel void conv_lines(...)
{
    __local int places[32];
% if along == "channel":
    __local float held[32][33];
% endif
    const int across = get_local_id(0), down = get_local_id(1);
    const int pixel0 = get_group_id(0) * 32, row0 = get_group_id(1) * 32;
    const int slot = get_global_id(2), slots = get_global_size(2);
    if (down == 0) {
        const int at = pixel0 + across, place = at / together,
            image = place / (grid_h * grid_w) * together + at % together,
            rest = place % (grid_h * grid_w);
        const int first_y = (slot / slots_x * dh - ph) % sh,
            first_x = (slot % slots_x * dw - pw) % sw;
        const int y = rest / grid_w * sh + first_y + (first_y < 0 ? sh : 0),
            x = rest % grid_w * sw + first_x + (first_x < 0 ? sw : 0);
        places[across] = image < images && y < h && x < w
            ? image * image_step + y * line_step + x * pixel_step : -1;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    __global const float *source = from + from_offset;
% if along == "channel":
    for (int e = down; e < 32; e += 8) {
        const int row = row0 + across;
        held[e][across] = row < rows && places[e] >= 0 ? source[row * row_step + places[e]] : 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
% endif
    for (int e = down; e < 32; e += 8) {
        const int row = row0 + e, pixel = pixel0 + across;
        if (row < rows && pixel < pitch) {
% if along == "channel":
            const float value = held[across][e];
% else:
            const float value = places[across] >= 0 ? source[row * row_step + places[across]] : 0;
% endif
            __global float *out = to + to_offset + ((long)row * slots + slot) * ${parts} * pitch
                + pixel;
% if parts == 2:
            ${parts_of.stored("out", "pitch", "value")}
% else:
            out[0] = value;
% endif
        }
    }
}
</%def>
<%def name="conv_warpgroup_lines(unit, tile, emulated, form, a_form)">
<%
    steps = tile.steps("float")
    # What is split later is copied as numbers of 16 bits, two for each, which no copy rounds.
    raw = 1 if emulated else 2
%>
${boxes.functions("float", unit, tile, 4, emulated)}
${sums_of.elements("float", "float", not emulated)}
${sums_of.stored("float", "float", True, None, None, 4)}
inline int whole_steps(const int from, const int step)
{
    return from >= 0 ? from / step : -((step - 1 - from) / step);
}
__attribute__((reqd_work_group_size(${tile.items(emulated=emulated)}, 1, 1)))
__kernel void conv_warpgroup_lines(...)
{
    ${tiles_of.begun(tile, emulated)}
    const int stages_k = (pitch + ${steps - 1}) / ${steps};
    const int chunks = (channels + 63) / 64, blocks = taps * chunks;
    const int tiles_m = (m + ${tile.m - 1}) / ${tile.m},
        tiles_n = (blocks + ${tile.n // 64 - 1}) / ${tile.n // 64};
    const int all = tiles_m * tiles_n * slices;
    __global float *const sums_from = parts + parts_offset;
    __global uint *const a_map = maps + maps_offset + get_group_id(0) * 64;
    __global uint *const b_map = a_map + 32;
    if (self == ${0 if emulated else tile.teams * 128}) {
        const ulong part = (ulong)pitch * sizeof(float);
        map_write(a_map, ${a_form}u, (ulong)(gy + gy_offset), pitch * ${raw}, m, part,
            ${steps * raw}, ${tile.m}, sizeof(float) / ${raw}, 1, 0, 1, 0, 1, 1, 1, 1);
        map_write(b_map, ${form}u, (ulong)(x + x_offset), pitch, ic, slots_y * slots_x * 2 * part,
            ${steps}, 64, sizeof(float), 2, part, slots_y * slots_x, 2 * part, 1, 1, 1, 1);
        maps_written(a_map, 2);
    }
% if emulated:
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
% endif
    ${tiles_of.walked(
        "float", unit, tile, "k", "k", emulated, capture(placed, tile),
        capture(fetched, tile, steps, raw, emulated), tile.stage_bytes, capture(stored, tile))}
}
</%def>
##
## Which tile is the at-th: its channels, its taps and channels by 64, and its pixels.
<%def name="placed(tile)">
    const int slice = at / (tiles_m * tiles_n), row0 = at / tiles_n % tiles_m * ${tile.m},
        block0 = at % tiles_n * ${tile.n // 64};
    const int first_stage = slice * slice_steps,
        last_stage = min(first_stage + slice_steps, stages_k);
% for i in range(tile.n // 64):
    const int tap_${i} = (block0 + ${i}) / chunks,
        from_${i} = block0 + ${i} < blocks ? (block0 + ${i}) % chunks * 64 : channels;
    const int down_${i} = tap_${i} / kw, right_${i} = tap_${i} % kw;
    const int slot_${i} = down_${i} % slots_y * slots_x + right_${i} % slots_x,
        shift_${i} = (whole_steps(down_${i} * dh - ph, sh) * grid_w
            + whole_steps(right_${i} * dw - pw, sw)) * together;
% endfor
</%def>
##
## Bring pixels of both, further on or back in the line of x.
<%def name="fetched(tile, steps, raw, emulated)">
<% tail = "tiles" if emulated else "full + 8 * slot" %>
    box_copy(to, a_map, t * ${steps * raw}, row0, 0, 0, ${tail});
% for part in range(tile.parts):
% for i in range(tile.n // 64):
    box_copy(to + ${tile.b_base(part) + i * 8192}, b_map, t * ${steps} + shift_${i}, from_${i},
        ${part}, slot_${i}, ${tail});
% endfor
% endfor
</%def>
<%def name="stored(tile)">
    __global float *to = sums_from + (long)slice * m * taps * channels;
    ${tiles_of.stored("float", tile, capture(line), "1, 1.0f, 0.0f")}
</%def>
<%def name="line()">
        const int row = row0 + line, part = block0 + block / 64,
            channel = part % chunks * 64 + across, valid = channels - channel;
        const int inside = row < m && part < blocks && valid > 0;
        __global float *const there = to + ((long)row * taps + part / chunks) * channels + channel;
</%def>
