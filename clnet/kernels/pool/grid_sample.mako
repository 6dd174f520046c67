## kernel grid_sample: images and volumes at the places of a grid, and its gradients
##
## math     y[n, c, p] = sum_t weight_t(p) x[n, c, row_t(p)]; a row outside counts as 0
##          grid_sample_rows: each place's rows and weights, in the order of taps, then of places
##          grid_sample_image: gx[n, c, r] = sum_i weights[i] gy[n, c, i % count] over r's run of i
##          grid_sample_places: gp[n, p, a] = sum_t weight_t'(p) sum_c gy[n, c, p] x[n, c, row_t(p)]
## layout   dense; images are planes, a row is a plane's element; the grid's axes come last first
## param    ctype: str               type of all elements but indices
## param    statements: tuple[str]   C declarations of temporaries, of one axis
## param    results: tuple[str]      C text of each tap's index, weight and whether it is inside;
##                                   then, for grid_sample_places, of each weight's slope
## param    taps: int                of one axis
## param    dims: int                axes of images
## param    scalars: int             numbers that the statements read, for each axis
## param    combos: tuple[tuple[int]]  the taps of places: one of each axis
## param    name: str                of a variable
## param    parts: tuple[int]        a combination of taps
## param    tile: int                channels that an item of grid_sample_image adds up at once
## arg      jobs: int                items that have something to do
## def      grid_sample, grid_sample_rows, grid_sample_places
## arg      places: int              of an image
## % for a in range(dims):
## arg      size_{a}: int
## % for j in range(scalars):
## arg      s_{a}_{j}: ctype
## % endfor
## % endfor
## arg      grid: in ctype[n, places, dims]
## def      grid_sample
## arg      channels, step: int      of an image; that an item takes
## arg      y: out ctype[n, channels, places]
## arg      x: in ctype[n, channels, pixels]
## def      grid_sample_rows
## arg      limit: int               all images' rows; the key of what lies outside
## arg      keys: out int[taps ** dims, jobs]
## arg      order: out int[taps ** dims, jobs]
## arg      weights: out ctype[taps ** dims, jobs]
## def      grid_sample_places
## arg      channels: int
## arg      gp: out ctype[n, places, dims]
## arg      gy: in ctype[n, channels, places]
## arg      x: in ctype[n, channels, pixels]
## def      grid_sample_image
## arg      channels, blocks: int    of an image; of tile of them
## arg      places, pixels, count: int  of an image; of an image; places of all images
## arg      gx: out ctype[n, channels, pixels]
## arg      gy: in ctype[n, channels, places]
## arg      starts: in int[n * pixels + 1]
## arg      order: in int[taps ** dims * count]
## arg      weights: in ctype[taps ** dims, count]
## launch   grid_sample: an item for each place and step channels; grid_sample_rows and
##          grid_sample_places: one for each place; grid_sample_image: for each row and tile
## numerics contraction off; sums in the order of taps, of channels, of the sorted rows
<%def name="axes(ctype, statements, results, taps, dims, scalars)">
% for a in range(dims):
    int at_${a}[${taps}];
    bool inside_${a}[${taps}];
    ${ctype} weight_${a}[${taps}];
    % if len(results) > 3 * taps:
    ${ctype} slope_${a}[${taps}];
    % endif
    {
        const ${ctype} place = grid[${dims - 1 - a}];
    % for j in range(scalars):
        const ${ctype} s_${j} = s_${a}_${j};
    % endfor
    % for statement in statements:
        ${statement}
    % endfor
    % for t in range(taps):
        at_${a}[${t}] = (int)(${results[3 * t]});
        weight_${a}[${t}] = ${results[3 * t + 1]};
        inside_${a}[${t}] = ${results[3 * t + 2]} > 0;
        % if len(results) > 3 * taps:
        slope_${a}[${t}] = ${results[3 * taps + t]};
        % endif
    % endfor
    }
% endfor
</%def>
<%def name="rows(combos)">
% for t, parts in enumerate(combos):
    int row_${t} = 0;
    bool there_${t} = true;
    % for a, part in enumerate(parts):
    row_${t} = row_${t} * size_${a} + at_${a}[${part}];
    there_${t} = there_${t} && inside_${a}[${part}];
    % endfor
% endfor
</%def>
<%def name="product(ctype, name, parts)">
    ${ctype} ${name} = weight_0[${parts[0]}];
% for a, part in enumerate(parts):
    % if a > 0:
    ${name} *= weight_${a}[${part}];
    % endif
