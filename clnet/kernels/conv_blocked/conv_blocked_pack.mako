## kernel conv_blocked_pack: filters in the order that conv_blocked_direct reads them
##
## Where a channel's numbers lie side by side (a forward convolution's), they may be turned over in
## squares of vectors, in registers; where they do not, those of single taps are copied in vectors.
##
## A panel is `vectors` blocks of output channels. Of each tap and input channel, the panel's
## numbers lie together.
##
## param    width: 4|8|16            channels of a block
## param    vectors: int             blocks of channels of a panel
## param    along: bool              w_in is taps, and squares are turned over
##
## arg      packed: out float  zeros[width], then [panels][kh][kw][ins][vectors * width]
## arg      weight: in float   outs and ins are steps of w_out and w_in; taps are dense
## arg      outs: int          channels, a multiple of vectors * width
## arg      ins: int           channels
## arg      taps: int          of a filter
## arg      w_out, w_in: int
##
## launch   global (panels, chunks of ins), local (1, 1)
<%namespace name="vectors_of" file="/lib/vector.mako"/>
<%def name="conv_blocked_pack(width, vectors, along)">
<% lanes = width * vectors %>
${vectors_of.types("float", width)}
${vectors_of.zip("float", width)}
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void conv_blocked_pack(...)
{
    const int panel = get_group_id(0), chunk = get_group_id(1), chunks = get_num_groups(1);
    packed += packed_offset;
    if (panel == 0 && chunk == 0)
        for (int i = 0; i < ${width}; i++) packed[i] = 0;
    packed += ${width} + (long)panel * taps * ins * ${lanes};
    weight += weight_offset + (long)panel * ${lanes} * w_out;
    const int first = ins * chunk / chunks, last = ins * (chunk + 1) / chunks;
% if along:
    const int end = last * taps;
    if (end - first * taps >= ${width}) {
        for (int at = first * taps; at < end; at += ${width}) {
            const int number = min(at, end - ${width});
            int c = number / taps, tap = number % taps;
            __global float *to[${width}];
            for (int i = 0; i < ${width}; i++) {
                to[i] = packed + ((long)tap * ins + c) * ${lanes};
                if (++tap == taps) { tap = 0; c++; }
            }
% for j in range(vectors):
            {
                ${vectors_of.turn("float", width,
                    "weight + (%d + {0}) * (long)w_out + number" % (j * width),
                    "to[{0}] + %d" % (j * width))}
            }
% endfor
        }
        return;
    }
% else:
    if (w_out == 1) {
        for (int c = first; c < last; c++) {
            __global vector *to = (__global vector *)(packed + (long)c * ${lanes});
            __global const vector *from = (__global const vector *)(weight + (long)c * w_in);
            for (int j = 0; j < ${vectors}; j++) to[j] = from[j];
        }
        return;
    }
% endif
    for (int c = first; c < last; c++)
        for (int tap = 0; tap < taps; tap++) {
            __global float *to = packed + ((long)tap * ins + c) * ${lanes};
            __global const float *from = weight + (long)c * w_in + tap;
            for (int o = 0; o < ${lanes}; o++) to[o] = from[(long)o * w_out];
        }
}
</%def>
