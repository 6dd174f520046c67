## kernel conv_blocked_weight: gradient of the filters of a 1x1 convolution between blocked arrays
##
## One work-item per group takes some panels of output channels (`vectors` blocks each) and a chunk
## of the rows of all images. It goes through them a few rows at a time, so few that they stay in
## its caches until every panel and block of input channels has read them, and sums, for `channels`
## input channels,
##
##      a_<channel>_<vector> += x[pixel][channel] * gy[pixel][vector]
##
## Meanwhile what comes next is brought into the second cache: the next block of x while the first
## panel reads this one, the next panel of gy a few lines at each pass over the rows. The chunks'
## sums are added in their order by conv_blocked_weight_sum, which also puts them in place.
##
## param    width: 4|8|16            channels of a block
## param    vectors: int             blocks of output channels of a panel
## param    channels: int            input channels of a register tile; divides width
## param    together: int            pixels in one turn of the inner loop
## param    at: int                  how many pixels one lies from g and b
##
## def      conv_blocked_weight
## arg      partial: out float[chunks][panels][in_blocks][width][vectors * width]
## arg      gy: in float[images][panels * vectors][h][w][width]
## arg      x: in float[images][in_blocks][h][w][width]
## arg      images, in_blocks, panels, h, w: int
## arg      block_rows: int       rows whose sums are kept in registers
## def      conv_blocked_weight_sum
## arg      gw: out float[panels * vectors * width][in_blocks * width]
## arg      partial: inout float  as above
## arg      chunks: int
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
    partial += partial_offset + (long)chunk * panels * in_blocks * ${width * lanes};
    gy += gy_offset;
    x += x_offset;
    /* of each row of the next panel's gy, fetched ahead at each pass over this one's */
    const int passes = in_blocks * ${tiles}, lines = (w + passes - 1) / passes;
    const long first_sum = (long)first_panel * in_blocks * ${width * lanes};
    const long last_sum = (long)last_panel * in_blocks * ${width * lanes};
    for (long i = first_sum; i < last_sum; i += ${width}) *(__global vector *)(partial + i) = 0;

    const int last = (long)images * h * (chunk + 1) / chunks;
    for (int from = (long)images * h * chunk / chunks; from < last; from += block_rows) {
        const int to = min(from + block_rows, last);
        for (int part = first_panel * in_blocks; part < last_panel * in_blocks; part++) {
            const int in_block = part % in_blocks, panel = part / in_blocks;
            for (int c = 0; c < ${width}; c += ${channels}) {
                __global float *sums = partial + (long)part * ${width * lanes} + c * ${lanes};
                const int tile = c / ${channels}, pass = in_block * ${tiles} + tile;
                const int first_line = pass * lines, last_line = min(first_line + lines, w);
                const int later = panel + 1 < last_panel ? 0 : block_rows;
                const int next_panel = panel + 1 < last_panel ? panel + 1 : first_panel;
% for i in range(channels):
% for j in range(vectors):
                ${v} a${i}_${j} = ((__global vector *)sums)[${i * vectors + j}];
% endfor
% endfor
                for (int row = from; row < to; row++) {
                    const int image = row / h, i = row % h;
                    __global const float *g =
                        gy + (((long)image * panels + panel) * ${vectors} * h + i) * w * ${width};
                    __global const float *b =
                        x + (((long)image * in_blocks + in_block) * h + i) * w * ${width} + c;
                    if (first_line < last_line) {
                        const int next_image = (row + later) / h, next_i = (row + later) % h;
                        __global const float *next =
                            gy + (((long)next_image * panels + next_panel) * ${vectors} * h
                            + next_i) * w * ${width};
                        for (int line = first_line; line < last_line; line++) {
% for k in range(vectors):
                            FETCH_AHEAD(next + (line + ${k} * (long)h * w) * ${width});
% endfor
                        }
                    }
                    if (panel == first_panel) {
                        __global const float *next = b + (long)h * w * ${width};
                        for (int line = w * tile / ${tiles}; line < w * (tile + 1) / ${tiles};
                            line++)
                            FETCH_AHEAD(next + line * ${width});
                    }
                    const int whole = w - w % ${together};
                    int j = 0;
                    for (; j < whole; j += ${together}, g += ${together * width},
                        b += ${together * width}) {
% for p in range(together):
                        ${pixel(width, vectors, channels, p)}
% endfor
                    }
                    for (; j < w; j++, g += ${width}, b += ${width}) {
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
                                + ${k} * (long)h * w * ${width});
% endfor
% for i in range(channels):
                            {
                                const ${v} f = b[${at * width + i}];
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
    const long apart = (long)panels * in_blocks * ${width * lanes};
    partial += partial_offset + ((long)panel * in_blocks + in_block) * ${width * lanes};
    gw += gw_offset + ((long)panel * ${lanes} * in_blocks + in_block) * ${width};
    for (int chunk = 1; chunk < chunks; chunk++)
        for (int i = 0; i < ${lanes}; i++)
            ((__global vector *)partial)[i] +=
                ((__global const vector *)(partial + chunk * apart))[i];
    for (int o = 0; o < ${lanes}; o++, gw += in_blocks * ${width})
        for (int c = 0; c < ${width}; c++) gw[c] = partial[c * ${lanes} + o];
}
</%def>
