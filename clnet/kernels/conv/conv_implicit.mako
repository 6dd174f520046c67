## kernel conv_implicit: convolution as a matrix product whose columns are gathered, never stored
##
## A group computes a tile of (channels of the result) x (its pixels, of all images), as
## lib/tile.mako describes. The sums run over the taps of the filter, and for each tap over the
## channels of what is gathered: so a tile's columns lie `plane` elements apart, and borders are
## looked at once a tap.
##
##     direction   rows             columns              gathered
##     forward     output channel   image, oh, ow        x, at y * sh - ph + r * dh
##     input       input channel    image, h, w          gy, at (y + ph - r * dh) / sh where whole
##
## Of an input gradient with strides, pixels with equal remainders take part in the same taps: those
## of one phase, (y % sh, x % sw), are computed together. Where x has few channels (`merged`), the
## forward sums run over channel, r, s in one, as the filters lie.
##
## math     as in conv_depthwise.mako
## param    ctype: str            OpenCL element type
## param    tile: Tile            shapes, see tile.py
## param    direction: str        forward or input
## param    merged: bool          one sum over channels and taps, forward only
## param    kh, kw: int               height and width of the filter, where merged
## param    packed: bool          a is conv_pack's; else the filters themselves, of one tap or
##                                merged
## param    a_dense: bool         runs of four of a are dense, aligned, and cross no edge
## param    b_dense: bool         the same of what is gathered
## param    out_dense: bool       the same of pixels of out
## param    bias: bool            whether there is a bias
## param    activation: str|None  applied last
## param    a: Loads              how a comes in, see tile.py
## param    b: Loads              how b comes in
##
## arg      out: out ctype     (n, groups * rows, height, width), or slices of it
## arg      filters: in ctype  packed or not
## arg      source: in ctype   what is gathered, (n, groups * channels, h, w)
## % if bias:
## arg      bias: in ctype     (groups * rows)
## % endif
## arg      n: int             images
## arg      groups: int        groups of channels
## arg      rows: int          channels of out, in a group
## arg      channels: int      channels of what is gathered, in a group
## arg      height: int        of out
## arg      width: int
## arg      h: int             height of what is gathered
## arg      w: int             its width
## arg      taps_h: int        rows of the filter
## arg      taps_w: int        its columns
## arg      sh, sw: int        stride
## arg      dh, dw: int        dilation
## arg      ph, pw: int        padding above and on the left
## arg      slices: int        parts of the sums, computed by groups of their own
## arg      slice_tiles: int   tiles of a part
## arg      out_slice: long    slice s goes to out + s * out_slice
##
## launch   global (tiles of columns * items, tiles of rows * phases, groups * slices), local
##          (items, 1, 1)
## numerics one chain per result: taps, and channels for each
<%namespace name="epilogue" file="/lib/epilogue.mako"/>
<%namespace name="core" file="/lib/tile.mako"/>
<%namespace name="copying" file="/lib/tile_copies.mako"/>
<%def name="conv_implicit(
    ctype, tile, direction, merged, kh, kw, packed, a_dense, b_dense, out_dense, bias, activation)">
<%
    a = tile.loads(tile.tile_m, "tile" if packed else "k", dense=a_dense)
    b = tile.loads(tile.tile_n, "tile", dense=b_dense)
    copies = capture(fetch_merged if merged else fetch, ctype, tile, a, b, direction, kh, kw)
    stores = capture(put, ctype, tile, a, b)
