## kernel conv_im2col: the patches of images as columns of a matrix, and the sum of columns into
## images
##
## math     columns[n, c, r, s, i, j] = x[n, c, i*sh + r*dh - ph, j*sw + s*dw - pw], 0 outside
## math     col2im is its adjoint: gx[n, c, h, w] = sum of columns that read it, in the order r, s
##
## param    ctype: str       OpenCL element type
## param    kh, kw: int               height and width of the filter
## param    group_size: int  work-items of a group
## param    dense: bool      sw is 1
##
## def      im2col, im2col_rows
## arg      columns: out ctype[n * c][kh][kw][oh][ow]
## arg      x: in ctype[n * c][h][w]
## arg      h, w: int  height and width of x
## arg      oh, ow: int  height and width of the output
## arg      sh, sw: int  stride
## arg      ph, pw: int  padding above and on the left
## arg      dh, dw: int  dilation
##
## def      col2im, col2im_rows
## arg      gx: out ctype[n * c][h][w]
## arg      columns: in ctype[n * c][kh][kw][oh][ow]
## arg      h, w: int  height and width of gx
## arg      oh, ow: int  height and width of the output
## arg      sh, sw: int  stride
## arg      ph, pw: int  padding above and on the left
## arg      dh, dw: int  dilation
##
## launch   im2col: global (oh * ow rounded up to group_size, n * c * kh * kw)
##          col2im: global (h * w rounded up to group_size, n * c)
##          im2col_rows: an item for each n * c * kh * kw; col2im_rows: for each n * c
## numerics exact; col2im adds in the order r, s
<%def name="im2col(ctype, kh, kw, group_size)">
__attribute__((reqd_work_group_size(${group_size}, 1, 1)))
__kernel void im2col(...)
{
    const int pixel = get_global_id(0), row = get_global_id(1);
    const int tap = row % ${kh * kw};
    const int top = tap / ${kw} * dh - ph, left = tap % ${kw} * dw - pw;
    x += x_offset + (long)(row / ${kh * kw}) * h * w;
    columns += columns_offset + (long)row * oh * ow;
    if (pixel < oh * ow) {
        const int i = pixel / ow * sh + top, j = pixel % ow * sw + left;
        const bool inside = i >= 0 && i < h && j >= 0 && j < w;
        columns[pixel] = inside ? x[i * w + j] : 0;
    }
}
</%def>
<%def name="col2im(ctype, kh, kw, group_size)">
__attribute__((reqd_work_group_size(${group_size}, 1, 1)))
__kernel void col2im(...)
{
    const int pixel = get_global_id(0);
    const long image = get_global_id(1);
    gx += gx_offset + image * h * w;
    columns += columns_offset + image * ${kh * kw} * oh * ow;
    if (pixel < h * w) {
        ${ctype} sum = 0;
        for (int r = 0; r < ${kh}; r++) {
            const int i = pixel / w + ph - r * dh;
            if (i < 0 || i % sh != 0 || i / sh >= oh) continue;
            for (int s = 0; s < ${kw}; s++) {
                const int j = pixel % w + pw - s * dw;
                if (j < 0 || j % sw != 0 || j / sw >= ow) continue;
                sum += columns[((r * ${kw} + s) * oh + i / sh) * ow + j / sw];
            }
        }
        gx[pixel] = sum;
    }
}
</%def>
##
## What a tap reads, and of an output's row the pixels where it lies inside: from first up to last.
<%def name="reach(kw)">
        const int top = tap / ${kw} * dh - ph, left = tap % ${kw} * dw - pw;
        const int last = left < w ? min(ow, (w - left + sw - 1) / sw) : 0;
        const int first = min(last, left < 0 ? (sw - 1 - left) / sw : 0);
</%def>
<%def name="im2col_rows(ctype, kh, kw, dense)">
__kernel void im2col_rows(...)
{
    const int row = get_global_id(0);
    const int tap = row % ${kh * kw};
    ${reach(kw)}
    x += x_offset + (long)(row / ${kh * kw}) * h * w;
    columns += columns_offset + (long)row * oh * ow;
    for (int i = 0; i < oh; i++, columns += ow) {
        const int line = i * sh + top, inside = line >= 0 && line < h;
        const int begin = inside ? first : 0, end = inside ? last : 0;
        for (int j = 0; j < begin; j++)
            columns[j] = 0;
        __global const ${ctype} *from = x + (long)line * w + left;
        for (int j = begin; j < end; j++)
            columns[j] = from[${"j" if dense else "j * sw"}];
        for (int j = end; j < ow; j++)
            columns[j] = 0;
    }
}
</%def>
<%def name="col2im_rows(ctype, kh, kw, dense)">
__kernel void col2im_rows(...)
{
    const long image = get_global_id(0);
    gx += gx_offset + image * h * w;
    columns += columns_offset + image * ${kh * kw} * oh * ow;
    for (int pixel = 0; pixel < h * w; pixel++)
        gx[pixel] = 0;
    for (int tap = 0; tap < ${kh * kw}; tap++) {
        ${reach(kw)}
        for (int i = 0; i < oh; i++, columns += ow) {
            const int line = i * sh + top;
            if (line < 0 || line >= h) continue;
            __global ${ctype} *to = gx + (long)line * w + left;
            for (int j = first; j < last; j++)
                to[${"j" if dense else "j * sw"}] += columns[j];
        }
    }
}
</%def>
