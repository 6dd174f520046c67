## kernel norm_groups: groups of channels of an example by their own mean and deviation, by an item
##
## An item has a whole group: what its statistics read lies in a cache when it is normalised, and
## one launch does it all.
##
## math     y = (x - mean) invstd weight + bias; with g = gy weight and z = (x - mean) invstd:
##          gx = invstd (g - mean(g) - z mean(g z)), gweight = sum gy z, gbias = sum gy
## layout   x, y, gy and gx dense (count, members, inner): count groups of all examples, in order
## param    flat: bool                   inner is 1: a vector holds neighbouring members. Otherwise
##                                       inner is a vector or more
## param    weighted: bool               there is a weight
## param    biased: bool                 there is a bias
## param    summed: bool                 sums and products are written, too
## param    ctype: str                   element type
## param    lanes: int                   lanes of a vector
## param    stream: bool                 results go past the caches; inner is whole vectors
## param    arrays: list[str]            which pointers are read
## param    sums: dict                   variable -> expression of the elements that is added to it
## param    fills: list[str]             what stands for elements behind the end
## param    fetch: bool                  what lies behind the end is asked for, too
## param    value: str                   C expression of a vector of the result, of v (and g)
## def      norm_groups, norm_groups_grad
## arg      count, per_item: int               groups, and those of an item
## arg      groups, members, inner: int        groups of an example; channels of a group
## arg      part_size: int                     elements that are summed before sums are joined
## def      norm_groups
## arg      eps: ctype
## arg      y: out ctype
## arg      mean: out ctype[count]
## arg      invstd: out ctype[count]             1 / sqrt(variance + eps)
## arg      var: out ctype[count]                the unbiased variance
## arg      x: in ctype
## % if weighted:
## arg      weight: in ctype[groups, members]
## % endif
## % if biased:
## arg      bias: in ctype[groups, members]
## % endif
## def      norm_groups_grad
## arg      gx: out ctype
## % if summed:
## arg      sums: out ctype[count, members]      sum gy
## arg      products: out ctype[count, members]  sum gy z
## % endif
## arg      gy, x: in ctype
## arg      mean, invstd: in ctype[count]
## % if weighted:
## arg      weight: in ctype[groups, members]
## % endif
## def      norm_groups_join
## arg      n, channels: int
## arg      gweight, gbias: out ctype[channels]
## arg      sums, products: in ctype[n, channels]
## launch   local 1, per_item groups an item. join: one item a channel
## numerics two passes over each part; parts are joined by Chan's formula, all sums in a fixed order
<%namespace name="lib" file="/lib/fold.mako"/>
<%namespace name="ragged" file="/lib/ragged.mako"/>
<%namespace name="prelude" file="/lib/prelude.mako"/>
##
## Several sums of each kind: an addition waits four cycles for the one before.
<%def name="run(arrays, sums, fills, ctype, lanes, fetch=False)">
<% vector = f"{ctype}{lanes}" %>
% for name in sums:
    ${vector} ${", ".join(f"{name}_{k} = 0" for k in range(4))};
% endfor
    {
        int i = 0;
        for (; i + ${4 * lanes} <= n; i += ${4 * lanes}) {
% for k in range(4):
            {
% for name, array in arrays.items():
% if fetch:
                FETCH_AHEAD(${array} + n + i + ${k * lanes});
% endif
                const ${vector} ${name} = load_ragged(${array} + i + ${k * lanes}, ${lanes}, 0);
% endfor
% for name, value in sums.items():
                ${name}_${k} += ${value};
% endfor
            }
% endfor
        }
        for (; i < n; i += ${lanes}) {
% for (name, array), fill in zip(arrays.items(), fills):
            const ${vector} ${name} = i + ${lanes} <= n ? load_ragged(${array} + i, ${lanes}, 0)
                : load_rest(${array}, i, n, ${fill});
% endfor
% for name, value in sums.items():
            ${name}_0 += ${value};
% endfor
        }
    }
% for name in sums:
    const ${ctype} ${name} = sum_fold((${name}_0 + ${name}_1) + (${name}_2 + ${name}_3));
% endfor
</%def>
##
## The last vector of a row ends with it: what it has in common with the one before is written
## twice.
<%def name="results(arrays, value, ctype, lanes, flat)">
<% vector = f"{ctype}{lanes}" %>
% if flat:
            for (int i = 0; i < members; i += ${lanes}) {
% for name, array in arrays.items():
                const ${vector} ${name} = load_ragged(${array} + i, members - i, 0);
% endfor
                store_ragged(to + i, members - i, ${value});
            }
% else:
            for (int i = 0; i < inner; i += ${lanes}) {
                const int at = i + ${lanes} <= inner ? i : inner - ${lanes};
% for name, array in arrays.items():
                const ${vector} ${name} = load_ragged(${array} + at, ${lanes}, 0);
% endfor
                store_ragged(to + at, ${lanes}, ${value});
            }
% endif
</%def>
<%def name="functions(ctype, lanes, stream)">
${lib.fold("sum", ctype, lanes)}
${ragged.load(ctype, ctype, lanes)}
${ragged.rest(ctype, ctype, lanes)}
${ragged.store(ctype, ctype, lanes, stream)}
${prelude.fetch_ahead()}
</%def>
<%def name="norm_groups(flat, weighted, biased, ctype, lanes, stream)">
<%
    channel = lambda name: (f"load_ragged({name} + channel + i, members - i, 0)" if flat
        else f"{name}[channel + member]")
    scale = f" * {channel('weight')}" if weighted else ""
    shift = f" + {channel('bias')}" if biased else ""
