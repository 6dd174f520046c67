## kernel integer_conv: convolution of uint8 with filters of int8, sums of 32 bits
##
## layout  images are (n, h, w, c), a pixel's channels rounded up to fours; packed and table are
##         integer_pack's. A tile is `pixels` pixels by `vectors` vectors of channels, whose sums
##         stay in registers. On CPUs an item gathers what some pixels read, all taps of a pixel in
##         one row of whole twos of ints, into local memory, and multiplies the rows with each of
##         its panels. Rows that lie in x as they are read (`in_place`) are not gathered
## param   width: int               lanes of a vector; 1: ints
## param   vectors: int             of a panel
## param   pixels: int              of a tile
## param   define: str              C of DOT(sum, x, w), see device/integer_dot.py
## param   narrow: str             of DOT2(sum, x0, w0, x1, w1) for panels of small filters, or ""
## param   shift: int               what DOT takes from x
## param   local_ints: int          of gathered rows
## param   in_place: bool           a pixel's row is its channels in x
## param   computed: bool           whether the zero point of x lies in memory
## param   ytype: 'float'|'uchar'|'int'  what is stored; ints are the sums
## param   added: None|'float'|'uchar'  what is added before that
## def     integer_conv, integer_conv_items
## arg     y: out ytype             (total, y_channels)
## arg     x: in uchar
## arg     packed: in int
## arg     table: in int
## % if added:
## arg     more: in {added}         as y
## arg     more_channels: int       of a pixel of it
## arg     more_factor, more_zero: float
## % endif
## arg     total: int               pixels of y
## arg     share: int               pixels of an item
## arg     panel_share: int         panels of an item
## arg     some: int                pixels whose rows are gathered at a time
## arg     entries, panels, ocg, icg, icp: int  as integer_pack's
## arg     y_channels, y_height, y_width, x_channels, x_height, x_width: int  y_channels in memory
## arg     kh, kw, sh, sw, ph, pw, dh, dw: int
## % if computed:
## arg     point: in uchar          one, the zero point of x
## % else:
## arg     zero: int                of x
## % endif
## arg     factor: float            of all sums, beside the filter's scale
## arg     low, high: float         bounds of what is stored, before y_zero is added
## arg     y_zero: int
##
## launch   (pixels / share, panels / panel_share, groups) items, groups of one; integer_conv_items:
##          an item for a tile
## numerics the sum is exact; float(sum) * (scale * factor), + (more - more_zero) * more_factor,
##          each operation rounded (contraction is off); the bounds, rounded to even, + y_zero
<%namespace name="integers" file="/lib/integers.mako"/>
##
## Rows of bytes of one tap or of several that lie side by side.
<%def name="copying()">
typedef int8 __attribute__((aligned(4))) line;
typedef int __attribute__((aligned(4))) word;
inline void copy_row(__local uchar *to, __global const uchar *from, const int n)
{
    int i = 0;
    for (; i + 32 <= n; i += 32)
        *(__local line *)(to + i) = *(__global const line *)(from + i);
    for (; i < n; i += 4)
        *(__local word *)(to + i) = *(__global const word *)(from + i);
}
</%def>
##
## The rows of `count` pixels from `at` on.
<%def name="gather()">
        for (int p = 0; p < count; p++) {
            const int pixel = at + p, ox = pixel % y_width, oy = pixel / y_width % y_height;
            const int top = oy * sh - ph, left = ox * sw - pw;
            __global const uchar *const image = x + group * icg
                + (long)(pixel / y_width / y_height) * x_height * x_width * x_channels;
            __local uchar *to = (__local uchar *)(rows + p * steps);
            rows[p * steps + steps - 1] = 0;
            const int dense = dw == 1 && icp == x_channels && left >= 0 && left + kw <= x_width;
            for (int r = 0; r < kh; r++) {
                const int iy = top + r * dh, inside = iy >= 0 && iy < x_height;
                if (dense && inside) {
                    copy_row(to, image + (iy * x_width + left) * x_channels, kw * icp);
                    to += kw * icp;
                    continue;
                }
                for (int s = 0; s < kw; s++, to += icp) {
                    const int ix = left + s * dw;
                    __global const uchar *from = image + (iy * x_width + ix) * x_channels;
                    if (!inside || ix < 0 || ix >= x_width)
                        for (int i = 0; i < icp; i++)
                            to[i] = zero;
                    else if (icg % 4 == 0)
                        copy_row(to, from, icp);
                    else
                        for (int i = 0; i < icp; i++)
                            to[i] = i < icg ? from[i] : 0;
                }
            }
        }
</%def>
##
## Sums of the tile of `pixels` pixels from the t-th on.
<%def name="multiply(pixels, vectors, narrow)">
<% step = 2 if narrow else 1 %>
                for (int k = 0; k < steps; k += ${step}, w += ${step * vectors}) {
                    const ints ${", ".join(f"w{v} = w[{v}]" for v in range(step * vectors))};
% for p in range(pixels):
                    {
                        const ints x0 = a${p}[k];
% if narrow:
                        const ints x1 = a${p}[k + 1];
% endif
% for v in range(vectors):
% if narrow:
                        DOT2(c${p}_${v}, x0, w${v}, x1, w${v + vectors});
% else:
                        DOT(c${p}_${v}, x0, w${v});
% endif
% endfor
                    }
% endfor
                }
