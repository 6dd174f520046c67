## kernel conv_winograd: convolutions of plain images by transforms around a batch of matrix
## products
##
## Images are cut into tiles of 4x4 results. The pixels that a tile reads, 6x6 for filters of 3x3,
## are transformed to as many numbers, so are filters, and result = transform back(sum over channels
## of their products): 36 products where the definition has 144, or 64 where it has 400 (5x5). For
## each of the numbers the sums are a matrix product (gemm):
##
##     forward, input    (rows, channels) @ (channels, tiles)      rows: channels of the result
##     weight            (ocg, tiles) @ (tiles, icg)
##
## math     transform(d) = M d M^T with constant matrices M, see winograd.py
## param    ctype: str            OpenCL element type
## param    matrix: Transform     M
## param    group_size: int       work-items of a group
## param    turned: bool          filters are rotated, and their first axis is summed over
## param    vector: bool          four neighbours of a result are one aligned store
## param    bias: bool            whether there is a bias
## param    activation: str|None  applied last
## param    name: str             prefix of variables
##
## def      winograd_spread
## arg      out: out ctype[numbers][channels][n * tiles_h * tiles_w]
## arg      x: in ctype            (n, channels, h, w), dense
## arg      n: int                 images
## arg      channels, h, w: int
## arg      tiles_h, tiles_w: int  tiles of an image
## arg      ph, pw: int            tile (i, j) begins at pixel (4 * i - ph, 4 * j - pw)
##
## def      winograd_filters
## arg      out: out ctype[numbers][channels][rows]
## arg      filters: in ctype      (rows, channels, size, size), turned (channels, rows, ...)
## arg      rows: int              channels of the result
## arg      channels: int          channels that are summed over
##
## def      winograd_gather
## arg      out: out ctype         (n, rows, h, w), dense
## arg      sums: in ctype[numbers][rows][n * tiles_h * tiles_w]
## % if bias:
## arg      bias: in ctype[rows]
## % endif
## arg      n, rows, h, w, tiles_h, tiles_w: int
##
## def      winograd_gradient
## arg      out: out ctype         (rows, channels, size, size), dense
## arg      sums: in ctype[numbers][rows][channels]
## arg      total: int             rows * channels
##
## launch   winograd_spread, _gather: global (tiles of all images rounded up, channels or rows);
##          _filters, _gradient: global (rows * channels rounded up,); local (group_size,) in x
## numerics errors are some ten times those of direct sums; every result has one order of sums
<%namespace name="epilogue" file="/lib/epilogue.mako"/>
<%def name="winograd_spread(ctype, matrix, group_size)">
__attribute__((reqd_work_group_size(${group_size}, 1, 1)))
__kernel void winograd_spread(...)
{
    const int place = get_global_id(0), channel = get_global_id(1), tiles = n * tiles_h * tiles_w;
    if (place >= tiles)
        return;
    const int top = place / tiles_w % tiles_h * 4 - ph, left = place % tiles_w * 4 - pw;
    x += x_offset + ((long)(place / tiles_w / tiles_h) * channels + channel) * h * w;
% for c in range(matrix.columns):
% for r in range(matrix.columns):
    const ${ctype} d_${r}_${c} = top + ${r} >= 0 && top + ${r} < h && left + ${c} >= 0 &&
        left + ${c} < w ? x[(top + ${r}) * w + left + ${c}] : 0;
% endfor
% endfor
    ${transform(ctype, matrix, "d")}
    out += out_offset + (long)channel * tiles + place;
    const long step = (long)channels * tiles;
% for i in range(matrix.length):
% for j in range(matrix.length):
    out[${i * matrix.length + j} * step] =
        ${matrix.combine(j, ["half_%d_%d" % (i, c) for c in range(matrix.columns)], ctype)};
% endfor
% endfor
}
</%def>
<%def name="winograd_filters(ctype, matrix, group_size, turned)">
__attribute__((reqd_work_group_size(${group_size}, 1, 1)))
__kernel void winograd_filters(...)
{
    const int place = get_global_id(0), row = place % rows, channel = place / rows;
    if (channel >= channels)
        return;
% if turned:
    filters += filters_offset + ((long)channel * rows + row) * ${matrix.columns**2};
% else:
    filters += filters_offset + ((long)row * channels + channel) * ${matrix.columns**2};
% endif
% for r in range(matrix.columns):
% for c in range(matrix.columns):
<% at = matrix.columns * r + c %>
    const ${ctype} d_${r}_${c} = filters[${matrix.columns**2 - 1 - at if turned else at}];
% endfor
% endfor
    ${transform(ctype, matrix, "d")}
    out += out_offset + place;
    const long step = (long)channels * rows;
% for i in range(matrix.length):
% for j in range(matrix.length):
    out[${i * matrix.length + j} * step] =
        ${matrix.combine(j, ["half_%d_%d" % (i, c) for c in range(matrix.columns)], ctype)};
% endfor
% endfor
}
</%def>
<%def name="winograd_gather(ctype, matrix, group_size, vector, bias, activation)">
__attribute__((reqd_work_group_size(${group_size}, 1, 1)))
__kernel void winograd_gather(...)
{
    const int place = get_global_id(0), row = get_global_id(1), tiles = n * tiles_h * tiles_w;
    if (place >= tiles)
        return;
    sums += sums_offset + (long)row * tiles + place;
    const long step = (long)rows * tiles;
% for r in range(matrix.columns):
% for c in range(matrix.columns):
    const ${ctype} d_${r}_${c} = sums[${matrix.columns * r + c} * step];
% endfor
% endfor
    ${transform(ctype, matrix, "d")}
    const int top = place / tiles_w % tiles_h * 4, left = place % tiles_w * 4;
    out += out_offset + ((long)(place / tiles_w / tiles_h) * rows + row) * h * w + top * w + left;
% for i in range(4):
    if (top + ${i} < h) {
% for j in range(4):
        ${ctype} y_${j} = ${matrix.combine(j,
            ["half_%d_%d" % (i, c) for c in range(matrix.columns)], ctype)};
% if bias:
        y_${j} += bias[bias_offset + row];
% endif
        y_${j} = ${epilogue.activate(activation, "y_%d" % j, ctype)};
% endfor
% if vector:
        *(__global ${ctype}4 *)(out + ${i} * w) = (${ctype}4)(y_0, y_1, y_2, y_3);
% else:
% for j in range(4):
        if (left + ${j} < w)
            out[${i} * w + ${j}] = y_${j};
% endfor
% endif
    }
% endfor
}
</%def>
<%def name="winograd_gradient(ctype, matrix, group_size)">
__attribute__((reqd_work_group_size(${group_size}, 1, 1)))
__kernel void winograd_gradient(...)
{
    const int place = get_global_id(0);
    if (place >= total)
        return;
    sums += sums_offset + place;
% for r in range(matrix.columns):
% for c in range(matrix.columns):
    const ${ctype} d_${r}_${c} = sums[(long)${matrix.columns * r + c} * total];
% endfor
% endfor
    ${transform(ctype, matrix, "d")}
    out += out_offset + (long)place * ${matrix.length**2};
% for i in range(matrix.length):
% for j in range(matrix.length):
    out[${matrix.length * i + j}] = ${matrix.combine(j,
        ["half_%d_%d" % (i, c) for c in range(matrix.columns)], ctype)};
% endfor
% endfor
}
</%def>
##
## half_<i>_<c>: the matrix times the columns of <name>.
<%def name="transform(ctype, matrix, name)">
% for i in range(matrix.length):
% for c in range(matrix.columns):
    const ${ctype} half_${i}_${c} = ${matrix.combine(i,
        ["%s_%d_%d" % (name, r, c) for r in range(matrix.columns)], ctype)};
% endfor
% endfor
</%def>
