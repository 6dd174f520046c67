## lib pairs: complex numbers as pairs of real ones
##
## param  ctype: str                 float or double
<%def name="pairs(ctype)">
typedef ${ctype} real;
typedef ${ctype}2 pair;
static pair times(const pair a, const pair b)
{
    return (pair)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}
static pair over(const pair a, const pair b)
{
    if (fabs(b.x) >= fabs(b.y)) {
        const real ratio = b.y / b.x, size = b.x + b.y * ratio;
        return (pair)((a.x + a.y * ratio) / size, (a.y - a.x * ratio) / size);
    }
    const real ratio = b.x / b.y, size = b.y + b.x * ratio;
    return (pair)((a.x * ratio + a.y) / size, (a.y * ratio - a.x) / size);
}
</%def>
<%def name="conjugates()">
static pair conjugate(const pair a)
{
    return (pair)(a.x, -a.y);
}
</%def>
