## kernel conv_blocked_depthwise: depthwise convolution between blocked arrays, and its gradients
##
## Each channel has one filter of its own, so a vector of a block meets a vector of filters. One
## work-item per group copies the rows that a strip of output rows reads into local memory, with
## zeros where the image ends,
##
##      rows[source row][pitch][width]
##
## and sums tiles of `pixels` pixels of a row,
##
##      c_<pixel> += rows[its row][pixel * step + its column] * packed[tap]
##
## Output (i, j) reads, at tap (r, s), row (i * down + pad_down - r * gap_down) / phases_down, and
## a column likewise, where that is a whole number; either phases or steps are 1. The gradient of
## the filters reads the same rows, and keeps the sums of `columns` taps of a row in registers,
## `together` pixels side by side,
##
##      a_<pixel>_<column> += rows[its row][pixel * right + its column] * gy[pixel]
##
## over the strips of a chunk; conv_blocked_depthwise_sum adds the chunks in their order.
## param    width: 4|8|16            channels of a block
## param    pixels: int              of a tile
## param    step: int                columns of x from pixel to pixel of a tile
## param    unrolled: None|tuple     rows and columns of a filter whose taps are written out: they
##                                   lie side by side, and there is one phase
## param    columns: int             of a filter
## param    together: int            pixels in one turn of the inner loop
## param    at: int                  how many pixels one lies from g and a
## param    local_floats: int        floats of local memory
## param    bias: bool               whether there is a bias
## param    added: bool              whether a value is added to each sum
## param    activation: None|str|VectorActivation  see lib/epilogue.mako
##
## def      conv_blocked_depthwise
## arg      y: out float[images][blocks][y_height][y_width][width]
## arg      x: in float[images][blocks][x_height][x_width][width]
## arg      packed: in float[blocks][kh * kw][width]
## % if bias:
## arg      offsets: in float[blocks * width]
## % endif
## % if added:
## arg      added: in float    like y
## % endif
## arg      blocks, x_height, x_width, y_height, y_width, kh, kw, strip, pitch: int
## arg      down, phases_down, pad_down, gap_down, rows_apart: int
## arg      phases_right, pad_right, gap_right, columns_apart: int
## def      conv_blocked_depthwise_pack
## arg      packed: out float[blocks][taps][width]
## arg      weight: in float[blocks * width][taps]
## arg      taps: int
## def      conv_blocked_depthwise_weight
## arg      partial: out float[chunks][blocks][kh * columns][width]
## arg      gy: in float[images][blocks][y_height][y_width][width]
## arg      x: in float[images][blocks][x_height][x_width][width]
## arg      images, blocks, x_height, x_width, y_height, y_width, kh, strip, pitch: int
## arg      down, pad_down, gap_down, right, pad_right, gap_right: int
## def      conv_blocked_depthwise_sum
## arg      gw: out float[blocks * width][taps]
## arg      partial: inout float  as above
## arg      taps, chunks: int
## launch   conv_blocked_depthwise: global (strips, images * blocks), local (1, 1)
## launch   conv_blocked_depthwise_pack, conv_blocked_depthwise_sum: global (blocks), local (1)
## launch   conv_blocked_depthwise_weight: global (chunks, blocks), local (1, 1)
## numerics one chain of multiply_add per output, in the order row, column of the filter (gradient
##          of the filters: strip, row, and within a row as many chains as pixels go together)
<%namespace name="vectors_of" file="/lib/vector.mako"/>
<%namespace name="epilogue" file="/lib/epilogue.mako"/>
<%namespace name="strip_rows" file="/lib/strip_rows.mako"/>
<%def name="conv_blocked_depthwise(
    width, pixels, step, unrolled, local_floats, bias, added, activation)">
<%
    v = f"float{width}"
    tap_rows, tap_columns = unrolled or (0, 0)
