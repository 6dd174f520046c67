## kernel norm: mean and variance of each channel, and the sums of its gradient
##
## math     parts of a channel give (mean, squares = sum (x - mean)^2), joined by Chan's formula;
##          gradient: sum gy and sum gy (x - mean)
## layout   x and gy dense (n, channels, inner). The elements of a channel, in order, are cut into
##          parts small enough that the second pass over one finds it in a cache; columns: inner is
##          1.
## param    columns: bool                inner is 1: a vector holds neighbouring channels
## param    grad: bool                   the sums of the gradient instead of the statistics
## param    ctype: str                   element type in memory; 16-bit floats unless columns
## param    acc: str                     element type in registers, and of statistics
## param    lanes: int                   lanes of a vector of acc
## param    whole: bool                  parts is 1: what follows from the sums is stored
## param    track: ""|"blend"|"count"|"average"  the variance is stored; or running statistics move
##          towards the batch's by momentum, and a batch is counted; or by 1 / count
## param    weighted: bool               there is a weight
## param    vector: str                  type of a vector of acc
## param    sums: dict                   variable -> expression of v (and g) that is added to it
## param    fill: str                    what stands where a vector reaches past the end
## def      norm_parts
## arg      channels, inner: int
## arg      total: int                         elements of a channel
## arg      part_size, parts: int
## % if not whole:
## arg      first: out acc[channels, parts]    mean, or sum gy
## arg      second: out acc[channels, parts]   squares, or sum gy (x - mean)
## % elif grad:
## arg      gweight: out acc[channels]
## arg      gbias: out acc[channels]
## arg      invstd: in acc[channels]
## % else:
## arg      eps: acc
## arg      mean, invstd: out acc[channels]    invstd: 1 / sqrt(variance + eps)
## % if not track:
## arg      var: out acc[channels]             the unbiased variance
## % else:
## arg      running_mean, running_var: inout acc[channels]
## % if track != "blend":
## arg      batches: inout long[1]
## % endif
## % if track != "average":
## arg      momentum: acc
## % endif
## % endif
## % endif
## arg      x: in ctype
## % if grad:
## arg      gy: in ctype
## arg      mean: in acc[channels]
## % endif
## def      norm_statistics
## arg      channels, total, part_size, parts: int
## arg      eps: acc
## arg      mean, invstd: out acc[channels]    invstd: 1 / sqrt(variance + eps)
## % if not track:
## arg      var: out acc[channels]             the unbiased variance
## % else:
## arg      running_mean, running_var: inout acc[channels]
## % if track != "blend":
## arg      batches: inout long[1]
## % endif
## % if track != "average":
## arg      momentum: acc
## % endif
## % endif
## arg      means: in acc[channels, parts]
## arg      squares: in acc[channels, parts]
## def      norm_slopes
## arg      channels, parts: int
## arg      gweight: out acc[channels]
## arg      gbias: out acc[channels]
## arg      sums: in acc[channels, parts]      sum gy
## arg      products: in acc[channels, parts]  sum gy (x - mean)
## arg      invstd: in acc[channels]
## def      norm_group_slopes
## arg      n, groups, members, parts: int     n examples; members: channels of a group
## arg      gweight: out acc[groups, members]
## arg      gbias: out acc[groups, members]
## arg      scaled: out acc[n, groups]         sum gy weight (x - mean) invstd
## arg      level: out acc[n, groups]          sum gy weight
## arg      sums: in acc[n, groups, members, parts]
## arg      products: in acc[n, groups, members, parts]
## arg      invstd: in acc[n, groups]
## % if weighted:
## arg      weight: in acc[groups, members]
## % endif
## launch   parts: local 1, an item takes one part of one channel or of a vector of channels. The
##          others: one item a channel; norm_group_slopes: one a group of an example, and then one
##          a channel.
## numerics two passes over each part; everything is joined in a fixed order
<%namespace name="channel_sums" file="/lib/channel_sums.mako"/>
<%namespace name="lib" file="/lib/fold.mako"/>
<%namespace name="ragged" file="/lib/ragged.mako"/>
<%def name="part_pass(sums, vector, lanes, columns, grad, fill)">
% if columns:
    for (int row = from; row < end; row++) {
        const long at = (long)row * channels + channel;
        const ${vector} v = load_ragged(x + at, count, 0);
% if grad:
        const ${vector} g = load_ragged(gy + at, count, 0);
% endif
% for name, value in sums.items():
        ${name} += ${value};
% endfor
    }
