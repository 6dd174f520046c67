## kernel integer_depthwise: convolution of each channel of uint8 with a filter of its own, of int8
##
## layout  images are (n, h, w, c), a pixel's channels rounded up to fours. An item makes rows of
##         `width` channels, `pixels` of a row at a time, on CPUs of rows that it gathers in local
##         memory. Products are of floats: their sums are whole numbers below 2^24, and so exact
## param   width: int               lanes of a vector; 1: channels one by one
## param   pixels: int              of a tile
## param   kw, sw, dw: int          of a row of taps
## param   local_floats: int        of gathered rows; 0: nothing is gathered
## param   computed: bool           whether the zero point of x lies in memory
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
## arg     some, pitch: int         rows that are gathered for at a time, and pixels of one of them
## arg     entries: int             of a row of the table
## arg     ocg: int                 channels
## arg     y_channels, y_height, y_width, x_channels, x_height, x_width: int  y_channels in memory
## arg     kh, sh, ph, pw, dh: int
## % if computed:
## arg     point: in uchar          one, the zero point of x
## % else:
## arg     zero: int                of x
## % endif
## arg     factor: float            of all sums, beside the filter's scale
## arg     low, high: float         bounds of what is stored, before y_zero is added
## arg     y_zero: int
##
## launch   (rows / share, ocg / width) items, groups of one; width 1: an item for a row of a
##          channel, channels side by side
## numerics as integer_conv's
<%namespace name="integers" file="/lib/integers.mako"/>
##
## Rows of x as floats, what is padded among them.
<%def name="gather()">
        for (int i = 0; i < kh_rows; i++) {
            const int iy = top + i, inside = iy >= 0 && iy < x_height;
            __global const uchar *const from =
                x + (long)(image * x_height + iy) * x_width * x_channels;
            __local floats *const to = (__local floats *)held + i * pitch;
            const int begin = inside ? min(pw, pitch) : pitch;
            const int end = inside ? max(begin, min(x_width + pw, pitch)) : pitch;
            for (int j = 0; j < begin; j++)
                to[j] = outside;
            for (int j = begin; j < end; j++)
                to[j] = pixel(from + (j - pw) * x_channels, whole_x, left_x);
            for (int j = end; j < pitch; j++)
                to[j] = outside;
        }
</%def>
<%def name="integer_depthwise(
    width, pixels, kw, sw, dw, local_floats, computed, ytype, added)">
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
% if width > 1:
__attribute__((reqd_work_group_size(1, 1, 1)))
% endif
__kernel void integer_depthwise(...)
{
% if local_floats:
    __local float held[${local_floats}] __attribute__((aligned(64)));
% endif
    const int lanes = ${width}, group = 0, panels = 0;
% if width > 1:
    const int part = get_group_id(0), panel = get_group_id(1);
% else:
    const int part = get_global_id(0) / ocg, panel = get_global_id(0) % ocg;
% endif
    const int first = part * share, last = min(rows, first + share);
    const int left_x = x_channels - panel * lanes, whole_x = left_x >= lanes;
    ${integers.zero_point(computed)}
    const floats outside = zero;
    y += y_offset;
    x += x_offset + panel * lanes;
    filters += filters_offset + panel * lanes;
    table += table_offset;
% if added:
    more += more_offset;
% endif
    ${integers.constants(width, 1, 0)}
    for (int row = first; row < last; row += some) {
        const int count = min(min(some, last - row), y_height - row % y_height);
% if local_floats:
        const int image = row / y_height, top = row % y_height * sh - ph;
        const int kh_rows = (count - 1) * sh + (kh - 1) * dh + 1;
        ${gather()}
% endif
        for (int i = 0; i < count; i++)
            for (int column = 0; column < y_width; column += ${pixels}) {
                floats ${", ".join(f"s{p} = 0" for p in range(pixels))};
% if not local_floats:
                const int image = (row + i) / y_height, top = (row + i) % y_height * sh - ph;
% endif
                for (int r = 0; r < kh; r++) {
                    __global const float *const w = filters + r * ${kw} * entries;
% if local_floats:
                    __local const floats *const from =
                        (__local const floats *)held + (i * sh + r * dh) * pitch + column * ${sw};
% else:
                    const int iy = top + r * dh, inside = iy >= 0 && iy < x_height;
% endif
% for s in range(kw):
                    {
                        const floats tap = *(__global const floats_anywhere *)(w + ${s} * entries);
% for p in range(pixels):
% if local_floats:
                        s${p} = multiply_add(from[${p * sw + s * dw}], tap, s${p});
% else:
                        const int ix${p} = (column + ${p}) * ${sw} - pw + ${s * dw};
                        const floats value${p} = inside && ix${p} >= 0 && ix${p} < x_width
                            ? pixel(x + ((long)(image * x_height + iy) * x_width + ix${p})
                                * x_channels, whole_x, left_x) : outside;
                        s${p} = multiply_add(value${p}, tap, s${p});
% endif
% endfor
                    }
% endfor
                }
                const long place = (long)(row + i) * y_width + column;
% for p in range(pixels):
                if (column + ${p} < y_width) {
                    const ints sums = CONVERT(s${p}, ints) + begin0;
                    ${integers.store(width, 0, ytype, added, f"place + {p}", "sums")}
                }
% endfor
            }
        row -= some - count;  /* an image ends */
    }
}
</%def>
