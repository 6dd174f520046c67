## kernel conv_im2col: the patches of images as columns of a matrix, and the sum of columns into
## images
##
## math     columns[n, c, r, s, i, j] = x[n, c, i*sh + r*dh - ph, j*sw + s*dw - pw], 0 outside
## math     col2im is its adjoint: gx[n, c, h, w] = sum of columns that read it, in the order r, s
##
## param    ctype: str       OpenCL element type
## param    kh, kw: int               height and width of the filter
## param    group_size: int  work-items of a group
##
## def      im2col
## arg      columns: out ctype[n * c][kh][kw][oh][ow]
## arg      x: in ctype[n * c][h][w]
## arg      h, w: int  height and width of x
## arg      oh, ow: int  height and width of the output
## arg      sh, sw: int  stride
## arg      ph, pw: int  padding above and on the left
## arg      dh, dw: int  dilation
##
## def      col2im
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