% endfor
</%def>
<%def name="grid_sample(ctype, statements, results, taps, dims, scalars, combos)">
#pragma OPENCL FP_CONTRACT OFF
__kernel void grid_sample(...) {
    const int item = get_global_id(0);
    if (item >= jobs)
        return;
    const int place = item % places, blocks = (channels - 1) / step + 1;
    const int image = item / places / blocks, first = item / places % blocks * step;
    const int some = min(step, channels - first);
    const int pixels = size_0 ${" ".join(f"* size_{a}" for a in range(1, dims))};
    grid += grid_offset + ((long)image * places + place) * ${dims};
    ${axes(ctype, statements, results, taps, dims, scalars)}
    ${rows(combos)}
% for t, parts in enumerate(combos):
    ${product(ctype, f"weight__{t}", parts)}
% endfor
    x += x_offset + ((long)image * channels + first) * pixels;
    y += y_offset + ((long)image * channels + first) * places + place;
    for (int c = 0; c < some; ++c) {
        ${ctype} sum = (there_0 ? x[row_0] : 0) * weight__0;
% for t in range(1, len(combos)):
        sum += (there_${t} ? x[row_${t}] : 0) * weight__${t};
% endfor
        *y = sum;
        x += pixels;
        y += places;
    }
}
</%def>
<%def name="grid_sample_rows(ctype, statements, results, taps, dims, scalars, combos)">
#pragma OPENCL FP_CONTRACT OFF
__kernel void grid_sample_rows(...) {
    const int item = get_global_id(0);
    if (item >= jobs)
        return;
    const int pixels = size_0 ${" ".join(f"* size_{a}" for a in range(1, dims))};
    const int first = item / places * pixels;
    grid += grid_offset + (long)item * ${dims};
    ${axes(ctype, statements, results, taps, dims, scalars)}
    ${rows(combos)}
    keys += keys_offset;
    order += order_offset;
    weights += weights_offset;
% for t, parts in enumerate(combos):
    ${product(ctype, f"weight__{t}", parts)}
    keys[${t} * jobs + item] = there_${t} ? first + row_${t} : limit;
    order[${t} * jobs + item] = ${t} * jobs + item;
    weights[${t} * jobs + item] = weight__${t};
% endfor
}
</%def>
<%def name="grid_sample_places(ctype, statements, results, taps, dims, scalars, combos)">
#pragma OPENCL FP_CONTRACT OFF
__kernel void grid_sample_places(...) {
    const int item = get_global_id(0);
    if (item >= jobs)
        return;
    const int image = item / places, place = item % places;
    const int pixels = size_0 ${" ".join(f"* size_{a}" for a in range(1, dims))};
    grid += grid_offset + (long)item * ${dims};
    ${axes(ctype, statements, results, taps, dims, scalars)}
    ${rows(combos)}
    x += x_offset + (long)image * channels * pixels;
    gy += gy_offset + (long)image * channels * places + place;
% for t in range(len(combos)):
    ${ctype} sum_${t} = 0;
% endfor
    for (int c = 0; c < channels; ++c) {
        const ${ctype} g = *gy;
% for t in range(len(combos)):
        sum_${t} += (there_${t} ? x[row_${t}] : 0) * g;
% endfor
        x += pixels;
        gy += places;
    }
    gp += gp_offset + (long)item * ${dims};
% for k in range(dims):
    {
        ${ctype} slope = 0;
    % for t, parts in enumerate(combos):
        {
            ${ctype} factor = sum_${t} * slope_${k}[${parts[k]}];
        % for a, part in enumerate(parts):
            % if a != k:
            factor *= weight_${a}[${part}];
            % endif
        % endfor
            slope += factor;
        }
    % endfor
        gp[${dims - 1 - k}] = slope;
    }
% endfor
}
</%def>
<%def name="grid_sample_image(ctype, tile)">
#pragma OPENCL FP_CONTRACT OFF
__kernel void grid_sample_image(...) {
    const int item = get_global_id(0);
    if (item >= jobs)
        return;
    const int pixel = item % pixels, first = item / pixels % blocks * ${tile};
    const int image = item / pixels / blocks, row = image * pixels + pixel;
    const int some = channels - first;
    gy += gy_offset + ((long)image * channels + first) * places;
    starts += starts_offset;
    order += order_offset;
    weights += weights_offset;
% for k in range(tile):
    ${ctype} sum_${k} = 0;
    __global const ${ctype} *gy_${k} = gy + (long)min(${k}, some - 1) * places;
% endfor
    const int end = starts[row + 1];
    for (int j = starts[row]; j < end; ++j) {
        const int i = order[j], place = i % count - image * places;
        const ${ctype} weight = weights[i];
% for k in range(tile):
        sum_${k} += weight * gy_${k}[place];
% endfor
    }
    gx += gx_offset + ((long)image * channels + first) * pixels + pixel;
% for k in range(tile):
    if (${k} < some)
        gx[(long)${k} * pixels] = sum_${k};
% endfor
}
</%def>
