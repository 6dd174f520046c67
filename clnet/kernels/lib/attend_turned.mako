## lib attend_turned: products of attention from tiles that are turned: elements down, rows across
##
## Each step of a product reads an item's rows, and its others, in fours, where rows as they are
## would give it four steps of one row: as many reads, but a faster order of multiply-adds (48
## instead of 34 TFLOP/s on an H200, docs/notes/attention.md). Fours of rows change places by the
## four of elements they are in (`swirl`), so that neighbours who store one row's elements meet
## different banks, as those do who read one element's rows.
##
## param name: str         of what is computed
## param tile: str         C expression, the tile in local memory
## param source: str       C expression, where row 0 lies
## param step: str         C expression, elements from a row to the next
## param first: str        C expression, number of the first row
## param limit: str        C expression, number of rows
## param begin: str        C expression, the first element of rows
## param rows: int         of a tile
## param size: int         elements of a row
## param part: int         of them that come, with what lacks in the last part
## param group: int        work-items of a group
## param wide: bool        rows begin at whole fours, and are read in fours
## param swirl: int        places that a four of rows takes, a power of two
## param own_swirl, other_swirl: int   of the tile of own rows, and of others
## param four: str         C expression, the number of a four of rows
## param at: str           C expression, the element, or other, that it belongs to
## param item: int         rows of an item, a multiple of 4
## param lanes: int        items below each other
## param columns: int      items that share a row
## param left: str         C expression, turned tile of the group's own rows, all elements of them
## param right: str        C expression, turned tile of others; of gathered, others as they are
## param each: int         others of an item; of streamed, of a part
## param others: int       of a tile, a multiple of 4 * columns
## param weights: str      tile of weights: others down, fours of own rows with swirl
## param most: int         elements of the largest part, or of own rows
## param count: int        others of a part, a multiple of 4
## param end: int          where parts end, the first of which begins at 0
## param room: int         elements of the larger of the two parts in local memory
## param come: str         C statements: the part from begin + each on comes into registers
## param stay: str         C statements: it stays in local memory
## param then_come: str    the same of what follows the last part
## param then_stay: str    the same
## param compute: str      C statements: what is done with a part
## param several: 4|8      of a block
## param unroll: int       fours of elements that are written out at once
## param u: int            which of the item's others
## param pointer: str       what the place of its weights is called
## param target: str       C expression, where row 0 lies; rows are dense
<%def name="swirled(four, at, swirl)" filter="trim">
(${four} ^ ${at} / 4 % ${swirl})
</%def>
##
## Parts one after another, each multiplied while the next comes; `turn` is the half it lies in.
<%def name="streamed(end, each, room, come, stay, then_come, then_stay, compute)">
        #pragma unroll 1
        for (int begin = 0; begin < ${end}; begin += ${each}) {
            barrier(CLK_LOCAL_MEM_FENCE);
            const bool more = begin + ${each} < ${end};
            if (more) {
                ${come}
            } else {
                ${then_come}
            }
            ${compute}
            turn = ${room} - turn;
            if (more) {
                ${stay}
            } else {
                ${then_stay}
            }
        }
</%def>
##
## Elements of rows come into registers, all reads of an item under way at once; what lacks is 0.
<%def name="fetch(source, step, first, limit, begin, rows, size, part, group, wide)">
<%
    width = 4 if wide else 1
    row, count = part // width, rows * part // width
