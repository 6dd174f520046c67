## kernel conv_depthwise: convolution with one work-item per result, for groups of few channels
##
## No scratch memory and no assumption: it also stands in where nothing else fits the workspace.
##
## param    ctype: str        OpenCL element type
## param    kh, kw: int               height and width of the filter
## param    group_size: int   work-items of a group
## param    bias: bool        whether there is a bias
## param    activation: str|None   applied last
##
## def      conv_depthwise
## arg      y: out ctype[n][oc][oh][ow]
## arg      x: in ctype[n][ic][h][w]
## arg      weight: in ctype[oc][icg][kh][kw]
## arg      offsets: in ctype[oc]  the bias; any array when there is none
## def      conv_depthwise_input
## arg      gx: out ctype[n][ic][h][w]
## arg      gy: in ctype[n][oc][oh][ow]
## arg      weight: in ctype[oc][icg][kh][kw]
## def      conv_depthwise_weight
## arg      gw: out ctype[oc][icg][kh][kw]
## arg      gy: in ctype[n][oc][oh][ow]
## arg      x: in ctype[n][ic][h][w]
## arg      n: int                 images
## def      all
## arg      oc: int                output channels
## arg      groups: int            groups of channels
## arg      icg: int               input channels of a group
## arg      h, w: int              height and width of x
## arg      oh, ow: int            height and width of y
## arg      sh, sw: int            stride
## arg      ph, pw: int            padding above and on the left
## arg      dh, dw: int            dilation
##
## launch   global (results of a channel rounded up to group_size, channels of all images);
##          weight gradient: (icg * kh * kw rounded up, oc)
## numerics sums in the order channel, row, column (the weight gradient: image, row, column)
<%namespace name="epilogue" file="/lib/epilogue.mako"/>
<%def name="conv_depthwise(ctype, kh, kw, group_size, bias, activation)">
__attribute__((reqd_work_group_size(${group_size}, 1, 1)))
__kernel void conv_depthwise(...)
{
    const int pixel = get_global_id(0);
    const int o = get_global_id(1) % oc;
    const long image = get_global_id(1) / oc;
    const int group = o / (oc / groups);
    x += x_offset + (image * groups + group) * icg * h * w;
    y += y_offset + (image * oc + o) * oh * ow;
    weight += weight_offset + (long)o * icg * ${kh * kw};
    if (pixel < oh * ow) {
        const int top = pixel / ow * sh - ph, left = pixel % ow * sw - pw;
        ${ctype} sum = ${"offsets[offsets_offset + o]" if bias else "0"};
        for (int c = 0; c < icg; c++, x += h * w, weight += ${kh * kw})
            for (int r = 0; r < ${kh}; r++) {
                const int i = top + r * dh;
                if (i < 0 || i >= h) continue;
                for (int s = 0; s < ${kw}; s++) {
                    const int j = left + s * dw;
                    if (j >= 0 && j < w) sum += weight[r * ${kw} + s] * x[i * w + j];
                }
            }
        y[pixel] = ${epilogue.activate(activation, "sum", ctype)};
    }
}
</%def>
<%def name="conv_depthwise_input(ctype, kh, kw, group_size)">
__attribute__((reqd_work_group_size(${group_size}, 1, 1)))
__kernel void conv_depthwise_input(...)
{
    const int pixel = get_global_id(0);
    const int c = get_global_id(1) % (groups * icg);
    const long image = get_global_id(1) / (groups * icg);
    const int ocg = oc / groups, group = c / icg;
    gx += gx_offset + (image * groups * icg + c) * h * w;
    gy += gy_offset + (image * oc + group * ocg) * oh * ow;
    weight += weight_offset + ((long)group * ocg * icg + c % icg) * ${kh * kw};
    if (pixel < h * w) {
        ${ctype} sum = 0;
        for (int o = 0; o < ocg; o++, gy += oh * ow, weight += icg * ${kh * kw})
            for (int r = 0; r < ${kh}; r++) {
                const int i = pixel / w + ph - r * dh;
                if (i < 0 || i % sh != 0 || i / sh >= oh) continue;
                for (int s = 0; s < ${kw}; s++) {
                    const int j = pixel % w + pw - s * dw;
                    if (j < 0 || j % sw != 0 || j / sw >= ow) continue;
                    sum += weight[r * ${kw} + s] * gy[i / sh * ow + j / sw];
                }
            }
        gx[pixel] = sum;
    }
}
</%def>
<%def name="conv_depthwise_weight(ctype, kh, kw, group_size)">
__attribute__((reqd_work_group_size(${group_size}, 1, 1)))
__kernel void conv_depthwise_weight(...)
{
    const int element = get_global_id(0), o = get_global_id(1);
    const int c = element / ${kh * kw}, tap = element % ${kh * kw};
    const int top = tap / ${kw} * dh - ph, left = tap % ${kw} * dw - pw;
    const int group = o / (oc / groups);
    x += x_offset + ((long)group * icg + c) * h * w;
    gy += gy_offset + (long)o * oh * ow;
    if (element < icg * ${kh * kw}) {
        ${ctype} sum = 0;
        for (int image = 0; image < n; image++, x += (long)groups * icg * h * w,
            gy += (long)oc * oh * ow)
            for (int i = 0; i < oh; i++) {
                const int from = i * sh + top;
                if (from < 0 || from >= h) continue;
                for (int j = 0; j < ow; j++) {
                    const int at = j * sw + left;
                    if (at >= 0 && at < w) sum += gy[i * ow + j] * x[from * w + at];
                }
            }
        gw[gw_offset + (long)o * icg * ${kh * kw} + element] = sum;
    }
}
</%def>
