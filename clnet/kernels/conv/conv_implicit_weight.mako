## kernel conv_implicit_weight: the gradient of filters as a matrix product with gathered operands
##
## Rows are output channels, columns input channels, and the sums run over the pixels of gy in all
## images. A group's tile belongs to one tap of the filter: a pixel's place in x is then found once
## for all columns. Where x has few channels (`merged`), columns are channel, r, s in one, and every
## column has a place of its own. Both operands come in along k: lib/tile.mako.
##
## math     as in conv_depthwise.mako
## param    ctype: str            OpenCL element type
## param    tile: Tile            shapes, see tile.py
## param    merged: bool          one axis of columns over channels and taps
## param    kh, kw: int               height and width of the filter, where merged
## param    a: Loads              how a comes in, see tile.py
## param    b: Loads              how b comes in
##
## arg      out: out ctype   results or slices of them, at m * out_m + channel * out_n + tap *
##                           out_tap
## arg      gy: in ctype     (n, groups * ocg, oh, ow)
## arg      x: in ctype      (n, groups * icg, h, w)
## arg      n: int           images
## arg      groups: int      groups of channels
## arg      icg: int         input channels of a group
## arg      ocg: int         output channels of a group
## arg      h, w: int        height and width of x
## arg      oh, ow: int      height and width of gy
## arg      taps_h: int      rows of the filter
## arg      taps_w: int      its columns
## arg      sh, sw: int      stride
## arg      dh, dw: int      dilation
## arg      ph, pw: int      padding above and on the left
## arg      slices: int      parts of the sums, computed by groups of their own
## arg      slice_k: int     pixels of a part, a multiple of tile_k
## arg      out_slice: long  slice s goes to out + s * out_slice
## arg      out_m, out_n, out_tap: int
##
## launch   global (tiles of columns * items, tiles of rows, groups * slices), local (items, 1, 1)
## numerics one chain per result in the order of pixels
<%namespace name="core" file="/lib/tile.mako"/>
<%namespace name="copying" file="/lib/tile_copies.mako"/>
<%def name="conv_implicit_weight(ctype, tile, merged, kh, kw)">
<%
    a = tile.loads(tile.tile_m, "k", dense=False)
    b = tile.loads(tile.tile_n, "k", dense=False)
    copies = capture(fetch, ctype, tile, merged, a, b)
    stores = capture(put, ctype, tile, a, b)
%>
${core.functions(tile, ctype)}
__attribute__((reqd_work_group_size(${tile.items}, 1, 1)))
__kernel void conv_implicit_weight(...)
{
    ${core.begin(tile, ctype, a, b)}
    const int group = get_group_id(2) % groups, slice = get_group_id(2) / groups;
    const int row0 = get_group_id(1) * ${tile.tile_m}, gy_plane = oh * ow, x_plane = h * w;
% if merged:
    const int tap0 = 0, column0 = get_group_id(0) * ${tile.tile_n}, columns = icg * ${kh * kw};
% else:
    const int blocks = (icg + ${tile.tile_n - 1}) / ${tile.tile_n};
    const int tap0 = get_group_id(0) / blocks, column0 = get_group_id(0) % blocks * ${tile.tile_n},
        columns = icg;
    const int shift_y = tap0 / taps_w * dh - ph, shift_x = tap0 % taps_w * dw - pw;
% endif
    const int k0 = slice * slice_k, end_k = min(n * gy_plane, k0 + slice_k);
    const int tiles = (end_k - k0 + ${tile.tile_k - 1}) / ${tile.tile_k};

    /* the pixel whose elements the item reads, and its distance to the one of the next tile */
    int k = k0 + a_lane, image = k / gy_plane, y = k % gy_plane / ow, col = k % gy_plane % ow;
    const int next_image = ${tile.tile_k} / gy_plane, next_y = ${tile.tile_k} % gy_plane / ow,
        next_col = ${tile.tile_k} % gy_plane % ow;
    gy += gy_offset + ((long)group * ocg + row0 + a_line) * gy_plane;
    x += x_offset + (long)group * icg * x_plane;
% if merged:
% for load in range(b.count):
    const int at_${load} = min(column0 + b_line + ${load * b.jump}, columns - 1);
    const int dy_${load} = at_${load} % ${kh * kw} / ${kw} * dh - ph,
        dx_${load} = at_${load} % ${kw} * dw - pw;
    const int shift_${load} = at_${load} / ${kh * kw} * x_plane + dy_${load} * w + dx_${load};
% endfor
% else:
    x += ((long)column0 + b_line) * x_plane + shift_y * w + shift_x;
% endif
    ${core.multiply(tile, ctype, a, b, copies, stores)}
    out += out_offset + slice * out_slice + (long)group * ocg * out_m + (long)tap0 * out_tap;
% for j in range(tile.item_n):
    {
        const int column = column0 + self_n + ${j // 4 * tile.lanes_n * 4 + j % 4};
        if (column < columns) {
% if merged:
            __global ${ctype} *to = out + (long)(column / ${kh * kw}) * out_n
                + column % ${kh * kw} * out_tap;
% else:
            __global ${ctype} *to = out + (long)column * out_n;
% endif
% for i in range(tile.item_m):
            if (row0 + self_m + ${i // 4 * tile.lanes_m * 4 + i % 4} < ocg)
                to[(long)(row0 + self_m + ${i // 4 * tile.lanes_m * 4 + i % 4}) * out_m] =
                    acc_${i}_${j // 4}.s${j % 4};
% endfor
        }
    }
% endfor
}
</%def>
<%def name="fetch(ctype, tile, merged, a, b)">
    {
        const int a_room = k < end_k ? ocg - row0 - a_line : 0;
        __global const ${ctype} *a_from = gy + (long)image * groups * ocg * gy_plane + y * ow + col;
        ${copying.copies(tile, ctype, a, "a", "gy_plane")}
% if merged:
        __global const ${ctype} *b_from =
            x + (long)image * groups * icg * x_plane + y * sh * w + col * sw;
% for load in range(b.count):
        {
            const int i = y * sh + dy_${load}, j = col * sw + dx_${load};
            const bool fits = k < end_k && i >= 0 && i < h && j >= 0 && j < w;
            ${copying.copy_one(tile, ctype, b, "b", load, "b_from + shift_%d" % load, "fits")}
        }
% endfor
% else:
        const int i = y * sh + shift_y, j = col * sw + shift_x;
        const int b_room = k < end_k && i >= 0 && i < h && j >= 0 &&
            j < w ? columns - column0 - b_line : 0;
        __global const ${ctype} *b_from =
            x + (long)image * groups * icg * x_plane + y * sh * w + col * sw;
        ${copying.copies(tile, ctype, b, "b", "x_plane")}
% endif
    }
    k += ${tile.tile_k};
    image += next_image;
    y += next_y;
    col += next_col;
    if (col >= ow) {
        col -= ow;
        y++;
    }
    if (y >= oh) {
        y -= oh;
        image++;
    }
</%def>
<%def name="put(ctype, tile, a, b)">
% if not tile.ring:
    ${core.stores(tile, ctype, a, "a")}
    ${core.stores(tile, ctype, b, "b")}
% endif
</%def>