%>
% for u in range(-(-count // group)):
    {
        const int i = get_local_id(0) + ${u * group};
        const int r = ${first} + i / ${row}, e = ${begin} + i % ${row} * ${width};
        read_${u} = 0;
        if (r < ${limit} && e < ${size}${f" && i < {count}" if count % group else ""})
            read_${u} = *(__global const ${"four" if wide else "element"} *)(
                ${source} + (long)r * ${step} + e);
    }
% endfor
</%def>
##
## What they come into: so many at most, of a part.
<%def name="reads(most, group, wide)">
    ${"four" if wide else "element"}
        ${", ".join(f"read_{u}" for u in range(-(-most // (4 if wide else 1) // group)))};
</%def>
##
## All elements of rows come, and stay turned.
<%def name="stage(tile, source, step, first, limit, rows, size, part, group, wide, swirl)">
    for (int begin = 0; begin < ${size}; begin += ${part}) {
        ${fetch(source, step, first, limit, "begin", rows, size, part, group, wide)}
        ${put_turned(tile, rows, part, group, wide, swirl, "begin")}
    }
</%def>
##
## They stay in local memory as they are, rows 4 elements longer.
<%def name="put(tile, rows, part, group, wide)">
<% row, count = (part // 4, rows * part // 4) if wide else (part, rows * part) %>
% for u in range(-(-count // group)):
    {
        const int i = get_local_id(0) + ${u * group};
        ${f"if (i < {count})" if count % group else ""}
        *(__local ${"four" if wide else "element"} *)(
            ${tile} + i / ${row} * ${part + 4} + i % ${row} * ${4 if wide else 1}) = read_${u};
    }
% endfor
</%def>
##
## They stay turned.
<%def name="put_turned(tile, rows, part, group, wide, swirl, begin=0)">
<% row, count = (part // 4, rows * part // 4) if wide else (part, rows * part) %>
% for u in range(-(-count // group)):
    {
        const int i = get_local_id(0) + ${u * group};
        const int r = i / ${row}, e = ${begin} + i % ${row} * ${4 if wide else 1};
        __local element *to = ${tile} + e * ${rows} + ${swirled("r / 4", "e", swirl)} * 4 + r % 4;
        ${f"if (i < {count})" if count % group else ""} {
% if wide:
% for lane in range(4):
            to[${lane * rows}] = read_${u}.s${lane};
% endfor
% else:
            *to = read_${u};
% endif
        }
    }
% endfor
</%def>
<%def name="zeros(name, item, each)">
% for a in range(item):
        element ${", ".join(f"{name}_{a}_{u} = 0" for u in range(each))};
% endfor
</%def>
##
## name_a_u += products of elements of the item's own rows and others.
<%def name="products(
    name, left, right, part, item, lanes, columns, others, own_swirl, other_swirl, unroll)">
    #pragma unroll ${unroll}
    for (int e = 0; e < ${part}; e += 4) {
        __local const element *l = ${left} + (begin + e) * ${item * lanes}
            + ${swirled("down", "(begin + e)", own_swirl)} * 4;
        __local const element *r = ${right} + e * ${others}
            + ${swirled("across", "e", other_swirl)} * 4;
% for i in range(4):
        {
% for a in range(0, item, 4):
            const four l_${a} = *(__local const four *)(l + ${(i * item + a) * lanes});
% endfor
% for u in range(0, others // columns, 4):
            const four r_${u} = *(__local const four *)(r + ${i * others + u * columns});
% endfor
% for a in range(item):
% for u in range(others // columns):
            ${name}_${a}_${u} += l_${a // 4 * 4}.s${a % 4} * r_${u // 4 * 4}.s${u % 4};
% endfor
% endfor
        }
% endfor
    }
</%def>
##
## Values of the item, from registers to the tile of weights.
<%def name="spread(name, weights, item, lanes, columns, others, swirl)">
% for u in range(others // columns):
    {
        ${place("to", weights, item, lanes, columns, u, swirl)}
% for a in range(0, item, 4):
        *(__local four *)(to + ${a * lanes}) =
            (four)(${", ".join(f"{name}_{a + i}_{u}" for i in range(4))});
% endfor
    }
% endfor
</%def>
## And back.
<%def name="gather_back(name, weights, item, lanes, columns, others, swirl)">
% for u in range(others // columns):
    {
        ${place("from", weights, item, lanes, columns, u, swirl)}
% for a in range(0, item, 4):
        const four each_${a} = *(__local const four *)(from + ${a * lanes});
% for i in range(4):
        ${name}_${a + i}_${u} = each_${a}.s${i};
% endfor
% endfor
    }
% endfor
</%def>
<%def name="place(pointer, weights, item, lanes, columns, u, swirl)">
        const int j = across * 4 + ${u // 4 * 4 * columns + u % 4};
        __local element *${pointer} = ${weights} + j * ${item * lanes}
            + ${swirled("down", "j", swirl)} * 4;
</%def>
##
## name_a_k += weights of the own rows and others from begin on, times the others' rows.
<%def name="gathered(name, weights, right, count, size, item, lanes, columns, swirl)">
<%
    each = -(-size // columns)
    width = 4 if size % (4 * columns) == 0 else 2 if size % (2 * columns) == 0 else 1
    step, own = (size + 3) // 4 * 4 + 4, item * lanes
    lanes_of = "element" if width == 1 else "four" if width == 4 else "two"
    of = lambda k: f"c_{k // width}" + (f".s{k % width}" if width > 1 else "")
%>
    #pragma unroll 1
    for (int j = 0; j < ${count}; j += 4) {
        __local const element *w = ${weights} + (begin + j) * ${own}
            + ${swirled("down", "(begin + j)", swirl)} * 4;
        __local const element *r = ${right} + j * ${step} + across * ${width};
% for i in range(4):
        {
% for k in range(each // width):
            ${lanes_of} c_${k} = 0;
% if (k + 1) * columns * width > step - 4:
            if (${k * columns} + across < ${step - 4})
% endif
                c_${k} = *(__local const ${lanes_of} *)(r + ${i * step + k * columns * width});
% endfor
% for a in range(0, item, 4):
            const four w_${a} = *(__local const four *)(w + ${i * own + a * lanes});
% for lane in range(4):
% for k in range(each):
            ${name}_${a + lane}_${k} += w_${a}.s${lane} * ${of(k)};
% endfor
% endfor
% endfor
        }
% endfor
    }
</%def>
##
## Others' sums of weights of the group's own rows times these, several others by four elements of
## them at once; each is stored where the piece of its row lies.
<%def name="crossed(
    target, weights, left, limit, size, group, item, lanes, others, several, swirl)">
<%
    own, fours, lines = item * lanes, -(-size // 4), others // several
%>
    for (int block = get_local_id(0); block < ${lines * fours}; block += ${group}) {
        const int line = block / ${fours} * 4, e = block % ${fours} * 4;
        __local const element *w = ${weights} + line * ${own}, *x = ${left} + e * ${own};
        four ${", ".join(f"g_{r} = 0" for r in range(several))};
        for (int i = 0; i < ${own // 4}; i++) {
            const int mine = ${swirled("i", "e", swirl)} * 4;
% for i in range(4):
            const four x_${i} = *(__local const four *)(x + ${i * own} + mine);
% endfor
% for half in range(several // 4):
            {
                const int place = ${swirled("i", f"(line + {half * lines * 4})", swirl)} * 4;
% for r in range(4):
                {
                    const four w_${r} = *(__local const four *)(
                        w + ${(half * lines * 4 + r) * own} + place);
% for lane in range(4):
% for i in range(4):
                    g_${half * 4 + r}.s${i} += w_${r}.s${lane} * x_${i}.s${lane};
% endfor
% endfor
                }
% endfor
            }
% endfor
        }
% for r in range(several):
        {
            const int row = first + line + ${r // 4 * lines * 4 + r % 4};
            __global element *to = ${target} + (long)row * ${size} + e;
            if (row < ${limit}) {
% if size % 4 == 0:
                *(__global four *)to = g_${r};
% else:
% for i in range(4):
                if (e + ${i} < ${size})
                    to[${i}] = g_${r}.s${i};
% endfor
% endif
            }
        }
% endfor
    }
</%def>
