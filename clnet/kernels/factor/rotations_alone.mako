## kernel rotations_alone: vectors turned in pairs until they are orthogonal, a matrix an item
##
## layout orthogonal_rows of rotations.mako for CPUs: rows are whole vectors, with zeros behind
##        their ends; pairs that follow each other share no row, so that a processor has several on
##        their way
## param  ctype: str                 float or double
## param  eps: str                   C literal: the spacing of numbers at 1
## param  lanes: int                 of a vector, 2 or more
## param  vectors: bool              the rotations' product is wanted, too
## param  f, g, pitch: str           C expressions, where two rows lie, and their elements
## arg    count: int                       vectors
## arg    n: int                           their elements
## arg    pitch: int                       elements of a row, whole vectors
## arg    wide: int                        elements of a row of r, whole vectors
## arg    x: inout ctype[batch][count][pitch], may alias  what is behind n is written
## arg    norms: out ctype[batch][count], may alias  scratch
## arg    s: out ctype[batch][count], may alias  their lengths, descending
## arg    y: out ctype[batch][count][n], may alias  the vectors in that order
## % if vectors:
## arg    r: out ctype[batch][count][wide], may alias  scratch
## arg    v: out ctype[batch][count][count], may alias  the product of the rotations: y = v @ x
## % endif
##
## launch   an item a matrix, groups of one
## numerics as orthogonal_rows; within a sweep squares of lengths are kept in step with rotations
<%def name="product(f, g, pitch, lanes)">
    {
        vector each = 0;
        for (int k = 0; k < ${pitch}; k += ${lanes})
            each += *(__global const vector *)(${f} + k) * *(__global const vector *)(${g} + k);
        sum = total(each);
    }
</%def>
<%def name="turn(f, g, pitch, lanes)">
    for (int k = 0; k < ${pitch}; k += ${lanes}) {
        const vector a = *(__global const vector *)(${f} + k);
        const vector b = *(__global const vector *)(${g} + k);
        *(__global vector *)(${f} + k) = a - u * (b + w * a);
        *(__global vector *)(${g} + k) = b + u * (a - w * b);
    }
</%def>
<%def name="orthogonal_rows_alone(ctype, eps, lanes, vectors)">
typedef ${ctype} real;
typedef ${ctype}${lanes} __attribute__((aligned(sizeof(${ctype})))) vector;
#pragma OPENCL FP_CONTRACT OFF
inline real total(const ${ctype}${lanes} x${lanes})
{
% for half in [lanes >> k for k in range(1, lanes.bit_length())]:
    const ${ctype}${half if half > 1 else ""} x${half} = x${2 * half}.lo + x${2 * half}.hi;
% endfor
    return x1;
}
__kernel void orthogonal_rows_alone(...)
{
    const long which = get_global_id(0);
    x += x_offset + which * count * pitch;
    norms += norms_offset + which * count;
    y += y_offset + which * count * n;
    s += s_offset + which * count;
% if vectors:
    r += r_offset + which * count * wide;
    v += v_offset + which * count * count;
    for (int i = 0; i < count; ++i)
        for (int k = 0; k < wide; ++k)
            r[i * wide + k] = k == i;
% endif
    for (int i = 0; i < count; ++i)
        for (int k = n; k < pitch; ++k)
            x[i * pitch + k] = 0;
    const real enough = ${eps} * sqrt((real)n);
    const int even = count + count % 2;
    real sum;
    for (int sweep = 0; sweep < 40; ++sweep) {
        bool turned = false;
        for (int i = 0; i < count; ++i) {
            ${product("x + i * pitch", "x + i * pitch", "pitch", lanes)}
            norms[i] = sum;
        }
        for (int turn = 0; turn < even - 1; ++turn)
            for (int pair = 0; pair < even / 2; ++pair) {
                // Everyone meets everyone: the first stays, the others move on by one.
                int i = pair + turn, j = even - 1 - pair + turn;
                i = pair ? i - (i >= even ? even - 1 : 0) : 0;
                j -= j >= even ? even - 1 : 0;
                if (i > j) {
                    const int k = i;
                    i = j;
                    j = k;
                }
                if (j >= count)
                    continue;
                __global real *const p = x + i * pitch;
                __global real *const q = x + j * pitch;
                ${product("p", "q", "pitch", lanes)}
                const real pq = sum, pp = norms[i], qq = norms[j];
                if (!(fabs(pq) > enough * sqrt(pp) * sqrt(qq)))
                    continue;
                const real zeta = (qq - pp) / (2 * pq), far = fabs(zeta);
                // Of a length whose square overflows the other leg is nothing.
                const real leg = far > 1e15f ? far : sqrt(1 + far * far);
                const real t = copysign((real)1, zeta) / (far + leg);
                // As changes of p and q, which vanish with the angle: so do their roundings.
                const real c = 1 / sqrt(1 + t * t), u = c * t, w = u / (1 + c);
                turned = true;
                norms[i] = fmax(pp - t * pq, (real)0);
                norms[j] = qq + t * pq;
                ${turn("p", "q", "pitch", lanes)}
% if vectors:
                ${turn("(r + i * wide)", "(r + j * wide)", "wide", lanes)}
% endif
            }
        if (!turned)
            break;
    }
    for (int i = 0; i < count; ++i) {
        real square = 0;
        for (int k = 0; k < n; ++k)
            square += x[i * pitch + k] * x[i * pitch + k];
        norms[i] = square;
    }
    for (int i = 0; i < count; ++i) {
        // What is no number comes first.
        const real own = isnan(norms[i]) ? (real)INFINITY : norms[i];
        int rank = 0;
        for (int j = 0; j < count; ++j) {
            const real other = isnan(norms[j]) ? (real)INFINITY : norms[j];
            rank += other > own || (other == own && j < i);
        }
        s[rank] = sqrt(norms[i]);
        for (int k = 0; k < n; ++k)
            y[rank * n + k] = x[i * pitch + k];
% if vectors:
        for (int k = 0; k < count; ++k)
            v[rank * count + k] = r[i * wide + k];
% endif
    }
}
</%def>
