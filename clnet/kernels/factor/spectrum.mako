## kernel spectrum: eigenvalues of symmetric matrices
##
## param  ctype: str                 float or double
## param  eps: str                   C literal: the spacing of numbers at 1
## param  group: int                 work-items of a matrix, a power of two
## param  upper: bool                the upper triangle counts, not the lower one
## param  vectors: bool              the vectors are wanted, too
## param  value: str                 a C expression: an item's part
## def    symmetric_eigen
## arg    n: int
## arg    x: in ctype[batch][n][n], may alias  one triangle counts
## arg    a: inout ctype[batch][n][n], may alias  scratch, for reflections
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
<%def name="symmetric_eigen(ctype, eps, group, upper, vectors)">
typedef ${ctype} real;
#pragma OPENCL FP_CONTRACT OFF
__kernel void symmetric_eigen(...)
{
    __local real parts[${group}];
    const int item = get_local_id(0);
    const long which = get_group_id(0);
    x += x_offset + which * n * n;
    a += a_offset + which * n * n;
    d += d_offset + which * n;
    e += e_offset + which * 4 * n;
    __global real *const w = e + n, *const cosines = e + 2 * n, *const sines = e + 3 * n;
    // A NaN is the largest of all.
    real most = 0;
    for (int i = 0; i < n; ++i)
        for (int j = ${"i + item; j < n" if upper else "item; j <= i"}; j += ${group}) {
            const real size = fabs(x[i * n + j]);
            most = size > most || size != size ? size : most;
        }
    parts[item] = most;
% for step in [group >> k for k in range(1, group.bit_length())]:
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < ${step}) {
        const real other = parts[item + ${step}];
        parts[item] = other > parts[item] || other != other ? other : parts[item];
    }
% endfor
    barrier(CLK_LOCAL_MEM_FENCE);
    const real scale = parts[0] == 0 ? 1 : parts[0];
    for (int i = 0; i < n; ++i)
        for (int j = item; j < n; j += ${group})
% if upper:
            a[i * n + j] = x[min(i, j) * n + max(i, j)] / scale;
% else:
            a[i * n + j] = x[max(i, j) * n + min(i, j)] / scale;
% endif
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    for (int k = 0; k < n - 1; ++k) {
        // Row k is what column k is, and lies side by side; it becomes a reflection.
        __global real *const row = a + k * n;
        real largest = 0;
        for (int i = k + 1; i < n; ++i)
            largest = fmax(largest, fabs(row[i]));
        const real apart = largest > 0 ? largest : 1;
        real sum = 0;
        for (int i = k + 2; i < n; ++i) {
            const real x = row[i] / apart;
            sum += x * x;
        }
        // All relative to the largest element: of tiny ones a quotient would have few digits.
        const real length = sqrt(sum), first = row[k + 1] / apart;
        const bool none = length == 0;
        const real end = none ? first : -copysign(hypot(first, length), first);
        const real beta = end * apart, t = none ? 0 : (end - first) / end;
        const real below = none ? 1 : first - end;
        barrier(CLK_GLOBAL_MEM_FENCE);
        for (int i = k + 2 + item; i < n; i += ${group})
            row[i] = row[i] / apart / below;
        if (item == 0) {
            e[k] = beta;
            row[k + 1] = 1;
            row[n + k] = t;
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
        // w = t A v, of the block behind row and column k, which is symmetric
        for (int j = k + 1 + item; j < n; j += ${group})
            w[j] = 0;
        for (int i = k + 1; i < n; ++i) {
            const real v = row[i] * t;
            for (int j = k + 1 + item; j < n; j += ${group})
                w[j] += v * a[i * n + j];
        }
        real dot = 0;
        for (int j = k + 1 + item; j < n; j += ${group})
            dot += w[j] * row[j];
        ${summed("dot", group)}
        const real half_dot = t * parts[0] / 2;
        for (int j = k + 1 + item; j < n; j += ${group})
            w[j] -= half_dot * row[j];
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        for (int i = k + 1; i < n; ++i) {
            const real v = row[i], u = w[i];
            for (int j = k + 1 + item; j < n; j += ${group})
                a[i * n + j] -= v * w[j] + u * row[j];
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
        __global const real *const row = a + k * n;
        const real t = row[n + k];
        for (int j = item; j < n; j += ${group})
            w[j] = 0;
        for (int i = k + 1; i < n; ++i)
            for (int j = item; j < n; j += ${group})
                w[j] += row[i] * z[i * n + j];
        for (int i = k + 1; i < n; ++i) {
            const real v = t * row[i];
            for (int j = item; j < n; j += ${group})
                z[i * n + j] -= v * w[j];
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
                g = d[m] - d[l] + e[l] / (g + copysign(sqrt(g * g + 1), g));
                real s = 1, c = 1, p = 0;
                bool broken = false;
                int i = m - 1;
                for (; i >= l; --i) {
                    const real f = s * e[i], b = c * e[i];
                    // What the squares lose is far below eps of the largest eigenvalue.
                    const real r = sqrt(f * f + g * g);
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
        d[i] = cosines[i] * scale;
}
</%def>
