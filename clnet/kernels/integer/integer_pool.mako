## kernel integer_pool: maxima over windows of images of uint8 whose channels are dense
##
## param   width: 4|16              channels of an item
## arg     total: int               items
## arg     y: out uchar[total][width]
## arg     x: in uchar
## arg     out_h, out_w, height, width_of_x, channels: int
## arg     kh, kw, sh, sw, ph, pw, dh, dw: int
##
## launch  an item for `width` channels of a pixel of y
## numerics exact; every window has a pixel of x
<%def name="integer_max_pool(width)">
typedef uchar${width} __attribute__((aligned(4))) uchars_anywhere;
__kernel void integer_max_pool(...)
{
    const int item = get_global_id(0), parts = channels / ${width};
    if (item >= total)
        return;
    const int c = item % parts * ${width}, pixel = item / parts;
    const int column = pixel % out_w, row = pixel / out_w % out_h, image = pixel / out_w / out_h;
    x += x_offset + (long)image * height * width_of_x * channels + c;
    uchar${width} best = 0;
    for (int i = 0; i < kh; i++) {
        const int at_y = row * sh - ph + i * dh;
        if (at_y >= 0 && at_y < height)
            for (int j = 0; j < kw; j++) {
                const int at_x = column * sw - pw + j * dw;
                if (at_x >= 0 && at_x < width_of_x) {
                    const uchar${width} value = *(__global const uchars_anywhere *)(
                        x + (at_y * width_of_x + at_x) * channels);
                    best = best > value ? best : value;
                }
            }
    }
    *(__global uchars_anywhere *)(y + y_offset + (long)item * ${width}) = best;
}
</%def>
