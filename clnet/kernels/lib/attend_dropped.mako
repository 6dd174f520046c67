## lib attend_dropped: weights of attention that are dropped, in vectors of those that lanes keep
##
## They are those that dropout of all weights would drop: numbered (batch, row, key), of which four
## neighbours share a counter of the generator. Names are those of attend.mako; `kept_0`, `kept_1`
## ... are the factors of the kept rows' weights with the others j, j + 1 ...: 0, or spread_by.
##
## param acc: str        element type in registers
## param lanes: int      rows a work-item keeps, 2 or more
## param at_once: int    others whose scores are computed together, whole fours
## param t: int          number of a counter among neighbours
<%namespace name="generator" file="philox.mako"/>
<%namespace name="prelude" file="prelude.mako"/>
<%def name="define(acc, lanes)">
<% mask = f"{'int' if acc == 'float' else 'long'}{lanes}" %>
${prelude.convert(lanes)}
typedef ulong${lanes} counters;
typedef ${mask} choice;
inline vector kept_by(const uint${lanes} bits, const float p, const ${acc} spread_by)
{
    const float${lanes} drawn = CONVERT(as_int${lanes}(bits >> 8), float${lanes}) * 0x1p-24f;
    const int${lanes} below = drawn < p;
    return ${"below" if acc == "float" else f"CONVERT(below, {mask})"}
        ? (vector)0 : (vector)spread_by;
}
</%def>
##
## Where each kept row's weights begin.
<%def name="rows_begin(lanes)">
    counters lines;
    for (int lane = 0; lane < ${lanes}; lane++)
        ((ulong *)&lines)[lane] = ((ulong)batch * rows + own + lane) * keys;
</%def>
##
## Rows are kept, keys gone through: each lane has counters of its own. Where lines are not whole
## fours, the first of them begins up to three weights early.
<%def name="of_rows(acc, lanes, at_once)">
<% fours = at_once // 4 %>
            vector ${", ".join(f"kept_{u}" for u in range(at_once))};
            {
                const counters places = lines + (ulong)j, block = (places >> 2) + (ulong)offset;
                vector ${", ".join(f"x_{u}" for u in range(at_once + 4))};
% for t in range(fours):
                ${_draw(lanes, t)}
% endfor
                if (keys % 4) {
                    const choice early = CONVERT(places & 3, choice);
                    ${_draw(lanes, fours)}
% for u in range(at_once):
                    kept_${u} = early == 0 ? x_${u} : early == 1 ? x_${u + 1}
                        : early == 2 ? x_${u + 2} : x_${u + 3};
% endfor
                } else {
% for u in range(at_once):
                    kept_${u} = x_${u};
% endfor
                }
            }
</%def>
<%def name="_draw(lanes, t)">
                {
                    ${generator.words_of_lanes(f"block + {t}", lanes)}
% for w in range(4):
                    x_${4 * t + w} = kept_by(bits_${w}, p, spread_by);
% endfor
                }
</%def>
##
## Keys are kept, rows gone through: lanes are counters, of at_once rows so many each, and what is
## drawn lies in memory, from which a row's vector is read once it is needed: there are no registers
## for all of them.
<%def name="keys_begin(acc, lanes, at_once)">
<% vectors = -(-at_once * ((lanes + 6) // 4) // lanes) %>
    const int counters_of_row = ${
        f"keys % 4 ? {(lanes + 6) // 4} : {lanes // 4}" if lanes > 2 else 2};
    const int drawn_vectors = (${at_once} * counters_of_row + ${lanes - 1}) / ${lanes};
    counters lines[${vectors}], columns[${vectors}];
    for (int i = 0; i < ${vectors * lanes}; i++) {
        ((ulong *)lines)[i] = (ulong)(i / counters_of_row) * keys;
        ((ulong *)columns)[i] = i % counters_of_row + offset;
    }
    ${acc} drawn[${vectors * lanes * 4}] __attribute__((aligned(64)));
</%def>
<%def name="draw_of_keys(acc, lanes)">
            const ulong place = ((ulong)batch * rows + j) * keys + own;
            for (int i = 0; i < drawn_vectors; i++) {
                ${generator.words_of_lanes("((lines[i] + place) >> 2) + columns[i]", lanes)}
% for w in range(4):
                const vector x_${w} = kept_by(bits_${w}, p, spread_by);
% endfor
                const vector y_0 = zip_lo(x_0, x_2), y_1 = zip_hi(x_0, x_2);
                const vector z_0 = zip_lo(x_1, x_3), z_1 = zip_hi(x_1, x_3);
                vector *to = (vector *)drawn + 4 * i;
                to[0] = zip_lo(y_0, z_0);
                to[1] = zip_hi(y_0, z_0);
                to[2] = zip_lo(y_1, z_1);
                to[3] = zip_hi(y_1, z_1);
            }
</%def>
<%def name="of_keys(at_once)">
% for u in range(at_once):
            const vector kept_${u} = *(const loose_vector *)
                (drawn + 4 * counters_of_row * ${u} + ((place + (ulong)keys * ${u}) & 3));
% endfor
</%def>
