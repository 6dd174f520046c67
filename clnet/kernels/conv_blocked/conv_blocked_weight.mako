## kernel conv_blocked_weight: gradient of the filters of a convolution between blocked arrays
##
## One work-item per group takes some panels of output channels (`vectors` blocks each) and a chunk
## of the rows of all images. It goes through them a few rows at a time, so few that they stay in
## its caches until every panel, block of input channels and tap has read them, and sums, for
## `channels` input channels,
##
##      a_<channel>_<vector> += x[pixel's source][channel] * gy[pixel][vector]
##
## The pixels whose source is outside the image are left out by the bounds of the loops. Meanwhile
## what comes next is brought into the second cache: the next block of x while the first panel reads
## this one, the next panel of gy a few lines at each pass over the rows. The chunks' sums are added
## in their order by conv_blocked_weight_sum, which also puts them in place.
##
## param    width: 4|8|16            channels of a block
## param    vectors: int             blocks of output channels of a panel
## param    channels: int            input channels of a register tile; divides width
## param    together: int            pixels in one turn of the inner loop
## param    at: int                  how many pixels one lies from g and b
##
## def      conv_blocked_weight
## arg      partial: out float[chunks][panels][in_blocks][kh * kw][width][vectors * width]
## arg      gy: in float[images][panels * vectors][oh][ow][width]
## arg      x: in float[images][in_blocks][h][w][width]
## arg      images, in_blocks, panels, h, w, oh, ow, kh, kw, sh, sw, ph, pw: int
## arg      dh, dw: int
## arg      block_rows: int       rows of y whose sums are kept in registers
## def      conv_blocked_weight_sum
## arg      gw: out float[panels * vectors * width][in_blocks * width][taps]
## arg      partial: inout float  as above
## arg      taps, chunks: int
##
## launch   conv_blocked_weight: global (chunks, groups of panels), local (1, 1)
## launch   conv_blocked_weight_sum: global (in_blocks, panels), local (1, 1)
## numerics within a chunk one chain of multiply_add per sum, in the order image, row, column
<%namespace name="prelude" file="/lib/prelude.mako"/>
<%namespace name="vectors_of" file="/lib/vector.mako"/>
<%def name="conv_blocked_weight(width, vectors, channels, together)">
<% v, lanes, tiles = f"float{width}", width * vectors, width // channels %>
${vectors_of.types("float", width)}
${prelude.fetch_ahead()}
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void conv_blocked_weight(...)
{
    const int chunk = get_group_id(0), chunks = get_num_groups(0);
    const int group = get_group_id(1), groups = get_num_groups(1);
    const int first_panel = panels * group / groups, last_panel = panels * (group + 1) / groups;
    const int block_sums = kh * kw * ${width * lanes};
    partial += partial_offset + (long)chunk * panels * in_blocks * block_sums;
    gy += gy_offset;
    x += x_offset;
    /* of each row of the next panel's gy, fetched ahead at each pass over this one's */
    const int passes = in_blocks * kh * kw * ${tiles}, lines = (ow + passes - 1) / passes;
    const long first_sum = (long)first_panel * in_blocks * block_sums;
    const long last_sum = (long)last_panel * in_blocks * block_sums;
    for (long i = first_sum; i < last_sum; i += ${width}) *(__global vector *)(partial + i) = 0;

    const int last = (long)images * oh * (chunk + 1) / chunks;
    for (int from = (long)images * oh * chunk / chunks; from < last; from += block_rows) {
        const int to = min(from + block_rows, last);
        for (int part = first_panel * in_blocks * kh * kw; part < last_panel * in_blocks * kh * kw;
            part++) {
            const int s = part % kw, r = part / kw % kh;
            const int in_block = part / (kw * kh) % in_blocks, panel = part / (kw * kh) / in_blocks;
            /* pixels whose column is inside the image at this tap */
            const int dx = s * dw - pw;
            const int left = dx < 0 ? (-dx + sw - 1) / sw : 0;
            const int right = w - dx > 0 ? min(ow, (w - dx + sw - 1) / sw) : 0;
            for (int c = 0; c < ${width}; c += ${channels}) {
                __global float *sums = partial + (long)part * ${width * lanes} + c * ${lanes};
                const int tile = c / ${channels},
                    pass = part % (in_blocks * kh * kw) * ${tiles} + tile;
                const int first_line = pass * lines, last_line = min(first_line + lines, ow);
                const int later = panel + 1 < last_panel ? 0 : block_rows;
                const int next_panel = panel + 1 < last_panel ? panel + 1 : first_panel;
% for i in range(channels):
% for j in range(vectors):
                ${v} a${i}_${j} = ((__global vector *)sums)[${i * vectors + j}];
% endfor
% endfor
                for (int row = from; row < to; row++) {
                    const int image = row / oh, i = row % oh;
                    const int source = i * sh - ph + r * dh;
                    if ((uint)source >= (uint)h) continue;
                    __global const float *g =
                        gy + ((((long)image * panels + panel) * ${vectors} * oh + i) * ow
                        + left) * ${width};
                    __global const float *b =
                        x + (((long)image * in_blocks + in_block) * h + source) * w * ${width}
                        + (left * sw + dx) * ${width} + c;
                    if (first_line < last_line) {
                        const int next_image = (row + later) / oh, next_i = (row + later) % oh;
                        __global const float *next =
                            gy + ((((long)next_image * panels + next_panel) * ${vectors} * oh
                            + next_i) * ow) * ${width};
                        for (int line = first_line; line < last_line; line++) {
% for k in range(vectors):
                            FETCH_AHEAD(next + (line + ${k} * (long)oh * ow) * ${width});
% endfor
                        }
                    }
                    if (panel == first_panel) {
                        __global const float *next = b + (long)h * w * ${width};
                        for (int line = (right - left) * tile / ${tiles};
                            line < (right - left) * (tile + 1) / ${tiles}; line++)
                            FETCH_AHEAD(next + line * sw * ${width});
                    }
                    const int whole = right - (right - left) % ${together};
                    int j = left;
                    for (; j < whole; j += ${together}, g += ${together * width},
                        b += ${together} * sw * ${width}) {
% for p in range(together):
                        ${pixel(width, vectors, channels, p)}
% endfor
                    }
                    for (; j < right; j++, g += ${width}, b += sw * ${width}) {
                        ${pixel(width, vectors, channels, 0)}
                    }
                }
% for i in range(channels):
% for j in range(vectors):
                ((__global vector *)sums)[${i * vectors + j}] = a${i}_${j};
% endfor
% endfor
            }
        }
    }
}
</%def>
##
## Adds the products of one pixel, `at` pixels from g and b.
<%def name="pixel(width, vectors, channels, at)">
<% v = f"float{width}" %>
{
% for k in range(vectors):
                            const ${v} g${k} =
                                *(__global const vector *)(g + ${at * width}
                                + ${k} * (long)oh * ow * ${width});
% endfor
% for i in range(channels):
                            {
                                const ${v} f = b[${at} * sw * ${width} + ${i}];
% for k in range(vectors):
                                a${i}_${k} = multiply_add(f, g${k}, a${i}_${k});
% endfor
                            }
% endfor
                        }
</%def>
<%def name="conv_blocked_weight_sum(width, vectors)">
<% v, lanes = f"float{width}", width * vectors %>
${vectors_of.types("float", width)}
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void conv_blocked_weight_sum(...)
{
    const int in_block = get_group_id(0), in_blocks = get_num_groups(0);
    const int panel = get_group_id(1), panels = get_num_groups(1);
    const int length = taps * ${width};
    const long apart = (long)panels * in_blocks * length * ${lanes};
    partial += partial_offset + ((long)panel * in_blocks + in_block) * length * ${lanes};
    gw += gw_offset + ((long)panel * ${lanes} * in_blocks + in_block) * length;
    for (int chunk = 1; chunk < chunks; chunk++)
        for (int i = 0; i < length * ${vectors}; i++)
            ((__global vector *)partial)[i] +=
                ((__global const vector *)(partial + chunk * apart))[i];
    for (int o = 0; o < ${lanes}; o++, gw += in_blocks * length)
        for (int c = 0; c < ${width}; c++)
            for (int tap = 0; tap < taps; tap++)
                gw[c * taps + tap] = partial[(tap * ${width} + c) * ${lanes} + o];
}
</%def>
