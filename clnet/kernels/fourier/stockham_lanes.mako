## kernel stockham_lanes: discrete Fourier transforms of lines, a vector's lanes for as many lines
##
## layout   lines lie turned in local memory, so that an element of all of them is one vector, and a
##          factor serves all; passes go between two copies (Stockham), as in stockham.mako
## param  ctype: str                 float or double
## param  lanes: int                 lines at once: 2, 4, 8 or 16
## param  n: int                     elements of a line, the product of radices
## param  radices: tuple[int]        that of each pass: 2, 3, 4, 5 or 7
## param  sign: int                  of the exponent: -1 forward, 1 back
## param  load: complex|real|half    half: the first n / 2 + 1 of a line whose transform is real
## param  store: complex|real|half   half: the first n / 2 + 1; real: their real parts
## param  source: str                the type of x: {ctype}, or a pair of them
## param  result: str                the same of y
## arg    size: int                  n, which no loop is unrolled for
## arg    lines: int
## arg    share: int                 of these, how many an item takes
## arg    y: out result[lines][stored]
## arg    x: in source[lines][loaded]
##
## launch   an item for each share of lines
## numerics a factor is one cosine and sine of its own; sums in a fixed order
<%def name="stockham_lanes(ctype, lanes, n, radices, sign, load, store, source, result)">
<%
    import math
    suffix = "f" if ctype == "float" else ""
    loaded = n // 2 + 1 if load == "half" else n
    stored = n // 2 + 1 if store == "half" else n
    wide = f"{ctype}{lanes}"

    def turned(t, turn, radix):
        """Text of both parts of value t times exp(sign 2 pi i turn / radix)."""
        if 4 * turn % radix == 0:
            a, b = f"a{t}", f"b{t}"
            quarters = [(a, b), (f"-{b}", a), (f"-{a}", f"-{b}"), (b, f"-{a}")]
            return quarters[sign * 4 * turn // radix % 4]
        angle = 2 * math.pi * turn / radix
        c, s = (f"({value!r}{suffix})" for value in (math.cos(angle), sign * math.sin(angle)))
        return f"(a{t} * {c} - b{t} * {s})", f"(a{t} * {s} + b{t} * {c})"
%>
__kernel void stockham_lanes(...)
{
    __local ${wide} real_first[${n}], imag_first[${n}], real_second[${n}], imag_second[${n}];
    __local ${ctype}2 factors[${n}];
    const int begin = get_global_id(0) * share, end = min(lines, begin + share);
% if n % 4:
    for (int i = 0; i < size; i++) {
        const ${ctype} turn = (${ctype})(2 * i) / size;
        factors[i] = (${ctype}2)(cospi(turn), ${sign} * sinpi(turn));
    }
% else:
    const int quarter = size / 4;  // of the circle; the others are this one, turned
    for (int i = 0; i < quarter; i++) {
        const ${ctype} turn = (${ctype})(2 * i) / size;
        const ${ctype} c = cospi(turn), s = sinpi(turn);
        factors[i] = (${ctype}2)(c, ${sign} * s);
        factors[i + quarter] = (${ctype}2)(-s, ${sign} * c);
        factors[i + 2 * quarter] = (${ctype}2)(-c, ${-sign} * s);
        factors[i + 3 * quarter] = (${ctype}2)(s, ${-sign} * c);
    }
% endif
    for (int line = begin; line < end; line += ${lanes}) {
        __local ${wide} *real = real_first, *imag = imag_first;
        __local ${wide} *next_real = real_second, *next_imag = imag_second;
        for (int lane = 0; lane < ${lanes}; lane++) {
            const int of = line + lane < end ? line + lane : end - 1;
            __global const ${source} *from = x + x_offset + (long)of * ${loaded};
            __local ${ctype} *to_real = (__local ${ctype} *)real + lane;
            __local ${ctype} *to_imag = (__local ${ctype} *)imag + lane;
            for (int i = 0; i < size; i++) {
% if load == "real":
                to_real[i * ${lanes}] = from[i];
                to_imag[i * ${lanes}] = 0;
% elif load == "half":
                const int mirrored = ${n} - i;
                const ${source} value = i < ${loaded} ? from[i] : from[mirrored];
                to_real[i * ${lanes}] = value.x;
                to_imag[i * ${lanes}] =
                    i == 0 || i == mirrored ? 0 : (i < ${loaded} ? value.y : -value.y);
% else:
                const ${source} value = from[i];
                to_real[i * ${lanes}] = value.x;
                to_imag[i * ${lanes}] = value.y;
% endif
            }
        }
        int before = 1;
% for radix in dict.fromkeys(radices):
        for (int pass = 0; pass < ${radices.count(radix)}; ++pass) {
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
            __global ${result} *to = y + y_offset + (long)(line + lane) * ${stored};
            __local const ${ctype} *of_real = (__local const ${ctype} *)real + lane;
% if store != "real":
            __local const ${ctype} *of_imag = (__local const ${ctype} *)imag + lane;
% endif
            for (int i = 0; i < ${'size' if stored == n else 'size / 2 + 1'}; i++)
% if store == "real":
                to[i] = of_real[i * ${lanes}];
% else:
                to[i] = (${result})(of_real[i * ${lanes}], of_imag[i * ${lanes}]);
% endif
        }
    }
}
</%def>
