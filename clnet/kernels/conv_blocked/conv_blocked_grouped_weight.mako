## kernel conv_blocked_grouped_weight: filters' gradient of a convolution of groups between blocks
##
## One work-item per group reads rows of x as conv_blocked_grouped does, and keeps the sums of
## `columns` taps of a row and `some` channels in registers, `together` pixels side by side, over
## the strips of a chunk,
##
##      a_<pixel>_<channel>_<column> += rows[of a channel][its row][its column] * gy[pixel]
##
## conv_blocked_grouped_sum adds the chunks in their order.
## param    width: 4|8|16            channels of a block
## param    columns: int             of a filter
## param    together: int            pixels in one turn of the inner loop
## param    own: tuple               which lanes read each channel of a group, if a block holds
##                                   several groups; else (); see lib/grouped.mako
## param    some: int                channels whose sums are kept beside each other; a divisor of
##                                   own, or of width
## param    begin: int               the first of them, if lanes have channels of their own
## param    at: int                  how many pixels one lies from g and a
## param    local_floats: int        floats of local memory
##
## def      conv_blocked_grouped_weight
## arg      partial: out float[chunks][blocks][kh][read][columns][width]
## arg      gy: in float[images][blocks][y_height][y_width][width]
## arg      x: in float[images][in_blocks][x_height][x_width][width]
## arg      images, blocks, in_blocks, made, read: int   made and read: channels of a group
## arg      x_height, x_width, y_height, y_width, kh, strip, pitch: int
## arg      room: int                floats of a block's rows
## arg      down, pad_down, gap_down, right, pad_right, gap_right: int
## def      conv_blocked_grouped_sum
## arg      gw: out float[blocks * width][read][taps]
## arg      partial: inout float  as above
## arg      taps, read, columns, chunks: int
## launch   conv_blocked_grouped_weight: global (chunks, blocks), local (1, 1)
## launch   conv_blocked_grouped_sum: global (blocks), local (1)
## numerics a chain of multiply_add for each pixel of those that go together, in the order strip,
##          row; then these are added, and the chunks in their order
<%namespace name="vectors_of" file="/lib/vector.mako"/>
<%namespace name="strip_rows" file="/lib/strip_rows.mako"/>
<%namespace name="grouped" file="/lib/grouped.mako"/>
<%def name="conv_blocked_grouped_weight(width, columns, together, own, some, local_floats)">
<% v = f"float{width}" %>
${vectors_of.types("float", width)}
${strip_rows.below()}
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void conv_blocked_grouped_weight(...)
{
    __local float all_rows[${local_floats}] __attribute__((aligned(64)));
    const int chunk = get_group_id(0), chunks = get_num_groups(0), block = get_group_id(1);
    const int phases_down = 1, kw = ${columns};
    const int strips = (y_height + strip - 1) / strip, all = images * strips;
    const int whole = y_width - y_width % ${together};
    ${grouped.channels_read(width, own)}
    partial += partial_offset + ((long)chunk * blocks + block) * kh * read * ${columns * width};
    for (int i = 0; i < kh * read * ${columns}; i++) ((__global vector *)partial)[i] = 0;
    for (int part = (long)all * chunk / chunks; part < (long)all * (chunk + 1) / chunks; part++) {
        const int image = part / strips, first = part % strips * strip;
        const int last = min(first + strip, y_height);
        const int low_row = first * down + pad_down - max(0, (kh - 1) * gap_down);
        const int low_column = pad_right - max(0, (kw - 1) * gap_right);
        for (int k = 0; k < blocks_read; k++) {
            __local float *const rows = all_rows + k * room;
            __global const float *const plane = x + x_offset
                + ((long)image * in_blocks + low_block + k) * x_height * x_width * ${width};
            ${strip_rows.copy_rows(width)}
        }
        for (int r = 0; r < kh; r++) {
            __global float *sums = partial + (long)r * read * ${columns * width};
% if own:
% for begin in range(0, len(own), some):
            {
                const int of = 0;
                ${sum_rows(width, columns, together, own, some, begin)}
            }
% endfor
% else:
            for (int k = 0; k < blocks_read; k++)
                for (int u = 0; u < ${width}; u += ${some}) {
                    const int of = k * room + u;
                    ${sum_rows(width, columns, together, own, some, 0)}
                }
% endif
        }
    }
}
</%def>
##
## The sums of `some` channels, from `begin` on or `of` floats from the first, at a row of taps.
<%def name="sum_rows(width, columns, together, own, some, begin)">
<% v = f"float{width}" %>
% for t in range(together):
% for k in range(some):
                ${v} ${", ".join(f"a{t}_{k}_{tap} = 0" for tap in range(columns))};
% endfor
% endfor
                for (int i = first; i < last; i++) {
                    __global const float *g = gy + gy_offset
                        + (((long)image * blocks + block) * y_height + i) * y_width * ${width};
                    __local const float *a = all_rows + of
                        + ((i * down + pad_down - r * gap_down - low_row) * pitch
                        + pad_right - low_column) * ${width};
                    int j = 0;
                    for (; j < whole; j += ${together}, g += ${together * width},
                        a += right * ${together * width}) {
% for t in range(together):
                        ${pixel(width, columns, own, some, begin, t)}
% endfor
                    }
% if together > 1:
                    for (; j < y_width; j++, g += ${width}, a += right * ${width}) {
                        ${pixel(width, columns, own, some, begin, 0)}
                    }
% endif
                }
% for k in range(some):
% for tap in range(columns):
                ((__global vector *)sums)[${k * columns + tap}] +=
                    ${" + ".join(f"a{t}_{k}_{tap}" for t in range(together))};
% endfor
% endfor
                sums += ${some * columns * width};
</%def>
##
## Adds the products of one pixel, `at` pixels from g and a.
<%def name="pixel(width, columns, own, some, begin, at)">
<% v = f"float{width}" %>
{
                            const ${v} slope = *(__global const vector *)(g + ${at * width});
% for tap in range(columns):
                            __local const float *const at${tap} =
                                a + (${at} * right - ${tap} * gap_right) * ${width};
% for k in range(some):
                            const ${v} x${k}_${tap} =
% if own:
                                ${grouped.own_lanes(own, begin + k, f"at{tap}")};
% else:
                                at${tap}[${k}];
% endif
                            a${at}_${k}_${tap} =
                                multiply_add(x${k}_${tap}, slope, a${at}_${k}_${tap});
% endfor
% endfor
                        }
</%def>
<%def name="conv_blocked_grouped_sum(width)">
${vectors_of.types("float", width)}
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void conv_blocked_grouped_sum(...)
{
    const long length = (long)taps * read * ${width}, apart = length * get_num_groups(0);
    partial += partial_offset + get_group_id(0) * length;
    gw += gw_offset + get_group_id(0) * length;
    for (int chunk = 1; chunk < chunks; chunk++)
        for (int i = 0; i < taps * read; i++)
            ((__global vector *)partial)[i] +=
                ((__global const vector *)(partial + chunk * apart))[i];
    for (int r = 0; r < taps / columns; r++)
        for (int c = 0; c < read; c++)
            for (int s = 0; s < columns; s++)
                for (int lane = 0; lane < ${width}; lane++)
                    gw[((long)lane * read + c) * taps + r * columns + s] =
                        partial[((r * read + c) * columns + s) * ${width} + lane];
}
</%def>
