## kernel schur: eigenvalues of square matrices that need not be symmetric
##
## param  ctype: str                 float or double
## param  eps: str                   C literal: the spacing of numbers at 1
## param  group: int                 work-items of a matrix
## param  vectors: bool              the basis is wanted, too
## param  matrix: str                the matrix whose columns are combined
## param  first, last: str           C expressions: of which rows
## def    hessenberg
## arg    n: int
## arg    h: inout ctype[batch][n][n], may alias  becomes 0 below the first subdiagonal
## arg    w: out ctype[batch][n], may alias  scratch: a reflection
## % if vectors:
## arg    q: out ctype[batch][n][n], may alias  the reflections' product
## % endif
## def    schur
## arg    batch: int
## arg    n: int
## arg    h: inout ctype[batch][n][n], may alias  becomes quasi-triangular
## arg    values: out ctype[batch][n][2], may alias  real and imaginary parts
## % if vectors:
## arg    q: inout ctype[batch][n][n], may alias  the basis: q @ h @ q.T is what came
## % endif
##
## launch   a group a matrix (hessenberg), an item a matrix (schur: its steps follow one another)
## numerics Householder's reflections to Hessenberg form, then Francis' double steps; the two
##          eigenvalues of a block are real, or exactly conjugate; those that are not found in
##          60 steps are NaN
<%def name="combined(matrix, first, last)">
            for (int i = ${first}; i < ${last}; ++i) {
                __global real *const row = ${matrix} + i * n;
                real sum = x * row[k] + y * row[k + 1];
                if (three) {
                    sum += z * row[k + 2];
                    row[k + 2] -= sum * r;
                }
                row[k] -= sum;
                row[k + 1] -= sum * q2;
            }
