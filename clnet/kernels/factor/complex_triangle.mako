## kernel complex_triangle: complex matrices as products of triangular ones, by elimination
##
## param  ctype: str                 float or double
## param  group: int                 work-items of a matrix
## def    complex_lu
## arg    m, n: int
## arg    a: inout ctype[batch][m][n][2], may alias  L below the diagonal, whose own is 1, and U
## arg    pivots: out int[batch][min(m, n)], may alias  which row, from 1, was exchanged with row k
## arg    info: out int[batch], may alias  the first pivot, from 1, that is 0; else 0
##
## launch   a group a matrix
## numerics pivots are the largest by the sum of both parts, as LAPACK's; the first of equal ones is
##          taken. One of 0 is not divided by
<%namespace name="lib" file="/lib/pairs.mako"/>
<%def name="complex_lu(ctype, group)">
#pragma OPENCL FP_CONTRACT OFF
${lib.pairs(ctype)}
__kernel void complex_lu(...)
{
    const int item = get_local_id(0), count = min(m, n);
    a += a_offset + (long)get_group_id(0) * m * n * 2;
    pivots += pivots_offset + (long)get_group_id(0) * count;
    int singular = 0;
    for (int k = 0; k < count; ++k) {
        real largest = -1;
        int chosen = k;
        for (int i = k; i < m; ++i) {
            const pair x = fabs(vload2(i * n + k, a));
            const real size = x.x + x.y;
            if (size > largest || (isnan(size) && !isnan(largest))) {
                largest = size;
                chosen = i;
            }
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
        for (int j = item; j < n; j += ${group}) {
            const pair x = vload2(k * n + j, a);
            vstore2(vload2(chosen * n + j, a), k * n + j, a);
            vstore2(x, chosen * n + j, a);
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
        const pair pivot = vload2(k * n + k, a);
        const bool none = pivot.x == 0 && pivot.y == 0;
        if (item == 0)
            pivots[k] = chosen + 1;
        if (none && singular == 0)
            singular = k + 1;
        for (int i = item; i < m; i += ${group})
            if (i > k && !none)
                vstore2(over(vload2(i * n + k, a), pivot), i * n + k, a);
        barrier(CLK_GLOBAL_MEM_FENCE);
        for (int i = k + 1; i < m; ++i) {
            const pair share = vload2(i * n + k, a);
            for (int j = item; j < n; j += ${group})
                if (j > k) {
                    const pair x = times(share, vload2(k * n + j, a));
                    vstore2(vload2(i * n + j, a) - x, i * n + j, a);
                }
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
    if (item == 0)
        info[info_offset + get_group_id(0)] = singular;
}
</%def>
