## kernel stockham_lanes: discrete Fourier transforms of lines, a vector's lanes for as many lines
##
## layout   lines lie turned in local memory, so that an element of all of them is one vector, and a
##          factor serves all; passes go between two copies (Stockham), as in stockham.mako. A
##          kernel is for lines of all sizes that have no other factors than its radices
## param  ctype: str                 float or double
## param  lanes: int                 lines at once: 2, 4, 8 or 16
## param  room: int                  elements of the longest line
## param  radices: tuple[int]        that passes have, in their order: of 2, 3, 4, 5 and 7
## param  load: complex|real|half    half: the first n / 2 + 1 of a line whose transform is real
## param  store: complex|real|half   half: the first n / 2 + 1; real: their real parts
## param  source: str                the type of x: {ctype}, or a pair of them
## param  result: str                the same of y
## arg    size: int                  n, elements of a line: the product of the passes' radices
## arg    back: int                  sign of the exponent: 0 forward, 1 back: parts change places
## % for r in radices:
## arg    passes_{r}: int            passes of each radix
## % endfor
## arg    lines: int
## arg    share: int                 of these, how many an item takes
## arg    y: out result[lines][stored]
## arg    x: in source[lines][loaded]
##
## launch   an item for each share of lines
## numerics a factor is one cosine and sine of its own; sums in a fixed order
<%def name="stockham_lanes(ctype, lanes, room, radices, load, store, source, result)">
<%
    import math
    suffix = "f" if ctype == "float" else ""
    wide = f"{ctype}{lanes}"

    def turned(t, turn, radix):
        """Text of both parts of value t times exp(-2 pi i turn / radix)."""
        if 4 * turn % radix == 0:
            a, b = f"a{t}", f"b{t}"
            quarters = [(a, b), (f"-{b}", a), (f"-{a}", f"-{b}"), (b, f"-{a}")]
            return quarters[-4 * turn // radix % 4]
        angle = 2 * math.pi * turn / radix
        c, s = (f"({value!r}{suffix})" for value in (math.cos(angle), -math.sin(angle)))
        return f"(a{t} * {c} - b{t} * {s})", f"(a{t} * {s} + b{t} * {c})"
%>
__kernel void stockham_lanes(...)
{
    __local ${wide} real_first[${room}], imag_first[${room}], real_second[${room}],
        imag_second[${room}];
    __local ${ctype}2 factors[${room}];
    const int begin = get_global_id(0) * share, end = min(lines, begin + share);
    const int quarter = size % 4 ? 0 : size / 4;  // of the circle; the others are this one, turned
    for (int i = 0; i < (quarter ? quarter : size); i++) {
        const ${ctype} turn = (${ctype})(2 * i) / size;
        const ${ctype} c = cospi(turn), s = sinpi(turn);
        factors[i] = (${ctype}2)(c, -s);
        if (quarter) {
            factors[i + quarter] = (${ctype}2)(-s, -c);
            factors[i + 2 * quarter] = (${ctype}2)(-c, s);
            factors[i + 3 * quarter] = (${ctype}2)(s, c);
        }
    }
    const int loaded = ${"size / 2 + 1" if load == "half" else "size"};
    const int stored = ${"size / 2 + 1" if store == "half" else "size"};
    for (int line = begin; line < end; line += ${lanes}) {
        __local ${wide} *real = real_first, *imag = imag_first;
        __local ${wide} *next_real = real_second, *next_imag = imag_second;
        for (int lane = 0; lane < ${lanes}; lane++) {
            const int of = line + lane < end ? line + lane : end - 1;
            __global const ${source} *from = x + x_offset + (long)of * loaded;
            __local ${ctype} *to_real = (__local ${ctype} *)(back ? imag : real) + lane;
            __local ${ctype} *to_imag = (__local ${ctype} *)(back ? real : imag) + lane;
            for (int i = 0; i < size; i++) {
% if load == "real":
                to_real[i * ${lanes}] = from[i];
                to_imag[i * ${lanes}] = 0;
% elif load == "half":
                const int mirrored = size - i;
                const ${source} value = i < loaded ? from[i] : from[mirrored];
                to_real[i * ${lanes}] = value.x;
                to_imag[i * ${lanes}] =
                    i == 0 || i == mirrored ? 0 : (i < loaded ? value.y : -value.y);
% else:
                const ${source} value = from[i];
                to_real[i * ${lanes}] = value.x;
                to_imag[i * ${lanes}] = value.y;
% endif
            }
        }
        int before = 1;
% for radix in radices:
        for (int pass = 0; pass < passes_${radix}; ++pass) {
            const int each = size / ${radix}, step = each / before;
            for (int block = 0; block < each; block += before) {
                for (int k = 0; k < before; k++) {
                    const int i = block + k, at = block * ${radix} + k;
                    const ${wide} a0 = real[i], b0 = imag[i];
%     for t in range(1, radix):
                    const ${wide} c${t} = real[i + ${t} * each], d${t} = imag[i + ${t} * each];
                    const ${ctype}2 w${t} = factors[${t} * k * step];
                    const ${wide} a${t} = c${t} * w${t}.x - d${t} * w${t}.y;
                    const ${wide} b${t} = c${t} * w${t}.y + d${t} * w${t}.x;
%     endfor
%     for s in range(radix):
<%        terms = [turned(t, s * t % radix, radix) for t in range(radix)] %>
                    next_real[at + ${s} * before] = ${" + ".join(a for a, _ in terms)};
                    next_imag[at + ${s} * before] = ${" + ".join(b for _, b in terms)};
%     endfor
                }
            }
            before *= ${radix};
            __local ${wide} *last_real = real, *last_imag = imag;
            real = next_real;
            imag = next_imag;
            next_real = last_real;
            next_imag = last_imag;
        }
% endfor
        const int kept = end - line < ${lanes} ? end - line : ${lanes};
        for (int lane = 0; lane < kept; lane++) {
            __global ${result} *to = y + y_offset + (long)(line + lane) * stored;
            __local const ${ctype} *of_real = (__local const ${ctype} *)(back ? imag : real) + lane;
% if store != "real":
            __local const ${ctype} *of_imag = (__local const ${ctype} *)(back ? real : imag) + lane;
% endif
            for (int i = 0; i < stored; i++)
% if store == "real":
                to[i] = of_real[i * ${lanes}];
% else:
                to[i] = (${result})(of_real[i * ${lanes}], of_imag[i * ${lanes}]);
% endif
        }
    }
}
</%def>
