## kernel conv_depthwise_strip: convolution of groups of few channels, by strips down the columns of
## planes
##
## An item computes the results of a strip one below the other, so that it reads a row once for all
## taps above it; neighbouring items have neighbouring columns. Nothing else is kept anywhere.
##
## math     as in conv_depthwise.mako; the input gradient reads y in x's place
## param    ctype: str        OpenCL element type
## param    kh, kw, sh, sw: int       height and width of the filter, strides
## param    dh: int           vertical dilation
## param    dw: int           horizontal dilation
## param    strip: int        results of an item; of a gradient's, a multiple of sh
## param    group_size: int   work-items of a group, a power of two
## param    gradient: bool    of the input, instead of the convolution
## param    bias: bool        whether there is a bias
## param    activation: str|None   applied last
## param    span: int         columns of the filter that a group sums up
##
## def      conv_depthwise_strip
## arg      y: out ctype[n][channels][oh][ow]  the result: of a gradient, the input's
## arg      x: in ctype[n][sources][h][w]      of a gradient, the output's
## arg      weight: in ctype[oc][icg][kh][kw]
## arg      offsets: in ctype[channels]        the bias; any array when there is none
## arg      items: int                         that have a strip
## arg      strips: int                        of a column
## arg      channels: int                      of y
## arg      own: int                           of these, in a group of channels
## arg      inner: int                         channels of x in a group of channels
## arg      h, w: int                          height and width of x
## arg      oh, ow: int                        height and width of y
## arg      ph, pw: int                        padding above and on the left
##
## def      conv_depthwise_strip_weight
## arg      gw: out ctype[parts][oc][icg][kh][kw]  sums of parts of the strips
## arg      gy: in ctype[n][oc][oh][ow]
## arg      x: in ctype[n][ic][h][w]
## arg      items: int                         strips of a channel, in all images
## arg      strips: int                        of a column
## arg      oc: int                            output channels
## arg      groups: int                        groups of channels
## arg      icg: int                           input channels of a group
## arg      h, w: int                          height and width of x
## arg      oh, ow: int                        height and width of y
## arg      ph, pw: int                        padding above and on the left
##
## launch   one item a strip, rounded up to groups; weight gradient: (parts, oc * icg, parts of the
##          filter) groups, of which each goes over every parts-th of the strips
## numerics sums in the order channel, column, row; weight gradient: an item sums its strips in
##          order, those of a group and the parts are added up as trees of one shape
<%namespace name="epilogue" file="/lib/epilogue.mako"/>
<%namespace name="taps" file="/lib/taps.mako"/>
<%def name="conv_depthwise_strip(
    ctype, kh, kw, sh, sw, dh, dw, strip, group_size, gradient, bias, activation)">
<%
    # (result, row of the filter) that read a row, by its distance from the first.
    readers = {}
    for a in range(strip):
        for r in range(kh):
            at = a - r * dh if gradient else a * sh + r * dh
            if not gradient or at % sh == 0:
                readers.setdefault(at // sh if gradient else at, []).append((a, r))
%>
__attribute__((reqd_work_group_size(${group_size}, 1, 1)))
__kernel void conv_depthwise_strip(...)
{
    const int item = get_global_id(0);
    if (item >= items) return;
    const int column = item % ow, plane = item / ow / strips;
    const int channel = plane % channels, group = channel / own;
% if gradient:
    ## A strip begins where the padded image has a multiple of the stride.
    const int begin = item / ow % strips * ${strip} - ph % ${sh}, top = (begin + ph) / ${sh};
% else:
    const int begin = item / ow % strips * ${strip}, top = begin * ${sh} - ph;
% endif
    x += x_offset + ((long)(plane / channels) * (channels / own) + group) * inner * h * w;
    weight += weight_offset + ${(
        f"((long)group * inner * own + channel % own) * {kh * kw}" if gradient
        else f"(long)channel * inner * {kh * kw}")};
    ${ctype} ${", ".join(f"sum_{a} = " + ("offsets[offsets_offset + channel]" if bias else "0")
        for a in range(strip))};
    for (int c = 0; c < inner; c++, x += h * w,
        weight += ${f"own * {kh * kw}" if gradient else kh * kw})
        for (int s = 0; s < ${kw}; s++) {
% if gradient:
            const int from = column + pw - s * ${dw}, j = from / ${sw};
            const bool inside = from >= 0 && from % ${sw} == 0 && j < w;
% else:
            const int j = column * ${sw} - pw + s * ${dw};
            const bool inside = j >= 0 && j < w;
% endif
% for r in range(kh):
            const ${ctype} weight_${r} = weight[${r * kw} + s];
% endfor
% for at, uses in sorted(readers.items()):
            {
                const int i = top + ${at};
                const ${ctype} value = inside && i >= 0 && i < h ? x[i * w + j] : 0;
% for a, r in uses:
                sum_${a} += weight_${r} * value;
% endfor
            }
% endfor
        }
    y += y_offset + (long)plane * oh * ow + column;
% for a in range(strip):
    if (${"begin + %d >= 0 && " % a if gradient and a < sh - 1 else ""}begin + ${a} < oh)
        y[(begin + ${a}) * ow] = ${epilogue.activate(activation, f"sum_{a}", ctype)};
% endfor
}
</%def>
<%def name="conv_depthwise_strip_weight(ctype, kh, kw, sh, sw, dh, dw, strip, group_size, span)">
<%
    readers = {}
    for a in range(strip):
        for r in range(kh):
            readers.setdefault(a * sh + r * dh, []).append((a, r))
%>
__attribute__((reqd_work_group_size(${group_size}, 1, 1)))
__kernel void conv_depthwise_strip_weight(...)
{
    const int lane = get_local_id(0), parts = get_num_groups(0);
    const int o = get_group_id(1) / icg, c = get_group_id(1) % icg,
        first = get_group_id(2) * ${span};
    const int source = o / (oc / groups) * icg + c;
    gy += gy_offset + (long)o * oh * ow;
    x += x_offset + (long)source * h * w;
    ${ctype} ${", ".join(f"sum_{r}_{q} = 0" for r in range(kh) for q in range(span))};
    for (long item = get_global_id(0); item < items; item += get_global_size(0)) {
        const int column = item % ow, begin = item / ow % strips * ${strip},
            top = begin * ${sh} - ph;
        const long image = item / ow / strips;
        __global const ${ctype} *slopes = gy + image * oc * oh * ow + column;
        __global const ${ctype} *from = x + image * groups * icg * h * w;
% for a in range(strip):
        const ${ctype} slope_${a} = begin + ${a} < oh ? slopes[(begin + ${a}) * ow] : 0;
% endfor
% for q in range(span):
        {
            const int j = column * ${sw} - pw + (first + ${q}) * ${dw};
            const bool inside = j >= 0 && j < w;
% for at, uses in sorted(readers.items()):
            {
                const int i = top + ${at};
                const ${ctype} value = inside && i >= 0 && i < h ? from[i * w + j] : 0;
% for a, r in uses:
                sum_${r}_${q} += slope_${a} * value;
% endfor
            }
% endfor
        }
% endfor
    }
    gw += gw_offset + ((long)get_group_id(0) * oc * icg + get_group_id(1)) * ${kh * kw};
    ${taps.add_up(ctype, kh, kw, span, group_size)}
}
</%def>
