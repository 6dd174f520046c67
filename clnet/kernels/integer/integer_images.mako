## kernel integer_images: floats to images of uint8 whose channels are dense, and back
##
## param   width: int               lanes of a vector; 1: elements one by one
## param   dense: None|'columns'|'channels'  what of x lies side by side, if anything does
## param   computed: bool           whether scale and zero point lie in memory
## param   n: int|''                lanes, nothing for a scalar
## def     quantise_images
## arg     total: int               runs of `width` pixels of a row, of four channels
## arg     y: out uchar             (n, height, width_of_x, fours of channels)
## arg     x: in float              (n, channels, height, width_of_x), of any strides
## arg     channels, height, width_of_x, runs: int  runs of a row
## arg     of_n, of_c, of_h, of_w: long  strides of x
## % if computed:
## arg     unit: in float           one, the scale
## arg     point: in uchar          one, the zero point
## % else:
## arg     scale, zero: float
## % endif
## def     dequantise_images
## arg     total: int               pixels; width 1: elements of y
## arg     y: out float             (pixels, channels)
## arg     x: in uchar              (pixels, stored)
## arg     channels, stored: int
## arg     scale: float
## arg     zero: float
## def     add_images
## arg     total: int               numbers, whole fours
## arg     y: out uchar[total]
## arg     x, other: in uchar
## arg     x_scale, x_zero, other_scale, other_zero: float
## arg     low, high: float         bounds of the sum
## arg     scale, zero: float       of y
##
## launch  an item for a run, or for four channels of a pixel; for a pixel, or an element; for
##         `width` numbers
## numerics rint(x / scale) + zero, kept in 0 to 255, NaN is 0; (x - zero) * scale
<%namespace name="integers" file="/lib/integers.mako"/>
##
## Numbers of 8 bits in ints. Adding 1.5 * 2^23 rounds what is kept within 2^22 before.
<%def name="numbers(n)">
#pragma OPENCL FP_CONTRACT OFF
inline int${n} numbers${n}(const float${n} x, const float scale, const float zero)
{
    float${n} q = x / scale;
    q = q > 1024.0f ? (float${n})(1024.0f) : q;
    q = q > -1024.0f ? q : (float${n})(-1024.0f);
    q = (q + 12582912.0f) - 12582912.0f + zero;
    q = q > 255.0f ? (float${n})(255.0f) : q;
    q = q > 0.0f ? q : (float${n})(0.0f);
    return as_int${n}(q + 12582912.0f) & 255;
}
</%def>
<%def name="quantise_images(width, dense, computed)">
${numbers("")}
% if width > 1:
typedef float${width} __attribute__((aligned(4))) floats_anywhere;
typedef int${width} __attribute__((aligned(4))) ints_anywhere;
${numbers(width)}
% endif
__kernel void quantise_images(...)
{
    const int item = get_global_id(0), fours = (channels + 3) / 4;
    if (item >= total)
        return;
% if computed:
    const float scale = unit[unit_offset], zero = point[point_offset];
% endif
% if dense == "channels":
    const int pixel = item / fours, c = item % fours * 4, column = pixel % width_of_x;
    const int line = pixel / width_of_x;
% else:
    const int column = item % runs * ${width}, c = item / runs % fours * 4;
    const int line = item / runs / fours;
% endif
    const int row = line % height, image = line / height, most = min(channels - c, 4);
    x += x_offset + image * of_n + row * of_h + column * of_w + c * of_c;
    __global int *to =
        (__global int *)(y + y_offset) + ((long)line * width_of_x + column) * fours + c / 4;
% if dense == "channels":
    if (most == 4) {
        const int4 q = numbers4(*(__global const floats_anywhere *)x, scale, zero);
        *to = q.x | q.y << 8 | q.z << 16 | q.w << 24;
        return;
    }
% elif dense == "columns":
    if (column + ${width} <= width_of_x) {
        int${width} word = (int)zero * 0x01010101;
        for (int i = 0; i < most; i++) {
            const int${width} q =
                numbers${width}(*(__global const floats_anywhere *)(x + i * of_c), scale, zero);
            word = (word & ~(255 << (8 * i))) | (q << (8 * i));
        }
        if (fours == 1)
            *(__global ints_anywhere *)to = word;
        else {
% for i in range(width):
            to[${i} * fours] = word[${i}];
% endfor
        }
        return;
    }
% endif
    for (int j = 0; j < ${width if dense == "columns" else 1} && column + j < width_of_x; j++) {
        int word = (int)zero * 0x01010101;
        for (int i = 0; i < most; i++) {
            const int q = numbers(x[j * of_w + i * of_c], scale, zero);
            word = (word & ~(255 << (8 * i))) | (q << (8 * i));
        }
        to[j * fours] = word;
    }
}
</%def>
<%def name="dequantise_images(width)">
${integers.types(width)}
__kernel void dequantise_images(...)
{
    const int item = get_global_id(0);
    if (item >= total)
        return;
% if width == 1:
    const int pixel = item / channels, c = item % channels;
    y[y_offset + item] = ((float)x[x_offset + (long)pixel * stored + c] - zero) * scale;
% else:
    x += x_offset + (long)item * stored;
    y += y_offset + (long)item * channels;
    int c = 0;
    for (; c + ${width} <= channels; c += ${width})
        *(__global floats_anywhere *)(y + c) =
            (CONVERT(*(__global const uchars_anywhere *)(x + c), floats) - zero) * scale;
    for (; c < channels; c++)
        y[c] = ((float)x[c] - zero) * scale;
% endif
}
</%def>
##
## Each operation rounded, as nodes of ONNX one by one.
<%def name="add_images(width)">
${integers.types(width)}
${numbers("" if width == 1 else width)}
__kernel void add_images(...)
{
    const int at = get_global_id(0) * ${width};
    if (at >= total)
        return;
    x += x_offset + at;
    other += other_offset + at;
    y += y_offset + at;
    uchars a = 0, b = 0;
    const int whole = at + ${width} <= total;
    if (whole) {
        a = *(__global const uchars_anywhere *)x;
        b = *(__global const uchars_anywhere *)other;
    }
% if width > 1:
    else
        for (int i = 0; i < total - at; i++) {
            a[i] = x[i];
            b[i] = other[i];
        }
% endif
    floats sum = (CONVERT(a, floats) - x_zero) * x_scale
        + (CONVERT(b, floats) - other_zero) * other_scale;
    sum = sum < low ? (floats)low : sum;
    sum = sum > high ? (floats)high : sum;
    const uchars result = CONVERT(numbers${"" if width == 1 else width}(sum, scale, zero), uchars);
    if (whole)
        *(__global uchars_anywhere *)y = result;
% if width > 1:
    else
        for (int i = 0; i < total - at; i++)
            y[i] = result[i];
% endif
}
</%def>
