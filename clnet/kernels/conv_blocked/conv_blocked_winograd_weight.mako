## kernel conv_blocked_winograd_weight: gradient of k x k filters between blocked arrays, by
## Winograd's transforms
##
##      gradient of f = Gt (sum over tiles of (A gy_tile At) * (Bt x_tile B)) G
##
## is the adjoint of conv_blocked_winograd. One work-item per group takes some panels of output
## channels (`vectors` blocks each) and some blocks of `block_tiles` tiles. It brings a block's x
## and gy into its part of scratch memory,
##
##      xs[side * side][in_blocks][block_tiles][width]
##      gs[side * side][out blocks][block_tiles][width]
##
## and sums over its tiles, for `channels` input channels at a time,
##
##      a_<channel>_<vector> += xs[product][tile][channel] * gs[product][tile][vector]
##
## The sums of the groups are added in their order by conv_blocked_winograd_weight_sum, which brings
## them back and puts them in place.
##
## param    width: 4|8|16            channels of a block
## param    vectors: int             blocks of output channels of a panel
## param    channels: int            input channels of a register tile; divides width
## param    inputs: tuple            Bt, by rows: side x side
## param    grads: tuple             A: side x out
## param    filters: tuple           Gt: k x side
##
## def      conv_blocked_winograd_weight
## arg      partial: out float[chunks][panels][in_blocks][side * side][width][vectors * width]
## arg      gy: in float[images][panels * vectors][oh][ow][width]
## arg      x: in float[images][in_blocks][h][w][width]
## arg      scratch: out float[groups][scratch_floats]
## arg      images, in_blocks, panels, h, w, oh, ow, ph, pw: int
## arg      block_tiles: int   tiles of a block
## arg      scratch_floats: int  floats of scratch memory for each group
## def      conv_blocked_winograd_weight_sum
## arg      gw: out float[panels * vectors * width][in_blocks * width][k * k]
## arg      partial: in float  as above
## arg      chunks: int
##
## launch   conv_blocked_winograd_weight: global (chunks, groups of panels), local (1, 1)
## launch   conv_blocked_winograd_weight_sum: global (in_blocks, panels), local (1, 1)
## numerics largest error relative to the largest result: side 6: 1e-5
<%namespace name="vectors_of" file="/lib/vector.mako"/>
<%namespace name="winograd" file="/lib/winograd.mako"/>
<%def name="conv_blocked_winograd_weight(width, vectors, channels, inputs, grads)">
<% v, side, out, lanes = f"float{width}", len(inputs), len(grads[0]), width * vectors %>
${vectors_of.types("float", width)}
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void conv_blocked_winograd_weight(...)
{
    __local float passing[${side * side * width}] __attribute__((aligned(64)));
    const int chunk = get_group_id(0), chunks = get_num_groups(0);
    const int group = get_group_id(1), groups = get_num_groups(1);
    const int first_panel = panels * group / groups, last_panel = panels * (group + 1) / groups;
    const int first_block = first_panel * ${vectors},
        out_blocks = (last_panel - first_panel) * ${vectors};
    const int down = (oh + ${out - 1}) / ${out}, right = (ow + ${out - 1}) / ${out};
    const int total = images * down * right;
    /* floats from product to product: an odd number of vectors, lest they fall on one another in
       a cache */
    const int x_apart = (block_tiles * in_blocks | 1) * ${width},
        g_apart = (block_tiles * out_blocks | 1) * ${width};
    __global float *const xs =
        scratch + scratch_offset + (long)(chunk * groups + group) * scratch_floats;
    __global float *const gs = xs + (long)${side * side} * x_apart;
    partial += partial_offset + ((long)chunk * panels
        + first_panel) * in_blocks * ${side * side * width * lanes};
    gy += gy_offset;
    x += x_offset;
    const int parts = (last_panel - first_panel) * in_blocks * ${side * side};
    for (int i = 0; i < parts * ${width * vectors}; i++) ((__global vector *)partial)[i] = 0;

    const int blocks = (total + block_tiles - 1) / block_tiles,
        last_block = blocks * (chunk + 1) / chunks;
    for (int at = blocks * chunk / chunks; at < last_block; at++) {
        const int first = at * block_tiles, count = min(block_tiles, total - first);
        for (int b = 0; b < in_blocks; b++)
            for (int t = 0; t < count; t++) {
                const int image = (first + t) / (down * right);
                const int top = (first + t) / right % down * ${out} - ph,
                    left = (first + t) % right * ${out} - pw;
                __global const float *from =
                    x + (((long)image * in_blocks + b) * h + top) * w * ${width} + left * ${width};
                for (int j = 0; j < ${side}; j++) {
                    const int inside = (uint)(left + j) < (uint)w;
% for i in range(side):
                    ${v} d${i} = 0;
                    if (inside & ((uint)(top + ${i}) < (uint)h)) d${i} =
                        *(__global const vector *)(from + (${i} * w + j) * ${width});
% endfor
% for i in range(side):
                    ((__local vector *)passing)[${i * side} + j] =
                        ${winograd.combine(inputs[i], "d")};
% endfor
                }
                __global float *to = xs + (b * block_tiles + t) * ${width};
                for (int i = 0; i < ${side}; i++) {
% for j in range(side):
                    const ${v} e${j} = ((__local vector *)passing)[i * ${side} + ${j}];
% endfor
% for j in range(side):
                    *(__global vector *)(to + (long)(i * ${side} + ${j}) * x_apart) =
                        ${winograd.combine(inputs[j], "e")};
% endfor
                }
            }
        for (int b = 0; b < out_blocks; b++)
            for (int t = 0; t < count; t++) {
                const int image = (first + t) / (down * right);
                const int top = (first + t) / right % down * ${out},
                    left = (first + t) % right * ${out};
                __global const float *from =
                    gy + ((((long)image * panels * ${vectors} + first_block + b) * oh + top) * ow
                    + left) * ${width};
                for (int j = 0; j < ${out}; j++) {
                    const int inside = left + j < ow;
% for i in range(out):
                    ${v} d${i} = 0;
                    if (inside & (top + ${i} < oh)) d${i} =
                        *(__global const vector *)(from + (${i} * ow + j) * ${width});
% endfor
% for i in range(side):
                    ((__local vector *)passing)[${i * out} + j] =
                        ${winograd.combine(grads[i], "d")};
% endfor
                }
                __global float *to = gs + (b * block_tiles + t) * ${width};
                for (int i = 0; i < ${side}; i++) {
% for j in range(out):
                    const ${v} e${j} = ((__local vector *)passing)[i * ${out} + ${j}];
% endfor
% for j in range(side):
                    *(__global vector *)(to + (long)(i * ${side} + ${j}) * g_apart) =
                        ${winograd.combine(grads[j], "e")};
% endfor
                }
            }
        for (int part = 0; part < parts; part++) {
            const int p = part % ${side * side};
            const int in_block = part / ${side * side} % in_blocks,
                panel = part / ${side * side} / in_blocks;
            __global const float *const g = gs + (long)p * g_apart + panel * block_tiles * ${lanes};
            for (int c = 0; c < ${width}; c += ${channels}) {
                __global float *sums = partial + (long)part * ${width * lanes} + c * ${lanes};
                __global const float *b =
                    xs + (long)p * x_apart + in_block * block_tiles * ${width} + c;
% for i in range(channels):
% for j in range(vectors):
                ${v} a${i}_${j} = ((__global vector *)sums)[${i * vectors + j}];
% endfor
% endfor
                for (int t = 0; t < count * ${width}; t += ${width}) {
% for k in range(vectors):
                    const ${v} g${k} =
                        *(__global const vector *)(g + ${k} * block_tiles * ${width} + t);
% endfor
% for i in range(channels):
                    {
                        const ${v} f = b[t + ${i}];
% for k in range(vectors):
                        a${i}_${k} = multiply_add(f, g${k}, a${i}_${k});
% endfor
                    }
% endfor
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
<%def name="conv_blocked_winograd_weight_sum(width, vectors, filters)">
<% v, side, lanes = f"float{width}", len(filters[0]), width * vectors
size = len(filters) %>
${vectors_of.types("float", width)}
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void conv_blocked_winograd_weight_sum(...)
{
    __local float sums[${side * side * width}] __attribute__((aligned(64)));
    __local float taps[${size * size * lanes}] __attribute__((aligned(64)));
    const int in_block = get_group_id(0), in_blocks = get_num_groups(0);
    const int panel = get_group_id(1), panels = get_num_groups(1);
    const long apart = (long)panels * in_blocks * ${side * side * width * lanes};
    partial += partial_offset + ((long)panel * in_blocks
        + in_block) * ${side * side * width * lanes};
    gw += gw_offset + ((long)panel * ${lanes} * in_blocks + in_block) * ${width * size * size};
    for (int c = 0; c < ${width}; c++, gw += ${size * size}) {
        for (int k = 0; k < ${vectors}; k++) {
            for (int p = 0; p < ${side * side}; p++) {
                __global const float *from = partial + (p * ${width} + c) * ${lanes} + k * ${width};
                ${v} sum = *(__global const vector *)from;
                for (int chunk = 1; chunk < chunks; chunk++) {
                    from += apart;
                    sum += *(__global const vector *)from;
                }
                ((__local vector *)sums)[p] = sum;
            }
            for (int j = 0; j < ${side}; j++) {
% for i in range(side):
                const ${v} d${i} = ((__local vector *)sums)[${i * side} + j];
% endfor
% for i in range(size):
                ((__local vector *)sums)[${i * side} + j] = ${winograd.combine(filters[i], "d")};
% endfor
            }
% for i in range(size):
            {
% for j in range(side):
                const ${v} e${j} = ((__local vector *)sums)[${i * side + j}];
% endfor
% for j in range(size):
                *(__local vector *)(taps + ${(i * size + j) * lanes} + k * ${width}) =
                    ${winograd.combine(filters[j], "e")};
% endfor
            }
% endfor
        }
        for (int o = 0; o < ${lanes}; o++)
            for (int i = 0; i < ${size * size}; i++)
                gw[(long)o * in_blocks * ${width * size * size} + i] = taps[i * ${lanes} + o];
    }
}
</%def>
