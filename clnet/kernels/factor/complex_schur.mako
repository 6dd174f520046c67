## kernel complex_schur: eigenvalues of complex matrices, and their vectors
##
## param  ctype: str                 float or double
## param  eps: str                   C literal: the spacing of numbers at 1
## param  vectors: bool              the basis is wanted, too
## param  matrix: str                whose columns are combined
## param  end: str                   C expression: of how many rows
## def    complex_schur
## arg    batch, n: int
## arg    h: inout ctype[batch][n][n][2], may alias  0 below the first subdiagonal; becomes
##                                      triangular
## arg    values: out ctype[batch][n][2], may alias
## % if vectors:
## arg    q: inout ctype[batch][n][n][2], may alias  the basis: q @ h @ q.mH is what came
## % endif
## def    complex_vectors
## arg    batch, n: int
## arg    v: out ctype[batch][n][n][2]  columns are the vectors
## arg    x: out ctype[batch][n][n][2]  scratch: a row for each vector
## arg    h: in ctype[batch][n][n][2]   triangular
## arg    q: in ctype[batch][n][n][2]   the basis that h stands in
##
## launch   complex_schur: an item a matrix, its steps follow one another; complex_vectors: an item
##          a vector
## numerics single steps with the shift of the last two rows; values not found in 60 are NaN.
##          Vectors have length 1, and a largest element that is real
<%namespace name="lib" file="/lib/pairs.mako"/>
<%def name="combined(matrix, end)">
            for (int i = 0; i < ${end}; ++i) {
                const pair a = vload2(i * n + k, ${matrix}), b = vload2(i * n + k + 1, ${matrix});
                vstore2(times(c, a) + times(s, b), i * n + k, ${matrix});
                vstore2(times(conjugate(c), b) - times(conjugate(s), a), i * n + k + 1, ${matrix});
            }
