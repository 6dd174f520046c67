## kernel cross_entropy_mean: losses and the weights of their targets, summed and divided
##
## math     total = sum counted,  mean = sum loss / total
## param    ctype: str                   element type
## param    acc: str                     element type in registers
## param    group: int                   work-items of a group, a power of two
## def cross_entropy_mean, cross_entropy_mean_item
## arg      n: int
## arg      mean: out ctype[1]
## arg      total: out ctype[1]
## arg      loss: in ctype[n]
## arg      counted: in ctype[n]         weight of each target, 0 when it is ignored
## launch   cross_entropy_mean: one group. cross_entropy_mean_item: one item that adds in the
##          group's order, for devices whose work-items do not run together: no barrier, the same
##          bits.
## numerics sums in a fixed order
<%namespace name="lib" file="/lib/fold.mako"/>
<%def name="cross_entropy_mean(ctype, acc, group)">
${lib.join("sum", acc, 1)}
__kernel void cross_entropy_mean(...) {
    __local ${acc} losses[${group}], counts[${group}];
    const int lane = get_local_id(0), kept = 0;
    ${acc} sum = 0, count = 0;
    for (int i = lane; i < n; i += ${group}) {
        sum += loss[loss_offset + i];
        count += counted[counted_offset + i];
    }
    losses[lane] = sum;
    counts[lane] = count;
    ${lib.tree("sum", "losses", group, 1)}
    ${lib.tree("sum", "counts", group, 1)}
    if (lane == 0) {
        mean[mean_offset] = losses[0] / counts[0];
        total[total_offset] = counts[0];
    }
}
</%def>
<%def name="cross_entropy_mean_item(ctype, acc, group)">
__kernel void cross_entropy_mean_item(...) {
    ${acc} losses[${group}], counts[${group}];
    for (int lane = 0; lane < ${group}; lane++)
        losses[lane] = counts[lane] = 0;
    for (int first = 0; first < n; first += ${group})
        for (int lane = 0; lane < min(${group}, n - first); lane++) {
            losses[lane] += loss[loss_offset + first + lane];
            counts[lane] += counted[counted_offset + first + lane];
        }
    for (int share = ${group // 2}; share > 0; share /= 2)
        for (int lane = 0; lane < share; lane++) {
            losses[lane] += losses[lane + share];
            counts[lane] += counts[lane + share];
        }
    mean[mean_offset] = losses[0] / counts[0];
    total[total_offset] = counts[0];
}
</%def>
