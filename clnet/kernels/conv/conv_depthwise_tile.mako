## kernel conv_depthwise_tile: depthwise convolution by tiles of planes
##
## A group brings tiles of several planes into local memory, with zeros around them, so that what
## every tap reads lies at a distance the compiler knows, behind no condition. An item has rows of
## several results; it reads a row of x as vectors and adds it to all that have to do with it. The
## input's gradient reads y in x's place: results are as many times as dense as the stride is long.
##
## math     as in conv_depthwise.mako, with a filter for each channel
## param    ctype: str        OpenCL element type
## param    kh, kw: int               height and width of the filter
## param    reads_h, reads_w: Reads   what an item's results read of x along an axis
## param    turn: int         rows of x from a tap's to the next one's, where taps are taken row by
##                            row and reads_h has the first; else 0
## param    strip, beside: int        rows and columns of an item: of results, or of places of x
##                            that several results read alike
## param    strips, columns: int      items of a tile below and beside each other
## param    planes: int       of which a group has a tile each
## param    rows, row: int    of a tile with its borders, and elements of one of them
## param    pad: int          elements between the tiles of planes
## param    lanes: int        elements that come at once: w, row, pad and where x begins have it as
##                            a divisor
## param    vec: int          elements that an item reads at once: row, pad and what lies between
##                            items have it as a divisor
## param    shift: int        elements of a tile's row before the first that is read
## param    group_size: int   work-items of a group, as many as columns times strips times planes or
##                            more; a power of two where filters are summed up
## param    whole: int        results that are stored, or slopes that are read, at once
## param    bias: bool        whether there is a bias
## param    activation: str|None   applied last
## param    step: int         elements from a plane's tile to the next's
## param    source: str       where the planes begin that a group fetches
## param    at, last: int     a row behind an item's first, and the column that is read last
## param    name, number: str, int    of vectors whose elements get names of their own
##
## def      conv_depthwise_tile
## arg      y: out ctype[n][channels][oh][ow]  of a gradient, the input's
## arg      x: in ctype[n][channels][h][w]     of a gradient, the output's
## arg      weight: in ctype[channels][kh][kw]
## arg      offsets: in ctype[channels]        the bias; any array when there is none
## arg      all, channels: int                 planes, and those of an image
## arg      h, w, oh, ow: int                  sizes of x and of y
## arg      above, before: int                 where the first tile begins in x
## arg      down, across: int                  tiles of a plane
##
## def      conv_depthwise_tile_weight
## arg      gw: out ctype[parts][channels][kh][kw]  sums of parts of the tiles
## arg      gy, x: in ctype[n][channels][oh][ow], ctype[n][channels][h][w]
## arg      n, channels: int                   images, and planes of each
## arg      h, w, oh, ow, above, before, down, across: int    as above, of x and gy
## arg      tiles: int                         of all images, those of a group's planes as one
##
## launch   one group a tile of planes, in order of columns, rows and planes; weight gradient:
##          (parts, channels) groups, of which each goes over every parts-th tile
## numerics sums in the order row, column of the filter, from the last of a gradient; weight
##          gradient: an item sums its tiles in order, those of a group and the parts are added up
##          as trees of one shape
<%namespace name="epilogue" file="/lib/epilogue.mako"/>
<%namespace name="taps" file="/lib/taps.mako"/>
<%def name="vector(ctype, lanes)">${ctype}${lanes if lanes > 1 else ""}</%def>
##
## The tiles of planes, from (top, left) of each; source is the first, the next is apart elements
## from it, and so many as remaining are there.
<%def name="fetch(source, ctype, rows, row, step, planes, lanes, group_size)">
<%
    vectors = row // lanes
    used = group_size // vectors * vectors
    # Rows of several planes are found by divisions, which take registers.
    few = planes == 1 or planes * rows * vectors <= 12 * used
