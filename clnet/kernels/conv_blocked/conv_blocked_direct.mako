## kernel conv_blocked_direct: direct convolution between blocked arrays, and its input gradient
##
## A blocked array is (images, channels / width, height, width of a row, width): a pixel of a block
## is one vector. One work-item per group gathers what a few tiles of `pixels` consecutive pixels
## read, tap by tap, into local memory, and multiplies it with panels of `vectors` blocks of
## filters:
##
##      gathered[tile][tap][block][pixel][channel]      c_<pixel>_<vector> += gathered * packed
##
## A tile runs on from row to row and from image to image, so that none is wasted at their ends;
## outside the image lies a block of zeros. Where not all taps and blocks fit, they come in parts,
## and y holds the sums in between.
##
## The input gradient has a phase for each remainder of a pixel's row and column by the stride; the
## taps of a phase are `rows_apart` and `columns_apart` apart. The convolution has one phase, and
## pads and dilates by negative numbers: both read row `at * step + (phase + pad - tap * gap) /
## phases`.
##
## param    width: 4|8|16            channels of a block
## param    pixels: int              of a tile
## param    vectors: int             blocks of channels of a tile
## param    local_floats: int        floats of local memory for what tiles read
## param    most_tiles: int          tiles whose places are kept
## param    bias: bool               whether there is a bias
## param    added: bool              whether there is something to be added
## param    activation: None|str|VectorActivation  see lib/epilogue.mako
## param    stream: bool             y goes past the caches; it is written once
## param    shared: int              taps there is room for, if tiles end with rows and the rows
##                                   that taps read are gathered once for all of them; else 0
## param    straight: bool           a tile's pixels lie side by side in x, one tap reads them:
##                                   nothing is gathered, all channels come in one part, and an
##                                   image's last tile begins early, so as to end with it
##
## def      conv_blocked_direct
## arg      y: out float[images][out_blocks][y_height][y_width][width]
## arg      x: in float[images][in_blocks][x_height][x_width][width]
## arg      packed: in float  conv_blocked_pack's: zeros[width], then the filters
## % if bias:
## arg      offsets: in float[out_blocks * width]
## % endif
## % if added:
## arg      added: in float[images][out_blocks][y_height][y_width][width]
## % endif
## arg      images: int
## arg      in_blocks: int    blocks of channels of x
## arg      x_height, x_width: int
## arg      out_blocks: int   blocks of channels of y, a multiple of vectors
## arg      y_height, y_width: int
## arg      kh, kw: int       rows and columns of the filter
## arg      down: int         rows of x from pixel to pixel of a phase
## arg      right: int        columns
## arg      phases_down, phases_right, pad_down, pad_right, gap_down: int
## arg      gap_right: int
## arg      rows_apart: int   from tap to tap of a phase
## arg      columns_apart: int
## arg      gathered_tiles: int   tiles that are gathered together
## arg      some_taps: int    taps of a part
## arg      some_blocks: int  blocks of x of a part; gathered_tiles * some_taps * some_blocks fit
##                            `local_floats`
## arg      lines: int        vectors of the next panel to fetch ahead for each block of x
##
## launch   conv_blocked_direct: global (phases, chunks of tiles, chunks of panels), local (1, 1, 1)
## numerics one chain of multiply_add per output, in the order part, tap, channel
<%namespace name="vectors_of" file="/lib/vector.mako"/>
<%namespace name="gathered" file="/lib/gathered.mako"/>
<%namespace name="epilogue" file="/lib/epilogue.mako"/>
<%namespace name="prelude" file="/lib/prelude.mako"/>
<%def name="conv_blocked_direct(
    width, pixels, vectors, local_floats, most_tiles, bias, added, activation, stream, straight,
    shared)">
