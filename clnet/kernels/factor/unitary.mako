## kernel unitary: complex matrices made triangular, bidiagonal or Hessenberg's by reflections
##
## param  ctype: str                 float or double
## param  group: int                 work-items of a matrix
## param  turned: bool               the conjugate transpose of the reflections' product
## param  both: bool                 other reflections from the right: a bidiagonal matrix; else
##                                   the same from both sides: Hessenberg's form
## param  matrix: str                what is reflected
## param  source: str                C expression: element i of what becomes a single number
## param  first: str                 C expression: where that number stands
## param  rows: str                  C expression: from which row on
## def    unitary
## arg    m, n: int
## arg    a: inout ctype[batch][m][n][2], may alias  R on and above the diagonal, reflections below
## arg    tau: out ctype[batch][min(m, n)][2], may alias
## arg    w: out ctype[batch][n][2], may alias  scratch
## def    unitary_reflect
## arg    batch, m, n, p: int
## arg    count: int                 reflections
## arg    c: inout ctype[batch][m][p][2]
## arg    a: in ctype[batch][m][n][2]
## arg    tau: in ctype[batch][count][2]
## def    unitary_form
## arg    n: int
## arg    a: inout ctype[batch][n][n][2], may alias  becomes 0 below, and beyond its form
## arg    q: out ctype[batch][n][n][2], may alias  what stands on the left of the form
## % if both:
## arg    p: out ctype[batch][n][n][2], may alias  what stands, conjugated, on its right
## % endif
## arg    w: out ctype[batch][n][2], may alias  scratch: a reflection
##
## launch   a group a matrix; unitary_reflect: an item a column of c
## numerics LAPACK's signs: numbers that reflections leave, R's diagonal and those beside one, are
##          real, so that of a Hermitian matrix the form is real and tridiagonal
<%namespace name="lib" file="/lib/pairs.mako"/>
<%def name="reflection(source, first)">
        const int first = ${first};
        pair alpha = (pair)(0, 0), t = (pair)(0, 0), below = (pair)(1, 0);
        real largest = 0, sum = 0;
        for (int i = first; i < length; ++i) {
            const pair x = ${source};
            if (i == first)
                alpha = x;
            else
                largest = fmax(largest, fmax(fabs(x.x), fabs(x.y)));
        }
        const real scale = largest > 0 ? largest : 1;
        for (int i = first + 1; i < length; ++i) {
            const pair x = ${source} / scale;
            sum += x.x * x.x + x.y * x.y;
        }
        const real rest = scale * sqrt(sum);
        real beta = alpha.x;
        if (rest != 0 || alpha.y != 0) {
            beta = -copysign(hypot(hypot(alpha.x, alpha.y), rest), alpha.x);
            t = (pair)((beta - alpha.x) / beta, -alpha.y / beta);
            below = alpha - (pair)(beta, 0);
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
</%def>
<%def name="unitary(ctype, group)">
#pragma OPENCL FP_CONTRACT OFF
${lib.pairs(ctype)}
${lib.conjugates()}
__kernel void unitary(...)
{
    const int item = get_local_id(0), length = m, count = min(m, n);
    a += a_offset + (long)get_group_id(0) * m * n * 2;
    tau += tau_offset + (long)get_group_id(0) * count * 2;
    w += w_offset + (long)get_group_id(0) * n * 2;
    for (int k = 0; k < count; ++k) {
        ${reflection("vload2(i * n + k, a)", "k")}
        for (int i = item; i < m; i += ${group})
            if (i > k)
                vstore2(over(vload2(i * n + k, a), below), i * n + k, a);
        if (item == 0) {
            vstore2(t, k, tau);
            vstore2((pair)(beta, 0), k * n + k, a);
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
        for (int i = first; i < m; ++i) {
            const pair v = i == k ? (pair)(1, 0) : conjugate(vload2(i * n + k, a));
            for (int j = item; j < n; j += ${group}) {
                if (j <= k)
                    continue;
                const pair x = times(v, vload2(i * n + j, a));
                vstore2(i == k ? x : vload2(j, w) + x, j, w);
            }
        }
        for (int i = k; i < m; ++i) {
            const pair v = i == k ? (pair)(1, 0) : vload2(i * n + k, a);
            const pair share = times(v, conjugate(t));
            for (int j = item; j < n; j += ${group})
                if (j > k)
                    vstore2(vload2(i * n + j, a) - times(share, vload2(j, w)), i * n + j, a);
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
}
</%def>
<%def name="unitary_reflect(ctype, turned)">
#pragma OPENCL FP_CONTRACT OFF
${lib.pairs(ctype)}
${lib.conjugates()}
__kernel void unitary_reflect(...)
{
    const int at = get_global_id(0);
    if (at >= batch * p)
        return;
    const int which = at / p, column = at % p;
    c += c_offset + (long)which * m * p * 2;
    a += a_offset + (long)which * m * n * 2;
    tau += tau_offset + (long)which * count * 2;
    for (int step = 0; step < count; ++step) {
% if turned:
        const int k = step;
        const pair t = conjugate(vload2(k, tau));
% else:
        const int k = count - 1 - step;
        const pair t = vload2(k, tau);
% endif
        pair dot = vload2((long)k * p + column, c);
        for (int i = k + 1; i < m; ++i)
            dot += times(conjugate(vload2(i * n + k, a)), vload2((long)i * p + column, c));
        dot = times(dot, t);
        for (int i = k; i < m; ++i) {
            const pair v = i == k ? (pair)(1, 0) : vload2(i * n + k, a);
            const pair x = vload2((long)i * p + column, c) - times(v, dot);
            vstore2(x, (long)i * p + column, c);
        }
    }
}
</%def>
<%def name="from_the_right(matrix, rows, group)">
        for (int i = item; i < n; i += ${group}) {
            if (i < ${rows})
                continue;
            pair dot = (pair)(0, 0);
            for (int j = first; j < n; ++j)
                dot += times(vload2(i * n + j, ${matrix}), vload2(j, w));
            dot = times(dot, t);
            for (int j = first; j < n; ++j) {
                const pair x = times(dot, conjugate(vload2(j, w)));
                vstore2(vload2(i * n + j, ${matrix}) - x, i * n + j, ${matrix});
            }
        }
</%def>
<%def name="made(source, group)">
        for (int i = item; i < n; i += ${group})
            if (i >= first)
                vstore2(i == first ? (pair)(1, 0) : over(${source}, below), i, w);
        barrier(CLK_GLOBAL_MEM_FENCE);
</%def>
<%def name="unitary_form(ctype, group, both)">
#pragma OPENCL FP_CONTRACT OFF
${lib.pairs(ctype)}
${lib.conjugates()}
__kernel void unitary_form(...)
{
    const int item = get_local_id(0), length = n;
    const long which = get_group_id(0);
    w += w_offset + which * n * 2;
    a += a_offset + which * n * n * 2;
    q += q_offset + which * n * n * 2;
% if both:
    p += p_offset + which * n * n * 2;
% endif
    for (int i = 0; i < n; ++i)
        for (int j = item; j < n; j += ${group}) {
            const pair one = (pair)(i == j, 0);
            vstore2(one, i * n + j, q);
% if both:
            vstore2(one, i * n + j, p);
% endif
        }
    for (int k = 0; k < ${"n" if both else "n - 1"}; ++k) {
        {
        ${reflection("vload2(i * n + k, a)", "k" if both else "k + 1")}
        ${made("vload2(i * n + k, a)", group)}
        for (int j = item; j < n; j += ${group}) {
            if (j < k)
                continue;
            pair dot = (pair)(0, 0);
            for (int i = first; i < n; ++i)
                dot += times(conjugate(vload2(i, w)), vload2(i * n + j, a));
            dot = times(dot, conjugate(t));
            for (int i = first; i < n; ++i) {
                const pair x = vload2(i * n + j, a) - times(vload2(i, w), dot);
                vstore2(j > k ? x : (pair)(i == first ? beta : 0, 0), i * n + j, a);
            }
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
% if not both:
        ${from_the_right("a", "0", group)}
% endif
        ${from_the_right("q", "0", group)}
        barrier(CLK_GLOBAL_MEM_FENCE);
        }
% if both:
        if (k + 1 < n) {
        ${reflection("conjugate(vload2(k * n + i, a))", "k + 1")}
        ${made("conjugate(vload2(k * n + i, a))", group)}
        ${from_the_right("a", "k + 1", group)}
        ${from_the_right("p", "0", group)}
        for (int j = item; j < n; j += ${group})
            if (j > k)
                vstore2((pair)(j == k + 1 ? beta : 0, 0), k * n + j, a);
        barrier(CLK_GLOBAL_MEM_FENCE);
        }
% endif
    }
}
</%def>
