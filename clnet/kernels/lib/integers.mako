## lib integers: vectors of 8 bits, and what becomes of sums of products; used by integer/*.mako
##
## param width: int               lanes of a vector; 1: ints
## param vectors: int             of a panel
## param shift: int               what DOT takes from x
## param v: int                   which vector
## param ytype: 'float'|'uchar'|'int'  what is stored; ints are the sums
## param computed: bool           whether the zero point of x lies in memory
## param added: None|'float'|'uchar'  what is added before that
## param where: str               C expression of a pixel
## param sums: str                C expression of sums
<%namespace name="prelude" file="/lib/prelude.mako"/>
<%def name="types(width)">
#pragma OPENCL FP_CONTRACT OFF
<% n = "" if width == 1 else width %>
typedef int${n} ints;
typedef float${n} floats;
typedef uchar${n} uchars;
typedef ints __attribute__((aligned(4))) ints_anywhere;
typedef floats __attribute__((aligned(4))) floats_anywhere;
typedef uchars __attribute__((aligned(1))) uchars_anywhere;
${prelude.convert(width)}
</%def>
##
## That of the images, where it lies in memory.
<%def name="zero_point(computed)">
% if computed:
    const int zero = point[point_offset];
% endif
</%def>
##
## What a filter's lanes begin with and are multiplied by.
<%def name="constants(width, vectors, shift)">
% for v in range(vectors):
            const int at${v} = (group * panels + panel) * ${width * vectors} + ${v * width};
            const ints begin${v} = *(__global const ints_anywhere *)(table + at${v})
                - *(__global const ints_anywhere *)(table + entries + at${v}) * (zero - ${shift});
            const floats scale${v} =
                *(__global const floats_anywhere *)(table + 2 * entries + at${v}) * factor;
% endfor
</%def>
##
## Sums of a pixel and a vector of channels, as they are stored. Numbers of 8 bits are rounded by
## adding 1.5 * 2^23, behind which a float has no fraction: PoCL's rint and conversions of vectors
## go lane by lane.
<%def name="store(width, v, ytype, added, where, sums)">
<% n = "" if width == 1 else width %>
{
    const int c = panel * lanes + ${v * width}, whole = c + ${width} <= ocg;
    __global ${ytype} *const to = y + (long)(${where}) * y_channels + group * ocg + c;
% if ytype == "int":
    const ints result = ${sums};
    if (whole)
        *(__global ints_anywhere *)to = result;
% else:
    floats value = CONVERT(${sums}, floats);
% if added:
    __global const ${added} *const other =
        more + (long)(${where}) * more_channels + group * ocg + c;
    floats term = 0;
    if (whole)
        term = CONVERT(*(__global const ${added}s_anywhere *)other, floats);
% if width > 1:
    else
        for (int i = 0; i < ocg - c; i++)
            term[i] = other[i];
% endif
    value = value * scale${v} + (term - more_zero) * more_factor;
% else:
    value *= scale${v};
% endif
    value = value < low ? (floats)low : value;
    value = value > high ? (floats)high : value;
% if ytype == "uchar":
    const ints result = as_int${n}(value + 12582912.0f) + (y_zero - 0x4b400000);
    if (whole)
        *(__global uchars_anywhere *)to = CONVERT(result, uchars);
% else:
    const floats result = value;
    if (whole)
        *(__global floats_anywhere *)to = result;
% endif
% endif
% if width > 1:
    else
        for (int i = 0; i < ocg - c; i++)
            to[i] = result[i];
% endif
}
</%def>