%>
${vectors_of.types("float", width)}
${epilogue.define(activation, width)}
${strip_rows.below()}
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void conv_blocked_depthwise(...)
{
    __local float rows[${local_floats}] __attribute__((aligned(64)));
    const int block = get_group_id(1) % blocks;
    const int first = get_group_id(0) * strip, last = min(first + strip, y_height);
    __global const float *const plane =
        x + x_offset + (long)get_group_id(1) * x_height * x_width * ${width};
    const long result = (long)get_group_id(1) * y_height * y_width * ${width};
    y += y_offset + result;
% if added:
    added += added_offset + result;
% endif
    packed += packed_offset + (long)block * kh * kw * ${width};
% if bias:
    const ${v} offset = ((__global const vector *)(offsets + offsets_offset))[block];
% endif
    const int low_row =
        below(first * down + pad_down - max(0, (kh - 1) * gap_down), phases_down);
    const int low_column = below(pad_right - max(0, (kw - 1) * gap_right), phases_right);
    {
        ${strip_rows.copy_rows(width)}
    }
    /* from tap to tap of a phase */
    const int closer = columns_apart * gap_right / phases_right * ${width};
    for (int i = first; i < last; i++) {
% if unrolled:
        for (int tile = 0; tile < y_width; tile += ${pixels}) {
            const int phase = 0, count = y_width;
            ${v} ${", ".join(f"c{p} = 0" for p in range(pixels))};
            __local const float *a = rows
                + ((i - first) * down * pitch + tile * ${step}) * ${width};
% for r in range(tap_rows):
% for s in range(tap_columns):
            {
                const ${v} tap = ((__global const vector *)packed)[${r * tap_columns + s}];
% for p in range(pixels):
                c${p} = multiply_add(((__local const vector *)a)[${p * step + s}], tap, c${p});
% endfor
            }
% endfor
            a += pitch * ${width};
% endfor
            ${strip_rows.store(width, pixels, bias, added, activation)}
        }
% else:
        int first_r = 0;
        while (first_r < kh && (i * down + pad_down - first_r * gap_down) % phases_down) first_r++;
        for (int phase = 0; phase < phases_right; phase++) {
            int first_s = 0;
            while (first_s < kw && (phase + pad_right - first_s * gap_right) % phases_right)
                first_s++;
            const int from = (phase + pad_right - first_s * gap_right) / phases_right - low_column;
            const int count = (y_width - phase + phases_right - 1) / phases_right;
            for (int tile = 0; tile < count; tile += ${pixels}) {
                ${v} ${", ".join(f"c{p} = 0" for p in range(pixels))};
                for (int r = first_r; r < kh; r += rows_apart) {
                    const int source =
                        (i * down + pad_down - r * gap_down) / phases_down - low_row;
                    __local const float *a =
                        rows + (source * pitch + tile * ${step} + from) * ${width};
                    __global const float *f = packed + (r * kw + first_s) * ${width};
                    for (int s = first_s; s < kw;
                        s += columns_apart, a -= closer, f += columns_apart * ${width}) {
                        const ${v} tap = *(__global const vector *)f;
% for p in range(pixels):
                        c${p} = multiply_add(
                            *(__local const vector *)(a + ${p * step * width}), tap, c${p});
% endfor
                    }
                }
                ${strip_rows.store(width, pixels, bias, added, activation)}
            }
        }
% endif
    }
}
</%def>
<%def name="conv_blocked_depthwise_pack(width)">
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void conv_blocked_depthwise_pack(...)
{
    packed += packed_offset + (long)get_group_id(0) * taps * ${width};
    weight += weight_offset + (long)get_group_id(0) * taps * ${width};
    for (int tap = 0; tap < taps; tap++)
        for (int lane = 0; lane < ${width}; lane++)
            packed[tap * ${width} + lane] = weight[lane * taps + tap];
}
</%def>
<%def name="conv_blocked_depthwise_weight(width, columns, together, local_floats)">
<% v = f"float{width}" %>
${vectors_of.types("float", width)}
${strip_rows.below()}
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void conv_blocked_depthwise_weight(...)
{
    __local float rows[${local_floats}] __attribute__((aligned(64)));
    const int chunk = get_group_id(0), chunks = get_num_groups(0), block = get_group_id(1);
    const int phases_down = 1, kw = ${columns};
    const int strips = (y_height + strip - 1) / strip, all = images * strips;
    const int whole = y_width - y_width % ${together};
    x += x_offset;
    partial += partial_offset + ((long)chunk * blocks + block) * kh * ${columns * width};
    for (int i = 0; i < kh * ${columns * width}; i++) partial[i] = 0;
    for (int part = (long)all * chunk / chunks; part < (long)all * (chunk + 1) / chunks; part++) {
        const int image = part / strips, first = part % strips * strip;
        const int last = min(first + strip, y_height);
        const long number = (long)image * blocks + block;
        __global const float *const plane = x + number * x_height * x_width * ${width};
        const int low_row = first * down + pad_down - max(0, (kh - 1) * gap_down);
        const int low_column = pad_right - max(0, (kw - 1) * gap_right);
        ${strip_rows.copy_rows(width)}
        for (int r = 0; r < kh; r++) {
% for t in range(together):
            ${v} ${", ".join(f"a{t}_{s} = 0" for s in range(columns))};
% endfor
            for (int i = first; i < last; i++) {
                __global const float *g =
                    gy + gy_offset + (number * y_height + i) * y_width * ${width};
                __local const float *a =
                    rows + ((i * down + pad_down - r * gap_down - low_row) * pitch
                    + pad_right - low_column) * ${width};
                int j = 0;
                for (; j < whole; j += ${together}, g += ${together * width},
                    a += right * ${together * width}) {
% for t in range(together):
                    ${pixel(width, columns, t)}
% endfor
                }
                for (; j < y_width; j++, g += ${width}, a += right * ${width}) {
                    ${pixel(width, columns, 0)}
                }
            }
            __global vector *const sums =
                (__global vector *)(partial + r * ${columns * width});
% for s in range(columns):
            sums[${s}] += ${" + ".join(f"a{t}_{s}" for t in range(together))};
% endfor
        }
    }
}
</%def>
## Adds the products of one pixel, `at` pixels from g and a.
<%def name="pixel(width, columns, at)">
{
                        const float${width} slope = *(__global const vector *)(g + ${at * width});
% for s in range(columns):
                        a${at}_${s} = multiply_add(
                            *(__local const vector *)(a
                            + (${at} * right - ${s} * gap_right) * ${width}),
                            slope, a${at}_${s});
% endfor
                    }
</%def>
<%def name="conv_blocked_depthwise_sum(width)">
${vectors_of.types("float", width)}
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void conv_blocked_depthwise_sum(...)
{
    const long length = (long)taps * ${width}, apart = length * get_num_groups(0);
    partial += partial_offset + get_group_id(0) * length;
    gw += gw_offset + get_group_id(0) * length;
    for (int chunk = 1; chunk < chunks; chunk++)
        for (int i = 0; i < taps; i++)
            ((__global vector *)partial)[i] +=
                ((__global const vector *)(partial + chunk * apart))[i];
    for (int tap = 0; tap < taps; tap++)
        for (int lane = 0; lane < ${width}; lane++)
            gw[lane * taps + tap] = partial[tap * ${width} + lane];
}
</%def>
