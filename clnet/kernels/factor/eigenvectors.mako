## kernel eigenvectors: eigenvectors of what the kernel schur gave
##
## param  ctype: str                 float or double
## param  eps: str                   C literal: the spacing of numbers at 1
## arg    batch: int
## arg    n: int
## arg    v: out ctype[batch][n][n][2]  real and imaginary parts; columns are the vectors
## arg    x: out ctype[batch][n][n][2]  scratch: a row for each vector
## arg    h: in ctype[batch][n][n]   quasi-triangular
## arg    q: in ctype[batch][n][n]   the basis that h stands in
## arg    values: in ctype[batch][n][2]  real and imaginary parts
##
## launch   one item per vector
## numerics a row or a block of two at a time from below; a pivot below eps times the largest row
##          is that; of length 1, and the largest element of a complex vector is real
<%namespace name="lib" file="/lib/pairs.mako"/>
<%def name="eigenvectors(ctype, eps)">
${lib.pairs(ctype)}
__kernel void eigenvectors(...)
{
    const int at = get_global_id(0);
    if (at >= batch * n)
        return;
    const int k = at % n;
    const long which = at / n;
    h += h_offset + which * n * n;
    q += q_offset + which * n * n;
    v += v_offset + which * n * n * 2;
    x += x_offset + (long)at * n * 2;
    values += values_offset + which * n * 2;
    real norm = 0;
    for (int i = 0; i < n; ++i) {
        real row = 0;
        for (int j = max(i - 1, 0); j < n; ++j)
            row += fabs(h[i * n + j]);
        norm = fmax(norm, row);
    }
    const real least = ${eps} * (norm > 0 ? norm : 1);
    // Of a conjugate pair both are made from the value whose imaginary part is positive.
    const real sign = values[2 * k + 1] < 0 ? -1 : 1;
    const pair value = (pair)(values[2 * k], fabs(values[2 * k + 1]));
    const int end = value.y != 0 && sign > 0 ? k + 1 : k;
    const int begin = value.y != 0 ? end - 1 : end;
    x[2 * end] = 1;
    x[2 * end + 1] = 0;
    if (begin < end) {
        const real low = h[end * n + begin], high = h[begin * n + end];
        const pair first = fabs(low) > fabs(high)
            ? (value - (pair)(h[end * n + end], 0)) / low
            : over((pair)(high, 0), value - (pair)(h[begin * n + begin], 0));
        x[2 * begin] = first.x;
        x[2 * begin + 1] = first.y;
    }
    for (int i = begin - 1; i >= 0; --i) {
        const int top = values[2 * i + 1] != 0 ? i - 1 : i;
        pair sums[2];
        for (int row = top; row <= i; ++row) {
            pair sum = (pair)(0, 0);
            for (int j = i + 1; j <= end; ++j)
                sum -= h[row * n + j] * (pair)(x[2 * j], x[2 * j + 1]);
            sums[row - top] = sum;
        }
        pair d = (pair)(h[i * n + i], 0) - value, lower, upper = (pair)(0, 0);
        if (top == i) {
            if (fabs(d.x) + fabs(d.y) < least)
                d = (pair)(least, 0);
            lower = over(sums[0], d);
        } else {
            const pair a = (pair)(h[top * n + top], 0) - value;
            const real b = h[top * n + i], c = h[i * n + top];
            pair det = times(a, d) - (pair)(b * c, 0);
            if (fabs(det.x) + fabs(det.y) < least * least)
                det = (pair)(least * least, 0);
            upper = over(times(d, sums[0]) - b * sums[1], det);
            lower = over(times(a, sums[1]) - c * sums[0], det);
            x[2 * top] = upper.x;
            x[2 * top + 1] = upper.y;
        }
        x[2 * i] = lower.x;
        x[2 * i + 1] = lower.y;
        const pair most = fmax(fabs(lower), fabs(upper));
        const real size = fmax(most.x, most.y);
        if (${eps} * size * size > 1)
            for (int j = 2 * top; j < 2 * (end + 1); ++j)
                x[j] /= size;
        i = top;
    }
    real squares = 0, largest = -1;
    pair turn = (pair)(1, 0);
    for (int i = 0; i < n; ++i) {
        pair sum = (pair)(0, 0);
        for (int j = 0; j <= end; ++j)
            sum += q[i * n + j] * (pair)(x[2 * j], x[2 * j + 1]);
        v[(i * n + k) * 2] = sum.x;
        v[(i * n + k) * 2 + 1] = sum.y;
        const real square = sum.x * sum.x + sum.y * sum.y;
        squares += square;
        if (square > largest) {
            largest = square;
            turn = sum;
        }
    }
    const bool real_one = value.y == 0;
    turn = real_one ? (pair)(1, 0) : (pair)(turn.x, -turn.y) / sqrt(largest);
    const real length = sqrt(squares);
    for (int i = 0; i < n; ++i) {
        const int place = (i * n + k) * 2;
        const pair found = times((pair)(v[place], v[place + 1]), turn) / length;
        v[place] = found.x;
        v[place + 1] = real_one ? 0 : sign * found.y;
    }
}
</%def>
