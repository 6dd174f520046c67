## kernel conv_depthwise_tile: depthwise convolution with large filters, by tiles of planes
##
## A group brings tiles of several planes into local memory, with zeros around them, so that what
## every tap reads lies at a distance the compiler knows, behind no condition. An item computes a
## strip of results down a column; neighbouring items have neighbouring columns.
##
## math     as in conv_depthwise.mako, with a stride of 1 and a filter for each channel
## param    ctype: str        OpenCL element type
## param    kh, kw: int               height and width of the filter
## param    dh: int           vertical dilation
## param    dw: int           horizontal dilation
## param    strip: int        results of an item
## param    strips: int       strips of a tile, below each other
## param    columns: int      columns of a tile
## param    planes: int       of which a group has a tile each
## param    pad: int          elements between the tiles of planes
## param    group_size: int   work-items of a group, as many as columns times strips times planes or
##                            more
## param    flip: bool        the filter is read from its end, for the input's gradient
## param    bias: bool        whether there is a bias
## param    activation: str|None   applied last
## param    rows: int         of a tile with its borders
## param    row: int          elements of one of them
## param    step: int         elements from a plane's tile to the next's
## param    at_once: int      rows that come at once, an item its column of one
##
## arg      y: out ctype[n][channels][oh][ow]  of a gradient, the input's
## arg      x: in ctype[n][channels][h][w]     of a gradient, the output's
## arg      weight: in ctype[channels][kh][kw]
## arg      offsets: in ctype[channels]        the bias; any array when there is none
## arg      all, channels: int                 planes, and those of an image
## arg      h, w, oh, ow: int                  sizes of x and of y or gy
## arg      ph, pw: int                        padding above and on the left
## arg      down, across: int                  tiles of a plane
##
## launch   one group a tile of planes, in order of columns, rows and planes
## numerics sums in the order column, row
<%namespace name="epilogue" file="/lib/epilogue.mako"/>
##
## The tiles of planes, from row top and column left of each; all: planes there are.
<%def name="fetch(ctype, rows, row, step, planes, group_size)">
<%
    at_once = group_size // row
%>
% if 0 < at_once <= rows:
${fetch_rows(ctype, rows, row, step, planes, at_once)}
% else:
${fetch_any(ctype, rows, row, step, planes, group_size)}
% endif
</%def>
##
## Items stay in their column, so that what lies beside the plane is found out once.
<%def name="fetch_rows(ctype, rows, row, step, planes, at_once)">
<%
    # Reads of an item that are under way at once.
    most = 8
    rounds = list(range(-(-rows // at_once)))
%>
    const int fetch_row = lane / ${row}, fetch_column = left + lane % ${row};
    const bool within = fetch_row < ${at_once} && fetch_column >= 0 && fetch_column < w;
    for (int plane = 0; plane < ${planes}; plane++) {
        const bool there = within && first_plane + plane < all;
        const long start = (long)(plane * h + top + fetch_row) * w + fetch_column;
        __local ${ctype} *to = tile + plane * ${step} + lane;
% for begin in range(0, len(rounds), most):
        {
% for u in rounds[begin:begin + most]:
            ${ctype} value_${u} = 0;
            if (there && (uint)(top + fetch_row + ${u * at_once}) < (uint)h)
                value_${u} = x[start + ${u * at_once} * w];
% endfor
% for u in rounds[begin:begin + most]:
            if (fetch_row < ${min(at_once, rows - u * at_once)})
                to[${u * at_once * row}] = value_${u};
% endfor
        }
% endfor
    }
</%def>
##
## The same where a row is longer than a group, or a tile has fewer rows than come at once.
<%def name="fetch_any(ctype, rows, row, step, planes, group_size)">
<%
    size = planes * rows * row
    # Reads of an item that are under way at once.
    most = 8
    rounds = list(range(-(-size // group_size)))
%>
% for begin in range(0, len(rounds), most):
    {
% for u in rounds[begin:begin + most]:
        const int at_${u} = lane + ${u * group_size}, in_${u} = at_${u} % ${rows * row};
        const int plane_${u} = at_${u} / ${rows * row};
        const int row_${u} = top + in_${u} / ${row}, column_${u} = left + in_${u} % ${row};
        ${ctype} value_${u} = 0;
        if (row_${u} >= 0 && row_${u} < h && column_${u} >= 0 && column_${u} < w
            && first_plane + plane_${u} < all && plane_${u} < ${planes})
            value_${u} = x[(long)(plane_${u} * h + row_${u}) * w + column_${u}];
% endfor
% for u in rounds[begin:begin + most]:
        if (at_${u} < ${size})
            tile[plane_${u} * ${step} + in_${u}] = value_${u};
% endfor
    }
% endfor
</%def>
<%def name="conv_depthwise_tile(
    ctype, kh, kw, dh, dw, strip, strips, columns, planes, pad, group_size, flip, bias,
    activation)">
<%
    row, rows = columns + (kw - 1) * dw, strip * strips + (kh - 1) * dh
    step = rows * row + pad
    size = kh * kw
    # (result, row of the filter) that read a row, by its distance from the first.
    readers = {}
    for a in range(strip):
        for r in range(kh):
            readers.setdefault(a + r * dh, []).append((a, r))
%>
__attribute__((reqd_work_group_size(${group_size}, 1, 1)))
__kernel void conv_depthwise_tile(...)
{
    __local ${ctype} tile[${planes * step}];
    __local ${ctype} filters[${planes * size}];
    const int lane = get_local_id(0), group = get_group_id(0);
    const int first_plane = group / (down * across) * ${planes};
    const int first_row = group / across % down * ${strip * strips};
    const int first_column = group % across * ${columns};
    const int top = first_row - ph, left = first_column - pw;
    x += x_offset + (long)first_plane * h * w;
    for (int i = lane; i < ${planes * size}; i += ${group_size})
        if (first_plane + i / ${size} < all)
            filters[i] = weight[weight_offset + (long)((first_plane + i / ${size}) % channels)
                * ${size} + ${f"{size - 1} - i % {size}" if flip else f"i % {size}"}];
    ${fetch(ctype, rows, row, step, planes, group_size)}
    barrier(CLK_LOCAL_MEM_FENCE);
    const int own = lane / ${columns * strips}, plane = first_plane + own;
    const int column = lane % ${columns}, begin = lane / ${columns} % ${strips} * ${strip};
    if (own >= ${planes} || plane >= all || first_column + column >= ow)
        return;
    __local const ${ctype} *from = tile + own * ${step} + begin * ${row} + column;
    __local const ${ctype} *filter = filters + own * ${size};
    const ${ctype} start = ${
        "offsets[offsets_offset + plane % channels]" if bias else "0"};
    ${ctype} ${", ".join(f"sum_{a} = start" for a in range(strip))};
    for (int s = 0; s < ${kw}; s++, filter++, from += ${dw}) {
% for r in range(kh):
        const ${ctype} weight_${r} = filter[${r * kw}];
% endfor
% for at, uses in sorted(readers.items()):
        {
            const ${ctype} value = from[${at * row}];
% for a, r in uses:
            sum_${a} += weight_${r} * value;
% endfor
        }
% endfor
    }
    y += y_offset + (long)plane * oh * ow + first_column + column;
    const int place = first_row + begin;
% for a in range(strip):
    if (place + ${a} < oh)
        y[(place + ${a}) * ow] = ${epilogue.activate(activation, f"sum_{a}", ctype)};
% endfor
}
</%def>
