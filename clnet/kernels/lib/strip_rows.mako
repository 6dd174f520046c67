## lib strip_rows: what convolutions between blocked arrays read in local memory, strip by strip
##
## The kernels are conv_blocked_depthwise and conv_blocked_grouped, whose names these parts use: the
## rows that output rows first .. last - 1 read lie in local memory, with zeros where an image ends,
## and each row of y is computed in tiles of pixels, whose sums are c0, c1 ...
##
## param  width: 4|8|16            channels of a block
## param  pixels: int              of a tile
## param  p: int                   pixel of a tile
## param  bias: bool               whether there is a bias, `offset`
## param  added: bool              whether a value is added to each sum
## param  activation: None|str|VectorActivation  see lib/epilogue.mako
<%namespace name="epilogue" file="/lib/epilogue.mako"/>
##
## The largest whole number that is not above a / b.
<%def name="below()">
inline int below(const int a, const int b)
{
    return a >= 0 ? a / b : -((b - 1 - a) / b);
}
</%def>
##
## The rows of `plane` that output rows first .. last - 1 read, from `low_row` and `low_column` on,
## come into `rows`.
<%def name="copy_rows(width)">
        const int high_row = below(
            (last - 1) * down + pad_down + max(0, (1 - kh) * gap_down), phases_down);
        for (int row = low_row; row <= high_row; row++) {
            __local vector *to = (__local vector *)(rows + (row - low_row) * pitch * ${width});
            __global const vector *from =
                (__global const vector *)(plane + ((long)row * x_width + low_column) * ${width});
            const int inside = (uint)row < (uint)x_height;
            const int begin = inside ? min(max(0, -low_column), pitch) : pitch;
            const int end = inside ? max(begin, min(x_width - low_column, pitch)) : pitch;
            for (int j = 0; j < begin; j++) to[j] = 0;
            for (int j = begin; j < end; j++) to[j] = from[j];
            for (int j = end; j < pitch; j++) to[j] = 0;
        }
</%def>
##
## The sums of a tile go to memory; `phases` columns of y lie from pixel to pixel.
<%def name="store(width, pixels, bias, added, activation)">
<% v = f"float{width}" %>
                const long place = ((long)i * y_width + tile * phases_right + phase) * ${width};
                const int apart = phases_right * ${width};
                if (tile + ${pixels} <= count) {  /* without branches chains overlap */
% for p in range(pixels):
                    ${completed(p, bias, added)}
% endfor
                    ${epilogue.activate_each(
                        activation, [f"c{p}" for p in range(pixels)], v, width)}
% for p in range(pixels):
                    *(__global vector *)(y + place + ${p} * apart) = c${p};
% endfor
                    continue;
                }
% for p in range(pixels):
                if (tile + ${p} < count) {
                    ${completed(p, bias, added)}
                    *(__global vector *)(y + place + ${p} * apart) =
                        ${epilogue.activate(activation, f"c{p}", v)};
                }
% endfor
</%def>
<%def name="completed(p, bias, added)">${f"c{p} += offset;" if bias else ""}
${f"c{p} += *(__global const vector *)(added + place + {p} * apart);" if added else ""}</%def>
