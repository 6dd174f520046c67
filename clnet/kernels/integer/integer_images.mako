## kernel integer_images: floats to images of uint8 whose channels are dense, and back
##
## def     quantise_images
## arg     total: int               fours of channels of y
## arg     y: out uchar[total][4]
## arg     x: in float              (n, channels, height, width), of any strides
## arg     channels, height, width: int
## arg     of_n, of_c, of_h, of_w: long  strides of x
## arg     scale, zero: float
## def     dequantise_images
## arg     total: int               elements of y
## arg     y: out float[total]      (pixels, channels)
## arg     x: in uchar              (pixels, stored)
## arg     channels, stored: int
## arg     scale: float
## arg     zero: float
##
## launch  an item for four channels, and for an element
## numerics rint(x / scale) + zero, kept in 0 to 255, NaN is 0; (x - zero) * scale
<%def name="quantise_images()">
__kernel void quantise_images(...)
{
    const int item = get_global_id(0), fours = (channels + 3) / 4;
    if (item >= total)
        return;
    const int c = item % fours * 4, pixel = item / fours;
    const int column = pixel % width, row = pixel / width % height, image = pixel / width / height;
    x += x_offset + image * of_n + row * of_h + column * of_w;
    y += y_offset + (long)item * 4;
    for (int i = 0; i < 4; i++) {
        const float q = c + i < channels ? rint(x[(c + i) * of_c] / scale) + zero : zero;
        y[i] = q > 0.0f ? (uchar)(q < 255.0f ? q : 255.0f) : (uchar)0;
    }
}
</%def>
<%def name="dequantise_images()">
__kernel void dequantise_images(...)
{
    const int item = get_global_id(0);
    if (item >= total)
        return;
    const int c = item % channels, pixel = item / channels;
    y[y_offset + item] = ((float)x[x_offset + (long)pixel * stored + c] - zero) * scale;
}
</%def>
