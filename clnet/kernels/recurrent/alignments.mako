## kernel alignments: all ways through the states of a sequence, step by step
##
## The states of connectionist temporal classification (Graves et al. 2006, section 4.1) stand in a
## row: a way stays, goes on by one, or skips one where that is allowed. In each step it emits what
## belongs to its state.
##
## math     alpha[t, s] = log(exp(alpha[t-1, s]) + exp(alpha[t-1, s-1]) + skips[s]
##          exp(alpha[t-1, s-2])) + emitted[t, s]; at first two states are open
## param    ctype: str                 float or double
## param    group: int                 work-items of a sequence
## param    never: float               stands for log(0)
## arg      steps, n, count: int
## def      alignments
## arg      alpha: inout ctype[steps][n][count], may alias  of steps within the length
## arg      last: out ctype[n][count], may alias  of the last of these
## def      alignments_backward
## arg      out: inout ctype[steps][n][count], may alias  the gradient to what is emitted
## arg      g: in ctype[n][count]      that of the last
## arg      alpha: in ctype[steps][n][count]
## def      alignments, alignments_backward
## arg      emitted: in ctype[steps][n][count]
## arg      skips: in int[n][count]
## arg      lengths: in int[n]         steps of a sequence; less than 1 is taken for 1
## launch   a group a sequence
## numerics the largest of the three is subtracted; what is below `never` is `never`, and has no
##          gradient
<%def name="begin()">
    const int which = get_group_id(0), item = get_local_id(0);
    const long row = (long)n * count, first = (long)which * count;
    const int end = clamp(lengths[lengths_offset + which], 1, steps);
</%def>
<%def name="alignments(ctype, group, never)">
typedef ${ctype} real;
__kernel void alignments(...)
{
    ${begin()}
    alpha += alpha_offset + first;
    last += last_offset + first;
    emitted += emitted_offset + first;
    skips += skips_offset + first;
    for (int s = item; s < count; s += ${group})
        alpha[s] = s < 2 ? emitted[s] : (real)${never};
    for (int t = 1; t < end; ++t) {
        barrier(CLK_GLOBAL_MEM_FENCE);
        __global const real *const before = alpha;
        alpha += row;
        emitted += row;
        for (int s = item; s < count; s += ${group}) {
            const real stay = before[s], one = s > 0 ? before[s - 1] : (real)${never};
            const real two = s > 1 && skips[s] ? before[s - 2] : (real)${never};
            const real top = fmax(fmax(stay, one), two);
            const real sum = exp(stay - top) + exp(one - top) + exp(two - top);
            const real found = top + log(sum) + emitted[s];
            alpha[s] = found < (real)${never} ? (real)${never} : found;
        }
    }
    for (int s = item; s < count; s += ${group})
        last[s] = alpha[s];
}
</%def>
<%def name="alignments_backward(ctype, group, never)">
typedef ${ctype} real;
__kernel void alignments_backward(...)
{
    ${begin()}
    out += out_offset + first;
    g += g_offset + first;
    alpha += alpha_offset + first;
    emitted += emitted_offset + first;
    skips += skips_offset + first;
    for (int t = steps - 1; t >= 0; --t) {
        __global real *const here = out + t * row;
        __global const real *const from = alpha + t * row;
        __global const real *const emits = emitted + t * row;
        for (int s = item; s < count; s += ${group}) {
            real sum = 0;
            if (t == end - 1)
                sum = from[s] <= (real)${never / 2} ? 0 : g[s];
            else if (t < end - 1)
                for (int k = s; k < min(s + 3, count); ++k) {
                    const real to = from[row + k];
                    if ((k < s + 2 || skips[k]) && !(to <= (real)${never / 2}))
                        sum += here[row + k] * exp(from[s] - (to - emits[row + k]));
                }
            here[s] = t == 0 && s > 1 ? 0 : sum;
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
}
</%def>
