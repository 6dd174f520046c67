## kernel conv_blocked_grouped: convolution of groups of channels between blocked arrays, gradients
##
## The filters of a block of results read some channels alone: those of the block's group, or, where
## a block holds several groups, each lane those of its own group. One work-item
## per group copies the rows that a strip of output rows reads of these channels' blocks into local
## memory, with zeros where the image ends,
##
##      rows[block][source row][pitch][width]
##
## and sums tiles of `segments` times `together` pixels by `vectors` blocks. These lie beside
## each other, segments run on from row to row, and the last of a row begins early, so as to end
## with it. A channel is one number for all lanes, or a vector in which each lane finds its group's,
##
##      c_<segment>_<pixel>_<vector> += rows[of a channel][row][column] * packed[tap][channel]
##
## Which row and column an output reads at a tap: see conv_blocked_depthwise.
##
## param    width: 4|8|16            channels of a block
## param    vectors: int             blocks of a tile, all of one group
## param    segments: int            of a tile
## param    together: int            pixels of a segment
## param    some: int                channels that are written out; width is a multiple
## param    step: int                columns of x from pixel to pixel of a segment
## param    own: tuple               which lanes read each channel of a group, if a block holds
##                                   several groups; else (); see lib/grouped.mako
## param    local_floats: int        floats of local memory
## param    turned: bool             packs what the gradient of x reads
## param    bias: bool               whether there is a bias
## param    added: bool              whether a value is added to each sum
## param    activation: None|str|VectorActivation  see lib/epilogue.mako
##
## def      conv_blocked_grouped
## arg      y: out float[images][blocks][y_height][y_width][width]
## arg      x: in float[images][in_blocks][x_height][x_width][width]
## arg      packed: in float[blocks / vectors][kh * kw][read][vectors * width]
## % if bias:
## arg      offsets: in float[blocks * width]
## % endif
## % if added:
## arg      added: in float    like y
## % endif
## arg      blocks, in_blocks, made, read: int   made and read: channels of a group of y and of x
## arg      x_height, x_width, y_height, y_width, kh, kw, strip, pitch: int
## arg      room: int                floats of a block's rows
## arg      down, phases_down, pad_down, gap_down, rows_apart: int
## arg      phases_right, pad_right, gap_right, columns_apart: int
## def      conv_blocked_grouped_pack
## arg      packed: out float[blocks / vectors][taps][read][vectors * width]
## arg      weight: in float[oc][ic of a group][taps]
## arg      taps, made, read: int
## launch   conv_blocked_grouped: global (strips, images * blocks / vectors), local (1, 1)
## launch   conv_blocked_grouped_pack: global (blocks / vectors), local (1)
## numerics one chain of multiply_add per output, in the order row and column of the filter, channel
<%namespace name="vectors_of" file="/lib/vector.mako"/>
<%namespace name="epilogue" file="/lib/epilogue.mako"/>
<%namespace name="strip_rows" file="/lib/strip_rows.mako"/>
<%namespace name="grouped" file="/lib/grouped.mako"/>
<%def name="conv_blocked_grouped(
    width, vectors, segments, together, some, step, own, local_floats, bias, added, activation)">
<% v = f"float{width}" %>
${vectors_of.types("float", width)}
${epilogue.define(activation, width)}
${strip_rows.below()}
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void conv_blocked_grouped(...)
{
    __local float all_rows[${local_floats}] __attribute__((aligned(64)));
    const int panels = blocks / ${vectors};
    const int panel = get_group_id(1) % panels, image = get_group_id(1) / panels;
    const int block = panel * ${vectors}, y_plane = y_height * y_width * ${width};
    const int first = get_group_id(0) * strip, last = min(first + strip, y_height);
    const long result = ((long)image * blocks + block) * y_plane;
    ${grouped.channels_read(width, own)}
    y += y_offset + result;
% if added:
    added += added_offset + result;
% endif
    packed += packed_offset + (long)panel * kh * kw * read * ${vectors * width};
    const int low_row =
        below(first * down + pad_down - max(0, (kh - 1) * gap_down), phases_down);
    const int low_column = below(pad_right - max(0, (kw - 1) * gap_right), phases_right);
    for (int k = 0; k < blocks_read; k++) {
        __local float *const rows = all_rows + k * room;
        __global const float *const plane = x + x_offset
            + ((long)image * in_blocks + low_block + k) * x_height * x_width * ${width};
        ${strip_rows.copy_rows(width)}
    }
    /* from tap to tap of a phase */
    const int closer = columns_apart * gap_right / phases_right * ${width};
    const int above = rows_apart * gap_down / phases_down * pitch * ${width};
    const int apart = phases_right * ${width};
    for (int row = first; row < min(first + phases_down, last); row++)
    for (int phase = 0; phase < phases_right; phase++) {
        int first_r = 0, first_s = 0;
        while (first_r < kh && (row * down + pad_down - first_r * gap_down) % phases_down)
            first_r++;
        while (first_s < kw && (phase + pad_right - first_s * gap_right) % phases_right)
            first_s++;
        __local const float *const from = all_rows
            + (((row * down + pad_down - first_r * gap_down) / phases_down - low_row) * pitch
            + (phase + pad_right - first_s * gap_right) / phases_right - low_column) * ${width};
        const int count = (y_width - phase + phases_right - 1) / phases_right;
        if (count <= 0) continue;
        const int last_column = max(count - ${together}, 0);
        int i = row, j = 0, at = 0, to = (row * y_width + phase) * ${width};
        while (i < last) {
% for p in range(segments):
            const int at${p} = at + j * ${step * width}, to${p} = to + j * apart;
            if (j < last_column) j = min(j + ${together}, last_column);
            else if ((i += phases_down) < last) {
                j = 0;
                at += down * pitch * ${width};
                to += phases_down * y_width * ${width};
            }
% endfor
% for p in range(segments):
% for q in range(together):
% for k in range(vectors):
            ${v} c${p}_${q}_${k} = 0;
% endfor
% endfor
% endfor
            __local const float *line = from;
            for (int r = first_r; r < kh; r += rows_apart, line -= above) {
                __local const float *a = line;
                for (int s = first_s; s < kw; s += columns_apart, a -= closer) {
                    __global const float *f =
                        packed + (long)(r * kw + s) * read * ${vectors * width};
                    ${multiply(width, vectors, segments, together, some, step, own)}
                }
            }
            ${store(width, vectors, segments, together, bias, added, activation)}
        }
    }
}
</%def>
##
## The products of a tile's pixels at `a` with a tap's filters of all channels at `f`.
<%def name="multiply(width, vectors, segments, together, some, step, own)">
<% v = f"float{width}" %>
% if own:
% for c in range(len(own)):
                    const ${v} f${c} = ((__global const vector *)f)[${c}];
