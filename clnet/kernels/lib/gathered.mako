## lib gathered: what tiles of a direct convolution between blocked arrays read, in local memory
##
## The kernel is conv_blocked_direct, whose names these parts use; the filter has one phase where
## rows are gathered.
##
## param  width: 4|8|16            channels of a block
## param  pixels: int              of a tile
## param  shared: int              rows are gathered, not taps: a tile ahead begins with its rows of
##                                 x
## param  straight: bool           tiles read pixels that lie side by side where these are
## param  i: int|str               a pixel of a tile
##
## Where the pixels of `count` tiles read and are written, and where the tiles after those begin.
<%def name="locate(width, pixels, shared)">
<% places = -(-pixels // 16) * 16 %>
int image = tile * ${pixels} / (height * row_length);
        int row = tile * ${pixels} / row_length % height;
        int column = tile * ${pixels} % row_length;
        for (int t = 0; t < count; t++) {
            for (int i = 0; i < ${pixels}; i++) {
                rows[t * ${places} + i] = row * down;
                columns[t * ${places} + i] = column * right;
                sources[t * ${places} + i] =
                    image * in_blocks * plane + (row * down * x_width + column * right) * ${width};
                to[t * ${pixels} + i] = image * out_blocks * y_plane
                    + ((row * phases_down + row_phase) * y_width + column * phases_right
                        + column_phase) * ${width};
                if ((tile + t) * ${pixels} + i < total - 1) {
                    column++;
                    if (column == row_length) { column = 0; row++; }
                    if (row == height) { row = 0; image++; }
                }
            }
            const int next = (tile + gathered_tiles + t) * ${pixels};
            ahead[t] = next / (height * row_length) * in_blocks * plane
                + (next / row_length % height * down * x_width
                    + next % row_length * right${" * down" if shared else ""}) * ${width};
        }
</%def>
##
## The same where tiles read pixels that lie side by side, and begin anew with each image.
<%def name="locate_straight(width, pixels)">
for (int t = 0; t < count; t++) {
            const int image = (tile + t) / of_image;
            const int pixel = min((tile + t) % of_image * ${pixels}, last_begin) * ${width};
            sources[t] = image * in_blocks * plane + pixel;
            to[t] = image * out_blocks * y_plane + pixel;
            const int next = tile + gathered_tiles + t;
            ahead[t] = next / of_image * in_blocks * plane + next % of_image * ${pixels * width};
        }
</%def>
##
## Where pixel i of a tile is written, or added from.
<%def name="at(i, width, straight)">
<% return f"place + {i} * {width}" if straight else f"place[{i}]" %>
</%def>
##
## What `count` tiles read at `some` taps from (r, s) on, of blocks [block, last_block).
<%def name="gather(width, pixels)">
<% places = -(-pixels // 16) * 16 %>
for (int k = 0; k < some; k++) {
                const int dy = (row_phase + pad_down - r_after * gap_down) / phases_down;
                const int dx = (column_phase + pad_right - s_after * gap_right) / phases_right;
                const int shift = (dy * x_width + dx) * ${width};
                for (int t = 0; t < count; t++) {
                    int from[${places}] __attribute__((aligned(64))),
                        keep[${places}] __attribute__((aligned(64)));
% for part in range(places // 16):
                    {
                        const int16 at = ((const int16 *)(rows + t * ${places}))[${part}] + dy;
                        const int16 beside =
                            ((const int16 *)(columns + t * ${places}))[${part}] + dx;
                        const int16 inside =
                            (at >= 0) & (at < x_height) & (beside >= 0) & (beside < x_width);
                        ((int16 *)keep)[${part}] = inside;
                        ((int16 *)from)[${part}] =
                            (((const int16 *)(sources + t * ${places}))[${part}] + shift) & inside;
                    }
% endfor
                    __local vector *into =
                        (__local vector *)gathered
                        + (t * some + k) * (last_block - block) * ${pixels};
                    __global const float *base = x + block * plane;
                    for (int b = block; b < last_block; b++, base += plane, into += ${pixels}) {
% for i in range(pixels):
                        into[${i}] =
                            as_float${width}(as_int${width}(*(__global const vector *)(base
                            + from[${i}])) & keep[${i}]);
% endfor
                    }
                }
                s_after += columns_apart;
                if (s_after >= kw) { s_after = first_s; r_after += rows_apart; }
            }
</%def>
##
## How a filter's taps lie in gathered rows: each row of x once, as a run of its columns for each
## remainder by `right`, so that a tile's pixels lie side by side for any tap. Also how many lines
## of a block a tile reads that others have not, of which each tap of each panel fetches some ahead.
<%def name="taps_of_rows(width, pixels)">
const int low_dy = gap_down < 0 ? pad_down : pad_down - kh + 1,
    low_dx = gap_right < 0 ? pad_right : pad_right - kw + 1;
    const int run = row_length + (kw - 1) / right, row_size = run * right * ${width};
    const int rows_on = down < kh ? down : kh;
    for (int k = 0; k < taps; k++) {
        const int r = gap_down < 0 ? k / kw : kh - 1 - k / kw,
            s = gap_right < 0 ? k % kw : kw - 1 - k % kw;
        tap_begins[k] = r * some_blocks * row_size + (s % right * run + s / right) * ${width};
    }
    const int steps = (last_panel - first_panel) * taps, lines_read = ${pixels} * down * right;
    const int share = (lines_read + steps - 1) / steps;
</%def>
##
## The rows that `count` tiles read, of blocks [block, last_block), with zeros beside them. A slot
## is a row's place; a row of tiles takes `rows_on` more than the one above it in the same image.
<%def name="gather_rows(width, pixels)">
const int first_row = tile * ${pixels} / row_length,
    last_row = ((tile + count) * ${pixels} - 1) / row_length;
            for (int at = first_row, slot = 0; at <= last_row; at++) {
                const int image = at / height, row = at - image * height;
                const int anew = at == first_row || row == 0;
                if (at > first_row) slot += anew ? kh : rows_on;
                slots[at - first_row] = slot;
                for (int tap = anew ? 0 : kh - rows_on; tap < kh; tap++) {
                    const int x_row = row * down + low_dy + tap;
                    const int inside = x_row >= 0 && x_row < x_height;
                    for (int b = block; b < last_block; b++) {
                        __local vector *into =
                            (__local vector *)(gathered
                            + ((slot + tap) * some_blocks + b - block) * row_size);
                        __global const float *from =
                            x + (image * in_blocks + b) * plane
                            + (inside ? x_row * x_width * ${width} : 0);
                        for (int phase = 0; phase < right; phase++, into += run) {
                            /* columns [begin, end) of the run lie in the row */
                            const int begin =
                                low_dx + phase < 0 ? (right - 1 - low_dx - phase) / right : 0;
                            const int beyond = (x_width - 1 - low_dx - phase) / right + 1;
                            const int end =
                                !inside ||
                                x_width <= low_dx + phase ? 0 : beyond < run ? beyond : run;
                            for (int i = 0; i < (inside && begin < run ? begin : run);
                                i++) into[i] = 0;
                            for (int i = end > begin ? end : begin; i < run; i++) into[i] = 0;
                            for (int i = begin; i < end; i++)
                                into[i] =
                                    *(__global const vector *)(from
                                    + (low_dx + phase + i * right) * ${width});
                        }
                    }
                }
            }
            for (int t = 0; t < count; t++) {
                const int at = (tile + t) * ${pixels} / row_length;
                tile_begins[t] = slots[at - first_row] * some_blocks * row_size
                    + ((tile + t) * ${pixels} - at * row_length) * ${width};
            }
</%def>