%>
% if few and 4 * used >= 3 * group_size:
${fetch_rows(source, ctype, rows, row, step, planes, lanes, group_size)}
% else:
${fetch_any(source, ctype, rows, row, step, planes, lanes, group_size)}
% endif
</%def>
##
## Items stay in their column, so that what lies beside the plane is found out once.
<%def name="fetch_rows(source, ctype, rows, row, step, planes, lanes, group_size)">
<%
    vectors = row // lanes
    at_once = group_size // vectors
    rounds = -(-planes * rows // at_once)
    # Reads of an item that are under way at once.
    most = 12
%>
    {
        const int line = lane / ${vectors}, to = lane % ${vectors} * ${lanes}, column = left + to;
        const bool within = line < ${at_once} && column >= 0 && column < w;
% for begin in range(0, rounds, most):
% for u in range(begin, min(rounds, begin + most)):
        const int line_${u} = line + ${u * at_once};
        const int plane_${u} = ${f"line_{u} / {rows}" if planes > 1 else 0};
        const int row_${u} = line_${u} - plane_${u} * ${rows}, at_${u} = top + row_${u};
        ${vector(ctype, lanes)} value_${u} = 0;
        if (within && line_${u} < ${planes * rows} && (uint)at_${u} < (uint)h
            && plane_${u} < remaining)
            value_${u} = *(__global const ${vector(ctype, lanes)} *)(${source}
                + (plane_${u} * apart + at_${u} * w + column));
% endfor
% for u in range(begin, min(rounds, begin + most)):
        if (line < ${min(at_once, planes * rows - u * at_once)})
            *(__local ${vector(ctype, lanes)} *)(tile + plane_${u} * ${step} + to
                + row_${u} * ${row}) = value_${u};
% endfor
% endfor
    }
</%def>
##
## The same where rows would leave items idle, or those of many planes are short.
<%def name="fetch_any(source, ctype, rows, row, step, planes, lanes, group_size)">
<%
    vectors = row // lanes
    number = planes * rows * vectors
    turns = -(-number // (8 * group_size))
    at_once = -(-number // (turns * group_size))
%>
    for (int begin = lane; begin < ${number}; begin += ${at_once * group_size}) {
% for u in range(at_once):
        const int vector_${u} = begin + ${u * group_size}, line_${u} = vector_${u} / ${vectors};
        const int plane_${u} = line_${u} / ${rows};
        const int row_${u} = line_${u} - plane_${u} * ${rows}, at_${u} = top + row_${u};
        const int to_${u} = (vector_${u} - line_${u} * ${vectors}) * ${lanes};
        const int column_${u} = left + to_${u};
        ${vector(ctype, lanes)} value_${u} = 0;
        if (plane_${u} < min(${planes}, remaining) && (uint)at_${u} < (uint)h
            && (uint)column_${u} < (uint)w)
            value_${u} = *(__global const ${vector(ctype, lanes)} *)(${source}
                + (plane_${u} * apart + at_${u} * w + column_${u}));
% endfor
% for u in range(at_once):
        if (vector_${u} < ${number})
            *(__local ${vector(ctype, lanes)} *)(tile + plane_${u} * ${step} + to_${u}
                + row_${u} * ${row}) = value_${u};
% endfor
    }
</%def>
##
## The elements of vectors <name>s_0, <name>s_1 ... as <name>_0, <name>_1 ...
<%def name="elements(ctype, name, number, vec)">
% for i in range(number * vec):
    const ${ctype} ${name}_${i} = ${name}s_${i // vec}${f".s{i % vec}" if vec > 1 else ""};
% endfor
</%def>
##
## A row of what an item reads: value_0, value_1 ...
<%def name="read_row(ctype, row, vec, at, last)">
% for j in range(last // vec + 1):
            const ${vector(ctype, vec)} values_${j} =
                *(__local const ${vector(ctype, vec)} *)(from + ${at * row + j * vec});
% endfor
            ${elements(ctype, "value", last // vec + 1, vec)}
</%def>
<%def name="conv_depthwise_tile(
    ctype, kh, kw, reads_h, reads_w, turn, strip, beside, strips, columns, planes, rows, row, pad,
    lanes, vec, shift, group_size, whole, bias, activation)">
<%
    step_h, step_w, along_h, along_w = reads_h.step, reads_w.step, reads_h.along, reads_w.along
    step = rows * row + pad
    skipped = shift % vec
    last = reads_w.span - 1 + skipped
    # Elements from a filter to the next.
    size = -(-kh * kw // vec) * vec
%>
__attribute__((reqd_work_group_size(${group_size}, 1, 1)))
__kernel void conv_depthwise_tile(...)
{
    __local ${ctype} tile[${planes * step}] __attribute__((aligned(16)));
    __local ${ctype} filters[${planes * size}] __attribute__((aligned(16)));
    const int lane = get_local_id(0), group = get_group_id(0), apart = h * w;
    const int first_plane = group / (down * across) * ${planes}, remaining = all - first_plane;
    const int first_row = group / across % down * ${strip * strips};
    const int first_column = group % across * ${columns * beside};
    const int top = first_row * ${step_h} + above, left = first_column * ${step_w} + before;
    x += x_offset + (long)first_plane * apart;
    for (int i = lane; i < ${planes * size}; i += ${group_size}) {
        const int plane = i / ${size}, tap = i - plane * ${size};
        if (plane < remaining && tap < ${kh * kw})
            filters[i] = weight[weight_offset
                + (long)((first_plane + plane) % channels) * ${kh * kw} + tap];
    }
    ${fetch("x", ctype, rows, row, step, planes, lanes, group_size)}
    barrier(CLK_LOCAL_MEM_FENCE);
    const int own = lane / ${columns * strips}, plane = first_plane + own;
    const int own_column = lane % ${columns} * ${beside};
    const int own_row = lane / ${columns} % ${strips} * ${strip};
    const int result = (first_column + own_column) * ${along_w};
    if (own >= ${planes} || plane >= all || result >= ow)
        return;
    __local const ${ctype} *from = tile + own * ${step} + own_row * ${step_h * row}
        + own_column * ${step_w} + ${shift - skipped};
    __local const ${ctype} *filter = filters + own * ${size};
    const ${ctype} start = ${"offsets[offsets_offset + plane % channels]" if bias else "0"};
    ${ctype} ${", ".join(f"sum_{a}_{b} = start"
        for a in range(strip * along_h) for b in range(beside * along_w))};
% if turn:
    for (int r = 0; r < ${kh}; r++, filter += ${kw}, from += ${turn * row}) {
% for s in range(kw):
        const ${ctype} tap_${s} = filter[${s}];
% endfor
% else:
    {
% for i in range(size // vec):
        const ${vector(ctype, vec)} taps_${i} =
            *(__local const ${vector(ctype, vec)} *)(filter + ${i * vec});
% endfor
        ${elements(ctype, "tap", size // vec, vec)}
% endif
% for at, rows_read in reads_h.pairs():
        {
            ${read_row(ctype, row, vec, at, last)}
% for a, r in rows_read:
% for place, columns_read in reads_w.pairs():
% for b, s in columns_read:
            sum_${a}_${b} += tap_${r * kw + s} * value_${place + skipped};
% endfor
% endfor
% endfor
        }
% endfor
    }
    const int place = (first_row + own_row) * ${along_h};
    y += y_offset + (long)plane * oh * ow + result;
% for a in range(strip * along_h):
% for b in range(0, beside * along_w, whole):
    if (place + ${a} < oh${f" && result + {b} < ow" if b else ""})
        *(__global ${vector(ctype, whole)} *)(y + (place + ${a}) * ow + ${b}) =
            (${vector(ctype, whole)})(
% for i in range(b, b + whole):
            ${", " if i > b else ""}${epilogue.activate(activation, f"sum_{a}_{i}", ctype)}
% endfor
            );
% endfor
% endfor
}
</%def>
<%def name="conv_depthwise_tile_weight(
    ctype, kh, kw, reads_h, reads_w, strip, beside, strips, columns, planes, rows, row, pad, lanes,
    vec, shift, group_size, whole)">
<%
    step_h, step_w = reads_h.step, reads_w.step
    step = rows * row + pad
    skipped = shift % vec
    last = reads_w.span - 1 + skipped
%>
__attribute__((reqd_work_group_size(${group_size}, 1, 1)))
__kernel void conv_depthwise_tile_weight(...)
{
    __local ${ctype} tile[${planes * step}] __attribute__((aligned(16)));
    const int lane = get_local_id(0), parts = get_num_groups(0);
    const int channel = get_group_id(1), first = 0;
    const int own = lane / ${columns * strips};
    const int own_column = lane % ${columns} * ${beside};
    const int own_row = lane / ${columns} % ${strips} * ${strip};
    const long apart = (long)channels * h * w;
    gy += gy_offset + (long)channel * oh * ow;
    x += x_offset + (long)channel * h * w;
    ${ctype} ${", ".join(f"sum_{r}_{s} = 0" for r in range(kh) for s in range(kw))};
    for (int work = get_group_id(0); work < tiles; work += parts) {
        const int image = work / (down * across) * ${planes}, remaining = n - image;
        const int first_row = work / across % down * ${strip * strips};
        const int first_column = work % across * ${columns * beside};
        const int top = first_row * ${step_h} + above, left = first_column * ${step_w} + before;
        __global const ${ctype} *images = x + image * apart;
        ${fetch("images", ctype, rows, row, step, planes, lanes, group_size)}
        const int place = first_row + own_row, result = first_column + own_column;
        const bool within = own < min(${planes}, remaining) && result < ow;
        __global const ${ctype} *slopes = gy + (long)(image + own) * channels * oh * ow + result;
% for a in range(strip):
% for b in range(0, beside, whole):
        ${vector(ctype, whole)} slope_${a}s_${b // whole} = 0;
        if (within && place + ${a} < oh${f" && result + {b} < ow" if b else ""})
            slope_${a}s_${b // whole} = *(__global const ${vector(ctype, whole)} *)(
                slopes + (place + ${a}) * ow + ${b});
% endfor
        ${elements(ctype, f"slope_{a}", beside // whole, whole)}
% endfor
        barrier(CLK_LOCAL_MEM_FENCE);
        if (within) {
            __local const ${ctype} *from = tile + own * ${step} + own_row * ${step_h * row}
                + own_column * ${step_w} + ${shift - skipped};
% for at, rows_read in reads_h.pairs():
            {
                ${read_row(ctype, row, vec, at, last)}
% for a, r in rows_read:
% for spot, columns_read in reads_w.pairs():
% for b, s in columns_read:
                sum_${r}_${s} += slope_${a}_${b} * value_${spot + skipped};
% endfor
% endfor
% endfor
            }
% endfor
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    gw += gw_offset + ((long)get_group_id(0) * channels + channel) * ${kh * kw};
    ${taps.add_up(ctype, kh, kw, kw, group_size)}
}
</%def>