</%def>
<%def name="complex_schur(ctype, eps, vectors)">
#pragma OPENCL FP_CONTRACT OFF
${lib.pairs(ctype)}
${lib.conjugates()}
static real size_of(const pair x)
{
    return fabs(x.x) + fabs(x.y);
}
static pair root_of(const pair x)
{
    const real size = hypot(x.x, x.y);
    const real a = sqrt((size + fabs(x.x)) / 2), b = a > 0 ? fabs(x.y) / (2 * a) : 0;
    return x.x >= 0 ? (pair)(a, copysign(b, x.y)) : (pair)(b, copysign(a, x.y));
}
#define H(i, j) vload2((i) * n + (j), h)
__kernel void complex_schur(...)
{
    const long which = get_global_id(0);
    if (which >= batch)
        return;
    h += h_offset + which * n * n * 2;
    values += values_offset + which * n * 2;
% if vectors:
    q += q_offset + which * n * n * 2;
% endif
    real norm = 0;
    for (int i = 0; i < n; ++i)
        for (int j = max(i - 1, 0); j < n; ++j)
            norm += size_of(H(i, j));
    for (int last = n - 1, step = 0; last >= 0;) {
        int l = last;
        for (; l > 0; --l) {
            const real around = size_of(H(l - 1, l - 1)) + size_of(H(l, l));
            if (!(size_of(H(l, l - 1)) > ${eps} * (around == 0 ? norm : around)))
                break;
        }
        if (l < last && step == 60) { // given up
            l = last;
            vstore2((pair)(NAN, NAN), last * n + last, h);
        }
        if (l > 0)
            vstore2((pair)(0, 0), l * n + l - 1, h);
        if (l == last) {
            vstore2(H(last, last), last, values);
            last -= 1;
            step = 0;
            continue;
        }
        pair shift = H(last, last);
        const pair under = H(last, last - 1);
        if (step % 20 == 10) { // another, since this one goes round in a circle
            shift.x += (real)0.75 * size_of(under);
        } else { // the value of the last two rows that is nearer
            const pair middle = (H(last - 1, last - 1) - shift) / 2;
            const pair product = times(under, H(last - 1, last));
            const pair root = root_of(times(middle, middle) + product);
            const bool same = middle.x * root.x + middle.y * root.y >= 0;
            const pair far = same ? middle + root : middle - root;
            if (size_of(far) > 0)
                shift -= over(product, far);
        }
        step += 1;
        pair x = H(l, l) - shift, y = H(l + 1, l);
        for (int k = l; k < last; ++k) {
            const real most = fmax(size_of(x), size_of(y));
            const real unit = most > 0 ? most : 1;
            const pair a = x / unit, b = y / unit;
            const real length = sqrt(a.x * a.x + a.y * a.y + b.x * b.x + b.y * b.y);
            const pair c = length > 0 ? a / length : (pair)(1, 0);
            const pair s = length > 0 ? b / length : (pair)(0, 0);
            for (int j = max(k - 1, l); j < n; ++j) {
                const pair upper = H(k, j), lower = H(k + 1, j);
                vstore2(times(conjugate(c), upper) + times(conjugate(s), lower), k * n + j, h);
                vstore2(times(c, lower) - times(s, upper), (k + 1) * n + j, h);
            }
            if (k > l)
                vstore2((pair)(0, 0), (k + 1) * n + k - 1, h);
            ${combined("h", "min(last, k + 2) + 1")}
% if vectors:
            ${combined("q", "n")}
% endif
            x = H(k + 1, k);
            y = k + 2 <= last ? H(k + 2, k) : (pair)(0, 0);
        }
    }
}
</%def>
<%def name="complex_vectors(ctype, eps)">
#pragma OPENCL FP_CONTRACT OFF
${lib.pairs(ctype)}
${lib.conjugates()}
__kernel void complex_vectors(...)
{
    const int at = get_global_id(0);
    if (at >= batch * n)
        return;
    const int k = at % n;
    const long which = at / n;
    h += h_offset + which * n * n * 2;
    q += q_offset + which * n * n * 2;
    v += v_offset + which * n * n * 2;
    x += x_offset + (long)at * n * 2;
    real norm = 0;
    for (int i = 0; i < n; ++i)
        for (int j = i; j < n; ++j) {
            const pair element = fabs(vload2(i * n + j, h));
            norm = fmax(norm, element.x + element.y);
        }
    const real least = ${eps} * (norm > 0 ? norm : 1);
    const pair value = vload2(k * n + k, h);
    vstore2((pair)(1, 0), k, x);
    for (int i = k - 1; i >= 0; --i) {
        pair sum = (pair)(0, 0), d = value - vload2(i * n + i, h);
        for (int j = i + 1; j <= k; ++j)
            sum += times(vload2(i * n + j, h), vload2(j, x));
        if (fabs(d.x) + fabs(d.y) < least)
            d = (pair)(least, 0);
        const pair found = over(sum, d);
        vstore2(found, i, x);
        const real size = fmax(fabs(found.x), fabs(found.y));
        if (${eps} * size * size > 1)
            for (int j = i; j <= k; ++j)
                vstore2(vload2(j, x) / size, j, x);
    }
    real squares = 0, largest = -1;
    pair turn = (pair)(1, 0);
    for (int i = 0; i < n; ++i) {
        pair sum = (pair)(0, 0);
        for (int j = 0; j <= k; ++j)
            sum += times(vload2(i * n + j, q), vload2(j, x));
        vstore2(sum, i * n + k, v);
        const real square = sum.x * sum.x + sum.y * sum.y;
        squares += square;
        if (square > largest) {
            largest = square;
            turn = sum;
        }
    }
    turn = conjugate(turn) / sqrt(largest) / sqrt(squares);
    for (int i = 0; i < n; ++i)
        vstore2(times(vload2(i * n + k, v), turn), i * n + k, v);
}
</%def>
