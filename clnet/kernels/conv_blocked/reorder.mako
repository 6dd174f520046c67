## kernel reorder: plain (n, c, pixels) to blocked (n, c / lanes, pixels, lanes), and back
##
## layout  an item turns over squares of lanes x lanes, kept in registers: it reads and writes whole
##         vectors. The last square of a plane overlaps the one before; a plane smaller than a
##         square goes element by element
## param   lanes: int                channels of a block: 4, 8 or 16
## param   blocked: bool             what is written is blocked
## arg     pixels: int
## arg     share: int    pixels of an item, a multiple of lanes
## arg     groups: int
## arg     y: out float
## arg     y_image: int  its step from image to image
## arg     y_group: int  its step from block to block of channels
## arg     x: in float
## arg     x_image, x_group: int
## launch  (pixels / share, groups, n) items, groups of one
<%namespace name="vectors" file="/lib/vector.mako"/>
<%def name="reorder(lanes, blocked)">
<%
    source = ("pixel + {0} * (long)pixels") if blocked else ("(pixel + {0}) * %dL" % lanes)
    place = ("(pixel + {0}) * %dL" % lanes) if blocked else ("pixel + {0} * (long)pixels")
%>
${vectors.types("float", lanes)}
${vectors.zip("float", lanes)}
__kernel void reorder(...)
{
    const int from = get_global_id(0) * share, end = min(pixels, from + share);
    y += y_offset + (long)get_global_id(2) * y_image + (long)get_global_id(1) * y_group;
    x += x_offset + (long)get_global_id(2) * x_image + (long)get_global_id(1) * x_group;
    if (pixels < ${lanes}) {
        for (int pixel = 0; pixel < pixels; pixel++)
            for (int lane = 0; lane < ${lanes}; lane++)
% if blocked:
                y[pixel * ${lanes} + lane] = x[lane * pixels + pixel];
% else:
                y[lane * pixels + pixel] = x[pixel * ${lanes} + lane];
% endif
        return;
    }
    for (int at = from; at < end; at += ${lanes}) {
        const int pixel = min(at, pixels - ${lanes});
        ${vectors.turn("float", lanes, "x + " + source, "y + " + place)}
    }
}
</%def>
