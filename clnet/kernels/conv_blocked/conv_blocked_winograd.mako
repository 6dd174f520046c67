## kernel conv_blocked_winograd: k x k convolution with stride 1 between blocked arrays, by
## Winograd's transforms
##
##      y tile = At (sum over channels of (G f Gt) * (Bt x_tile B)) A
##
## makes `out * out` outputs of `side * side` products, side = out + k - 1, instead of
## k * k * out * out.
## One work-item per group goes through blocks of `strips * tiles` tiles. It brings the inputs of a
## block into its part of scratch memory,
##
##      inputs[side * side][strips][in_blocks][tiles][width]
##
## multiplies them, one panel of output channels (`vectors` blocks) after another, with the
## transformed filters in registers of `tiles` by `vectors` vectors,
##
##      sums[side * side][strips * tiles][vectors][width]
##
## and brings these back. The input gradient is the same with the filters turned around.
##
## param    width: 4|8|16            channels of a block
## param    tiles: int               of a register block
## param    vectors: int             blocks of output channels of a panel
## param    inputs: tuple            Bt, by rows: side x side
## param    outputs: tuple           At: out x side
## param    filters: tuple           G: side x k
## param    turned: bool             whether the filters are turned around
## param    stream: bool             filters go past the caches, in whole lines
## param    added: bool              whether there is something to be added
## param    activation: str|VectorActivation  see lib/epilogue.mako
##
## def      conv_blocked_winograd
## arg      y: out float[images][out_blocks][y_height][y_width][width]
## arg      x: in float[images][in_blocks][x_height][x_width][width]
## arg      packed: in float[panels][side * side][in_blocks * width][vectors * width]
## arg      offsets: in float[out_blocks * width]  the bias; any array when there is none
## arg      biased, relu: int  whether there is a bias; whether what is below 0 becomes 0
## % if added:
## arg      added: in float[images][out_blocks][y_height][y_width][width]
## % endif
## arg      scratch: out float[groups][scratch_floats]
## arg      images: int
## arg      in_blocks: int     blocks of channels of x
## arg      x_height, x_width: int
## arg      out_blocks: int    blocks of channels of y, a multiple of vectors
## arg      y_height, y_width: int
## arg      pad_down: int      rows that the first tile reads above the image
## arg      pad_right: int     columns
## arg      strips: int        register blocks of tiles in a block
## arg      scratch_floats: int  floats of scratch memory for each group
## def      conv_blocked_winograd_pack
## arg      packed: out float  as above
## arg      weight: in float   outs and ins are steps of w_out and w_in; taps are dense
## arg      ins: int           channels
## arg      w_out, w_in: int
##
## launch   conv_blocked_winograd: global (chunks of blocks), local (1)
## launch   conv_blocked_winograd_pack: global (panels, chunks of ins), local (1, 1)
## numerics largest error relative to the largest result: side 4: 1e-6, side 6: 1e-5
<%namespace name="vectors_of" file="/lib/vector.mako"/>
<%namespace name="prelude" file="/lib/prelude.mako"/>
<%namespace name="epilogue" file="/lib/epilogue.mako"/>
<%namespace name="winograd" file="/lib/winograd.mako"/>
<%def name="conv_blocked_winograd(width, tiles, vectors, inputs, outputs, added, activation)">
<% v, side, out, lanes = f"float{width}", len(inputs), len(outputs), width * vectors %>
${vectors_of.types("float", width)}
${epilogue.define(activation, width)}
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void conv_blocked_winograd(...)
{
    __local float passing[${side * side * width}] __attribute__((aligned(64)));
% if activation == "least":
    const float least = relu ? 0 : -INFINITY;
% endif
    const int chunk = get_group_id(0), chunks = get_num_groups(0);
    const int down = (y_height + ${out - 1}) / ${out}, right = (y_width + ${out - 1}) / ${out};
    const int total = images * down * right, block_tiles = strips * ${tiles};
    const int blocks = (total + block_tiles - 1) / block_tiles;
    const int last_block = blocks * (chunk + 1) / chunks;
    const int ins = in_blocks * ${width};
    /* floats from product to product: an odd number of vectors, lest they fall on one another in
       a cache */
    const int taken = (block_tiles * in_blocks | 1) * ${width};
    const int summed = (block_tiles * ${vectors} | 1) * ${width};
    __global float *const transformed = scratch + scratch_offset + (long)chunk * scratch_floats;
    __global float *const sums = transformed + (long)${side * side} * taken;
    x += x_offset;
    y += y_offset;
    packed += packed_offset;

    for (int block = blocks * chunk / chunks; block < last_block; block++) {
        const int first = block * block_tiles, count = min(block_tiles, total - first);
        const int filled = (count + ${tiles - 1}) / ${tiles};
        for (int b = 0; b < in_blocks; b++) {
            for (int t = 0; t < filled * ${tiles}; t++) {
                const int tile = min(first + t, total - 1);
                const int image = tile / (down * right);
                const int top = tile / right % down * ${out} - pad_down,
                    left = tile % right * ${out} - pad_right;
                __global const float *from =
                    x + (((long)image * in_blocks + b) * x_height + top) * x_width * ${width}
                    + left * ${width};
                for (int j = 0; j < ${side}; j++) {
                    const int inside = (uint)(left + j) < (uint)x_width;
% for i in range(side):
                    ${v} d${i} = 0;
                    if (inside & ((uint)(top + ${i}) < (uint)x_height))
                        d${i} = *(__global const vector *)(from + (${i} * x_width + j) * ${width});
% endfor
% for i in range(side):
                    ((__local vector *)passing)[${i * side} + j] =
                        ${winograd.combine(inputs[i], "d")};
% endfor
                }
                __global float *to = transformed
                    + ((t / ${tiles} * in_blocks + b) * ${tiles} + t % ${tiles}) * ${width};
                for (int i = 0; i < ${side}; i++) {
% for j in range(side):
                    const ${v} e${j} = ((__local vector *)passing)[i * ${side} + ${j}];
% endfor
% for j in range(side):
                    *(__global vector *)(to + (long)(i * ${side} + ${j}) * taken) =
                        ${winograd.combine(inputs[j], "e")};
% endfor
                }
            }
        }
        for (int panel = 0; panel < out_blocks / ${vectors}; panel++) {
            for (int p = 0; p < ${side * side}; p++) {
                for (int group = 0; group < filled; group++) {
                    __global const float *a =
                        transformed + (long)p * taken + group * ins * ${tiles};
                    __global const float *f =
                        packed + ((long)panel * ${side * side} + p) * ins * ${lanes};
% for i in range(tiles):
                    ${v} ${", ".join(f"c{i}_{j} = 0" for j in range(vectors))};
% endfor
                    for (int b = 0; b < in_blocks; b++, a += ${tiles * width},
                        f += ${width * lanes}) {
% for u in range(width):
% for j in range(vectors):
                        const ${v} f${u}_${j} = ((__global const vector *)f)[${u * vectors + j}];
% endfor
% for i in range(tiles):
                        {
                            const ${v} s = a[${i * width + u}];
% for j in range(vectors):
                            c${i}_${j} = multiply_add(s, f${u}_${j}, c${i}_${j});
% endfor
                        }
% endfor
% endfor
                    }
                    __global vector *to =
                        (__global vector *)(sums + (long)p * summed + group * ${tiles * lanes});
% for i in range(tiles):
% for j in range(vectors):
                    to[${i * vectors + j}] = c${i}_${j};
% endfor
% endfor
                }
            }
            for (int k = 0; k < ${vectors}; k++) {
                const ${v} offset = biased ? ((__global const vector *)(offsets
                    + offsets_offset))[panel * ${vectors} + k] : (${v})(-0.0f);
                for (int t = 0; t < count; t++) {
                    const int image = (first + t) / (down * right);
                    const int top = (first + t) / right % down * ${out},
                        left = (first + t) % right * ${out};
                    __global const float *from = sums + t * ${lanes} + k * ${width};
                    for (int j = 0; j < ${side}; j++) {
% for i in range(side):
                        const ${v} d${i} =
                            *(__global const vector *)(from + (long)(${i * side} + j) * summed);
% endfor
% for i in range(out):
                        ((__local vector *)passing)[${i * side} + j] =
                            ${winograd.combine(outputs[i], "d")};
% endfor
                    }
                    const long corner = ((((long)image * out_blocks + panel * ${vectors}
                        + k) * y_height + top) * y_width + left) * ${width};
                    __global float *to = y + corner;
% if added:
                    __global const float *more = added + added_offset + corner;
% endif
                    for (int i = 0; i < min(${out}, y_height - top); i++,
                        to += y_width * ${width}) {
% for j in range(side):
                        const ${v} e${j} = ((__local vector *)passing)[i * ${side} + ${j}];
% endfor
% for j in range(out):
                        if (left + ${j} < y_width) {
                            const ${v} sum =
                                ${winograd.combine(outputs[j], "e")} + offset;
                            const ${v} value =
                                sum${f" + ((__global const vector *)more)[{j}]" if added else ""};
                            ((__global vector *)to)[${j}] =
                                ${epilogue.activate(activation, "value", v)};
                        }
% endfor
% if added:
                        more += y_width * ${width};
% endif
                    }
                }
            }
        }
    }
}
</%def>
<%def name="conv_blocked_winograd_pack(width, vectors, filters, turned, stream)">
<% v, side, lanes, size = f"float{width}", len(filters), width * vectors, len(filters[0]) %>
${vectors_of.types("float", width)}
% if stream:
${prelude.stream("float", width)}
% endif
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void conv_blocked_winograd_pack(...)
{
    __local float taps[${size * size * lanes}] __attribute__((aligned(64)));
    const int panel = get_group_id(0), chunk = get_group_id(1), chunks = get_num_groups(1);
    packed += packed_offset + (long)panel * ${side * side * lanes} * ins;
    weight += weight_offset + (long)panel * ${lanes} * w_out;
    const int last = ins * (chunk + 1) / chunks;
    for (int c = ins * chunk / chunks; c < last; c++) {
        for (int o = 0; o < ${lanes}; o++) {
            __global const float *from = weight + (long)o * w_out + (long)c * w_in;
            for (int tap = 0; tap < ${size * size}; tap++)
                taps[tap * ${lanes} + o] = from[${f"{size * size - 1} - tap" if turned else "tap"}];
        }
        for (int k = 0; k < ${vectors}; k++) {
            __local const vector *from = (__local const vector *)(taps + k * ${width});
            __global float *to = packed + (long)c * ${lanes} + k * ${width};
% for r in range(size):
% for s in range(size):
            const ${v} g${r}_${s} = from[${(r * size + s) * vectors}];
% endfor
% endfor
% for i in range(side):
            {
% for s in range(size):
                const ${v} h${s} = ${" + ".join(f"{factor}f * g{r}_{s}" for r,
                    factor in enumerate(filters[i]) if factor)};
% endfor
% for j in range(side):
% if stream:
                stream(${winograd.combine(filters[j], "h")},
                    (__global ${v} *)(to + (long)${i * side + j} * ins * ${lanes}));
% else:
                *(__global vector *)(to + (long)${i * side + j} * ins * ${lanes}) =
                    ${winograd.combine(filters[j], "h")};
% endif
% endfor
            }
% endfor
        }
    }
}
</%def>