<% lanes, places = vectors * width, most_tiles * -(-pixels // 16) %>
${vectors_of.types("float", width)}
${epilogue.define(activation, width)}
${prelude.fetch_ahead()}
% if stream:
${prelude.stream("float", width)}
% endif
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void conv_blocked_direct(...)
{
% if not straight:
    __local float gathered[${local_floats}] __attribute__((aligned(64)));
% endif
% if straight:
    /* where each tile reads, and where it is written */
    int sources[${most_tiles}], to[${most_tiles}], ahead[${most_tiles}];
% else:
    /* of each tile's pixels: where they read for a tap at (0, 0), and where they are written */
    int rows[${16 * places}] __attribute__((aligned(64)));
    int columns[${16 * places}] __attribute__((aligned(64)));
    int sources[${16 * places}] __attribute__((aligned(64)));
    int to[${most_tiles * pixels}], ahead[${most_tiles}];
% endif
% if shared:
    int tap_begins[${shared}], tile_begins[${most_tiles}], slots[${most_tiles + 1}];
% endif
    const int row_phase = get_group_id(0) / phases_right;
    const int column_phase = get_group_id(0) % phases_right;
    int first_r = 0, first_s = 0;
    while (first_r < kh && (row_phase + pad_down - first_r * gap_down) % phases_down) first_r++;
    while (first_s < kw && (column_phase + pad_right
        - first_s * gap_right) % phases_right) first_s++;
    const int taps = (kh - first_r + rows_apart
        - 1) / rows_apart * ((kw - first_s + columns_apart - 1) / columns_apart);

    const int height = (y_height - row_phase + phases_down - 1) / phases_down;
    const int row_length = (y_width - column_phase + phases_right - 1) / phases_right;
% if straight:
    const int of_image = (height * row_length + ${pixels - 1}) / ${pixels};
    const int tiles = images * of_image, last_begin = height * row_length - ${pixels};
% else:
    const int total = images * height * row_length;
    const int tiles = (total + ${pixels - 1}) / ${pixels};
% endif
    const int tile_chunk = get_group_id(1), tile_chunks = get_num_groups(1);
    const int last_tile = (long)tiles * (tile_chunk + 1) / tile_chunks;
    const int panels = out_blocks / ${vectors};
    const int panel_chunk = get_group_id(2), panel_chunks = get_num_groups(2);
    const int first_panel = panels * panel_chunk / panel_chunks,
        last_panel = panels * (panel_chunk + 1) / panel_chunks;
% if not shared:
    /* lines of the next tiles that each panel fetches */
    const int share = (${pixels - 1} + last_panel - first_panel) / (last_panel - first_panel);
% endif

    const int plane = x_height * x_width * ${width}, y_plane = y_height * y_width * ${width};
    const long panel_size = (long)kh * kw * in_blocks * ${width * lanes};
    x += x_offset;
    y += y_offset;
% if added:
    added += added_offset;
% endif
    __global const float *const filters = packed + packed_offset;
% if shared:
    ${gathered.taps_of_rows(width, pixels)}
% endif

    for (int tile = (long)tiles * tile_chunk / tile_chunks; tile < last_tile;
         tile += gathered_tiles) {
        const int count = tile + gathered_tiles < last_tile ? gathered_tiles : last_tile - tile;
% if straight:
        ${gathered.locate_straight(width, pixels)}
% else:
        ${gathered.locate(width, pixels, shared)}
% endif
        int tap = 0, block = 0, r = first_r, s = first_s;
        do {
            const int some = tap + some_taps < taps ? some_taps : taps - tap;
            const int last_block = block + some_blocks < in_blocks ? block + some_blocks
                : in_blocks;
            const int begins = tap == 0 && block == 0,
                ends = tap + some == taps && last_block == in_blocks;
            int r_after = r, s_after = s;
% if not straight:
            ${gathered.gather_rows(width, pixels) if shared else gathered.gather(width, pixels)}
% endif
            for (int panel = first_panel; panel < last_panel; panel++) {
% if not shared:
                const int line = (panel - first_panel) * share;
                const int last_line = line + share < ${pixels} ? line + share : ${pixels};
% endif
% if not straight:
                __local const float *a = gathered, *again = a + (get_work_dim() == 0);
% endif
                for (int t = 0; t < count; t++) {
% if straight:
                    __global const float *a =
                        x + sources[t] + block * plane, *again = a + (get_work_dim() == 0);
% endif
                    __global float *const out = y + (long)panel * ${vectors} * y_plane;
% if straight:
                    const int place = to[t];
% else:
                    const int *const place = to + t * ${pixels};
% endif
% if added:
                    __global const float *const more = added + (long)panel * ${vectors} * y_plane;
                    if (ends)
                        for (int i = 0; i < ${pixels}; i++) {
% for j in range(vectors):
                            FETCH_AHEAD(more + ${gathered.at("i", width, straight)}
                                + ${j} * (long)y_plane);
% endfor
                        }
% endif
                    ${multiply(width, pixels, vectors, straight, shared)}
                    ${store(width, pixels, vectors, bias, added, activation, stream, straight)}
                }
            }
            block = last_block < in_blocks ? last_block : 0;
            if (block == 0) { tap += some; r = r_after; s = s_after; }
        } while (tap < taps);
    }
}
</%def>
##
## Sums of the tile at `a`, which moves on to the next; meanwhile this tile's share of the panel
## after this one, and this panel's of the tiles after these, come closer. Two pixels in three are
## read again for the second vector, as in gemm_packed. All channels of a block are written out: an
## index beside the pointers costs a quarter.
<%def name="multiply(width, pixels, vectors, straight, shared)">
<% step = "plane" if straight else "row_size" if shared else pixels * width %>
<% v, lanes, broadcasts = f"float{width}", vectors * width, width == 16 and vectors == 2 %>
% for i in range(pixels):
                    ${v} ${", ".join(f"c{i}_{j} = 0" for j in range(vectors))};
% endfor
                    if (!begins) {
% for i in range(pixels):
% for j in range(vectors):
                        c${i}_${j} = *(__global const vector *)(out
                            + ${gathered.at(i, width, straight)} + ${j} * (long)y_plane);
% endfor
% endfor
                    }
                    int q_r = r, q_s = s;
                    for (int k = 0; k < some; k++) {
                        __global const float *f =
                            filters + ${width} + panel * panel_size
                            + ((q_r * kw + q_s) * in_blocks + block) * ${width * lanes};
                        __global const float *next = f + panel_size + t * lines * ${width};
% if shared:
                        a = gathered + tile_begins[t] + tap_begins[k];
                        again = a + (get_work_dim() == 0);
                        const int line = ((panel - first_panel) * taps + k) * share;
                        const int last_line = line < lines_read ? share : 0;
                        __global const float *pixel =
                            x + ahead[t] + block * plane + line * ${width};
% else:
                        __global const float *pixel = x + ahead[t] + block * plane;
% endif
                        for (int b = block; b < last_block; b++, a += ${step}, again += ${step},
                            f += ${width * lanes}, next += ${width * lanes}, pixel += plane) {
                            for (int i = 0; i < lines; i++) FETCH_AHEAD(next + i * ${width});
% if shared:
                            for (int i = 0; i < last_line; i++) FETCH_AHEAD(pixel + i * ${width});
% else:
                            if (k == 0)
                                for (int i = line; i < last_line;
                                    i++) FETCH_AHEAD(pixel + i * right * ${width});
% endif
% for u in range(width):
% for j in range(vectors):
                            const ${v} f${u}_${j} =
                                ((__global const vector *)f)[${u * vectors + j}];
% endfor
% for i in range(pixels):
% for j in range(vectors):
                            const ${v} pixel${u}_${i}_${j} =
                                ${"again" if j and i % 3 and broadcasts else "a"}[${i * width + u}];
                            c${i}_${j} = multiply_add(pixel${u}_${i}_${j}, f${u}_${j}, c${i}_${j});
% endfor
% endfor
% endfor
                        }
                        q_s += columns_apart;
                        if (q_s >= kw) { q_s = first_s; q_r += rows_apart; }
                    }
</%def>
##
## The sums go to memory, complete or to be taken up again.
<%def name="store(width, pixels, vectors, bias, added, activation, stream, straight)">
<% v = f"float{width}" %>
% if bias or added or activation:
                    if (ends) {
% for j in range(vectors):
% if bias:
                        const ${v} offset${j} =
                            ((__global const vector *)(offsets
                            + offsets_offset))[panel * ${vectors} + ${j}];
% endif
% for i in range(pixels):
% if bias:
                        c${i}_${j} += offset${j};
% endif
% if added:
                        c${i}_${j} += *(__global const vector *)(more
                            + ${gathered.at(i, width, straight)} + ${j} * (long)y_plane);
% endif
% endfor
                        ${epilogue.activate_each(
                            activation, ["c%d_%d" % (i, j) for i in range(pixels)], v, width)}
% endfor
                    }
% endif
% for j in range(vectors):
% for i in range(pixels):
% if stream:
                    stream(c${i}_${j}, (__global ${v} *)(out
                        + ${gathered.at(i, width, straight)} + ${j} * (long)y_plane));
% else:
                    *(__global vector *)(out
                        + ${gathered.at(i, width, straight)} + ${j} * (long)y_plane) = c${i}_${j};
% endif
% endfor
% endfor
</%def>
