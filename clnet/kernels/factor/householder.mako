## kernel householder: matrices made triangular by reflections, and reflections applied
##
## param  ctype: str                 float or double
## param  group: int                 work-items of a matrix, a power of two
## param  turned: bool               the reflections in the opposite order: the transposed product
## param  value: str                 a C expression: an item's part
## param  join: str                  how parts are joined, a C expression of `a` and `b`
## param  lanes: int                 columns of c that an item takes
## param  type: str                  a C type: of one of them, or of a vector
## param  at: str                    a C expression, row {} of them
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
## launch   householder: a group a matrix; reflect: an item lanes columns of c
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
        // All relative to the largest element: of tiny ones a quotient would have few digits.
        const real alpha = a[k * n + k], scale = fmax(parts[0], fabs(alpha));
        barrier(CLK_LOCAL_MEM_FENCE);
        const real apart = scale > 0 ? scale : 1;
        real sum = 0;
        for (int i = k + 1 + item; i < m; i += ${group}) {
            const real x = a[i * n + k] / apart;
            sum += x * x;
        }
        ${joined("sum", group, "a_ + b_")}
        const real length = sqrt(parts[0]), first = alpha / apart;
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        const bool none = length == 0;
        const real end = none ? first : -copysign(hypot(first, length), first);
        const real beta = none ? alpha : end * apart, t = none ? 0 : (end - first) / end;
        const real below = none ? 1 : first - end;
        for (int i = k + 1 + item; i < m; i += ${group})
            a[i * n + k] = none ? a[i * n + k] : a[i * n + k] / apart / below;
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
<%def name="reflected(type, turned, at)">
    for (int step = 0; step < count; ++step) {
        const int k = ${"step" if turned else "count - 1 - step"};
        ${type} dot = ${at.format("k")};
        for (int i = k + 1; i < m; ++i)
            dot += a[i * n + k] * ${at.format("i")};
        dot *= tau[k];
        ${at.format("k")} -= dot;
        for (int i = k + 1; i < m; ++i)
            ${at.format("i")} -= a[i * n + k] * dot;
    }
</%def>
<%def name="reflect(ctype, turned, lanes)">
typedef ${ctype} real;
% if lanes > 1:
typedef ${ctype}${lanes} __attribute__((aligned(sizeof(${ctype})))) vector;
% endif
#pragma OPENCL FP_CONTRACT OFF
__kernel void reflect(...)
{
    const int blocks = (p - 1) / ${lanes} + 1, at = get_global_id(0);
    if (at >= batch * blocks)
        return;
    const int which = at / blocks, column = at % blocks * ${lanes};
    c += c_offset + (long)which * m * p + column;
    a += a_offset + (long)which * m * n;
    tau += tau_offset + (long)which * count;
% if lanes > 1:
    if (column + ${lanes} <= p) {
        ${reflected("vector", turned, "*(__global vector *)(c + (long){} * p)")}
        return;
    }
    for (int left = p - column; left > 0; --left, ++c) {
        ${reflected("real", turned, "c[(long){} * p]")}
    }
% else:
    ${reflected("real", turned, "c[(long){} * p]")}
% endif
}
</%def>
