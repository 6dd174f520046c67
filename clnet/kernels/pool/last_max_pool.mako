## kernel last_max_pool: maxima over windows of images whose channels are dense, and the gradient
##
## layout x (n, height, width, channels), y, gy and index (n, out_h, out_w, channels), gx as x; four
##        divides channels and the arrays' offsets
## param  ctype: 'float'|'half'|'bfloat16'  element type
## param  with_index: bool           positions of the maxima are stored too
## param  kh, kw, sh, sw, ph, pw, dh, dw: int  as in max_pool.mako
## param  h, w: str                  C names of the sizes that pixels are counted in
## param  pointer: str               C expression
## param  value: str                 C expression
## def    last_max_pool
## arg    total: int     fours of y
## arg    out_h, out_w, height, width, channels: int
## arg    y: out ctype[total][4]
## % if with_index:
## arg    index: out int[total][4]   positions within planes
## % endif
## arg    x: in ctype
## def    last_max_pool_gradient
## arg    total: int     fours of gx
## arg    out_h, out_w, height, width, channels: int
## arg    gx: out ctype[total][4]
## arg    gy: in ctype
## arg    index: in int
##
## launch   an item for four channels of a pixel of y, or of gx
## numerics as in max_pool.mako: maxima exact, the first of equal ones, NaN wins; gradients are
##          summed in float in the windows' order
<%namespace name="stored" file="/lib/stored.mako"/>
<%def name="load(ctype, pointer)" filter="trim">
% if ctype == "float":
*(__global const float4 *)(${pointer})
% else:
wide_${ctype}(${pointer})
% endif
</%def>
<%def name="keep(ctype, value, pointer)" filter="trim">
% if ctype == "float":
*(__global float4 *)(${pointer}) = ${value};
% else:
store_${ctype}(${value}, ${pointer});
% endif
</%def>
<%def name="places(h, w)">
    const int item = get_global_id(0), fours = channels / 4;
    if (item >= total)
        return;
    const int channel = item % fours * 4, pixel = item / fours;
    const int column = pixel % ${w}, line = pixel / ${w} % ${h}, image = pixel / ${w} / ${h};
</%def>
<%def name="last_max_pool(ctype, with_index, kh, kw, sh, sw, ph, pw, dh, dw)">
${stored.fours([ctype])}
__kernel void last_max_pool(...)
{
    ${places("out_h", "out_w")}
    const int top = line * ${sh} - ${ph}, left = column * ${sw} - ${pw};
    x += x_offset + (long)image * height * width * channels + channel;
    float4 best = -INFINITY;
    int4 where = -1;
    for (int i = 0; i < ${kh}; i++) {
        const int at_y = top + i * ${dh};
        if (at_y >= 0 && at_y < height)
            for (int j = 0; j < ${kw}; j++) {
                const int at_x = left + j * ${dw};
                if (at_x >= 0 && at_x < width) {
                    const int at = at_y * width + at_x;
                    const float4 value = ${load(ctype, "x + at * channels")};
                    const int4 better = value > best | value != value | where < 0;
                    best = better ? value : best;
                    where = better ? (int4)(at) : where;
                }
            }
    }
    ${keep(ctype, "best", "y + y_offset + (long)item * 4")}
% if with_index:
    *(__global int4 *)(index + index_offset + (long)item * 4) = where;
% endif
}
</%def>
<%def name="last_max_pool_gradient(ctype, kh, kw, sh, sw, ph, pw, dh, dw)">
${stored.fours([ctype])}
__kernel void last_max_pool_gradient(...)
{
    ${places("height", "width")}
    const int first_y = (line + ${ph}) / ${sh} - ${(dh * (kh - 1)) // sh};
    const int first_x = (column + ${pw}) / ${sw} - ${(dw * (kw - 1)) // sw};
    const long base = (long)image * out_h * out_w * channels + channel;
    gy += gy_offset + base;
    index += index_offset + base;
    float4 sum = 0;
    for (int i = 0; i <= ${(dh * (kh - 1)) // sh}; i++) {
        const int oy = first_y + i;
        if (oy >= 0 && oy < out_h)
            for (int j = 0; j <= ${(dw * (kw - 1)) // sw}; j++) {
                const int ox = first_x + j;
                if (ox >= 0 && ox < out_w) {
                    const int from = (oy * out_w + ox) * channels;
                    const int4 chosen =
                        *(__global const int4 *)(index + from) == (int4)(line * width + column);
                    const float4 g = ${load(ctype, "gy + from")};
                    sum += chosen ? g : (float4)(0);
                }
            }
    }
    ${keep(ctype, "sum", "gx + gx_offset + (long)item * 4")}
}
</%def>
