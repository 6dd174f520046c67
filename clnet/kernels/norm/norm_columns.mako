## kernel norm_columns: statistics of parts of channels that lie side by side, or sums of gradients
##
## An item takes four neighbouring channels of every so-many-th row of a part, eight rows at once,
## whose mean and squares of distances it finds in registers and joins with those before.
##
## math     as in norm.mako
## layout   x and gy dense (total, channels); four divides channels and the arrays' offsets
## def      norm_columns
## param    grad: bool                   the sums of the gradient instead of the statistics
## param    ctype: 'float'|'half'|'bfloat16'  element type in memory
## param    group: int                   work-items of a group, a power of two
## param    across: int                  of these, how many lie along the channels, a power of two
## param    vector: str                  type of what is joined
## arg      channels, total: int               of rows
## arg      part_size, parts: int              rows of a part
## arg      first: out float[channels, parts]  mean, or sum gy
## arg      second: out float[channels, parts] squares, or sum gy (x - mean)
## arg      x: in ctype
## % if grad:
## arg      gy: in ctype
## arg      mean: in float[channels]
## % endif
## def      norm_columns_join
## param    track: ""|"blend"|"count"|"average"  the variance is stored; or running statistics move
##          towards the batch's by momentum, and a batch is counted; or by 1 / count
## param    share: int                   items that join the parts of a channel, a power of two
## arg      channels, total, part_size, parts: int
## % if grad:
## arg      gweight: out float[channels]
## arg      gbias: out float[channels]
## % else:
## arg      eps: float
## arg      mean: out float[channels]
## arg      invstd: out float[channels]        1 / sqrt(variance + eps)
## % if not track:
## arg      var: out float[channels]           the unbiased variance
## % else:
## arg      running_mean, running_var: inout float[channels]
## % if track != "blend":
## arg      batches: inout long[1]
## % endif
## % if track != "average":
## arg      momentum: float
## % endif
## % endif
## % endif
## arg      first: in float[channels, parts]
## arg      second: in float[channels, parts]
## % if grad:
## arg      invstd: in float[channels]
## % endif
## launch   local (group,); norm_columns: global (channels / 4 / across, rounded up, * parts *
##          group,);
##          norm_columns_join: global (channels / (group / share) rounded up * group,)
## numerics eight rows by two passes, then joined by Chan's formula, in order and then in a tree
<%namespace name="channel_sums" file="/lib/channel_sums.mako"/>
<%namespace name="stored" file="/lib/stored.mako"/>
<%def name="norm_columns(grad, ctype, group, across)">
<%
    lanes, reads = group // across, 8
    arrays = (("v", "x"), ("g", "gy"))[: 2 if grad else 1]
    read = "wide_%s(%%s)" % ctype if ctype != "float" else "*(__global const float4 *)(%s)"
%>
${stored.fours([ctype])}
__attribute__((reqd_work_group_size(${group}, 1, 1)))
__kernel void norm_columns(...) {
    __local float4 ones[${group}], others[${group}];
% if not grad:
    __local int counts[${group}];
% endif
    const int self = get_local_id(0), lane = self / ${across};
    const int part = get_group_id(0) % parts;
    const int channel = (get_group_id(0) / parts * ${across} + self % ${across}) * 4;
    const int inside = channel < channels;
    const int from = part * part_size, end = inside ? min(from + part_size, total) : from;
    x += x_offset + channel;
% if grad:
    gy += gy_offset + channel;
    const float4 centre = inside ? vload4(0, mean + mean_offset + channel) : (float4)(0);
% else:
    float4 centre = 0;
    int count = 0;
% endif
    float4 one = 0, other = 0;
    for (int row = from + lane; row < end; row += ${lanes * reads}) {
% for r in range(reads):
% for name, pointer in arrays:
        float4 ${name}_${r} = 0;
% endfor
        if (row + ${r * lanes} < end) {
% for name, pointer in arrays:
            ${name}_${r} = ${read % ("%s + (long)(row + %d) * channels" % (pointer, r * lanes))};
% endfor
        }
% endfor
% if grad:
% for r in range(reads):
        one += g_${r};
        other += g_${r} * (v_${r} - centre);
% endfor
% else:
        const int here = min(${reads}, (end - row + ${lanes - 1}) / ${lanes});
        const float4 near = (${" + ".join(f"v_{r}" for r in range(reads))}) / here;
        float4 squares = 0;
% for r in range(reads):
        if (${r} < here)
            squares += (v_${r} - near) * (v_${r} - near);
% endfor
        const float share = (float)here / (count + here);
        const float4 step = near - centre;
        centre += step * share;
        other += squares + step * (step * (count * share));
        count += here;
% endif
    }
    ones[self] = ${"one" if grad else "centre"};
    others[self] = other;
% if not grad:
    counts[self] = count;
% endif
% for half in [lanes >> i for i in range(1, lanes.bit_length())]:
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < ${half}) {
        const int next = self + ${half * across};
        ${joined("float4", grad)}
    }
% endfor
    if (lane == 0 && inside) {
        const float4 a = ones[self], b = others[self];
        first += first_offset + channel * parts + part;
        second += second_offset + channel * parts + part;
% for k in range(4):
        first[${k} * parts] = a.s${k};
        second[${k} * parts] = b.s${k};
% endfor
    }
}
</%def>
<%def name="norm_columns_join(grad, track, group, share)">
__attribute__((reqd_work_group_size(${group}, 1, 1)))
__kernel void norm_columns_join(...) {
    __local float ones[${group}], others[${group}];
% if not grad:
    __local int counts[${group}];
    int count = 0;
% endif
    const int self = get_local_id(0), lane = self % ${share};
    const int channel = get_group_id(0) * ${group // share} + self / ${share};
    const int inside = channel < channels;
    float one = 0, other = 0;
    for (int part = lane; inside && part < parts; part += ${share}) {
        const float a = first[first_offset + channel * parts + part];
        const float b = second[second_offset + channel * parts + part];
% if grad:
        one += a;
        other += b;
% else:
        const int here = min(part_size, total - part * part_size);
        const float weight = (float)here / (count + here), step = a - one;
        one += step * weight;
        other += b + step * (step * (count * weight));
        count += here;
% endif
    }
    ones[self] = one;
    others[self] = other;
% if not grad:
    counts[self] = count;
% endif
% for half in [share >> i for i in range(1, share.bit_length())]:
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < ${half}) {
        const int next = self + ${half};
        ${joined("float", grad)}
    }
% endfor
    if (lane == 0 && inside) {
% if grad:
        gbias[gbias_offset + channel] = ones[self];
        gweight[gweight_offset + channel] = others[self] * invstd[invstd_offset + channel];
% else:
        ${begin(track)}
        ${channel_sums.statistics("channel", "ones[self]", "others[self]", "float", track)}
% endif
    }
}
</%def>
##
## What `next` holds, joined with what is here.
<%def name="joined(vector, grad)">
% if grad:
        ones[self] += ones[next];
        others[self] += others[next];
% else:
        const int before = counts[self], more = counts[next];
        const float share = (float)more / max(before + more, 1);
        const ${vector} step = ones[next] - ones[self];
        ones[self] += step * share;
        others[self] += others[next] + step * (step * (before * share));
        counts[self] = before + more;
% endif
</%def>
##
## Pointers to where the statistics of channels go.
<%def name="begin(track)">
    mean += mean_offset;
    invstd += invstd_offset;
% if not track:
    var += var_offset;
% else:
    running_mean += running_mean_offset;
    running_var += running_var_offset;
% if track != "blend":
    batches += batches_offset;
% endif
% endif
</%def>
