## kernel conv_blocked_few_channels: convolution of plain images of few channels to blocked ones
##
## One work-item per group copies the rows that a strip of output rows reads into local memory, with
## their padding, so that tiles need not look where an image ends,
##
##      rows[channel][strip rows][pitch]
##
## and sums tiles of `pixels` pixels of a row by `vectors` blocks of channels,
##
##      c_<pixel>_<vector> += rows[channel][row][pixel * stride + tap] *
##      packed[channel][tap][vector]
##
## The gradient of the filters takes `terms` taps (of all channels') at a time in registers,
##
##      a_<tap>_<vector> += rows[its channel][its row][pixel * stride + its column] *
##      gy[pixel][vector]
##
## over the rows of a strip, and keeps the sums of a chunk of strips in scratch memory, which
## conv_blocked_few_channels_sum adds in the order of the chunks and puts in place.
##
## param    width: 4|8|16            channels of a block
## param    pixels: int              of a tile
## param    vectors: int             blocks of output channels of a tile
## param    terms: int               taps of a tile
## param    local_floats: int        floats of local memory
## param    stride: int              columns of x from pixel to pixel
## param    bias: bool               whether there is a bias
## param    activation: None|str|VectorActivation  see lib/epilogue.mako
##
## def      conv_blocked_few_channels
## arg      y: out float[images][panels * vectors][oh][ow][width]
## arg      x: in float[images][ic][h][w]
## arg      packed: in float      conv_blocked_pack's: zeros[width], [panels][kh * kw][ic][lanes]
## % if bias:
## arg      offsets: in float[panels * vectors * width]
## % endif
## arg      images, ic, h, w, panels, oh, ow, kh, kw, sh, ph, pw, dh, dw: int
## arg      strip: int            output rows of a strip
## arg      pitch: int            floats of a row in local memory
## def      conv_blocked_few_channels_weight
## arg      partial: out float[chunks][panels][tap tiles][terms][vectors * width]
## arg      gy: in float[images][panels * vectors][oh][ow][width]
## arg      x: in float[images][ic][h][w]
## arg      images, ic, h, w, panels, oh, ow, kh, kw, sh, ph, pw, dh, dw: int
## arg      strip: int            output rows of a strip
## arg      pitch: int            floats of a row in local memory
## def      conv_blocked_few_channels_sum
## arg      gw: out float[panels * vectors * width][taps]
## arg      partial: inout float  as above
## arg      taps: int             of all channels
## arg      chunks: int
##
## launch   conv_blocked_few_channels: global (strips, images), local (1, 1)
## launch   conv_blocked_few_channels_weight: global (chunks), local (1)
## launch   conv_blocked_few_channels_sum: global (panels), local (1)
## numerics one chain of multiply_add per output, in the order channel, tap (gradient: strip, row,
##          column)
<%namespace name="vectors_of" file="/lib/vector.mako"/>
<%namespace name="epilogue" file="/lib/epilogue.mako"/>
<%def name="copy_rows()">
            /* the rows of the strip, with zeros around the image */
            const int top = first * sh - ph, height = (count - 1) * sh + (kh - 1) * dh + 1;
            for (int c = 0; c < ic; c++)
                for (int i = 0; i < height; i++) {
                    __local float *to = rows + (c * height + i) * pitch;
                    __global const float *from =
                        x + (((long)image * ic + c) * h + top + i) * w - pw;
                    const int inside = (uint)(top + i) < (uint)h;
                    const int begin = inside ? min(pw, pitch) : pitch;
                    const int end = inside ? min(pw + w, pitch) : pitch;
                    for (int j = 0; j < begin; j++) to[j] = 0;
                    for (int j = begin; j < end; j++) to[j] = from[j];
                    for (int j = end; j < pitch; j++) to[j] = 0;
                }
</%def>
<%def name="conv_blocked_few_channels(
    width, pixels, vectors, local_floats, stride, bias, activation)">