% for p in range(segments):
% for q in range(together):
                    c${p}_${q}_0 = multiply_add(
                        ${grouped.own_lanes(own, c, f"a + at{p} + {q * step * width}")},
                        f${c}, c${p}_${q}_0);
% endfor
% endfor
% endfor
% else:
% for p in range(segments):
                    __local const float *of${p} = a + at${p};
% endfor
                    for (int k = 0; k < blocks_read; k++) {
                        for (int u = 0; u < ${width}; u += ${some}) {
% for u in range(some):
% for k in range(vectors):
                            const ${v} f${u}_${k} =
                                ((__global const vector *)f)[${u * vectors + k}];
% endfor
% for p in range(segments):
% for q in range(together):
                            const ${v} b${u}_${p}_${q} = of${p}[${q * step * width + u}];
% for k in range(vectors):
                            c${p}_${q}_${k} =
                                multiply_add(b${u}_${p}_${q}, f${u}_${k}, c${p}_${q}_${k});
% endfor
% endfor
% endfor
% endfor
                            f += ${some * vectors * width};
% for p in range(segments):
                            of${p} += ${some};
% endfor
                        }
% for p in range(segments):
                        of${p} += room - ${width};
% endfor
                    }
% endif
</%def>
##
## The sums of a tile go to memory.
<%def name="store(width, vectors, segments, together, bias, added, activation)">
<% v = f"float{width}" %>
% if bias:
% for k in range(vectors):
            const ${v} offset${k} =
                ((__global const vector *)(offsets + offsets_offset))[block + ${k}];
% endfor
% for k in range(vectors):
% for p in range(segments):
% for q in range(together):
            c${p}_${q}_${k} += offset${k};
% endfor
% endfor
% endfor
% endif
% if added:
% for k in range(vectors):
% for p in range(segments):
% for q in range(together):
            ${f"if (count > {q}) " if q else ""}c${p}_${q}_${k} += *(__global const vector *)(
                added + to${p} + ${q} * apart + ${k} * (long)y_plane);
% endfor
% endfor
% endfor
% endif
            ${epilogue.activate_each(
                activation,
                [f"c{p}_{q}_{k}" for p in range(segments) for q in range(together)
                 for k in range(vectors)], v, width)}
% for k in range(vectors):
% for p in range(segments):
% for q in range(together):
            ${f"if (count > {q}) " if q else ""}*(__global vector *)(
                y + to${p} + ${q} * apart + ${k} * (long)y_plane) = c${p}_${q}_${k};
% endfor
% endfor
% endfor
</%def>
<%def name="conv_blocked_grouped_pack(width, vectors, turned)">
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void conv_blocked_grouped_pack(...)
{
    const int out = get_group_id(0) * ${vectors * width};
    packed += packed_offset + (long)out * taps * read;
    weight += weight_offset;
    /* where each lane's filter lies, and how far the next channel lies from one */
    __global const float *rows[${vectors * width}];
    for (int lane = 0; lane < ${vectors * width}; lane++) {
        const int at = out + lane;
% if turned:
        rows[lane] = weight + ((long)(at / made * read) * made + at % made) * taps;
% else:
        rows[lane] = weight + (long)at * read * taps;
% endif
    }
    const int next = ${"made * taps" if turned else "taps"};
    for (int c = 0; c < read; c++)
        for (int tap = 0; tap < taps; tap++) {
            __global float *const to = packed + (tap * read + c) * ${vectors * width};
            const long from = (long)c * next + tap;
            for (int lane = 0; lane < ${vectors * width}; lane++) to[lane] = rows[lane][from];
        }
}
</%def>
