## lib incomplete_gamma: the incomplete gamma function's two shares, of `real` numbers
##
## numerics within some ten units in the last place; for large orders by an asymptotic series
##          (Temme 1979), as the sums below take as many terms as the order's root
<%def name="functions()">
// x^a e^-x / gamma(a), by Stirling's series; a below 10 is moved up first.
inline real gamma_weight(const real a, const real x)
{
    const real b = a < 10 ? a + 10 : a, inverse = 1 / b, square = inverse * inverse;
    const real series = inverse * ((real)(1.0 / 12) - square * ((real)(1.0 / 360)
        - square * ((real)(1.0 / 1260) - square * ((real)(1.0 / 1680)
        - square * ((real)(1.0 / 1188) - square * (real)(691.0 / 360360))))));
    const real scale = sqrt(b * (real)0.15915494309189535) * exp(-series);
    if (a >= 10) {
        const real apart = (x - a) / a;
        return scale * exp(a * ((apart < (real)-0.5 ? log(x / a) : log1p(apart)) - apart));
    }
    real product = 1;
    for (int k = 0; k < 10; ++k)
        product *= a + k;
    const real rest = exp(b - x) * pow(b, -b);
    return x < 60 ? scale * product * pow(x, a) * rest
        : scale * product * exp(a * log(x) - x + b - b * log(b));
}
// The share above x, of a large order: that of a normal variable, with a correction.
inline real gamma_of_large_order(const real a, const real x, const int upper)
{
    const real u = (x - a) / a, side = upper ? (real)1 : (real)-1;
    if (fabs(u) > (real)0.05)
        return (u > 0) == (upper != 0) ? 0 : 1;
    const real eta = u * (1 - u * ((real)(1.0 / 3) - u * ((real)(7.0 / 36)
        - u * ((real)(73.0 / 540) - u * (real)(1331.0 / 12960)))));
    const real first = (real)(-1.0 / 3) + eta * ((real)(1.0 / 12) - eta * ((real)(2.0 / 135)
        - eta * ((real)(1.0 / 864) + eta * (real)(1.0 / 2835))));
    const real next = (real)(-1.0 / 540) / a, root = sqrt(a);
    const real bell = exp(-eta * eta * a / 2) / root * (real)0.3989422804014327;
    return erfc(side * eta * root * (real)0.7071067811865476) / 2 + side * bell * (first + next);
}
inline real incomplete_gamma(const real order, const real x, const int upper)
{
    const real tiny = sizeof(real) == 4 ? (real)6e-8 : (real)1.1e-16;
    if (!(order >= 0) || !(x >= 0) || (order == 0 && x == 0) || (isinf(order) && isinf(x)))
        return NAN;
    if (order == 0 || isinf(x))
        return upper ? 0 : 1;
    if (x == 0 || isinf(order))
        return upper ? 1 : 0;
    // Products with subnormal numbers have no digits.
    const real least = sizeof(real) == 4 ? (real)1.1754944e-38f : (real)2.2250738585072014e-308;
    const real a = fmax(order, least);
    if (a > (sizeof(real) == 4 ? 100000 : 2000000))
        return gamma_of_large_order(a, x, upper);
    const real weight = gamma_weight(a, x);
    if (x <= a || x <= (real)1.1) {
        real sum = 1, term = 1, at = a;
        for (int k = 0; k < 20000 && term > tiny * sum; ++k) {
            at += 1;
            term *= x / at;
            sum += term;
        }
        const real lower = weight * sum / a;
        return lower > 1 ? 1 - upper : upper ? 1 - lower : lower; // a share, however exp rounds
    }
    // Lentz's way through the continued fraction
    real b = x + 1 - a, c = INFINITY, d = 1 / b, h = d;
    for (int k = 1; k < 20000; ++k) {
        const real part = -k * (k - a);
        b += 2;
        d = 1 / (part * d + b);
        c = b + part / c;
        const real change = c * d;
        h *= change;
        if (fabs(change - 1) <= tiny)
            break;
    }
    const real found = weight * h;
    return found > 1 ? upper : upper ? found : 1 - found;
}
</%def>