%>
${functions(ctype, lanes, stream)}
__kernel void norm_groups(...) {
    const int begin = get_global_id(0) * per_item, finish = min(begin + per_item, count);
    const int size = members * inner;
% if weighted:
    weight += weight_offset;
% endif
% if biased:
    bias += bias_offset;
% endif
    for (int item = begin; item < finish; item++) {
        __global const ${ctype} *from = x + x_offset + (long)item * size;
        __global ${ctype} *to = y + y_offset + (long)item * size;
        ${ctype} centre = 0, square = 0;
        for (int start = 0; start < size; start += part_size) {
            const int n = min(part_size, size - start);
            __global const ${ctype} *part = from + start;
            ${run({"v": "part"}, {"all": "v"}, ["0"], ctype, lanes)}
            const ${ctype} near = all / n;
            // What rounding left of the mean is the mean of the distances to it.
            ${run({"v": "part"}, {"rests": "v - near", "products": "(v - near) * (v - near)"},
                ["near"], ctype, lanes, fetch=True)}
            const ${ctype} rest = rests / n, left = products - rest * rest * n;
            /* A variance that overflows is infinite, none is below 0. */
            const ${ctype} here = products == (${ctype})INFINITY ? products : left < 0 ? 0 : left;
            const ${ctype} share = (${ctype})n / (start + n), step = near + rest - centre;
            centre += step * share;
            square += here + step * (step * (start * share));
        }
        const ${ctype} inverse = 1 / sqrt(square / size + eps);
        mean[mean_offset + item] = centre;
        invstd[invstd_offset + item] = inverse;
        var[var_offset + item] = square / (size - 1);
% if weighted or biased:
        const int channel = item % groups * members;
% endif
% if flat:
${results({"v": "from"}, f"(v - centre) * (inverse{scale}){shift}", ctype, lanes, flat)}
% else:
        for (int member = 0; member < members; member++, from += inner, to += inner) {
            const ${ctype} slope = inverse${scale};
% if biased:
            const ${ctype} level = ${channel("bias")};
% endif
${results({"v": "from"}, f"(v - centre) * slope{' + level' if biased else ''}", ctype, lanes, flat)}
        }
% endif
    }
}
</%def>
<%def name="norm_groups_grad(flat, weighted, summed, ctype, lanes, stream)">
<%
    channel = lambda name: (f"load_ragged({name} + channel + i, members - i, 0)" if flat
        else f"{name}[channel + member]")
    vector = f"{ctype}{lanes}"
    both, each = {"g": "slopes", "v": "from"}, channel("weight") if weighted else "1"
    value = "inverse * (g{} - level - (v - centre) * tilt)"
%>
${functions(ctype, lanes, stream)}
__kernel void norm_groups_grad(...) {
    const int begin = get_global_id(0) * per_item, finish = min(begin + per_item, count);
    const int size = members * inner;
% if weighted:
    weight += weight_offset;
% endif
    for (int item = begin; item < finish; item++) {
        __global const ${ctype} *from = x + x_offset + (long)item * size;
        __global const ${ctype} *slopes = gy + gy_offset + (long)item * size;
        __global ${ctype} *to = gx + gx_offset + (long)item * size;
        const ${ctype} centre = mean[mean_offset + item], inverse = invstd[invstd_offset + item];
        ${ctype} level = 0, tilt = 0;
% if weighted:
        const int channel = item % groups * members;
% endif
% if summed:
        __global ${ctype} *ones = sums + sums_offset + (long)item * members;
        __global ${ctype} *others = products + products_offset + (long)item * members;
% endif
% if flat:
        ${vector} levels = 0, tilts = 0;
        for (int i = 0; i < members; i += ${lanes}) {
            const ${vector} g = load_ragged(slopes + i, members - i, 0);
            const ${vector} v = load_ragged(from + i, members - i, 0);
            const ${vector} product = g * (v - centre);
% if summed:
            store_ragged(ones + i, members - i, g);
            store_ragged(others + i, members - i, product * inverse);
% endif
            const ${vector if weighted else ctype} w = ${each};
            levels += g * w;
            tilts += product * w;
        }
        level = sum_fold(levels);
        tilt = sum_fold(tilts);
% else:
        for (int member = 0; member < members; member++) {
            ${ctype} one = 0, other = 0;
            for (int start = 0; start < inner; start += part_size) {
                const int n = min(part_size, inner - start);
                __global const ${ctype} *values =
                    from + (long)member * inner + start;
                __global const ${ctype} *grads =
                    slopes + (long)member * inner + start;
                ${run({"g": "grads", "v": "values"}, {"level_part": "g",
                    "tilt_part": "g * (v - centre)"}, ["0", "0"], ctype, lanes)}
                one += level_part;
                other += tilt_part;
            }
% if summed:
            ones[member] = one;
            others[member] = other * inverse;
% endif
            level += one * ${each};
            tilt += other * ${each};
        }
% endif
        level /= size;
        tilt *= inverse * (inverse / size);
% if flat:
${results(both, value.format(f" * {each}" if weighted else ""), ctype, lanes, flat)}
% else:
        for (int member = 0; member < members;
            member++, from += inner, slopes += inner, to += inner) {
% if weighted:
            const ${ctype} w = ${each};
% endif
${results(both, value.format(" * w" if weighted else ""), ctype, lanes, flat)}
        }
% endif
    }
}
</%def>
<%def name="norm_groups_join(ctype)">
__kernel void norm_groups_join(...) {
    const int channel = get_global_id(0);
    if (channel >= channels)
        return;
    ${ctype} sum = 0, product = 0;
    for (int image = 0; image < n; image++) {
        sum += sums[sums_offset + (long)image * channels + channel];
        product += products[products_offset + (long)image * channels + channel];
    }
    gbias[gbias_offset + channel] = sum;
    gweight[gweight_offset + channel] = product;
}
</%def>