% else:
    /* Several sums of each kind: an addition waits four cycles for the one before. */
% for name in sums:
    ${vector} ${", ".join(f"{name}_{k} = 0" for k in range(1, 4))};
% endfor
    for (int at = from, n; at < end; at += n) {
        const int row = at / inner, column = at - row * inner;
        n = min(inner - column, end - at);
        const long start = ((long)row * channels + channel) * inner + column;
        int i = 0;
        for (; i + ${4 * lanes} <= n; i += ${4 * lanes}) {
% for k in range(4):
            {
                const ${vector} v = load_ragged(x + start + i + ${k * lanes}, ${lanes}, 0);
% if grad:
                const ${vector} g = load_ragged(gy + start + i + ${k * lanes}, ${lanes}, 0);
% endif
% for name, value in sums.items():
                ${name}${f"_{k}" if k else ""} += ${value};
% endfor
            }
% endfor
        }
        for (; i < n; i += ${lanes}) {
            const ${vector} v = load_ragged(x + start + i, n - i, ${fill});
% if grad:
            const ${vector} g = load_ragged(gy + start + i, n - i, 0);
% endif
% for name, value in sums.items():
            ${name} += ${value};
% endfor
        }
    }
% for name in sums:
    ${name} += ${name}_1 + (${name}_2 + ${name}_3);
% endfor
% endif
</%def>
<%def name="norm_parts(columns, grad, ctype, acc, lanes, whole, track)">
<%
    vector = f"{acc}{lanes}"
    follows = channel_sums.slopes if grad else lambda channel, one, other: (
        channel_sums.statistics(channel, one, other, acc, track))
    fold = (lambda name: name) if columns else (lambda name: f"sum_fold({name})")
