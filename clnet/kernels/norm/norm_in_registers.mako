## kernel norm_in_registers: statistics of parts of channels, or sums of their gradient, read once
##
## A group takes one part of one channel, at most group * width * reads elements, in order: its
## items keep what they read in registers, so that the squares of distances from the part's mean
## need no second pass over memory.
##
## math     as in norm.mako
## layout   x and gy dense (n, channels, inner), the elements of a channel in order
## param    grad: bool                   the sums of the gradient instead of the statistics
## param    whole: bool                  parts is 1: what follows from the sums is stored
## param    track: ""|"blend"|"count"|"average"  the variance is stored; or running statistics move
##          towards the batch's by momentum, and a batch is counted; or by 1 / count
## param    ctype: str                   element type in memory, of C or "bfloat16"
## param    acc: str                     element type in registers, and of statistics
## param    group: int                   work-items of a group, a power of two
## param    width: 1|4                   elements of a read; 4 divides inner and the arrays' offsets
## param    reads: int                   of an item
## arg      channels, inner: int
## arg      total: int                          elements of a channel
## arg      part_size, parts: int
## % if not whole:
## arg      first: out acc[channels, parts]     mean, or sum gy
## arg      second: out acc[channels, parts]    squares, or sum gy (x - mean)
## % elif grad:
## arg      gweight: out acc[channels]
## arg      gbias: out acc[channels]
## arg      invstd: in acc[channels]
## % else:
## arg      eps: acc
## arg      mean: out acc[channels]
## arg      invstd: out acc[channels]           1 / sqrt(variance + eps)
## % if not track:
## arg      var: out acc[channels]              the unbiased variance
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
## launch   global (channels * parts * group,), local (group,)
## numerics an item adds its reads in order, items are joined by a tree
<%namespace name="channel_sums" file="/lib/channel_sums.mako"/>
<%namespace name="lib" file="/lib/fold.mako"/>
<%namespace name="stored" file="/lib/stored.mako"/>
<%def name="norm_in_registers(grad, whole, track, ctype, acc, group, width, reads)">
<% vector = acc if width == 1 else f"{acc}{width}" %>
<% narrow = ctype in ("half", "bfloat16") %>
<% folded = "{0}" if width == 1 else "(({0}.s0 + {0}.s1) + ({0}.s2 + {0}.s3))" %>
${lib.join("sum", acc, 1)}
${stored.fours([ctype] if width == 4 else [])}
__attribute__((reqd_work_group_size(${group}, 1, 1)))
__kernel void norm_in_registers(...) {
    __local ${acc} partial[${group}];
    const int lane = get_local_id(0), kept = 0, part = get_group_id(0) % parts,
        channel = get_group_id(0) / parts;
    const int from = part * part_size, end = min(from + part_size, total);
    x += x_offset;
% if grad:
    gy += gy_offset;
    const ${acc} centre = mean[mean_offset + channel];
    ${vector} sums = 0, products = 0;
% else:
    ${vector} sums = 0;
% endif
% for r in range(reads):
    ${vector} v_${r} = 0;
% if grad:
    ${vector} g_${r} = 0;
% endif
    {
        const int i = from + (${r * group} + lane) * ${width}, row = i / inner;
        const long at = ((long)row * channels + channel) * inner + (i - row * inner);
        if (i < end) {
% for name, pointer in (("v", "x"), ("g", "gy"))[: 2 if grad else 1]:
% if narrow and width == 4:
            ${name}_${r} = wide_${ctype}(${pointer} + at);
% elif narrow:
            ${stored.load(ctype, acc, "loaded_" + name, pointer, "at")}
            ${name}_${r} = loaded_${name};
% else:
            ${name}_${r} = *(__global const ${vector} *)(${pointer} + at);
% endif
% endfor
        }
    }
% endfor
% for r in range(reads):
% if grad:
    sums += g_${r};
    products += g_${r} * (v_${r} - centre);
% else:
    sums += v_${r};
% endif
% endfor
    partial[lane] = ${folded.format("sums")};
    ${lib.tree("sum", "partial", group, 1)}
% if grad:
    const ${acc} one = partial[0];
% else:
    const ${acc} one = partial[0] / max(end - from, 1);
    ${vector} products = 0;
% for r in range(reads):
    if (from + (${r * group} + lane) * ${width} < end)
        products += (v_${r} - one) * (v_${r} - one);
% endfor
% endif
    barrier(CLK_LOCAL_MEM_FENCE);
    partial[lane] = ${folded.format("products")};
    ${lib.tree("sum", "partial", group, 1)}
% if whole:
    if (lane == 0) {
% if grad:
        gweight += gweight_offset;
        gbias += gbias_offset;
        invstd += invstd_offset;
        ${channel_sums.slopes("channel", "one", "partial[0]")}
% else:
        ${begin(track)}
        ${channel_sums.statistics("channel", "one", "partial[0]", acc, track)}
% endif
    }
% else:
    if (lane == 0) {
        first[first_offset + channel * parts + part] = one;
        second[second_offset + channel * parts + part] = partial[0];
    }
% endif
}
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
