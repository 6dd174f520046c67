## kernel householder: matrices made triangular by reflections, and reflections applied
##
## param  ctype: str                 float or double
## param  group: int                 work-items of a matrix, a power of two
## param  turned: bool               the reflections in the opposite order: the transposed product
## param  value: str                 a C expression: an item's part
## param  join: str                  how parts are joined, a C expression of `a` and `b`
## def    householder
## arg    m, n: int
## arg    a: inout ctype[batch][m][n], may alias  R on and above the diagonal, reflections below
## arg    tau: out ctype[batch][min(m, n)], may alias
## arg    w: out ctype[batch][n], may alias  scratch
## def    reflect
## arg    batch, m, n, p: int
## arg    count: int                 reflections
## arg    c: inout ctype[batch][m][p]
## arg    a: in ctype[batch][m][n]
## arg    tau: in ctype[batch][count]
##
## launch   householder: a group a matrix; reflect: an item a column of c
## numerics LAPACK's signs: a diagonal element of R has the opposite of the one it replaces. Lengths
##          are taken of scaled columns
<%def name="joined(value, group, join)">
    parts[item] = ${value};
% for step in [group >> k for k in range(1, group.bit_length())]:
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < ${step}) {
        const real a_ = parts[item], b_ = parts[item + ${step}];
        parts[item] = ${join};
    }
% endfor
    barrier(CLK_LOCAL_MEM_FENCE);
</%def>
<%def name="householder(ctype, group)">
typedef ${ctype} real;
#pragma OPENCL FP_CONTRACT OFF
__kernel void householder(...)
{
    __local real parts[${group}];
    const int item = get_local_id(0);
    const int count = min(m, n);
    a += a_offset + (long)get_group_id(0) * m * n;
    tau += tau_offset + (long)get_group_id(0) * count;
    w += w_offset + (long)get_group_id(0) * n;
    for (int k = 0; k < count; ++k) {
        real largest = 0;
        for (int i = k + 1 + item; i < m; i += ${group})
            largest = fmax(largest, fabs(a[i * n + k]));
        ${joined("largest", group, "fmax(a_, b_)")}
        const real scale = parts[0];
        barrier(CLK_LOCAL_MEM_FENCE);
        const real apart = scale > 0 ? scale : 1;
        real sum = 0;
        for (int i = k + 1 + item; i < m; i += ${group}) {
            const real x = a[i * n + k] / apart;
            sum += x * x;
        }
        ${joined("sum", group, "a_ + b_")}
        const real length = apart * sqrt(parts[0]);
        const real alpha = a[k * n + k];
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        const bool none = length == 0;
        const real beta = none ? alpha : -copysign(hypot(alpha, length), alpha);
        const real t = none ? 0 : (beta - alpha) / beta;
        const real below = none ? 1 : alpha - beta;
        for (int i = k + 1 + item; i < m; i += ${group})
            a[i * n + k] /= below;
        if (item == 0) {
            tau[k] = t;
            a[k * n + k] = beta;
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
        for (int j = k + 1 + item; j < n; j += ${group})
            w[j] = a[k * n + j];
        for (int i = k + 1; i < m; ++i) {
            const real v = a[i * n + k];
            for (int j = k + 1 + item; j < n; j += ${group})
                w[j] += v * a[i * n + j];
        }
        for (int j = k + 1 + item; j < n; j += ${group}) {
            w[j] *= t;
            a[k * n + j] -= w[j];
        }
        for (int i = k + 1; i < m; ++i) {
            const real v = a[i * n + k];
            for (int j = k + 1 + item; j < n; j += ${group})
                a[i * n + j] -= v * w[j];
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
}
</%def>
<%def name="reflect(ctype, turned)">
typedef ${ctype} real;
#pragma OPENCL FP_CONTRACT OFF
__kernel void reflect(...)
{
    const int at = get_global_id(0);
    if (at >= batch * p)
        return;
    const int which = at / p;
    c += c_offset + (long)which * m * p + at % p;
    a += a_offset + (long)which * m * n;
    tau += tau_offset + (long)which * count;
    for (int step = 0; step < count; ++step) {
% if turned:
        const int k = step;
% else:
        const int k = count - 1 - step;
% endif
        real dot = c[(long)k * p];
        for (int i = k + 1; i < m; ++i)
            dot += a[i * n + k] * c[(long)i * p];
        dot *= tau[k];
        c[(long)k * p] -= dot;
        for (int i = k + 1; i < m; ++i)
            c[(long)i * p] -= a[i * n + k] * dot;
    }
}
</%def>
