## kernel window_max: where in its volume the largest element of each window or part is
##
## param  ctype: str          type of the elements in memory
## param  stored: str         the same, or "bfloat16"
## param  real: str           type they are compared in
## param  axis: str           d, h or w
## def    window_max
## arg    count: int       elements of index
## arg    od, oh, ow: int  depth, height and width of an output volume
## arg    d, h, w: int     and of an input volume
## arg    kd, kh, kw: int  the window
## arg    sd, sh, sw: int  steps from window to window
## arg    pd, ph, pw: int  padding before the volume
## arg    gd, gh, gw: int  steps within a window
## arg    index: out long
## arg    x: in ctype
## def    part_max
## arg    count, od, oh, ow, d, h, w: int
## arg    index: out long
## arg    x: in ctype
##
## launch   one item per output
## numerics exact: the first of equal elements, NaN above all (the last one), -1 where a window
##          lies in the padding alone; parts are those from
##          floor(i * d / od) to ceil((i + 1) * d / od)
<%namespace name="memory" file="/lib/stored.mako"/>
<%def name="window_bounds(axis)">
        int from_${axis} = out_${axis} * s${axis} - p${axis};
        const int end_${axis} = min(from_${axis} + (k${axis} - 1) * g${axis} + 1, ${axis});
        if (from_${axis} < 0)
            from_${axis} += (g${axis} - 1 - from_${axis}) / g${axis} * g${axis};
</%def>
<%def name="part_bounds(axis)">
        const int from_${axis} = out_${axis} * ${axis} / o${axis};
        const int end_${axis} = ((out_${axis} + 1) * ${axis} + o${axis} - 1) / o${axis};
</%def>
<%def name="position()">
        const int out_w = at % ow, out_h = at / ow % oh, out_d = at / ow / oh % od;
        x += x_offset + (long)(at / ow / oh / od) * d * h * w;
</%def>
<%def name="search(stored, real)">
        const bool any = from_d < end_d && from_h < end_h && from_w < end_w;
        int where = any ? (from_d * h + from_h) * w + from_w : -1;
        ${memory.load(stored, real, "first", "x", "max(where, 0)")}
        ${real} best = first;
        for (int i = from_d; i < end_d; i += gd)
            for (int j = from_h; j < end_h; j += gh)
                for (int k = from_w; k < end_w; k += gw) {
                    const int here = (i * h + j) * w + k;
                    ${memory.load(stored, real, "value", "x", "here")}
                    const bool better = value > best || value != value;
                    best = better ? value : best;
                    where = better ? here : where;
                }
        index[index_offset + at] = where;
</%def>
<%def name="window_max(ctype, stored, real)">
__kernel void window_max(...)
{
    const int at = get_global_id(0);
    if (at < count) {
        ${position()}
% for axis in "dhw":
        ${window_bounds(axis)}
% endfor
        ${search(stored, real)}
    }
}
</%def>
<%def name="part_max(ctype, stored, real)">
__kernel void part_max(...)
{
    const int at = get_global_id(0);
    if (at < count) {
        const int gd = 1, gh = 1, gw = 1;
        ${position()}
% for axis in "dhw":
        ${part_bounds(axis)}
% endfor
        ${search(stored, real)}
    }
}
</%def>
