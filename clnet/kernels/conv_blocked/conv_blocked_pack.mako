## kernel conv_blocked_pack: filters in the order that conv_blocked_direct reads them
##
## A panel is `vectors` blocks of output channels. Of each tap and input channel, the panel's
## numbers lie together.
##
## param    width: 4|8|16            channels of a block
## param    vectors: int             blocks of channels of a panel
##
## arg      packed: out float  zeros[width], then [panels][kh][kw][ins][vectors * width]
## arg      weight: in float   outs and ins are steps of w_out and w_in; taps are dense
## arg      outs: int          channels, a multiple of vectors * width
## arg      ins: int           channels
## arg      taps: int          of a filter
## arg      w_out, w_in: int
##
## launch   global (panels, chunks of ins), local (1, 1)
<%def name="conv_blocked_pack(width, vectors)">
<% lanes = width * vectors %>
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void conv_blocked_pack(...)
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
