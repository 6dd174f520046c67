## kernel conv_blocked_direct: direct convolution between blocked arrays, and its input gradient
##
## A blocked array is (images, channels / width, height, width of a row, width): a pixel of a block
## is one vector. One work-item per group sums a tile of `pixels` consecutive pixels and `vectors`
## blocks of channels in registers,
##
##      c_<pixel>_<vector> += x[pixel's source][channel] * packed[tap][channel][vector]
##
## A tile runs on from row to row and from image to image, so that none is wasted at their ends.
## Each tap looks up where the tile's pixels read: outside the image that is a block of zeros.
##
## The input gradient has a phase for each remainder of a pixel's row and column by the stride; the
## taps of a phase are `rows_apart` and `columns_apart` apart. The convolution has one phase, and
## pads and dilates by negative numbers: both read row `at * step + (phase + pad - tap * gap) /
## phases`.
##
## param    width: 4|8|16            channels of a block
## param    pixels: int              of a tile
## param    vectors: int             blocks of channels of a tile
## param    unroll: int              channels in one turn of the inner loop; divides width
## param    bias: bool               whether there is a bias
## param    activation: None|str     see lib/epilogue.mako
##
## def      conv_blocked_direct
## arg      y: out float[images][out_blocks][y_height][y_width][width]
## arg      x: in float[images][in_blocks][x_height][x_width][width]
## arg      packed: in float         conv_blocked_pack's: zeros[width], then the filters
## arg      offsets: in float[out_blocks * width]   only with a bias
## arg      images: int
## arg      in_blocks: int           blocks of channels of x
## arg      x_height: int
## arg      x_width: int
## arg      out_blocks: int          blocks of channels of y, a multiple of vectors
## arg      y_height: int
## arg      y_width: int
## arg      kh: int                  rows of the filter
## arg      kw: int                  columns of the filter
## arg      down: int                rows of x from pixel to pixel of a phase
## arg      right: int               columns
## arg      phases_down: int
## arg      phases_right: int
## arg      pad_down: int
## arg      pad_right: int
## arg      gap_down: int
## arg      gap_right: int
## arg      rows_apart: int          from tap to tap of a phase
## arg      columns_apart: int
## arg      together: int            panels that take a tile in turns
## def      conv_blocked_pack
## arg      packed: out float        zeros[width], then [panels][kh][kw][ins][vectors * width]
## arg      weight: in float         outs and ins are steps of w_out and w_in; taps are dense
## arg      outs: int                channels, a multiple of vectors * width
## arg      ins: int                 channels
## arg      taps: int                of a filter
## arg      w_out: int
## arg      w_in: int
##
## launch   conv_blocked_direct: global (phases, chunks of tiles, chunks of panels), local (1, 1, 1)
## launch   conv_blocked_pack: global (panels, chunks of ins), local (1, 1)
## numerics one chain of multiply_add per output, in the order tap, channel
<%namespace name="vectors_of" file="lib/vector.mako"/>
<%namespace name="epilogue" file="lib/epilogue.mako"/>
<%def name="conv_blocked_direct(width, pixels, vectors, unroll, bias, activation)">
<% v = f"float{width}" %>
${vectors_of.types("float", width)}
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void conv_blocked_direct(
    __global float *restrict y, const long y_offset,
    __global const float *restrict x, const long x_offset,
    __global const float *restrict packed, const long packed_offset,
% if bias:
    __global const float *restrict offsets, const long offsets_offset,
% endif
    const int images, const int in_blocks, const int x_height, const int x_width,
    const int out_blocks, const int y_height, const int y_width, const int kh, const int kw,
    const int down, const int right, const int phases_down, const int phases_right,
    const int pad_down, const int pad_right, const int gap_down, const int gap_right,
    const int rows_apart, const int columns_apart, const int together)
{
    const int row_phase = get_group_id(0) / phases_right;
    const int column_phase = get_group_id(0) % phases_right;
    int first_row = 0, first_column = 0;
    while (first_row < kh && (row_phase + pad_down - first_row * gap_down) % phases_down) first_row++;
    while (first_column < kw && (column_phase + pad_right - first_column * gap_right) % phases_right) first_column++;

    const int height = (y_height - row_phase + phases_down - 1) / phases_down;
    const int row_length = (y_width - column_phase + phases_right - 1) / phases_right;
    const int total = images * height * row_length;
    const int tiles = (total + ${pixels - 1}) / ${pixels};
    const int tile_chunk = get_group_id(1), tile_chunks = get_num_groups(1);
    const int first_tile = (long)tiles * tile_chunk / tile_chunks;
    const int last_tile = (long)tiles * (tile_chunk + 1) / tile_chunks;
    const int panels = out_blocks / ${vectors};
    const int panel_chunk = get_group_id(2), panel_chunks = get_num_groups(2);
    const int last_panel = panels * (panel_chunk + 1) / panel_chunks;

    const int plane = x_height * x_width * ${width}, y_plane = y_height * y_width * ${width};
    const int tap_size = in_blocks * ${width * vectors * width};
    x += x_offset;
    y += y_offset;
    __global const float *const zeros = packed + packed_offset;

    for (int first_panel = panels * panel_chunk / panel_chunks; first_panel < last_panel; first_panel += together) {
        const int panels_end = min(first_panel + together, last_panel);
        for (int tile = first_tile; tile < last_tile; tile++) {
            /* where the pixels of the tile are read and written */
            int image = tile * ${pixels} / (height * row_length);
            int row = tile * ${pixels} / row_length % height;
            int column = tile * ${pixels} % row_length;
            int rows[16] __attribute__((aligned(64)));
            int columns[16] __attribute__((aligned(64)));
            int sources[16] __attribute__((aligned(64)));
            int to[${pixels}];
            for (int i = 0; i < ${pixels}; i++) {
                rows[i] = row * down;
                columns[i] = column * right;
                sources[i] = image * in_blocks * plane + (row * down * x_width + column * right) * ${width};
                to[i] = image * out_blocks * y_plane
                    + ((row * phases_down + row_phase) * y_width + column * phases_right + column_phase) * ${width};
                if (tile * ${pixels} + i < total - 1) {
                    column++;
                    if (column == row_length) { column = 0; row++; }
                    if (row == height) { row = 0; image++; }
                }
            }
            for (int panel = first_panel; panel < panels_end; panel++) {
                __global const float *const filters = zeros + ${width} + (long)panel * kh * kw * tap_size;
                __global float *const out = y + (long)panel * ${vectors} * y_plane;
% for i in range(pixels):
                ${v} ${", ".join(f"c{i}_{j} = 0" for j in range(vectors))};
% endfor
                for (int r = first_row; r < kh; r += rows_apart) {
                    const int dy = (row_phase + pad_down - r * gap_down) / phases_down;
                    for (int s = first_column; s < kw; s += columns_apart) {
                        const int dx = (column_phase + pad_right - s * gap_right) / phases_right;
                        const int shift = (dy * x_width + dx) * ${width};
                        int steps[16] __attribute__((aligned(64)));
% for i in range(pixels):
                        const int inside${i} = (uint)(rows[${i}] + dy) < (uint)x_height & (uint)(columns[${i}] + dx) < (uint)x_width;
                        __global const float *x${i} = inside${i} ? x + (sources[${i}] + shift) : zeros;
                        steps[${i}] = inside${i} ? plane : 0;
% endfor
                        __global const float *f = filters + (r * kw + s) * tap_size;
                        for (int block = 0; block < in_blocks; block++) {
                            for (int c = 0; c < ${width}; c += ${unroll}, f += ${unroll * vectors * width}) {
% for u in range(unroll):
% for j in range(vectors):
                                const ${v} f${u}_${j} = ((__global const vector *)f)[${u * vectors + j}];
% endfor
% for i in range(pixels):
                                {
                                    const ${v} b = x${i}[c + ${u}];
% for j in range(vectors):
                                    c${i}_${j} = multiply_add(b, f${u}_${j}, c${i}_${j});
% endfor
                                }
% endfor
% endfor
                            }
% for i in range(pixels):
                            x${i} += steps[${i}];
% endfor
                        }
                    }
                }
% for j in range(vectors):
% if bias:
                const ${v} offset${j} = ((__global const vector *)(offsets + offsets_offset))[panel * ${vectors} + ${j}];
% endif
% for i in range(pixels):
                *(__global vector *)(out + to[${i}] + ${j} * (long)y_plane) = ${epilogue.activate(activation, f"c{i}_{j} + offset{j}" if bias else f"c{i}_{j}", v)};
% endfor
% endfor
            }
        }
    }
}
</%def>
<%def name="conv_blocked_pack(width, vectors)">
<% lanes = width * vectors %>
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void conv_blocked_pack(
    __global float *restrict packed, const long packed_offset,
    __global const float *restrict weight, const long weight_offset,
    const int outs, const int ins, const int taps, const int w_out, const int w_in)
{
    const int panel = get_group_id(0), chunk = get_group_id(1), chunks = get_num_groups(1);
    packed += packed_offset;
    if (panel == 0 && chunk == 0)
        for (int i = 0; i < ${width}; i++) packed[i] = 0;
    packed += ${width} + (long)panel * taps * ins * ${lanes};
    weight += weight_offset + (long)panel * ${lanes} * w_out;
    const int last = ins * (chunk + 1) / chunks;
    for (int c = ins * chunk / chunks; c < last; c++)
        for (int tap = 0; tap < taps; tap++) {
            __global float *to = packed + ((long)tap * ins + c) * ${lanes};
            __global const float *from = weight + (long)c * w_in + tap;
            for (int o = 0; o < ${lanes}; o++) to[o] = from[(long)o * w_out];
        }
}
</%def>
