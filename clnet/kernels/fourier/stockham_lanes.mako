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
<%namespace name="vectors" file="/lib/vector.mako"/>
##
## Lines become lanes: squares are turned over in registers, what is left goes one by one.
<%def name="take(ctype, lanes, load, source)">
<%
    stages, pair = lanes.bit_length() - 1, load != "real"
    parts = (("to_real", "even_of({})"), ("to_imag", "odd_of({})")) if pair else (
        ("to_real", "*(__global const vector *)({})"),)
%>
% for lane in range(lanes):
            __global const ${source} *from_${lane} = x + x_offset
                + (long)(line + ${lane} < end ? line + ${lane} : end - 1) * loaded;
% endfor
            int taken = 0;
            for (; taken <= loaded - ${lanes}; taken += ${lanes}) {
% for to, part in parts:
                {
%     for lane in range(lanes):
                    const ${ctype}${lanes} s0_${lane} =
                        ${part.format(f"(__global const {ctype} *)(from_{lane} + taken)")};
%     endfor
                    ${vectors.turn_lines(ctype, lanes)}
%     for i in range(lanes):
                    ${to}[taken + ${i}] = s${stages}_${i};
%     endfor
                }
% endfor
            }
            for (; taken < loaded; taken++) {
% for lane in range(lanes):
                ((__local ${ctype} *)(to_real + taken))[${lane}] =
                    from_${lane}[taken]${".x" if pair else ""};
%     if pair:
                ((__local ${ctype} *)(to_imag + taken))[${lane}] = from_${lane}[taken].y;
%     endif
% endfor
            }
% if load == "real":
            for (int i = 0; i < size; i++)
                to_imag[i] = 0;
% elif load == "half":
            to_imag[0] = 0;
            if (size % 2 == 0)
                to_imag[size / 2] = 0;
            for (int i = loaded; i < size; i++) {
                to_real[i] = to_real[size - i];
                to_imag[i] = -to_imag[size - i];
            }
% endif
</%def>
##
## The way back.
<%def name="give(ctype, lanes, store, result)">
<%
    stages, pair, wide = lanes.bit_length() - 1, store != "real", f"{ctype}{lanes}"
    parts = ("real", "imag") if pair else ("real",)
%>
% for lane in range(lanes):
            __global ${result} *to_${lane} = y + y_offset + (long)(line + ${lane}) * stored;
% endfor
            int given = 0;
            for (; given <= stored - ${lanes}; given += ${lanes}) {
% for part in parts:
                ${wide} ${part}_lines[${lanes}];
                {
%     for i in range(lanes):
                    const ${wide} s0_${i} = of_${part}[given + ${i}];
%     endfor
                    ${vectors.turn_lines(ctype, lanes)}
%     for lane in range(lanes):
                    ${part}_lines[${lane}] = s${stages}_${lane};
%     endfor
                }
% endfor
% for lane in range(lanes):
                if (kept > ${lane}) {
                    __global ${ctype} *to = (__global ${ctype} *)(to_${lane} + given);
%     if pair:
                    *(__global vector *)to = zip_lo(real_lines[${lane}], imag_lines[${lane}]);
                    *(__global vector *)(to + ${lanes}) =
                        zip_hi(real_lines[${lane}], imag_lines[${lane}]);
%     else:
                    *(__global vector *)to = real_lines[${lane}];
%     endif
                }
% endfor
            }
            for (; given < stored; given++) {
% for lane in range(lanes):
                if (kept > ${lane})
%     if pair:
                    to_${lane}[given] = (${result})(
                        ((__local const ${ctype} *)(of_real + given))[${lane}],
                        ((__local const ${ctype} *)(of_imag + given))[${lane}]);
%     else:
                    to_${lane}[given] = ((__local const ${ctype} *)(of_real + given))[${lane}];
%     endif
% endfor
            }
</%def>
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
${vectors.types(ctype, lanes)}
${vectors.zip(ctype, lanes)}
% for part in ("even", "odd"):
inline ${wide} ${part}_of(__global const ${ctype} *pairs)
{
    const ${wide} x = *(__global const vector *)pairs;
    const ${wide} y = *(__global const vector *)(pairs + ${lanes});
    ${wide} z;
    z.lo = x.${part};
    z.hi = y.${part};
    return z;
}
% endfor
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
        {
            __local ${wide} *to_real = back ? imag : real, *to_imag = back ? real : imag;
            ${take(ctype, lanes, load, source)}
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
        {
            __local const ${wide} *of_real = back ? imag : real, *of_imag = back ? real : imag;
            ${give(ctype, lanes, store, result)}
        }
    }
}
</%def>