</%def>
<%def name="integer_conv(
    width, vectors, pixels, define, narrow, shift, local_ints, in_place, computed, ytype, added)">
${integers.types(width)}
${define}
${narrow}
% if not in_place:
${copying()}
% endif
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void integer_conv(...)
{
% if not in_place:
    __local int rows[${local_ints}] __attribute__((aligned(64)));
% endif
    const int lanes = ${width * vectors}, group = get_group_id(2);
    const int first = get_group_id(0) * share, last = min(total, first + share);
    const int first_panel = get_group_id(1) * panel_share;
    const int last_panel = min(panels, first_panel + panel_share);
    const int steps = (kh * kw * icp + 7) / 8 * 2;
    ${integers.zero_point(computed)}
    y += y_offset;
    x += x_offset;
    packed += packed_offset;
    table += table_offset;
% if added:
    more += more_offset;
% endif
    for (int at = first; at < last; at += some) {
        const int count = min(some, last - at);
% if in_place:
        __global const int *const rows = (__global const int *)x + (long)at * steps;
% else:
        ${gather()}
% endif
        for (int panel = first_panel; panel < last_panel; panel++) {
            ${integers.constants(width, vectors, shift)}
            __global const int *const filters =
                packed + (long)(group * panels + panel) * steps * lanes;
% if narrow:
            const int small = table[3 * entries + (group * panels + panel) * lanes];
% endif
            for (int t = 0; t < count; t += ${pixels}) {
                __global const ints_anywhere *w = (__global const ints_anywhere *)filters;
% for p in range(pixels):
                ${"__global" if in_place else "__local"} const int *const a${p} =
                    rows + min(t + ${p}, count - 1) * steps;
                ints ${", ".join(f"c{p}_{v} = begin{v}" for v in range(vectors))};
% endfor
% if narrow:
                if (small)
                    ${multiply(pixels, vectors, True)}
                else
% endif
                    ${multiply(pixels, vectors, False)}
% for p in range(pixels):
                if (t + ${p} < count) {
% for v in range(vectors):
                    ${integers.store(width, v, ytype, added, f"at + t + {p}", f"c{p}_{v}")}
% endfor
                }
% endfor
            }
        }
    }
}
</%def>
<%def name="integer_conv_items(
    vectors, pixels, define, shift, computed, ytype, added)">
${integers.types(1)}
${define}
__kernel void integer_conv_items(...)
{
    const int lanes = ${vectors}, tiles = (total + ${pixels - 1}) / ${pixels};
    const int item = get_global_id(0), group = get_global_id(2);
    const int at = item / panels * ${pixels}, panel = item % panels;
    if (item >= tiles * panels)
        return;
    const int steps = icp / 4, row = (kh * kw * icp + 7) / 8 * 2;
    ${integers.zero_point(computed)}
    const int outside = zero * 0x01010101;
    y += y_offset;
    x += x_offset + group * icg;
    table += table_offset;
% if added:
    more += more_offset;
% endif
    ${integers.constants(1, vectors, shift)}
    __global const int *w =
        packed + packed_offset + (long)(group * panels + panel) * row * lanes;
% for p in range(pixels):
    const int pixel${p} = min(at + ${p}, total - 1);
    const int top${p} = pixel${p} / y_width % y_height * sh - ph;
    const int left${p} = pixel${p} % y_width * sw - pw;
    __global const uchar *const image${p} =
        x + (long)(pixel${p} / y_width / y_height) * x_height * x_width * x_channels;
    int ${", ".join(f"c{p}_{v} = begin{v}" for v in range(vectors))};
% endfor
    for (int r = 0; r < kh; r++)
        for (int s = 0; s < kw; s++) {
% for p in range(pixels):
            const int iy${p} = top${p} + r * dh, ix${p} = left${p} + s * dw;
            const int inside${p} =
                iy${p} >= 0 && iy${p} < x_height && ix${p} >= 0 && ix${p} < x_width;
            __global const uchar *const from${p} =
                image${p} + (inside${p} ? (iy${p} * x_width + ix${p}) * x_channels : 0);
% endfor
            for (int k = 0; k < steps; k++, w += lanes) {
% for p in range(pixels):
                int x${p} = outside;
                if (inside${p}) {
                    if (icg % 4 == 0)
                        x${p} = *(__global const int *)(from${p} + 4 * k);
                    else {
                        x${p} = 0;
                        for (int i = 0; i < 4 && 4 * k + i < icg; i++)
                            x${p} |= from${p}[4 * k + i] << (8 * i);
                    }
                }
% for v in range(vectors):
                DOT(c${p}_${v}, x${p}, w[${v}]);
% endfor
% endfor
            }
        }
% for p in range(pixels):
    if (at + ${p} < total) {
% for v in range(vectors):
        ${integers.store(1, v, ytype, added, f"at + {p}", f"c{p}_{v}")}
% endfor
    }
% endfor
}
</%def>