%>
${core.functions(tile, ctype)}
__attribute__((reqd_work_group_size(${tile.items}, 1, 1)))
__kernel void conv_implicit(...)
{
    ${core.begin(tile, ctype, a, b)}
    const int group = get_group_id(2) % groups, slice = get_group_id(2) / groups;
    const int tiles_m = (rows + ${tile.tile_m - 1}) / ${tile.tile_m};
    const int row0 = get_group_id(1) % tiles_m * ${tile.tile_m},
        column0 = get_group_id(0) * ${tile.tile_n};
% if direction == "forward":
    const int first_y = 0, first_x = 0, grid_h = height, grid_w = width, step_h = sh, step_w = sw;
    const int first_r = 0, first_s = 0, next_r = 1, next_s = 1;
% else:
    /* every next_r-th row of the filter, from first_r on, meets the pixels of this phase */
    const int phase = get_group_id(1) / tiles_m, first_y = phase / sw, first_x = phase % sw;
    const int grid_h = (height - first_y + sh - 1) / sh, grid_w = (width - first_x + sw - 1) / sw;
    const int step_h = 1, step_w = 1;
    int first_r = 0, first_s = 0, next_r = 1, next_s = 1;
    while (first_r < taps_h && (first_y + ph - first_r * dh) % sh != 0) first_r++;
    while (first_s < taps_w && (first_x + pw - first_s * dw) % sw != 0) first_s++;
    while (next_r * dh % sh != 0) next_r++;
    while (next_s * dw % sw != 0) next_s++;
% endif
    const int pixels = grid_h * grid_w, columns = n * pixels, plane = h * w;
    if (column0 >= columns)
        return;

    /* the column whose elements the item gathers */
    const int column = column0 + b_lane, image = column / pixels;
    const int y = column % pixels / grid_w * step_h, x = column % pixels % grid_w * step_w;
    source += source_offset;
    source += ((long)image * groups + group) * channels * plane;
    const bool a_in_rows = row0 + a_lane < rows;
% if merged:
    const int sums = channels * ${kh * kw};
    int k = slice * slice_tiles * ${tile.tile_k};
    const int tiles = min((sums + ${tile.tile_k - 1}) / ${tile.tile_k} - slice * slice_tiles,
        slice_tiles);
    __global const ${ctype} *a_from = filters + filters_offset
        + ((long)group * rows + row0 + a_line) * sums + k + a_lane;
    const int top = column < columns ? y - ph : -(1 << 28), left = x - pw;
% else:
    const int blocks = (channels + ${tile.tile_k - 1}) / ${tile.tile_k};
    const int across = first_s < taps_w ? (taps_w - 1 - first_s) / next_s + 1 : 0;
    const int down = first_r < taps_h ? (taps_h - 1 - first_r) / next_r + 1 : 0;
    const int first_tile = slice * slice_tiles,
        tiles = min(across * down * blocks - first_tile, slice_tiles);
    int c = first_tile % max(blocks, 1) * ${tile.tile_k}, r = first_r, s = first_s;
    if (tiles > 0) {
        const int tap = first_tile / blocks;
        r += tap / across * next_r;
        s += tap % across * next_s;
    }
    bool b_in_image;
    __global const ${ctype} *a_from, *b_from;
    ${aim(ctype, a, b, direction, packed)}
% endif
    ${core.multiply(tile, ctype, a, b, copies, stores)}
    out += out_offset + slice * out_slice + (long)group * rows * height * width;
% for j in range(tile.item_n // 4):
    {
        const int at = column0 + self_n + ${j * tile.lanes_n * 4};
        int image = at / pixels, y = at % pixels / grid_w, x = at % pixels % grid_w;
% for lane in range(1 if out_dense else 4):
        if (at + ${lane} < columns) {
            __global ${ctype} *to = out + (((long)image * groups * rows + row0 + self_m) * height
                + first_y + y * ${"1" if direction == "forward" else "sh"}) * width + first_x
                + x * ${"1" if direction == "forward" else "sw"};
% for i in range(tile.item_m):
<%
    row = i // 4 * tile.lanes_m * 4 + i % 4
    value = "acc_%d_%d" % (i, j) + ("" if out_dense else ".s%d" % lane)
%>
            if (row0 + self_m + ${row} < rows) {
% if bias:
                ${value} += bias[bias_offset + group * rows + row0 + self_m + ${row}];
% endif
% if out_dense:
                *(__global ${ctype}4 *)(to + ${row} * height * width) =
                    ${epilogue.activate(activation, value, ctype + "4")};
% else:
                to[${row} * height * width] = ${epilogue.activate(activation, value, ctype)};
% endif
            }
% endfor
        }
% if not out_dense:
        if (++x == grid_w) {
            x = 0;
            if (++y == grid_h) {
                y = 0;
                image++;
            }
        }
% endif
% endfor
    }
% endfor
}
</%def>
##
## Where the reads of tap (r, s) begin, from channel c on.
<%def name="aim(ctype, a, b, direction, packed)">
    {
% if direction == "forward":
        const int i = y - ph + r * dh, j = x - pw + s * dw;
% else:
        const int i = y + (first_y + ph - r * dh) / sh, j = x + (first_x + pw - s * dw) / sw;
% endif
        b_in_image = column < columns && i >= 0 && i < h && j >= 0 && j < w;
        b_from = source + (long)(c + b_line) * plane + i * w + j;
% if packed:
        const long tap = ((long)group * taps_h + r) * taps_w + s;
        a_from = filters + filters_offset + (tap * channels + c + a_line) * rows + row0 + a_lane;
% else:
        a_from = filters + filters_offset + ((long)group * rows + row0 + a_line) * channels + c
            + a_lane;
% endif
    }
</%def>
<%def name="fetch(ctype, tile, a, b, direction, kh, kw)">
    {
        const int b_room = b_in_image ? channels - c - b_line : 0;
% if a.along == "tile":
        const int a_room = a_in_rows ? channels - c - a_line : 0;
        ${copying.copies(tile, ctype, a, "a", "rows")}
% else:
        const int a_room = c + a_lane < channels ? rows - row0 - a_line : 0;
        ${copying.copies(tile, ctype, a, "a", "channels")}
% endif
        ${copying.copies(tile, ctype, b, "b", "plane")}
    }
    c += ${tile.tile_k};
    if (c < channels) {
        a_from += ${"%d * rows" % tile.tile_k if a.along == "tile" else tile.tile_k};
        b_from += ${tile.tile_k} * plane;
    } else {
        c = 0;
        s += next_s;
        if (s >= taps_w) {
            s = first_s;
            r += next_r;
        }
        ${aim(ctype, a, b, direction, a.along == "tile")}
    }
</%def>
<%def name="fetch_merged(ctype, tile, a, b, direction, kh, kw)">
    {
        const int a_room = k + a_lane < sums ? rows - row0 - a_line : 0;
        ${copying.copies(tile, ctype, a, "a", "sums")}
% for load in range(b.count):
        {
            const int at = k + b_line + ${load * b.jump}, tap = at % ${kh * kw};
            const int i = top + tap / ${kw} * dh, j = left + tap % ${kw} * dw;
            const bool fits = at < sums && i >= 0 && i < h && j >= 0 && j < w;
            ${copying.copy_one(tile, ctype, b, "b", load,
                "source + (long)(at / %d) * plane + i * w + j" % (kh * kw), "fits")}
        }
% endfor
    }
    k += ${tile.tile_k};
    a_from += ${tile.tile_k};
</%def>
<%def name="put(ctype, tile, a, b)">
% if not tile.ring:
    ${core.stores(tile, ctype, a, "a")}
    ${core.stores(tile, ctype, b, "b")}
% endif
</%def>