%>
${lib.fold("sum", acc, lanes)}
${ragged.load(ctype, acc, lanes)}
${ragged.store(acc, acc, lanes)}
__kernel void norm_parts(...) {
% if not whole:
    first += first_offset;
    second += second_offset;
% elif grad:
    gweight += gweight_offset;
    gbias += gbias_offset;
    invstd += invstd_offset;
% else:
    ${begin(track)}
% endif
    x += x_offset;
% if grad:
    gy += gy_offset;
% endif
    const int part = get_global_id(0) % parts;
    const int from = part * part_size, end = min(from + part_size, total);
% if columns:
    const int channel = get_global_id(0) / parts * ${lanes}, count = channels - channel;
% else:
    const int channel = get_global_id(0) / parts;
% endif
    ${vector} sums = 0, products = 0;
% if grad:
    mean += mean_offset;
    const ${vector if columns else acc} centre =
        ${"load_ragged(mean + channel, count, 0)" if columns else "mean[channel]"};
    ${part_pass({"sums": "g", "products": "g * (v - centre)"}, vector, lanes, columns, grad, "0")}
    const ${vector if columns else acc} one = ${fold("sums")}, other = ${fold("products")};
% else:
    ${part_pass({"sums": "v"}, vector, lanes, columns, grad, "0")}
    const ${vector if columns else acc} near = ${fold("sums")} / (end - from);
    // What rounding left of the mean is the mean of the distances to it.
    ${vector} rests = 0;
    ${part_pass({"rests": "v - near", "products": "(v - near) * (v - near)"}, vector, lanes,
        columns, grad, "near")}
    const ${vector if columns else acc} rest = ${fold("rests")} / (end - from);
    const ${vector if columns else acc} one = near + rest;
    const ${vector if columns else acc} squares = ${fold("products")};
    /* A variance that overflows is infinite, none is below 0. PoCL has no isinf of 16 lanes. */
    const ${vector if columns else acc} left = squares - rest * rest * (end - from);
    const ${vector if columns else acc} other =
        squares == (${acc})INFINITY ? squares : left < 0 ? 0 : left;
% endif
% if columns:
    /* No vstore: see lib/vector.mako. */
    const ${acc} *ones = (const ${acc} *)&one, *others = (const ${acc} *)&other;
    for (int k = 0; k < min(count, ${lanes}); k++) {
% if whole:
        ${follows("channel + k", "ones[k]", "others[k]")}
% else:
        first[(channel + k) * parts + part] = ones[k];
        second[(channel + k) * parts + part] = others[k];
% endif
    }
% elif whole:
    ${follows("channel", "one", "other")}
% else:
    first[channel * parts + part] = one;
    second[channel * parts + part] = other;
% endif
}
</%def>
<%def name="norm_statistics(acc, track)">
__kernel void norm_statistics(...) {
    const int channel = get_global_id(0);
    if (channel >= channels)
        return;
    ${acc} centre = 0, square = 0;
    #pragma unroll 8
    for (int part = 0; part < parts; part++) {
        const int before = part * part_size, here = min(part_size, total - before);
        const ${acc} share = (${acc})here / (before + here);
        const ${acc} step = means[means_offset + channel * parts + part] - centre;
        centre += step * share;
        /* No step * step, which overflows where the mean is large and `before` is 0. */
        square += squares[squares_offset + channel * parts + part]
            + step * (step * (before * share));
    }
    ${begin(track)}
    ${channel_sums.statistics("channel", "centre", "square", acc, track)}
}
</%def>
<%def name="norm_slopes(acc)">
__kernel void norm_slopes(...) {
    const int channel = get_global_id(0);
    if (channel >= channels)
        return;
    ${acc} sum = 0, product = 0;
    #pragma unroll 8
    for (int part = 0; part < parts; part++) {
        sum += sums[sums_offset + channel * parts + part];
        product += products[products_offset + channel * parts + part];
    }
    gweight += gweight_offset;
    gbias += gbias_offset;
    invstd += invstd_offset;
    ${channel_sums.slopes("channel", "sum", "product")}
}
</%def>
<%def name="norm_group_slopes(acc, weighted)">
__kernel void norm_group_slopes(...) {
    const int item = get_global_id(0), at = item - n * groups, channels = groups * members;
    if (at >= channels)
        return;
    sums += sums_offset;
    products += products_offset;
    ${acc} sum = 0, product = 0;
    if (at < 0) {
        const int first = item % groups * members;
        for (int member = 0; member < members; member++) {
            const ${acc} scale = ${"weight[weight_offset + first + member]" if weighted else "1"};
            for (int part = 0; part < parts; part++) {
                const long i = ((long)item * members + member) * parts + part;
                sum += scale * sums[i];
                product += scale * products[i];
            }
        }
        level[level_offset + item] = sum;
        scaled[scaled_offset + item] = product * invstd[invstd_offset + item];
        return;
    }
    for (int image = 0; image < n; image++) {
        const ${acc} scale = invstd[invstd_offset + image * groups + at / members];
        for (int part = 0; part < parts; part++) {
            const long i = ((long)image * channels + at) * parts + part;
            sum += sums[i];
            product += scale * products[i];
        }
    }
    gbias[gbias_offset + at] = sum;
    gweight[gweight_offset + at] = product;
}
</%def>
##
## Pointers to where the statistics of channels go.
<%def name="begin(track)">
    mean += mean_offset, invstd += invstd_offset;
% if not track:
    var += var_offset;
% else:
    running_mean += running_mean_offset, running_var += running_var_offset;
% if track != "blend":
    batches += batches_offset;
% endif
% endif
</%def>
