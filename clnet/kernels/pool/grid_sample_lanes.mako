## kernel grid_sample_lanes: grid_sample and its gradients, several places at a time
##
## math     grid_sample_lanes: y, grid_sample_lanes_image: gx, grid_sample_lanes_places: gp, as in
##          grid_sample.mako
## layout   dense; images are planes, a row is a plane's element; the grid's axes come last first
## param    ctype: str               type of all elements
## param    statements: tuple[str]   as of grid_sample.mako
## param    results: tuple[str]      the same
## param    taps: int                of one axis
## param    dims: int                axes of images
## param    scalars: int             numbers that the statements read, for each axis
## param    combos: tuple[tuple[int]]  the taps of places: one of each axis
## param    slopes: bool             the weights of axes and their slopes are kept, too
## param    value: str               C expression
## param    t: int                   number of a combination of taps
## param    lanes: int               places that an item works out at a time
## arg      jobs, share: int         all; that an item has
## arg      places, channels: int    of an image
## % for a in range(dims):
## arg      size_{a}: int
## % for j in range(scalars):
## arg      s_{a}_{j}: ctype
## % endfor
## % endfor
## arg      grid: in ctype[n, places, dims]
## def      grid_sample_lanes
## arg      step: int                channels of a job
## arg      y: out ctype[n, channels, places]
## arg      x: in ctype[n, channels, pixels]
## def      grid_sample_lanes_image
## arg      step: int                channels of a job
## arg      gx: out ctype[n, channels, pixels]
## arg      gy: in ctype[n, channels, places]
## def      grid_sample_lanes_places
## arg      gp: out ctype[n, places, dims]
## arg      gy: in ctype[n, channels, places]
## arg      x: in ctype[n, channels, pixels]
## launch   an item for each share jobs: a job is lanes places of step channels, all places of
##          them, lanes places of all channels
## numerics contraction off; sums in the order of taps, of places and their taps, of channels
<%namespace name="prelude" file="/lib/prelude.mako"/>
<%namespace name="sample" file="grid_sample.mako"/>
##
## What is kept of places: loops without branches, which compilers make vectors of.
<%def name="kept(ctype, taps, dims, combos, slopes, lanes)">
    const int pixels = size_0 ${" ".join(f"* size_{a}" for a in range(1, dims))};
% for t in range(len(combos)):
    int row__${t}[${lanes}];
    ${bits(ctype)} there__${t}[${lanes}];
% if not slopes:
    ${ctype} weight__${t}[${lanes}];
% endif
% endfor
% if slopes:
% for a in range(dims):
% for t in range(taps):
    ${ctype} weight_${a}__${t}[${lanes}], slope_${a}__${t}[${lanes}];
% endfor
% endfor
% endif
</%def>
<%def name="bits(ctype)" filter="trim">
${"int" if ctype == "float" else "long"}
</%def>
## A choice would become a branch, for compilers to do without what is not chosen.
<%def name="masked(ctype, value, t)" filter="trim">
as_${ctype}(as_${bits(ctype)}(${value}) & there__${t}[k])
</%def>
<%def name="work_out(ctype, statements, results, taps, dims, scalars, combos, slopes)">
        for (int k = 0; k < count; ++k) {
            __global const ${ctype} *grid = of_image + (long)(first + k) * ${dims};
            ${sample.axes(ctype, statements, results, taps, dims, scalars)}
            ${sample.rows(combos)}
% for t, parts in enumerate(combos):
            row__${t}[k] = row_${t};
            there__${t}[k] = there_${t} ? -1 : 0;
% if not slopes:
            {
                ${sample.product(ctype, "weight", parts)}
                weight__${t}[k] = weight;
            }
% endif
% endfor
% if slopes:
% for a in range(dims):
% for t in range(taps):
            weight_${a}__${t}[k] = weight_${a}[${t}];
            slope_${a}__${t}[k] = slope_${a}[${t}];
% endfor
% endfor
% endif
        }
</%def>
<%def name="grid_sample_lanes(
    ctype, statements, results, taps, dims, scalars, combos, lanes)">
