## kernel triangle: matrices as products of triangular ones, and triangular systems solved
##
## Large ones go in panels of some columns, and in blocks of as many rows: between these launches
## products of matrices take the panel from what lies beside and below it.
##
## param  ctype: str                 float or double
## param  group: int                 work-items of a matrix, a power of two
## param  lanes: int                 of them along a row of a panel, a power of two; of
##                                   substitute and lu_beside columns an item takes as a vector
## param  panel: int                 columns of a panel
## param  kind: str                  type of a sum
## param  own: str                   C expression, the unknown of row i
## param  other: str                 C expression, that of row j, which is known
## param  place: str                 C expression, the elements of row {0}
## param  upper: bool                the upper triangle counts, else the lower one
## param  unit: bool                 the diagonal is taken for ones
## def    lu, lu_beside
## arg    m, n: int
## arg    first, end: int            columns of the panel
## def    lu
## arg    a: inout ctype[batch][m][n], may alias  L below the diagonal, whose own is 1, and U
## arg    pivots: out int[batch][min(m, n)], may alias  which row, from 1, was exchanged with row k
## arg    info: inout int[batch], may alias  the first pivot, from 1, that is 0; else 0
## def    lu_beside
## arg    batch: int
## arg    a: inout ctype[batch][m][n]  the other columns: their rows exchanged; U beside the panel
## arg    pivots: in int[batch][min(m, n)]
## def    cholesky
## arg    n: int
## arg    first, end: int            columns of the panel
## arg    a: inout ctype[batch][n][n], may alias  L, with zeros above; the lower triangle is read
## arg    info: inout int[batch], may alias  the first leading block that is not positive definite
## def    substitute
## arg    batch, n, columns: int
## arg    first, end: int            rows of the block
## arg    x: inout ctype[batch][n][columns]  b, overwritten by the solution
## arg    a: in ctype[batch][n][n]
## def    exchanged
## arg    batch, rows, count: int
## arg    order: out long[batch][rows]       which row each comes from
## arg    pivots: in int[batch][count]
##
## launch   lu, cholesky: a group a matrix; substitute, lu_beside: an item lanes columns; exchanged:
##          one a matrix
## numerics rows are exchanged so that elements of L are at most 1; the first of equal ones is
##          taken. A pivot of 0 is not divided by; what is not positive definite becomes NaN
<%def name="lu(ctype, group, lanes)">
typedef ${ctype} real;
#pragma OPENCL FP_CONTRACT OFF
__kernel void lu(...)
{
    __local real parts[${group}];
    __local int places[${group}];
    const int item = get_local_id(0), lane = item % ${lanes}, row = item / ${lanes};
    a += a_offset + (long)get_group_id(0) * m * n;
    pivots += pivots_offset + (long)get_group_id(0) * min(m, n);
    info += info_offset + get_group_id(0);
    int singular = first == 0 ? 0 : *info;
    for (int k = first; k < end; ++k) {
        real largest = -1;
        int place = k;
        for (int i = k + item; i < m; i += ${group}) {
            const real x = fabs(a[(long)i * n + k]);
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
            for (int j = first + item; j < end; j += ${group}) {
                const real x = a[(long)k * n + j];
                a[(long)k * n + j] = a[(long)chosen * n + j];
                a[(long)chosen * n + j] = x;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        const real pivot = a[(long)k * n + k];
        if (item == 0)
            pivots[k] = chosen + 1;
        if (pivot == 0) {
            if (singular == 0)
                singular = k + 1;
        } else {
            for (int i = k + 1 + item; i < m; i += ${group})
                a[(long)i * n + k] /= pivot;
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
        for (int i = k + 1 + row; i < m; i += ${group // lanes}) {
            const real share = a[(long)i * n + k];
            for (int j = k + 1 + lane; j < end; j += ${lanes})
                a[(long)i * n + j] -= share * a[(long)k * n + j];
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
    if (item == 0)
        *info = singular;
}
</%def>
<%def name="beside_each_other(ctype, lanes)">
typedef ${ctype} real;
#pragma OPENCL FP_CONTRACT OFF
% if lanes > 1:
typedef ${ctype}${lanes} __attribute__((aligned(sizeof(${ctype})))) vector;
% endif
</%def>
<%def name="exchanged_and_solved(kind, panel, place)">
    for (int k = first; k < end; ++k) {
        const int row = clamp(pivots[k] - 1, k, m - 1);
        const ${kind} y = ${place.format("k")};
        ${place.format("k")} = ${place.format("row")};
        ${place.format("row")} = y;
    }
    if (column >= end) {
        ${kind} x[${panel}];
        for (int i = first; i < end; ++i) {
            ${kind} sum = ${place.format("i")};
            for (int j = first; j < i; ++j)
                sum -= a[(long)i * n + j] * x[j - first];
            x[i - first] = sum;
            ${place.format("i")} = sum;
        }
    }
</%def>
<%def name="lu_beside(ctype, panel, lanes)">
${beside_each_other(ctype, lanes)}
__kernel void lu_beside(...)
{
    const int before = (first + ${lanes - 1}) / ${lanes};
    const int others = before + (n - end + ${lanes - 1}) / ${lanes}, at = get_global_id(0);
    if (at >= batch * others)
        return;
    const int which = at / others, other = at % others;
    int column = other < before ? other * ${lanes} : end + (other - before) * ${lanes};
    a += a_offset + (long)which * m * n;
    pivots += pivots_offset + (long)which * min(m, n);
% if lanes > 1:
    const int stop = other < before ? first : n;
    if (column + ${lanes} <= stop) {
        ${exchanged_and_solved(f"{ctype}{lanes}", panel,
            "*(__global vector *)(a + (long){0} * n + column)")}
        return;
    }
    for (; column < stop; ++column) {
        ${exchanged_and_solved("real", panel, "a[(long){0} * n + column]")}
    }
% else:
    ${exchanged_and_solved("real", panel, "a[(long){0} * n + column]")}
% endif
}
</%def>
<%def name="cholesky(ctype, group, lanes)">
typedef ${ctype} real;
#pragma OPENCL FP_CONTRACT OFF
__kernel void cholesky(...)
{
    const int item = get_local_id(0), lane = item % ${lanes}, row = item / ${lanes};
    a += a_offset + (long)get_group_id(0) * n * n;
    info += info_offset + get_group_id(0);
    int wrong = first == 0 ? 0 : *info;
    for (int k = first; k < end; ++k) {
        const real square = a[(long)k * n + k];
        barrier(CLK_GLOBAL_MEM_FENCE);
        if (!(square > 0) && wrong == 0)
            wrong = k + 1;
        const real root = wrong ? (real)NAN : sqrt(square);
        if (item == 0)
            a[(long)k * n + k] = root;
        for (int i = k + 1 + item; i < n; i += ${group}) {
            a[(long)i * n + k] /= root;
            a[(long)k * n + i] = 0;
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
        for (int i = k + 1 + row; i < n; i += ${group // lanes}) {
            const real share = a[(long)i * n + k];
            for (int j = k + 1 + lane; j <= min(i, end - 1); j += ${lanes})
                a[(long)i * n + j] -= share * a[(long)j * n + k];
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
    if (item == 0)
        *info = wrong;
}
</%def>
<%def name="solved(kind, upper, unit, own, other)">
    for (int step = first; step < end; ++step) {
% if upper:
        const int i = end - 1 - (step - first), begin = i + 1, stop = end;
% else:
        const int i = step, begin = first, stop = i;
% endif
        ${kind} sum = ${own};
        for (int j = begin; j < stop; ++j)
            sum -= a[(long)i * n + j] * ${other};
% if unit:
        ${own} = sum;
% else:
        ${own} = sum / a[(long)i * n + i];
% endif
    }
</%def>
<%def name="substitute(ctype, upper, unit, lanes)">
${beside_each_other(ctype, lanes)}
__kernel void substitute(...)
{
    const int blocks = (columns - 1) / ${lanes} + 1, at = get_global_id(0);
    if (at >= batch * blocks)
        return;
    const int which = at / blocks, column = at % blocks * ${lanes};
    x += x_offset + (long)which * n * columns + column;
    a += a_offset + (long)which * n * n;
% if lanes > 1:
    if (column + ${lanes} <= columns) {
        ${solved(f"{ctype}{lanes}", upper, unit, "*(__global vector *)(x + (long)i * columns)",
            "*(__global const vector *)(x + (long)j * columns)")}
        return;
    }
    for (int left = columns - column; left > 0; --left, ++x) {
        ${solved("real", upper, unit, "x[(long)i * columns]", "x[(long)j * columns]")}
    }
% else:
    ${solved("real", upper, unit, "x[(long)i * columns]", "x[(long)j * columns]")}
% endif
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