<% v, lanes = f"float{width}", width * vectors %>
${vectors_of.types("float", width)}
${epilogue.define(activation, width)}
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void conv_blocked_few_channels(...)
{
    __local float rows[${local_floats}] __attribute__((aligned(64)));
    const int image = get_group_id(1), first = get_group_id(0) * strip;
    const int count = min(strip, oh - first);
    x += x_offset;
    y += y_offset + (((long)image * panels * ${vectors} * oh) + first) * ow * ${width};
    packed += packed_offset + ${width};
    {
        ${copy_rows()}
        for (int panel = 0; panel < panels; panel++)
            for (int i = 0; i < count; i++)
                for (int tile = 0; tile < ow; tile += ${pixels}) {
                    /* the last tile begins early so as to be whole, but a row may be shorter */
                    const int column = max(0, min(tile, ow - ${pixels}));
% for p in range(pixels):
                    ${v} ${", ".join(f"c{p}_{j} = 0" for j in range(vectors))};
% endfor
                    for (int c = 0; c < ic; c++)
                        for (int r = 0; r < kh; r++) {
                            __local const float *b =
                                rows + (c * height + i * sh + r * dh) * pitch + column * ${stride};
                            __global const float *f =
                                packed + (((long)panel * kh + r) * kw * ic + c) * ${lanes};
                            for (int s = 0; s < kw; s++, b += dw, f += ic * ${lanes}) {
% for j in range(vectors):
                                const ${v} f${j} = ((__global const vector *)f)[${j}];
% endfor
% for p in range(pixels):
                                {
                                    const ${v} b${p} = b[${p * stride}];
% for j in range(vectors):
                                    c${p}_${j} = multiply_add(b${p}, f${j}, c${p}_${j});
% endfor
                                }
% endfor
                            }
                        }
% for j in range(vectors):
% if bias:
                    const ${v} offset${j} =
                        ((__global const vector *)(offsets + offsets_offset))[panel * ${vectors}
                        + ${j}];
% endif
                    __global vector *to${j} =
                        (__global vector *)y + (((long)panel * ${vectors} + ${j}) * oh + i) * ow
                        + column;
% if bias:
% for p in range(pixels):
                    c${p}_${j} += offset${j};
% endfor
% endif
                    if (${pixels} <= ow) {  /* without branches chains overlap */
                        ${epilogue.activate_each(
                            activation, [f"c{p}_{j}" for p in range(pixels)], v, width)}
% for p in range(pixels):
                        to${j}[${p}] = c${p}_${j};
% endfor
                    } else {
% for p in range(pixels):
                        if (${p} < ow)
                            to${j}[${p}] = ${epilogue.activate(activation, f"c{p}_{j}", v)};
% endfor
                    }
% endfor
                }
    }
}
</%def>
<%def name="conv_blocked_few_channels_weight(width, vectors, terms, local_floats, stride)">
<% v, lanes = f"float{width}", width * vectors %>
${vectors_of.types("float", width)}
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void conv_blocked_few_channels_weight(...)
{
    __local float rows[${local_floats}] __attribute__((aligned(64)));
    const int chunk = get_group_id(0), chunks = get_num_groups(0);
    const int taps = ic * kh * kw, tiles = (taps + ${terms - 1}) / ${terms};
    const int strips = (oh + strip - 1) / strip;
    partial += partial_offset + (long)chunk * panels * tiles * ${terms * lanes};
    gy += gy_offset;
    x += x_offset;
    for (int i = 0; i < panels * tiles * ${terms * vectors}; i++) ((__global vector *)partial)[i] =
        0;

    const int last = (long)images * strips * (chunk + 1) / chunks;
    for (int at = (long)images * strips * chunk / chunks; at < last; at++) {
        const int image = at / strips, first = at % strips * strip;
        const int count = min(strip, oh - first);
        ${copy_rows()}
        for (int panel = 0; panel < panels; panel++)
            for (int tile = 0; tile < tiles; tile++) {
                __global vector *sums = (__global vector *)partial
                    + (long)(panel * tiles + tile) * ${terms * vectors};
% for t in range(terms):
                /* a tap beyond the last repeats the last, and is not put in place */
                const int tap${t} = min(tile * ${terms} + ${t}, taps - 1);
                __local const float *b${t} =
                    rows + (tap${t} / (kh * kw) * height + tap${t} / kw % kh * dh) * pitch
                    + tap${t} % kw * dw;
% for j in range(vectors):
                ${v} a${t}_${j} = sums[${t * vectors + j}];
% endfor
% endfor
                for (int i = 0; i < count; i++) {
                    __global const vector *g =
                        (__global const vector *)gy
                        + (((long)image * panels + panel) * ${vectors} * oh + first + i) * ow;
                    const int row = i * sh * pitch;
                    for (int column = 0; column < ow; column++, g++) {
% for j in range(vectors):
                        const ${v} g${j} = g[${j} * (long)oh * ow];
% endfor
% for t in range(terms):
                        {
                            const ${v} f = b${t}[row + column * ${stride}];
% for j in range(vectors):
                            a${t}_${j} = multiply_add(f, g${j}, a${t}_${j});
% endfor
                        }
% endfor
                    }
                }
% for t in range(terms):
% for j in range(vectors):
                sums[${t * vectors + j}] = a${t}_${j};
% endfor
% endfor
            }
    }
}
</%def>
<%def name="conv_blocked_few_channels_sum(width, vectors, terms)">
<% lanes = width * vectors %>
${vectors_of.types("float", width)}
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void conv_blocked_few_channels_sum(...)
{
    const int panel = get_group_id(0), panels = get_num_groups(0);
    const int length = (taps + ${terms - 1}) / ${terms} * ${terms * lanes};
    gw += gw_offset + (long)panel * ${lanes} * taps;
    partial += partial_offset + (long)panel * length;
    for (int chunk = 1; chunk < chunks; chunk++)
        for (int i = 0; i < length; i += ${width})
            *(__global vector *)(partial + i) +=
                *(__global const vector *)(partial + (long)chunk * panels * length + i);
    for (int o = 0; o < ${lanes}; o++)
        for (int tap = 0; tap < taps; tap++) gw[o * taps + tap] = partial[tap * ${lanes} + o];
}
</%def>
