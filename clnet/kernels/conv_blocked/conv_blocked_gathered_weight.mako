## kernel conv_blocked_gathered_weight: filters' gradient of a convolution between blocked arrays
##
## A product over the pixels of gy, of gy's channels and of what the taps read of x. A member is a
## block of input channels at a tap; a register tile is `vectors` members by `channels` channels of
## gy, whose sums need one load for each vector and each channel:
##
##      sums[channel][member] += gathered_gy[pixel][channel] * gathered_x[pixel][member]
##
## One work-item per group takes some tiles of members, some output channels and a chunk of the rows
## of all images, a few rows at a time. It brings their gy, then what one tile of members reads,
## into local memory, pixel beside pixel, so that neither strides nor ends of rows and of small
## images are seen by the products; outside the image lie zeros, and so do pixels that a turn of
## the inner loop goes beyond the last one. The sums stay in local memory, too.
##
## param    width: 4|8|16            channels of a block
## param    vectors: int             members of a register tile
## param    channels: int            output channels of a register tile; divides width
## param    together: int            pixels in one turn of the inner loop
## param    local_floats: int        floats of local memory
##
## def      conv_blocked_gathered_weight
## arg      partial: out float[chunks][out_blocks * width][in_blocks * width][kh * kw]
## arg      gy: in float[images][out_blocks][oh][ow][width]
## arg      x: in float[images][in_blocks][h][w][width]
## arg      images, in_blocks, out_blocks, h, w, oh, ow, kh, kw: int
## arg      sh, sw, ph, pw, dh, dw: int
## arg      block_rows: int       rows of y that are gathered together
## arg      block_columns: int    columns of them
## arg      most_pixels: int      of both, a multiple of `together`
## def      conv_blocked_gathered_weight_sum
## arg      gw: out float[n]
## arg      partial: in float[chunks][n]
## arg      n, chunks: int
##
## launch   conv_blocked_gathered_weight: global (chunks, groups of output channels, groups of
##          tiles of members), local (1, 1, 1)
## launch   conv_blocked_gathered_weight_sum: one item for `width` sums, which divides n
## numerics a chain of multiply_add for each sum and the pixels gathered together, in the order
##          image, row, column; then these in their order, and the chunks in theirs
<%namespace name="vectors_of" file="/lib/vector.mako"/>
<%def name="conv_blocked_gathered_weight(width, vectors, channels, together, local_floats)">
<% v, lanes = f"float{width}", vectors * width %>
${vectors_of.types("float", width)}
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void conv_blocked_gathered_weight(...)
{
    __local float room[${local_floats}] __attribute__((aligned(64)));
    const int chunk = get_group_id(0), chunks = get_num_groups(0);
    const int taps = kh * kw, members = in_blocks * taps;
    const int all_tiles = (members + ${vectors - 1}) / ${vectors};
    const int first_tile = (long)all_tiles * get_group_id(2) / get_num_groups(2);
    const int tiles = (long)all_tiles * (get_group_id(2) + 1) / get_num_groups(2) - first_tile;
    const int first_block = (long)out_blocks * get_group_id(1) / get_num_groups(1);
    const int blocks =
        (long)out_blocks * (get_group_id(1) + 1) / get_num_groups(1) - first_block;
    const int strips = blocks * ${width // channels};
    __local float *const gathered_x = room;
    __local float *const gathered_gy = gathered_x + most_pixels * ${lanes};
    __local float *const sums = gathered_gy + most_pixels * blocks * ${width};
    x += x_offset;
    gy += gy_offset + (long)first_block * oh * ow * ${width};
    partial += partial_offset + ((long)chunk * out_blocks + first_block) * ${width * width}
        * members;

    const int last = (long)images * oh * (chunk + 1) / chunks;
    int begins = 1;
    for (int from = (long)images * oh * chunk / chunks; from < last; from += block_rows)
        for (int left = 0; left < ow; left += block_columns) {
            const int rows = min(block_rows, last - from), columns = min(block_columns, ow - left);
            const int read = rows * columns;
            const int pixels = (read + ${together - 1}) / ${together} * ${together};
            ${gather_gy(width)}
            for (int tile = 0; tile < tiles; tile++) {
                ${gather_x(width, vectors)}
                for (int strip = 0; strip < strips; strip++) {
                    __local float *const out =
                        sums + (tile * strips + strip) * ${channels * lanes};
                    ${multiply(width, vectors, channels, together)}
                }
            }
            begins = 0;
        }
    ${store(width, vectors, channels)}
}
</%def>
##
## The pixels of gy, block by block.
<%def name="gather_gy(width)">
            for (int block = 0; block < blocks; block++) {
                __local float *to = gathered_gy + (long)block * most_pixels * ${width};
                int image = from / oh, i = from % oh;
                for (int row = 0; row < rows; row++) {
                    __global const float *g =
                        gy + ((((long)image * out_blocks + block) * oh + i) * ow + left) * ${width};
                    for (int j = 0; j < columns; j++, to += ${width}, g += ${width})
                        *(__local vector *)to = *(__global const vector *)g;
                    if (++i == oh) { i = 0; image++; }
                }
                for (int j = read; j < pixels; j++, to += ${width}) *(__local vector *)to = 0;
            }
</%def>
##
## What the members of a tile read for these pixels: of each pixel, one vector for each member.
<%def name="gather_x(width, vectors)">
<% lanes = vectors * width %>
                for (int k = 0; k < ${vectors}; k++) {
                    __local float *to = gathered_x + k * ${width};
                    const int member = (first_tile + tile) * ${vectors} + k;
                    const int s = member % kw, r = member / kw % kh, block = member / taps;
                    const int dx = s * dw - pw, dy = r * dh - ph;
                    /* columns that lie inside the image: from begin to end */
                    const int begin = min(max(dx < 0 ? (sw - 1 - dx) / sw - left : -left, 0),
                        columns);
                    const int inside = w - dx > 0 ? (w - dx + sw - 1) / sw - left : 0;
                    const int end = block < in_blocks ? max(min(inside, columns), begin) : begin;
                    int image = from / oh, i = from % oh;
                    for (int row = 0; row < rows; row++) {
                        const int source = i * sh + dy;
                        const int some = (uint)source < (uint)h ? end : begin;
                        int j = 0;
                        for (; j < begin; j++, to += ${lanes}) *(__local vector *)to = 0;
                        __global const float *b =
                            x + ((((long)image * in_blocks + block) * h + source) * w
                            + (left + begin) * sw + dx) * ${width};
                        for (; j < some; j++, to += ${lanes}, b += sw * ${width})
                            *(__local vector *)to = *(__global const vector *)b;
                        for (; j < columns; j++, to += ${lanes}) *(__local vector *)to = 0;
                        if (++i == oh) { i = 0; image++; }
                    }
                    for (int j = read; j < pixels; j++, to += ${lanes}) *(__local vector *)to = 0;
                }
</%def>
##
## The products of these pixels are added to a tile's sums.
<%def name="multiply(width, vectors, channels, together)">
<% v, lanes = f"float{width}", vectors * width %>
                    __local const float *a = gathered_x;
                    __local const float *g =
                        gathered_gy + strip / ${width // channels} * most_pixels * ${width}
                        + strip % ${width // channels} * ${channels};
% for c in range(channels):
                    ${v} ${", ".join(f"c{c}_{k} = 0" for k in range(vectors))};
% endfor
                    for (int j = 0; j < pixels; j += ${together}, a += ${together * lanes},
                        g += ${together * width}) {
% for p in range(together):
% for k in range(vectors):
                        const ${v} a${p}_${k} =
                            ((__local const vector *)a)[${p * vectors + k}];
% endfor
% for c in range(channels):
                        const ${v} g${p}_${c} = g[${p * width + c}];
% for k in range(vectors):
                        c${c}_${k} = multiply_add(g${p}_${c}, a${p}_${k}, c${c}_${k});
% endfor
% endfor
% endfor
                    }
                    if (!begins) {
% for c in range(channels):
% for k in range(vectors):
                        c${c}_${k} += ((__local vector *)out)[${c * vectors + k}];
% endfor
% endfor
                    }
% for c in range(channels):
% for k in range(vectors):
                    ((__local vector *)out)[${c * vectors + k}] = c${c}_${k};
% endfor
% endfor
</%def>
##
## The sums go to memory: of each output channel, for each block the taps of its channels.
<%def name="store(width, vectors, channels)">
    for (int o = 0; o < blocks * ${width}; o++, partial += ${width} * members) {
        __local const float *from = sums + o * ${vectors * width};
        int member = first_tile * ${vectors};
        int tap = member % taps;
        __global float *to = partial + (long)(member - tap) * ${width};
        for (int tile = 0; tile < tiles; tile++, from += strips * ${channels * vectors * width})
            for (int k = 0; k < ${vectors} && member < members; k++, member++) {
                for (int c = 0; c < ${width}; c++) to[c * taps + tap] = from[k * ${width} + c];
                if (++tap == taps) { tap = 0; to += ${width} * taps; }
            }
    }
</%def>
<%def name="conv_blocked_gathered_weight_sum(width)">
${vectors_of.types("float", width)}
__kernel void conv_blocked_gathered_weight_sum(...)
{
    const long i = (long)get_global_id(0) * ${width};
    if (i >= n) return;
    partial += partial_offset + i;
    float${width} sum = *(__global const vector *)partial;
    for (int chunk = 1; chunk < chunks; chunk++)
        sum += *(__global const vector *)(partial + (long)chunk * n);
    *(__global vector *)(gw + gw_offset + i) = sum;
}
</%def>
