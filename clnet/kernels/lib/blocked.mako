## lib blocked: planes of blocked arrays, and windows over them
##
## param   lanes: int                channels of a block
## param   result_height: str        C expression, rows of a plane of what is written
## param   stream: bool              what is stored goes past the caches: a pixel is a line of them
## param   value: str                C expression, a pixel
## param   place: str                C expression, where it goes: a pointer to its first channel
## param   axis: str                 y or x, in the names of what is declared
## param   at: str                   C expression, an element's number along the axis
## param   adaptive: bool            windows are the nearly equal parts of a plane
## param   size: str                 C expression, elements of the plane along the axis
## param   out: str                  C expression, windows along the axis
## param   k: int                    elements a window spans along the axis
## param   s: int                    step from window to window along the axis
## param   p: int                    padding along the axis
<%namespace name="prelude" file="prelude.mako"/>
<%def name="row(result_height)">
    const int plane = get_global_id(0) / ${result_height},
        row = get_global_id(0) - plane * ${result_height};
</%def>
<%def name="source(lanes)">
    const int image = plane / groups, group = plane - image * groups;
    x += x_offset + (long)image * image_step + (long)group * group_step;
    y += y_offset + (long)get_global_id(0) * out_w * ${lanes};
</%def>
<%def name="types(lanes, stream=False)">
typedef float${lanes} __attribute__((aligned(4))) vector;
typedef int${lanes} __attribute__((aligned(4))) whole;
% if stream:
${prelude.stream("float", lanes)}
% endif
</%def>
<%def name="store(value, place, lanes, stream)">
${(
    f"stream({value}, (__global float{lanes} *)({place}));" if stream
    else f"*(__global vector *)({place}) = {value};")}
</%def>
##
## Which windows along an axis may hold element `at`.
<%def name="windows(axis, at, adaptive, size, out, k, s, p)">
% if adaptive:
    const int low_${axis} = ${at} * ${out} / ${size};
    const int high_${axis} = ((${at} + 1) * ${out} + ${size} - 1) / ${size} - 1;
% else:
    const int high_${axis} = min((${at} + ${p}) / ${s}, ${out} - 1);
    const int low_${axis} = max((${at} + ${p}) / ${s} - ${(k - 1) // s}, 0);
% endif
</%def>