#pragma OPENCL FP_CONTRACT OFF
${prelude.roundings(ctype)}
__kernel void grid_sample_lanes(...) {
    const int parts = (channels - 1) / step + 1, blocks = (places - 1) / ${lanes} + 1;
    const int end = min(jobs, ((int)get_global_id(0) + 1) * share);
    ${kept(ctype, taps, dims, combos, False, lanes)}
    for (int job = get_global_id(0) * share; job < end; ++job) {
        const int first = job % blocks * ${lanes}, count = min(${lanes}, places - first);
        const int image = job / blocks / parts, channel = job / blocks % parts * step;
        const int some = min(step, channels - channel);
        __global const ${ctype} *of_image = grid + grid_offset + (long)image * places * ${dims};
        ${work_out(ctype, statements, results, taps, dims, scalars, combos, False)}
        __global const ${ctype} *from = x + x_offset + ((long)image * channels + channel) * pixels;
        __global ${ctype} *to = y + y_offset + ((long)image * channels + channel) * places + first;
        for (int c = 0; c < some; ++c) {
            for (int k = 0; k < count; ++k) {
% for t in range(len(combos)):
                const ${ctype} v_${t} = ${masked(ctype, f"from[row__{t}[k]]", t)};
% endfor
                ${ctype} sum = v_0 * weight__0[k];
% for t in range(1, len(combos)):
                sum += v_${t} * weight__${t}[k];
% endfor
                to[k] = sum;
            }
            from += pixels;
            to += places;
        }
    }
}
</%def>
<%def name="grid_sample_lanes_image(
    ctype, statements, results, taps, dims, scalars, combos, lanes)">
#pragma OPENCL FP_CONTRACT OFF
${prelude.roundings(ctype)}
__kernel void grid_sample_lanes_image(...) {
    const int parts = (channels - 1) / step + 1;
    const int end = min(jobs, ((int)get_global_id(0) + 1) * share);
    ${kept(ctype, taps, dims, combos, False, lanes)}
    for (int job = get_global_id(0) * share; job < end; ++job) {
        const int image = job / parts, channel = job % parts * step;
        const int some = min(step, channels - channel);
        const long plane = (long)image * channels + channel;
        __global const ${ctype} *of_image = grid + grid_offset + (long)image * places * ${dims};
        __global ${ctype} *const planes = gx + gx_offset + plane * pixels;
        for (int i = 0; i < some * pixels; ++i)
            planes[i] = 0;
        for (int first = 0; first < places; first += ${lanes}) {
            const int count = min(${lanes}, places - first);
            ${work_out(ctype, statements, results, taps, dims, scalars, combos, False)}
            for (int c = 0; c < some; ++c) {
                __global ${ctype} *const to = planes + c * pixels;
                __global const ${ctype} *const g = gy + gy_offset + (plane + c) * places + first;
                for (int k = 0; k < count; ++k) {
% for t in range(len(combos)):
                    to[row__${t}[k]] += ${masked(ctype, f"weight__{t}[k] * g[k]", t)};
% endfor
                }
            }
        }
    }
}
</%def>
<%def name="grid_sample_lanes_places(
    ctype, statements, results, taps, dims, scalars, combos, lanes)">
#pragma OPENCL FP_CONTRACT OFF
${prelude.roundings(ctype)}
__kernel void grid_sample_lanes_places(...) {
    const int blocks = (places - 1) / ${lanes} + 1;
    const int end = min(jobs, ((int)get_global_id(0) + 1) * share);
    ${kept(ctype, taps, dims, combos, True, lanes)}
% for t in range(len(combos)):
    ${ctype} sum_${t}[${lanes}];
% endfor
    for (int job = get_global_id(0) * share; job < end; ++job) {
        const int first = job % blocks * ${lanes}, count = min(${lanes}, places - first);
        const int image = job / blocks;
        const long start = (long)image * places + first;
        __global const ${ctype} *of_image = grid + grid_offset + (long)image * places * ${dims};
        ${work_out(ctype, statements, results, taps, dims, scalars, combos, True)}
        __global const ${ctype} *from = x + x_offset + (long)image * channels * pixels;
        __global const ${ctype} *g = gy + gy_offset + (long)image * channels * places + first;
        for (int k = 0; k < count; ++k) {
% for t in range(len(combos)):
            sum_${t}[k] = 0;
% endfor
        }
        for (int c = 0; c < channels; ++c) {
            for (int k = 0; k < count; ++k) {
% for t in range(len(combos)):
                sum_${t}[k] += ${masked(ctype, f"from[row__{t}[k]]", t)} * g[k];
% endfor
            }
            from += pixels;
            g += places;
        }
        __global ${ctype} *const to = gp + gp_offset + start * ${dims};
        for (int k = 0; k < count; ++k) {
% for a in range(dims):
            {
                ${ctype} slope = 0;
% for t, parts in enumerate(combos):
                slope += sum_${t}[k] * slope_${a}__${parts[a]}[k]${
                    "".join(f" * weight_{b}__{part}[k]" for b, part in enumerate(parts) if b != a)};
% endfor
                to[k * ${dims} + ${dims - 1 - a}] = slope;
            }
% endfor
        }
    }
}
</%def>
