## kernel conv_blocked_grouped: convolution of groups of channels between blocked arrays, gradients
##
## The filters of a block of results read some channels alone: those of the block's group, or, where
## a block holds several groups of `own` channels, each lane those of its own group. One work-item
## per group copies the rows that a strip of output rows reads of these channels' blocks into local
## memory, with zeros where the image ends,
##
##      rows[block][source row][pitch][width]
##
## and sums tiles of `pixels` pixels of a row; a channel is one number for all lanes, or a vector in
## which every lane finds its group's,
##
##      c_<pixel> += rows[of a channel][its row][pixel * step + its column] * packed[tap][channel]
##
## Which row and column an output reads at a tap: see conv_blocked_depthwise.
##
## param    width: 4|8|16            channels of a block
## param    pixels: int              of a tile
## param    step: int                columns of x from pixel to pixel of a tile
## param    own: int                 channels of a group, if a block holds several; else 0
## param    some: int                channels that are written out; a divisor of those of a group
##                                   and of width
## param    local_floats: int        floats of local memory
## param    turned: bool             packs what the gradient of x reads
## param    bias: bool               whether there is a bias
## param    added: bool              whether a value is added to each sum
## param    activation: None|str|VectorActivation  see lib/epilogue.mako
##
## def      conv_blocked_grouped
## arg      y: out float[images][blocks][y_height][y_width][width]
## arg      x: in float[images][in_blocks][x_height][x_width][width]
## arg      packed: in float[blocks][kh * kw][read][width]
## % if bias:
## arg      offsets: in float[blocks * width]
## % endif
## % if added:
## arg      added: in float    like y
## % endif
## arg      blocks, in_blocks, made, read: int   made and read: channels of a group of y and of x
## arg      x_height, x_width, y_height, y_width, kh, kw, strip, pitch: int
## arg      room: int                floats of a block's rows
## arg      down, phases_down, pad_down, gap_down, rows_apart: int
## arg      phases_right, pad_right, gap_right, columns_apart: int
## def      conv_blocked_grouped_pack
## arg      packed: out float[blocks][taps][read][width]
## arg      weight: in float[oc][ic of a group][taps]
## arg      taps, made, read: int
## launch   conv_blocked_grouped: global (strips, images * blocks), local (1, 1)
## launch   conv_blocked_grouped_pack: global (blocks), local (1)
## numerics one chain of multiply_add per output, in the order row and column of the filter, channel
<%namespace name="vectors_of" file="/lib/vector.mako"/>
<%namespace name="epilogue" file="/lib/epilogue.mako"/>
<%namespace name="strip_rows" file="/lib/strip_rows.mako"/>
<%namespace name="grouped" file="/lib/grouped.mako"/>
<%def name="conv_blocked_grouped(
    width, pixels, step, own, some, local_floats, bias, added, activation)">
<% v = f"float{width}" %>
${vectors_of.types("float", width)}
${epilogue.define(activation, width)}
${strip_rows.below()}
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void conv_blocked_grouped(...)
{
    __local float all_rows[${local_floats}] __attribute__((aligned(64)));
    const int block = get_group_id(1) % blocks, image = get_group_id(1) / blocks;
    const int first = get_group_id(0) * strip, last = min(first + strip, y_height);
    const long result = (long)get_group_id(1) * y_height * y_width * ${width};
    ${grouped.channels_read(width, own)}
    y += y_offset + result;
% if added:
    added += added_offset + result;
% endif
    packed += packed_offset + (long)block * kh * kw * read * ${width};
% if bias:
    const ${v} offset = ((__global const vector *)(offsets + offsets_offset))[block];
% endif
    const int low_row =
        below(first * down + pad_down - max(0, (kh - 1) * gap_down), phases_down);
    const int low_column = below(pad_right - max(0, (kw - 1) * gap_right), phases_right);
    for (int k = 0; k < blocks_read; k++) {
        __local float *const rows = all_rows + k * room;
        __global const float *const plane = x + x_offset
            + ((long)image * in_blocks + low_block + k) * x_height * x_width * ${width};
        ${strip_rows.copy_rows(width)}
    }
    /* from tap to tap of a phase */
    const int closer = columns_apart * gap_right / phases_right * ${width};
    for (int i = first; i < last; i++) {
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
                        all_rows + (source * pitch + tile * ${step} + from) * ${width};
                    for (int s = first_s; s < kw; s += columns_apart, a -= closer) {
                        __global const float *f = packed + (long)(r * kw + s) * read * ${width};
                        ${multiply(width, pixels, step, own, some)}
                    }
                }
                ${strip_rows.store(width, pixels, bias, added, activation)}
            }
        }
    }
}
</%def>
##
## The products of a tile's pixels at `a` with a tap's filters of all channels at `f`.
<%def name="multiply(width, pixels, step, own, some)">
<% v = f"float{width}" %>
% if own:
% for c in range(own):
                        const ${v} f${c} = ((__global const vector *)f)[${c}];
% endfor
% for p in range(pixels):
% for c in range(own):
                        c${p} = multiply_add(
                            ${grouped.own_lanes(width, own, c, f"a + {p * step * width}")}, f${c}, c${p});
% endfor
% endfor
% else:
                        for (int channel = low_lane; channel < low_lane + read;
                            channel += ${some}, f += ${some * width}) {
                            __local const float *const of =
                                a + channel / ${width} * room + channel % ${width};
% for u in range(some):
                            const ${v} f${u} = ((__global const vector *)f)[${u}];
% for p in range(pixels):
                            const ${v} a${u}_${p} = of[${p * step * width + u}];
                            c${p} = multiply_add(a${u}_${p}, f${u}, c${p});
% endfor
% endfor
                        }
% endif
</%def>
<%def name="conv_blocked_grouped_pack(width, turned)">
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void conv_blocked_grouped_pack(...)
{
    const int block = get_group_id(0);
    packed += packed_offset + (long)block * taps * read * ${width};
    weight += weight_offset;
    for (int lane = 0; lane < ${width}; lane++) {
        const int out = block * ${width} + lane;
        for (int c = 0; c < read; c++) {
% if turned:
            __global const float *const from =
                weight + ((long)(out / made * read + c) * made + out % made) * taps;
% else:
            __global const float *const from = weight + ((long)out * read + c) * taps;
% endif
            for (int tap = 0; tap < taps; tap++)
                packed[(tap * read + c) * ${width} + lane] = from[tap];
        }
    }
}
</%def>
