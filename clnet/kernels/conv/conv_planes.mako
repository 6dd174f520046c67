## kernel conv_planes: the channels of images as padded planes, one for each remainder of the stride
##
## math     planes[n, c, a * sw + b, i, j] = x[n, c, i * sh + a - ph, j * sw + b - pw], 0 outside
## param    ctype: str               OpenCL element type
## param    step: 0|1|2              horizontal stride, as vectors know it; 0: any, an argument
## arg      planes: out ctype[n * c][phases][plane]
## arg      x: in ctype[n * c][h][w]
## arg      h, w: int    height and width of x
## arg      ph: int      rows of padding above
## arg      pw: int      columns of padding on the left
## arg      height: int  rows of a plane
## arg      pitch: int   columns of a plane
## arg      plane: int   elements of a plane; those after its rows are set to zero
## arg      sh: int      vertical stride between the pixels of a plane
## arg      sw: int      horizontal stride
## arg      tall: int    planes made of one, vertically
## arg      wide: int    planes made of one, horizontally
## arg      slack: int   elements after the last plane, set to zero too
## launch   one work-item per channel of an image, local size 1
## numerics exact
<%def name="conv_planes(ctype, step)">
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void conv_planes(...)
{
    const size_t image = get_global_id(0);
    x += x_offset + image * h * w;
    planes += planes_offset + image * plane * tall * wide;
    for (int phase = 0; phase < tall * wide; phase++) {
        const int a = phase / wide, b = phase % wide;
        /* columns first <= j < last of the plane lie inside the image */
        const int first = clamp((pw - b + sw - 1) / sw, 0, pitch);
        const int last = clamp((w + pw - b + sw - 1) / sw, first, pitch);
        for (int i = 0; i < height; i++) {
            const int from = i * sh + a - ph;
            const bool inside = from >= 0 && from < h;
            __global const ${ctype} *restrict source = x + (long)from * w + b - pw;
            for (int j = 0; j < (inside ? first : pitch); j++) planes[j] = 0;
            if (inside) {
                for (int j = first; j < last; j++) planes[j] = source[j * ${step or "sw"}];
                for (int j = last; j < pitch; j++) planes[j] = 0;
            }
            planes += pitch;
        }
        const int rest = plane - height * pitch;
        for (int j = 0; j < rest; j++) planes[j] = 0;
        planes += rest;
    }
    if (image + 1 == get_global_size(0))
        for (int j = 0; j < slack; j++) planes[j] = 0;
}
</%def>
