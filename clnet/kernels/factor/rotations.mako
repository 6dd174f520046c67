## kernel rotations: vectors turned in pairs until they are orthogonal
##
## param  ctype: str                 float or double
## param  eps: str                   C literal: the spacing of numbers at 1
## param  group: int                 work-items of a matrix, a power of two
## param  team: int                  work-items of a pair of vectors, a power of two
## param  vectors: bool              the rotations' product is wanted, too
## def    orthogonal_rows
## arg    count: int                       vectors
## arg    n: int                           their elements
## arg    x: inout ctype[batch][count][n], may alias
## arg    s: out ctype[batch][count], may alias  their lengths, descending
## arg    y: out ctype[batch][count][n], may alias  the vectors in that order
## % if vectors:
## arg    r: out ctype[batch][count][count], may alias  scratch
## arg    v: out ctype[batch][count][count], may alias  the product of the rotations: y = v @ x
## % endif
##
## launch   a group a matrix
## numerics Jacobi's rotations of pairs in turns until no pair's cosine exceeds eps sqrt(n); lengths
##          are taken as they are, so elements are of a size whose squares do not overflow
<%def name="orthogonal_rows(ctype, eps, group, team, vectors)">
typedef ${ctype} real;
#pragma OPENCL FP_CONTRACT OFF
__kernel void orthogonal_rows(...)
{
    __local real parts[3][${group}];
    __local int turned;
    const int item = get_local_id(0);
    const int mate = item % ${team}, first = item / ${team};
    const long which = get_group_id(0);
    x += x_offset + which * count * n;
    y += y_offset + which * count * n;
    s += s_offset + which * count;
% if vectors:
    r += r_offset + which * count * count;
    v += v_offset + which * count * count;
    for (int i = item; i < count * count; i += ${group})
        r[i] = i / count == i % count;
% endif
    const real enough = ${eps} * sqrt((real)n);
    const int even = count + count % 2;
    for (int sweep = 0; sweep < 40; ++sweep) {
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        if (item == 0)
            turned = 0;
        for (int turn = 0; turn < even - 1; ++turn)
            for (int from = 0; from < even / 2; from += ${group // team}) {
                // Everyone meets everyone: the first stays, the others move on by one.
                const int pair = from + first;
                const int other = even - 1 - pair;
                int i = pair ? (pair - 1 + turn) % (even - 1) + 1 : 0;
                int j = (other - 1 + turn) % (even - 1) + 1;
                const bool meets = pair < even / 2 && i < count && j < count;
                if (i > j) {
                    const int k = i;
                    i = j;
                    j = k;
                }
                __global real *const p = x + (meets ? i : 0) * n;
                __global real *const q = x + (meets ? j : 0) * n;
                real pp = 0, qq = 0, pq = 0;
                if (meets)
                    for (int k = mate; k < n; k += ${team}) {
                        pp += p[k] * p[k];
                        qq += q[k] * q[k];
                        pq += p[k] * q[k];
                    }
                barrier(CLK_LOCAL_MEM_FENCE);
                parts[0][item] = pp;
                parts[1][item] = qq;
                parts[2][item] = pq;
% for step in [team >> k for k in range(1, team.bit_length())]:
                barrier(CLK_LOCAL_MEM_FENCE);
                if (mate < ${step})
                    for (int k = 0; k < 3; ++k)
                        parts[k][item] += parts[k][item + ${step}];
% endfor
                barrier(CLK_LOCAL_MEM_FENCE);
                pp = parts[0][item - mate];
                qq = parts[1][item - mate];
                pq = parts[2][item - mate];
                if (meets && fabs(pq) > enough * sqrt(pp) * sqrt(qq)) {
                    const real zeta = (qq - pp) / (2 * pq);
                    const real t = copysign((real)1, zeta) / (fabs(zeta) + hypot((real)1, zeta));
                    // As changes of p and q, which vanish with the angle: so do their roundings.
                    const real c = 1 / sqrt(1 + t * t), u = c * t, w = u / (1 + c);
                    if (mate == 0)
                        atomic_or(&turned, 1);
                    for (int k = mate; k < n; k += ${team}) {
                        const real f = p[k], g = q[k];
                        p[k] = f - u * (g + w * f);
                        q[k] = g + u * (f - w * g);
                    }
% if vectors:
                    for (int k = mate; k < count; k += ${team}) {
                        const real f = r[i * count + k], g = r[j * count + k];
                        r[i * count + k] = f - u * (g + w * f);
                        r[j * count + k] = g + u * (f - w * g);
                    }
% endif
                }
                barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
            }
        const int again = turned;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (!again)
            break;
    }
    for (int i = item; i < count; i += ${group}) {
        real sum = 0;
        for (int k = 0; k < n; ++k)
            sum += x[i * n + k] * x[i * n + k];
        y[i * n] = isnan(sum) ? (real)INFINITY : sqrt(sum);
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
    // y holds the lengths meanwhile; ranks wait in s until all are read.
    for (int i = item; i < count; i += ${group}) {
        const real own = y[i * n];
        int rank = 0;
        for (int j = 0; j < count; ++j)
            rank += y[j * n] > own || (y[j * n] == own && j < i);
        s[i] = rank;
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (int i = 0; i < count; ++i) {
        const int rank = s[i];
        for (int k = item; k < n; k += ${group})
            y[rank * n + k] = x[i * n + k];
% if vectors:
        for (int k = item; k < count; k += ${group})
            v[rank * count + k] = r[i * count + k];
% endif
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (int i = item; i < count; i += ${group}) {
        real sum = 0;
        for (int k = 0; k < n; ++k)
            sum += y[i * n + k] * y[i * n + k];
        s[i] = sqrt(sum);
    }
}
</%def>