</%def>
<%def name="hessenberg(ctype, group, vectors)">
typedef ${ctype} real;
#pragma OPENCL FP_CONTRACT OFF
__kernel void hessenberg(...)
{
    const int item = get_local_id(0);
    const long which = get_group_id(0);
    h += h_offset + which * n * n;
    w += w_offset + which * n;
% if vectors:
    q += q_offset + which * n * n;
    for (int i = 0; i < n; ++i)
        for (int j = item; j < n; j += ${group})
            q[i * n + j] = i == j;
% endif
    for (int m = 1; m < n - 1; ++m) {
        real size = 0;
        for (int i = m + 1; i < n; ++i)
            size += fabs(h[i * n + m - 1]);
        // Every item comes to every barrier: a reflection that is not needed is one of length 0.
        const bool none = !(size > 0);
        size = none ? 1 : size + fabs(h[m * n + m - 1]);
        real squares = 0;
        for (int i = m; i < n; ++i) {
            const real x = h[i * n + m - 1] / size;
            squares += x * x;
        }
        const real first = h[m * n + m - 1] / size;
        const real g = -copysign(sqrt(squares), first);
        const real scale = none ? 1 : squares - first * g;
        const real corner = none ? h[m * n + m - 1] : size * g;
        barrier(CLK_GLOBAL_MEM_FENCE);
        for (int i = m + item; i < n; i += ${group})
            w[i] = none ? 0 : h[i * n + m - 1] / size - (i == m ? g : 0);
        barrier(CLK_GLOBAL_MEM_FENCE);
        // From `item` on: in groups of 64 PoCL left out a loop that began at `m + item`.
        for (int j = item; j < n; j += ${group}) {
            if (j < m)
                continue;
            real dot = 0;
            for (int i = m; i < n; ++i)
                dot += w[i] * h[i * n + j];
            dot /= scale;
            for (int i = m; i < n; ++i)
                h[i * n + j] -= dot * w[i];
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
        for (int i = item; i < n; i += ${group})
            if (i >= m)
                h[i * n + m - 1] = i == m ? corner : 0;
        barrier(CLK_GLOBAL_MEM_FENCE);
% for matrix in ("h", "q") if vectors else ("h",):
        for (int i = item; i < n; i += ${group}) {
            __global real *const row = ${matrix} + i * n;
            real dot = 0;
            for (int j = m; j < n; ++j)
                dot += w[j] * row[j];
            dot /= scale;
            for (int j = m; j < n; ++j)
                row[j] -= dot * w[j];
        }
% endfor
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
}
</%def>
<%def name="schur(ctype, eps, vectors)">
typedef ${ctype} real;
#pragma OPENCL FP_CONTRACT OFF
#define H(i, j) h[(i) * n + (j)]
__kernel void schur(...)
{
    const long which = get_global_id(0);
    if (which >= batch)
        return;
    h += h_offset + which * n * n;
    values += values_offset + which * n * 2;
% if vectors:
    q += q_offset + which * n * n;
% endif
    real norm = 0;
    for (int i = 0; i < n; ++i)
        for (int j = max(i - 1, 0); j < n; ++j)
            norm += fabs(H(i, j));
    int last = n - 1, step = 0;
    while (last >= 0) {
        // The block that ends in `last` begins at `l`.
        int l = last;
        for (; l > 0; --l) {
            const real around = fabs(H(l - 1, l - 1)) + fabs(H(l, l));
            if (!(fabs(H(l, l - 1)) > ${eps} * (around == 0 ? norm : around)))
                break;
        }
        if (l < last - 1 && step == 60) { // given up
            l = last;
            H(last, last) = NAN;
        }
        if (l == last) {
            values[2 * last] = H(last, last);
            values[2 * last + 1] = 0;
            if (last > 0)
                H(last, last - 1) = 0;
            last -= 1;
            step = 0;
            continue;
        }
        const real corner = H(last, last), before = H(last - 1, last - 1);
        const real below = H(last, last - 1), product = below * H(last - 1, last);
        if (l == last - 1) {
            const real p = (before - corner) / 2, square = p * p + product;
            const real root = sqrt(fabs(square));
            const bool apart = square >= 0;
            const real z = p + copysign(root, p);
            values[2 * last - 2] = apart ? corner + z : corner + p;
            values[2 * last] = !apart ? corner + p : z != 0 ? corner - product / z : corner + z;
            values[2 * last - 1] = apart ? 0 : root;
            values[2 * last + 1] = apart ? 0 : -root;
            if (l > 0)
                H(l, l - 1) = 0;
            if (apart) { // turned until it is triangular
                const real size = hypot(below, z), s = below / size, c = z / size;
                for (int j = l; j < n; ++j) {
                    const real a = H(l, j), b = H(last, j);
                    H(l, j) = c * a + s * b;
                    H(last, j) = c * b - s * a;
                }
% for matrix in ("h", "q") if vectors else ("h",):
                for (int i = 0; i < ${"n" if matrix == "q" else "last + 1"}; ++i) {
                    __global real *const row = ${matrix} + i * n;
                    const real a = row[l], b = row[last];
                    row[l] = c * a + s * b;
                    row[last] = c * b - s * a;
                }
% endfor
                H(last, l) = 0;
            }
            last -= 2;
            step = 0;
            continue;
        }
        real x = corner, y = before, w = product;
        if (step % 20 == 10) { // other shifts, since these two go round in a circle
            const real s = fabs(below) + fabs(H(last - 1, last - 2));
            x = y = corner + (real)0.75 * s;
            w = (real)-0.4375 * s * s;
        }
        step += 1;
        int m = last - 2;
        real p, q2, r, z;
        for (;; --m) { // a step may begin where two subdiagonal elements are small
            z = H(m, m);
            r = x - z;
            const real s = y - z;
            p = (r * s - w) / H(m + 1, m) + H(m, m + 1);
            q2 = H(m + 1, m + 1) - z - r - s;
            r = H(m + 2, m + 1);
            const real size = fabs(p) + fabs(q2) + fabs(r);
            p /= size;
            q2 /= size;
            r /= size;
            if (m == l)
                break;
            const real around = fabs(H(m - 1, m - 1)) + fabs(z) + fabs(H(m + 1, m + 1));
            if (fabs(H(m, m - 1)) * (fabs(q2) + fabs(r)) < ${eps} * fabs(p) * around)
                break;
        }
        for (int i = m + 2; i <= last; ++i) {
            H(i, i - 2) = 0;
            if (i > m + 2)
                H(i, i - 3) = 0;
        }
        for (int k = m; k < last; ++k) {
            const bool three = k != last - 1;
            real size = 0;
            if (k != m) {
                p = H(k, k - 1);
                q2 = H(k + 1, k - 1);
                r = three ? H(k + 2, k - 1) : 0;
                size = fabs(p) + fabs(q2) + fabs(r);
                if (size == 0)
                    continue;
                p /= size;
                q2 /= size;
                r /= size;
            }
            const real s = copysign(sqrt(p * p + q2 * q2 + r * r), p);
            if (s == 0)
                continue;
            if (k != m)
                H(k, k - 1) = -s * size;
            else if (l != m)
                H(k, k - 1) = -H(k, k - 1);
            p += s;
            x = p / s;
            y = q2 / s;
            z = r / s;
            q2 /= p;
            r /= p;
            for (int j = k; j < n; ++j) {
                real sum = H(k, j) + q2 * H(k + 1, j);
                if (three) {
                    sum += r * H(k + 2, j);
                    H(k + 2, j) -= sum * z;
                }
                H(k, j) -= sum * x;
                H(k + 1, j) -= sum * y;
            }
            ${combined("h", "0", "min(last, k + 3) + 1")}
% if vectors:
            ${combined("q", "0", "n")}
% endif
        }
    }
}
</%def>
