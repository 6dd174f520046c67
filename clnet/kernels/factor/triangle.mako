## kernel triangle: matrices as products of triangular ones, and triangular systems solved
##
## param  ctype: str                 float or double
## param  group: int                 work-items of a matrix, a power of two
## param  upper: bool                the upper triangle counts, else the lower one
## param  unit: bool                 the diagonal is taken for ones
## def    lu
## arg    m, n: int
## arg    a: inout ctype[batch][m][n], may alias  L below the diagonal, whose own is 1, and U
## arg    pivots: out int[batch][min(m, n)], may alias  which row, from 1, was exchanged with row k
## arg    info: out int[batch], may alias  the first pivot, from 1, that is 0; else 0
## def    cholesky
## arg    n: int
## arg    a: inout ctype[batch][n][n], may alias  L, with zeros above; the lower triangle is read
## arg    info: out int[batch], may alias  the first leading block that is not positive definite
## def    substitute
## arg    batch, n, columns: int
## arg    x: inout ctype[batch][n][columns]  b, overwritten by the solution
## arg    a: in ctype[batch][n][n]
## def    exchanged
## arg    batch, rows, count: int
## arg    order: out long[batch][rows]       which row each comes from
## arg    pivots: in int[batch][count]
##
## launch   lu, cholesky: a group a matrix; substitute: an item a column; exchanged: one a matrix
## numerics rows are exchanged so that elements of L are at most 1; the first of equal ones is
##          taken. A pivot of 0 is not divided by; what is not positive definite becomes NaN
<%def name="lu(ctype, group)">
typedef ${ctype} real;
#pragma OPENCL FP_CONTRACT OFF
__kernel void lu(...)
{
    __local real parts[${group}];
    __local int places[${group}];
    const int item = get_local_id(0);
    const int count = min(m, n);
    a += a_offset + (long)get_group_id(0) * m * n;
    pivots += pivots_offset + (long)get_group_id(0) * count;
    int singular = 0;
    for (int k = 0; k < count; ++k) {
        real largest = -1;
        int place = k;
        for (int i = k + item; i < m; i += ${group}) {
            const real x = fabs(a[i * n + k]);
            if (x > largest || (isnan(x) && !isnan(largest))) {
                largest = x;
                place = i;
            }
        }
        parts[item] = largest;
        places[item] = place;
% for step in [group >> k for k in range(1, group.bit_length())]:
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < ${step}) {
            const real other = parts[item + ${step}], own = parts[item];
            const int there = places[item + ${step}];
            const bool nearer = other == own && there < places[item];
            if (other > own || nearer || (isnan(other) && !isnan(own))) {
                parts[item] = other;
                places[item] = there;
            }
        }
% endfor
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        const int chosen = places[0];
        if (chosen != k) {
            for (int j = item; j < n; j += ${group}) {
                const real x = a[k * n + j];
                a[k * n + j] = a[chosen * n + j];
                a[chosen * n + j] = x;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        const real pivot = a[k * n + k];
        if (item == 0)
            pivots[k] = chosen + 1;
        if (pivot == 0) {
            if (singular == 0)
                singular = k + 1;
        } else {
            for (int i = k + 1 + item; i < m; i += ${group})
                a[i * n + k] /= pivot;
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
        for (int i = k + 1; i < m; ++i) {
            const real share = a[i * n + k];
            for (int j = k + 1 + item; j < n; j += ${group})
                a[i * n + j] -= share * a[k * n + j];
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
    if (item == 0)
        info[info_offset + get_group_id(0)] = singular;
}
</%def>
<%def name="cholesky(ctype, group)">
typedef ${ctype} real;
#pragma OPENCL FP_CONTRACT OFF
__kernel void cholesky(...)
{
    const int item = get_local_id(0);
    a += a_offset + (long)get_group_id(0) * n * n;
    int wrong = 0;
    for (int k = 0; k < n; ++k) {
        const real square = a[k * n + k];
        barrier(CLK_GLOBAL_MEM_FENCE);
        if (!(square > 0) && wrong == 0)
            wrong = k + 1;
        const real root = wrong ? (real)NAN : sqrt(square);
        if (item == 0)
            a[k * n + k] = root;
        for (int i = k + 1 + item; i < n; i += ${group}) {
            a[i * n + k] /= root;
            a[k * n + i] = 0;
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
        for (int i = k + 1; i < n; ++i) {
            const real share = a[i * n + k];
            for (int j = k + 1 + item; j <= i; j += ${group})
                a[i * n + j] -= share * a[j * n + k];
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
    if (item == 0)
        info[info_offset + get_group_id(0)] = wrong;
}
</%def>
<%def name="substitute(ctype, upper, unit)">
typedef ${ctype} real;
#pragma OPENCL FP_CONTRACT OFF
__kernel void substitute(...)
{
    const int at = get_global_id(0);
    if (at >= batch * columns)
        return;
    const int which = at / columns;
    x += x_offset + (long)which * n * columns + at % columns;
    a += a_offset + (long)which * n * n;
    for (int step = 0; step < n; ++step) {
% if upper:
        const int i = n - 1 - step, first = i + 1, end = n;
% else:
        const int i = step, first = 0, end = i;
% endif
        real sum = x[(long)i * columns];
        for (int j = first; j < end; ++j)
            sum -= a[i * n + j] * x[(long)j * columns];
% if unit:
        x[(long)i * columns] = sum;
% else:
        x[(long)i * columns] = sum / a[i * n + i];
% endif
    }
}
</%def>
<%def name="exchanged()">
__kernel void exchanged(...)
{
    const int which = get_global_id(0);
    if (which >= batch)
        return;
    order += order_offset + (long)which * rows;
    pivots += pivots_offset + (long)which * count;
    for (int i = 0; i < rows; ++i)
        order[i] = i;
    for (int k = 0; k < count; ++k) {
        const int other = clamp(pivots[k] - 1, 0, rows - 1);
        const long row = order[k];
        order[k] = order[other];
        order[other] = row;
    }
}
</%def>
