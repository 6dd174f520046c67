## kernel integer_depthwise: convolution of each channel of uint8 with a filter of its own, of int8
##
## layout  images are (n, h, w, c), a pixel's channels rounded up to fours. An item makes rows of
##         `width` channels, `pixels` of a row at a time. Products are of floats: their sums are
##         whole numbers below 2^24, and so exact
## param   width: int               lanes of a vector; 1: channels one by one
## param   pixels: int              of a tile
## param   kw, sw, dw: int          of a row of taps
## param   ytype: 'float'|'uchar'|'int'  what is stored; ints are the sums
## param   added: None|'float'|'uchar'  what is added before that
## arg     y: out ytype             (rows, y_width, y_channels)
## arg     x: in uchar
## arg     filters: in float        (kh * kw, entries)
## arg     table: in int            [0] the bias, [1] the filter's sum, [2] its scale, a float
## % if added:
## arg     more: in {added}         as y
## arg     more_channels: int       of a pixel of it
## arg     more_factor, more_zero: float
## % endif
## arg     rows: int                of y, of all images
## arg     share: int               rows of an item
## arg     entries: int             of a row of the table
## arg     ocg: int                 channels
## arg     y_channels, y_height, y_width, x_channels, x_height, x_width: int  y_channels in memory
## arg     kh, sh, ph, pw, dh: int
## arg     zero: int                of x
## arg     factor: float            of all sums, beside the filter's scale
## arg     low, high: float         bounds of what is stored, before y_zero is added
## arg     y_zero: int
##
## launch   (rows / share, entries / width) items, groups of one
## numerics as integer_conv's
<%namespace name="integers" file="/lib/integers.mako"/>
##
## A row of taps; `inside`: all that it reads lies in the row.
<%def name="taps(pixels, kw, sw, dw, inside)">
% for j in range((pixels - 1) * sw + (kw - 1) * dw + 1):
% if any((j - s * dw) % sw == 0 and 0 <= (j - s * dw) // sw < pixels for s in range(kw)):
                    {
% if inside:
                        const floats value = pixel(from + ${j} * x_channels, whole_x, left_x);
% else:
                        const floats value = in_row && (uint)(left + ${j}) < (uint)x_width
                            ? pixel(from + ${j} * x_channels, whole_x, left_x) : outside;
% endif
% for s in range(kw):
% if (j - s * dw) % sw == 0 and 0 <= (j - s * dw) // sw < pixels:
                        s${(j - s * dw) // sw} =
                            multiply_add(value, w${s}, s${(j - s * dw) // sw});
% endif
% endfor
                    }
% endif
% endfor
</%def>
<%def name="integer_depthwise(width, pixels, kw, sw, dw, ytype, added)">
${integers.types(width)}
inline floats multiply_add(const floats x, const floats w, const floats sum)
{
#pragma OPENCL FP_CONTRACT ON
    return x * w + sum;
}
inline floats pixel(__global const uchar *from, const int whole, const int left)
{
    floats value = 0;
    if (whole)
        value = CONVERT(*(__global const uchars_anywhere *)from, floats);
% if width > 1:
    else
        for (int i = 0; i < left; i++)
            value[i] = from[i];
% endif
    return value;
}
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void integer_depthwise(...)
{
    const int lanes = ${width}, group = 0, panels = 0, panel = get_group_id(1);
    const int first = get_group_id(0) * share, last = min(rows, first + share);
    const int left_x = x_channels - panel * lanes, whole_x = left_x >= lanes;
    const floats outside = zero;
    y += y_offset;
    x += x_offset + panel * lanes;
    filters += filters_offset + panel * lanes;
    table += table_offset;
% if added:
    more += more_offset;
% endif
    ${integers.constants(width, 1, 0)}
    for (int row = first; row < last; row++) {
        const int top = row % y_height * sh - ph, image = row / y_height;
        for (int column = 0; column < y_width; column += ${pixels}) {
            const int left = column * ${sw} - pw;
            floats ${", ".join(f"s{p} = 0" for p in range(pixels))};
            for (int r = 0; r < kh; r++) {
                const int iy = top + r * dh, in_row = iy >= 0 && iy < x_height;
                __global const uchar *const from =
                    x + ((long)(image * x_height + iy) * x_width + left) * x_channels;
                __global const float *const w = filters + r * ${kw} * entries;
% for s in range(kw):
                const floats w${s} = *(__global const floats_anywhere *)(w + ${s} * entries);
% endfor
                if (in_row && left >= 0 && left + ${(pixels - 1) * sw + (kw - 1) * dw} < x_width) {
                    ${taps(pixels, kw, sw, dw, True)}
                } else {
                    ${taps(pixels, kw, sw, dw, False)}
                }
            }
            const long place = (long)row * y_width + column;
% for p in range(pixels):
            if (column + ${p} < y_width) {
                const ints sums = CONVERT(s${p}, ints) + begin0;
                ${integers.store(width, 0, ytype, added, f"place + {p}", "sums")}
            }
% endfor
        }
    }
}
</%def>
