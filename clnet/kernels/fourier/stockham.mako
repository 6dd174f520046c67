## kernel stockham: discrete Fourier transforms of lines, not divided by their length
##
## layout   a line stays in local memory from the first pass to the last; passes go between two
##          copies of it, so that no line is ever put in bit-reversed order (Stockham)
## param  ctype: str                 float or double
## param  n: int                     elements of a line, the product of radices
## param  radices: tuple[int]        that of each pass: 2, 3, 4, 5 or 7
## param  sign: int                  of the exponent: -1 forward, 1 back
## param  load: complex|real|half    half: the first n / 2 + 1 of a line whose transform is real
## param  store: complex|real|half   half: the first n / 2 + 1; real: their real parts
## param  group: int                 work-items that share a line
## param  source: str                the type of x: {ctype}, or a pair of them
## param  result: str                the same of y
## arg    size: int                   n, which no loop is unrolled for
## arg    y: out result[lines][stored]
## arg    x: in source[lines][loaded]
##
## launch   a group of `group` items per line
## numerics a pass's factors are powers of one cosine and sine; sums in a fixed order
<%def name="together(group)">
% if group > 1:
    barrier(CLK_LOCAL_MEM_FENCE);
% endif
</%def>
<%def name="stockham(ctype, n, radices, sign, load, store, group, source, result)">
<%
    import math
    suffix = "f" if ctype == "float" else ""
    loaded = n // 2 + 1 if load == "half" else n
    stored = n // 2 + 1 if store == "half" else n

    def literal(value):
        return f"{value!r}{suffix}"

    def turned(v, turn, radix):
        """A value times exp(sign 2 pi i turn / radix), as text of both parts."""
        angle = 2 * math.pi * turn / radix
        c, s = math.cos(angle), sign * math.sin(angle)
        if 4 * turn % radix == 0:
            return {0: (f"{v}.x", f"{v}.y"), 1: (f"-{v}.y * {sign}", f"{v}.x * {sign}"),
                    2: (f"-{v}.x", f"-{v}.y"), 3: (f"{v}.y * {sign}", f"-{v}.x * {sign}")}[
                        4 * turn // radix % 4]
        c, s = literal(c), literal(s)
        return f"({v}.x * ({c}) - {v}.y * ({s}))", f"({v}.x * ({s}) + {v}.y * ({c}))"
%>
inline ${ctype}2 times(${ctype}2 a, ${ctype}2 b)
{
    return (${ctype}2)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}
__kernel void stockham(...)
{
    __local ${ctype}2 first[${n}];
    __local ${ctype}2 second[${n}];
    const int item = get_local_id(0);
    x += x_offset + (long)get_group_id(0) * ${loaded};
    y += y_offset + (long)get_group_id(0) * ${stored};
    for (int i = item; i < size; i += ${group}) {
% if load == "real":
        first[i] = (${ctype}2)(x[i], 0);
% elif load == "half":
        const int mirrored = ${n} - i;
        ${ctype}2 value = i < ${loaded} ? x[i] : x[mirrored];
        value.y = i == 0 || i == mirrored ? 0 : (i < ${loaded} ? value.y : -value.y);
        first[i] = value;
% else:
        first[i] = x[i];
% endif
    }
${together(group)}
    __local ${ctype}2 *here = first;
    __local ${ctype}2 *there = second;
    int before = 1;
% for radix in dict.fromkeys(radices):
    for (int pass = 0; pass < ${radices.count(radix)}; ++pass) {
        const int each = size / ${radix};
        for (int i = item; i < each; i += ${group}) {
            const int k = i % before, at = (i - k) * ${radix} + k;
%     for t in range(radix):
            ${ctype}2 v${t} = here[i + ${t} * each];
%     endfor
            const ${ctype} turn = (${ctype})(2 * k) / (before * ${radix});
            const ${ctype}2 w1 = (${ctype}2)(cospi(turn), ${sign} * sinpi(turn));
            v1 = times(v1, w1);
%     for t in range(2, radix):
            const ${ctype}2 w${t} = times(w${t - 1}, w1);
            v${t} = times(v${t}, w${t});
%     endfor
%     for s in range(radix):
<%        terms = [turned(f"v{t}", s * t % radix, radix) for t in range(radix)] %>
            there[at + ${s} * before] = (${ctype}2)(
                ${" + ".join(a for a, _ in terms)},
                ${" + ".join(b for _, b in terms)});
%     endfor
        }
${together(group)}
        before *= ${radix};
        __local ${ctype}2 *last = here;
        here = there;
        there = last;
    }
% endfor
    for (int i = item; i < ${'size' if stored == n else 'size / 2 + 1'}; i += ${group})
        y[i] = here[i]${".x" if store == "real" else ""};
}
</%def>
