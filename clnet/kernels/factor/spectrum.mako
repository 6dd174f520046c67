## kernel spectrum: eigenvalues of symmetric matrices
##
## param  ctype: str                 float or double
## param  eps: str                   C literal: the spacing of numbers at 1
## param  group: int                 work-items of a matrix, a power of two
## param  vectors: bool              the vectors are wanted, too
## param  value: str                 a C expression: an item's part
## def    symmetric_eigen
## arg    n: int
## arg    a: inout ctype[batch][n][n], may alias  both triangles; overwritten by reflections
## arg    d: out ctype[batch][n], may alias  eigenvalues, ascending
## arg    e: out ctype[batch][4][n], may alias  scratch
## % if vectors:
## arg    z: out ctype[batch][n][n], may alias  rows are scratch
## arg    v: out ctype[batch][n][n], may alias  its columns are the vectors
## % endif
##
## launch   a group a matrix
## numerics to tridiagonal form by reflections, then the implicit QL method with Wilkinson's shifts;
##          every eigenvalue within a few eps of the largest
<%def name="summed(value, group)">
    parts[item] = ${value};
% for step in [group >> k for k in range(1, group.bit_length())]:
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < ${step})
        parts[item] += parts[item + ${step}];
% endfor
    barrier(CLK_LOCAL_MEM_FENCE);
</%def>
<%def name="symmetric_eigen(ctype, eps, group, vectors)">
typedef ${ctype} real;
#pragma OPENCL FP_CONTRACT OFF
__kernel void symmetric_eigen(...)
{
    __local real parts[${group}];
    const int item = get_local_id(0);
    const long which = get_group_id(0);
    a += a_offset + which * n * n;
    d += d_offset + which * n;
    e += e_offset + which * 4 * n;
    __global real *const w = e + n, *const cosines = e + 2 * n, *const sines = e + 3 * n;
    for (int k = 0; k < n - 1; ++k) {
        real largest = 0;
        for (int i = k + 2; i < n; ++i)
            largest = fmax(largest, fabs(a[i * n + k]));
        const real apart = largest > 0 ? largest : 1;
        real sum = 0;
        for (int i = k + 2; i < n; ++i) {
            const real x = a[i * n + k] / apart;
            sum += x * x;
        }
        const real length = apart * sqrt(sum);
        const real alpha = a[(k + 1) * n + k];
        const bool none = length == 0;
        const real beta = none ? alpha : -copysign(hypot(alpha, length), alpha);
        const real t = none ? 0 : (beta - alpha) / beta;
        const real below = none ? 1 : alpha - beta;
        barrier(CLK_GLOBAL_MEM_FENCE);
        for (int i = k + 2 + item; i < n; i += ${group})
            a[i * n + k] /= below;
        if (item == 0) {
            e[k] = beta;
            a[(k + 1) * n + k] = 1;
            a[k * n + k + 1] = t;
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
        // w = t A v, of the block behind row and column k, which is symmetric
        for (int j = k + 1 + item; j < n; j += ${group})
            w[j] = 0;
        for (int i = k + 1; i < n; ++i) {
            const real v = a[i * n + k] * t;
            for (int j = k + 1 + item; j < n; j += ${group})
                w[j] += v * a[i * n + j];
        }
        real dot = 0;
        for (int j = k + 1 + item; j < n; j += ${group})
            dot += w[j] * a[j * n + k];
        ${summed("dot", group)}
        const real half_dot = t * parts[0] / 2;
        for (int j = k + 1 + item; j < n; j += ${group})
            w[j] -= half_dot * a[j * n + k];
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        for (int i = k + 1; i < n; ++i) {
            const real v = a[i * n + k], u = w[i];
            for (int j = k + 1 + item; j < n; j += ${group})
                a[i * n + j] -= v * w[j] + u * a[j * n + k];
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
    for (int i = item; i < n; i += ${group})
        d[i] = a[i * n + i];
    if (item == 0)
        e[n - 1] = 0;
% if vectors:
    // The product of the reflections, transposed: its rows are turned below.
    z += z_offset + which * n * n;
    v += v_offset + which * n * n;
    for (int i = 0; i < n; ++i)
        for (int j = item; j < n; j += ${group})
            z[i * n + j] = i == j;
    for (int k = 0; k < n - 1; ++k) {
        const real t = a[k * n + k + 1];
        for (int j = item; j < n; j += ${group}) {
            real dot = 0;
            for (int i = k + 1; i < n; ++i)
                dot += a[i * n + k] * z[i * n + j];
            dot *= t;
            for (int i = k + 1; i < n; ++i)
                z[i * n + j] -= dot * a[i * n + k];
        }
    }
% endif
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (int l = 0; l < n; ++l) {
        for (int round = 0; round < 60; ++round) {
            int m = l;
            for (; m < n - 1; ++m) {
                const real size = fabs(d[m]) + fabs(d[m + 1]);
                if (!(fabs(e[m]) > ${eps} * size))
                    break;
            }
            if (m == l)
                break;
            barrier(CLK_GLOBAL_MEM_FENCE);
            int last = l;
            if (item == 0) {
                real g = (d[l + 1] - d[l]) / (2 * e[l]);
                g = d[m] - d[l] + e[l] / (g + copysign(hypot(g, (real)1), g));
                real s = 1, c = 1, p = 0;
                bool broken = false;
                int i = m - 1;
                for (; i >= l; --i) {
                    const real f = s * e[i], b = c * e[i];
                    const real r = hypot(f, g);
                    e[i + 1] = r;
                    if (r == 0) {
                        d[i + 1] -= p;
                        e[m] = 0;
                        broken = true;
                        break;
                    }
                    s = f / r;
                    c = g / r;
                    g = d[i + 1] - p;
                    const real q = (d[i] - g) * s + 2 * c * b;
                    p = s * q;
                    d[i + 1] = g + p;
                    g = c * q - b;
                    cosines[i] = c;
                    sines[i] = s;
                }
                if (!broken) {
                    d[l] -= p;
                    e[l] = g;
                    e[m] = 0;
                }
                w[0] = i + 1;
            }
            barrier(CLK_GLOBAL_MEM_FENCE);
% if vectors:
            last = w[0];
            for (int i = m - 1; i >= last; --i) {
                const real c = cosines[i], s = sines[i];
                __global real *const low = z + i * n, *const high = low + n;
                for (int j = item; j < n; j += ${group}) {
                    const real f = high[j], h = low[j];
                    high[j] = s * h + c * f;
                    low[j] = c * h - s * f;
                }
            }
            barrier(CLK_GLOBAL_MEM_FENCE);
% endif
        }
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (int i = item; i < n; i += ${group})
        w[i] = isnan(d[i]) ? (real)INFINITY : d[i];
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (int i = item; i < n; i += ${group}) {
        const real x = w[i];
        int rank = 0;
        for (int j = 0; j < n; ++j)
            rank += w[j] < x || (w[j] == x && j < i);
        cosines[rank] = d[i];
% if vectors:
        for (int j = 0; j < n; ++j)
            v[j * n + rank] = z[i * n + j];
% endif
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (int i = item; i < n; i += ${group})
        d[i] = cosines[i];
}
</%def>
