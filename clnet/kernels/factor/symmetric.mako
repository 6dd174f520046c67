## kernel symmetric: symmetric matrices, definite or not, as L D L.T, and systems solved with them
##
## param  ctype: str                 float or double
## param  group: int                 work-items of a matrix, a power of two
## def    ldl
## arg    n: int
## arg    a: inout ctype[batch][n][n], may alias  both triangles; the lower is left, D in and
##                                      beside the diagonal, L below
## arg    pivots: out int[batch][n], may alias  from 1: the exchanged row; below 0 in both rows
##                                      of a block of two, of which the second was exchanged
## arg    info: out int[batch], may alias  the first block of D, from 1, that is 0; else 0
## def    ldl_substitute
## arg    batch, n, columns: int
## arg    x: inout ctype[batch][n][columns]
## arg    a: in ctype[batch][n][n]
## arg    pivots: in int[batch][n]
##
## launch   ldl: a group a matrix; ldl_substitute: an item a column
## numerics Bunch and Kaufman's pivots: a block of D has one or two rows; elements stay small
<%def name="ldl(ctype, group)">
typedef ${ctype} real;
#pragma OPENCL FP_CONTRACT OFF
__kernel void ldl(...)
{
    const int item = get_local_id(0);
    a += a_offset + (long)get_group_id(0) * n * n;
    pivots += pivots_offset + (long)get_group_id(0) * n;
    const real share = (real)0.6403882032022076; // (1 + sqrt(17)) / 8
    int singular = 0;
    for (int k = 0; k < n;) {
        int chosen = k, size = 1, far = k;
        const real own = fabs(a[k * n + k]);
        real below = 0;
        for (int i = k + 1; i < n; ++i)
            if (fabs(a[i * n + k]) > below) {
                below = fabs(a[i * n + k]);
                far = i;
            }
        const bool empty = !(fmax(own, below) > 0);
        if (!empty && own < share * below) {
            real beside = 0;
            for (int j = k; j < n; ++j)
                if (j != far)
                    beside = fmax(beside, fabs(a[far * n + j]));
            if (own < share * below * (below / beside)) {
                chosen = far;
                size = fabs(a[far * n + far]) >= share * beside ? 1 : 2;
            }
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
        const int last = k + size - 1;
        if (chosen != last) {
            for (int j = k + item; j < n; j += ${group}) {
                const real x = a[last * n + j];
                a[last * n + j] = a[chosen * n + j];
                a[chosen * n + j] = x;
            }
            barrier(CLK_GLOBAL_MEM_FENCE);
            for (int i = k + item; i < n; i += ${group}) {
                const real x = a[i * n + last];
                a[i * n + last] = a[i * n + chosen];
                a[i * n + chosen] = x;
            }
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
        if (item == 0) {
            pivots[k] = size == 1 ? chosen + 1 : -(chosen + 1);
            if (size == 2)
                pivots[k + 1] = -(chosen + 1);
        }
        if (empty) {
            if (singular == 0)
                singular = k + 1;
        } else if (size == 1) {
            const real d = a[k * n + k];
            for (int i = k + 1 + item; i < n; i += ${group}) {
                const real l = a[i * n + k] / d;
                for (int j = k + 1; j < n; ++j)
                    a[i * n + j] -= l * a[k * n + j];
            }
            barrier(CLK_GLOBAL_MEM_FENCE);
            for (int i = k + 1 + item; i < n; i += ${group})
                a[i * n + k] /= d;
        } else {
            // The inverse of the block, scaled by the element beside its diagonal, which is large.
            const real b = a[(k + 1) * n + k];
            const real p = a[(k + 1) * n + k + 1] / b, q = a[k * n + k] / b;
            const real t = 1 / (p * q - 1) / b;
            for (int i = k + 2 + item; i < n; i += ${group}) {
                const real u = a[i * n + k], v = a[i * n + k + 1];
                const real first = t * (p * u - v), second = t * (q * v - u);
                for (int j = k + 2; j < n; ++j)
                    a[i * n + j] -= first * a[k * n + j] + second * a[(k + 1) * n + j];
            }
            barrier(CLK_GLOBAL_MEM_FENCE);
            for (int i = k + 2 + item; i < n; i += ${group}) {
                const real u = a[i * n + k], v = a[i * n + k + 1];
                a[i * n + k] = t * (p * u - v);
                a[i * n + k + 1] = t * (q * v - u);
            }
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
        k += size;
    }
    for (int i = item; i < n; i += ${group})
        for (int j = i + 1; j < n; ++j)
            a[i * n + j] = 0;
    if (item == 0)
        info[info_offset + get_group_id(0)] = singular;
}
</%def>
<%def name="exchange()">
        const int other = clamp((pivots[k] < 0 ? -pivots[k] : pivots[k]) - 1, 0, n - 1);
        const real moved = x[(long)k * columns];
        x[(long)k * columns] = x[(long)other * columns];
        x[(long)other * columns] = moved;
</%def>
<%def name="ldl_substitute(ctype)">
typedef ${ctype} real;
#pragma OPENCL FP_CONTRACT OFF
__kernel void ldl_substitute(...)
{
    const int at = get_global_id(0);
    if (at >= batch * columns)
        return;
    const int which = at / columns;
    x += x_offset + (long)which * n * columns + at % columns;
    a += a_offset + (long)which * n * n;
    pivots += pivots_offset + (long)which * n;
    for (int k = 0; k < n; ++k) {
        const bool pair = pivots[k] < 0 && k + 1 < n;
        if (pair)
            ++k;
        ${exchange()}
        const real second = x[(long)k * columns];
        if (!pair) {
            for (int i = k + 1; i < n; ++i)
                x[(long)i * columns] -= a[i * n + k] * second;
            x[(long)k * columns] = second / a[k * n + k];
            continue;
        }
        const real first = x[(long)(k - 1) * columns];
        for (int i = k + 1; i < n; ++i)
            x[(long)i * columns] -= a[i * n + k - 1] * first + a[i * n + k] * second;
        const real b = a[k * n + k - 1];
        const real p = a[(k - 1) * n + k - 1] / b, q = a[k * n + k] / b;
        const real t = 1 / (p * q - 1) / b;
        x[(long)(k - 1) * columns] = t * (q * first - second);
        x[(long)k * columns] = t * (p * second - first);
    }
    for (int k = n - 1; k >= 0; --k) {
        const int first = pivots[k] < 0 && k > 0 ? k - 1 : k;
        for (int j = first; j <= k; ++j)
            for (int i = k + 1; i < n; ++i)
                x[(long)j * columns] -= a[i * n + j] * x[(long)i * columns];
        ${exchange()}
        k = first;
    }
}
</%def>
