## lib attend_tiles: what attention in tiles is made of: rows in local memory, products in registers
##
## A group owns `own` rows of one operand and goes over the others' in tiles. Of each tile of
## scores, item (down, across) of lanes x columns items has rows down + lanes * a and others
## across + columns * u, and of its sums columns (u * columns + across) * width + i: neighbours read
## neighbouring banks. In the tile of weights its rows are down * item + a.
##
## param ctype: str        element type
## param name: str         of what is computed, or of the tile in local memory
## param size: int         elements of a row
## param rows: int         of a tile
## param source: str       C expression, where row 0 lies
## param step: str         C expression, elements from a row to the next
## param first: str        C expression, number of the tile's first row
## param limit: str        C expression, number of rows
## param group: int        work-items of a group
## param wide: bool        rows begin at whole fours, and are read in fours
## param item: int         rows of an item, a multiple of 4
## param lanes: int        items below each other
## param columns: int      items that share a row
## param tile: int         others gone through at once
## param left: str         tile of the group's own rows
## param right: str        tile of others
## param weights: str      tile of scores, others down and own rows across
## param own: int          rows of a group
## param own_is_row: bool  rows of q are the group's own and keys gone through; else the reverse
## param causal: bool      a key counts for its own row and later ones only
## param mask: None|'add'|'keep'   added to the scores, or tells which count
## param target: str       C expression, where row 0 lies; rows are dense
## param factor: str       C expression that results are multiplied by, of own row {}
## param count: int        rows of a tile of weights
## param width: int        keys of it
## param number: str       C expression, its first row
## param first_key: str    C expression, its first key
## param value: str        C expression
## param a: int            which of the item's own rows
## param u: int            which of its others
<%namespace name="generator" file="philox.mako"/>
##
## The item's place, and its operands from their head's first element on: batch is the number of the
## head of q, and where the group goes over the rows of several the first's. Causal groups differ in
## their work: those with the most come first, of all heads, so that the last to end are short.
<%def name="begin(item, lanes, columns, causal, mask, own_is_row)">
    const int across = get_local_id(0) % ${columns}, down = get_local_id(0) / ${columns};
% if causal:
    const int number = ${"get_num_groups(1) - 1 - " if own_is_row else ""}get_group_id(1);
    const int nth = get_group_id(0), heads_in_all = get_num_groups(0);
% else:
    const int number = get_group_id(0), nth = get_group_id(1), heads_in_all = get_num_groups(1);
% endif
    const int group_first = number * ${item * lanes}, own_first = group_first + down;
    const int batch = nth${"" if own_is_row else " * sharing"};
    const long image = batch / heads, h = batch % heads, key_head = h / sharing;
    const element factor = scale * LOG2E;
    q += q_offset + image * strides.s0 + h * strides.s1;
    k += k_offset + image * strides.s3 + key_head * strides.s4;
    v += v_offset + image * strides.s6 + key_head * strides.s7;
    lse += lse_offset + (long)batch * rows;
% if mask:
    mask += mask_offset + image * strides.sc + h * strides.sd;
    const long mask_row = strides.se, mask_key = strides.sf;
% endif
</%def>
##
## Which of a tile's weights are kept, as dropout of all weights would, (batch, heads, rows, keys):
## row by row, number their first row, width of them at once from the key numbered first_key on.
<%def name="keep(count, width, group, number, first_key)">
<% each = width // 4 + 1 %>
    for (int i = get_local_id(0); i < ${count * each}; i += ${group}) {
        const int r = i / ${each};
        const long begin = ((long)(${number} + r) + (long)head_number * rows) * keys + ${first_key};
        const long block = begin / 4 + i % ${each};
        ${generator.words("(ulong)(offset + block)")}
% for lane in range(4):
        {
            const long at = block * 4 + ${lane} - begin;
            if (at >= 0 && at < ${width})
                kept[r * ${width + 4} + at] = !((float)(bits_${lane} >> 8) * 0x1p-24f < p);
        }
% endfor
    }
</%def>
##
## A weight, or its gradient, as dropout leaves it. a: of the own rows, u: of the others.
<%def name="dropped(value, a, u, lanes, columns, width, own_is_row)" filter="trim">
<%
    mine, others = f"(down + {a * lanes})", f"(across + {u * columns})"
    row, column = (mine, others) if own_is_row else (others, mine)
%>
(kept[${row} * ${width + 4} + ${column}] ? ${value} * spread_by : 0)
</%def>
##
## Outside of kernels.
<%def name="types(ctype)">
#pragma OPENCL FP_CONTRACT ON
typedef ${ctype} element;
typedef ${ctype}2 two;
typedef ${ctype}4 four;
#define LOG2E ((element)1.4426950408889634)
#define LN2 ((element)0.6931471805599453)
</%def>
##
## Rows come into local memory, all reads of an item under way at once; what lacks is 0.
<%def name="stage(name, source, step, first, limit, rows, size, group, wide)">
<%
    width, padded = 4 if wide else 1, (size + 3) // 4 * 4
    row = padded // width
    count = rows * row
%>
    {
% for u in range(-(-count // group)):
        const int i_${u} = get_local_id(0) + ${u * group};
        const int r_${u} = i_${u} / ${row}, e_${u} = i_${u} % ${row};
        ${"four" if wide else "element"} read_${u} = 0;
        if (${first} + r_${u} < ${limit}${f" && i_{u} < {count}" if count % group else ""}
            ${f"&& e_{u} < {size}" if row * width > size else ""})
            read_${u} = *(__global const ${"four" if wide else "element"} *)(
                ${source} + (long)(${first} + r_${u}) * ${step} + e_${u} * ${width});
% endfor
% for u in range(-(-count // group)):
        ${f"if (i_{u} < {count})" if count % group else ""}
        *(__local ${"four" if wide else "element"} *)(
            ${name} + r_${u} * ${padded + 4} + e_${u} * ${width}) = read_${u};
% endfor
    }
</%def>
##
## name_a_u: products of the item's own rows and others.
<%def name="products(name, left, right, size, item, lanes, columns, tile)">
<% step = (size + 3) // 4 * 4 + 4 %>
% for a in range(item):
    element ${", ".join(f"{name}_{a}_{u} = 0" for u in range(tile // columns))};
% endfor
    #pragma unroll 2
    for (int e = 0; e < ${step - 4}; e += 4) {
% for u in range(tile // columns):
        const four b_${u} = *(__local const four *)(
            ${right} + (across + ${u * columns}) * ${step} + e);
% endfor
% for a in range(item):
        {
            const four x = *(__local const four *)(${left} + (down + ${a * lanes}) * ${step} + e);
% for i in range(4):
% for u in range(tile // columns):
            ${name}_${a}_${u} += x.s${i} * b_${u}.s${i};
% endfor
% endfor
        }
% endfor
    }
</%def>
##
## Scores as exponents of 2, minus infinity where a key does not count. limit: of the others.
<%def name="exponents(item, lanes, columns, tile, limit, own_is_row, causal, mask)">
% for u in range(tile // columns):
    {
        const int other = first + across + ${u * columns};
% for a in range(item):
        {
            const int self = own_first + ${a * lanes};
            const int row = ${"self" if own_is_row else "other"};
            const int key = ${"other" if own_is_row else "self"};
            s_${a}_${u} *= factor;
            if (other >= ${limit}${" || key > row" if causal else ""})
                s_${a}_${u} = -INFINITY;
% if mask:
            else if (row < rows && key < keys) {
% if mask == "keep":
                if (!mask[(long)row * mask_row + (long)key * mask_key])
                    s_${a}_${u} = -INFINITY;
% else:
                s_${a}_${u} += LOG2E * mask[(long)row * mask_row + (long)key * mask_key];
% endif
            }
% endif
        }
% endfor
    }
% endfor
</%def>
##
## Values of the item, from registers to the tile of weights.
<%def name="spread(name, weights, item, columns, tile, own)">
% for u in range(tile // columns):
% for a in range(0, item, 4):
    *(__local four *)(${weights} + (across + ${u * columns}) * ${own + 4} + down * ${item} + ${a}) =
        (four)(${", ".join(f"{name}_{a + i}_{u}" for i in range(4))});
% endfor
% endfor
</%def>
<%def name="sums(name, size, item, columns)">
% for a in range(item):
    element ${", ".join(f"{name}_{a}_{k} = 0" for k in range(-(-size // columns)))};
% endfor
</%def>
##
## name_a_k += weights of the own rows and others, times the others' rows.
<%def name="gathered(name, weights, right, size, item, columns, tile, own)">
<%
    each = -(-size // columns)
    width = 4 if size % (4 * columns) == 0 else 2 if size % (2 * columns) == 0 else 1
    step = (size + 3) // 4 * 4 + 4
    lanes = "element" if width == 1 else "four" if width == 4 else "two"
    of = lambda k: f"c_{k // width}" + (f".s{k % width}" if width > 1 else "")
%>
    #pragma unroll 4
    for (int j = 0; j < ${tile}; j++) {
% for k in range(each // width):
        ${lanes} c_${k} = 0;
% if (k + 1) * columns * width > step - 4:
        if (${k * columns} + across < ${step - 4})
% endif
            c_${k} = *(__local const ${lanes} *)(
                ${right} + j * ${step} + (${k * columns} + across) * ${width});
% endfor
% for a in range(0, item, 4):
        {
            const four w = *(__local const four *)(
                ${weights} + j * ${own + 4} + down * ${item} + ${a});
% for i in range(4):
% for k in range(each):
            ${name}_${a + i}_${k} += w.s${i} * ${of(k)};
% endfor
% endfor
        }
% endfor
    }
</%def>
##
## Others' sums of weights of the group's own rows times these, four others by four elements of them
## at once; each is stored where the piece of its row lies.
<%def name="crossed(target, weights, left, size, item, lanes, columns, tile, own, limit)">
<%
    padded, group = (size + 3) // 4 * 4, lanes * columns
    row, step = padded // 4, padded + 4
%>
    for (int block = get_local_id(0); block < ${tile // 4 * row}; block += ${group}) {
        const int line = block / ${row} * 4, e = block % ${row} * 4;
        __local const element *of = ${weights} + line * ${own + 4}, *mine = ${left} + e;
        four ${", ".join(f"g_{r} = 0" for r in range(4))};
        #pragma unroll 2
        for (int i = 0; i < ${lanes}; i++) {
% for a in range(0, item, 4):
            {
                const four ${", ".join(f"w_{r} = *(__local const four *)(of + {r * (own + 4) + a})"
                    for r in range(4))};
% for i in range(4):
                const four x_${i} = *(__local const four *)(mine + ${(a + i) * lanes * step});
% for r in range(4):
                g_${r} += w_${r}.s${i} * x_${i};
% endfor
% endfor
            }
% endfor
            of += ${item};
            mine += ${step};
        }
% for r in range(4):
        if (first + line + ${r} < ${limit}) {
            __global element *to = ${target} + (long)(first + line + ${r}) * ${size} + e;
% if size % 4 == 0:
            *(__global four *)to = g_${r};
% else:
% for i in range(4):
            if (e + ${i} < ${size})
                to[${i}] = g_${r}.s${i};
% endfor
% endif
        }
% endfor
    }
</%def>
##
## Rows of the item.
<%def name="release(target, step, name, size, item, lanes, columns, limit, factor)">
<%
    each = -(-size // columns)
    width = 4 if size % (4 * columns) == 0 else 2 if size % (2 * columns) == 0 else 1
%>
% for a in range(item):
    if (own_first + ${a * lanes} < ${limit}) {
        __global element *to = ${target} + (own_first + ${a * lanes}) * ${step};
% for k in range(each):
% if (k // width + 1) * columns * width > size:
        if (${k * columns} + across < ${size})
% endif
            to[(${k // width * columns} + across) * ${width} + ${k % width}] =
                ${name}_${a}_${k} * ${factor.format(a)};
% endfor
    }
% endfor
</%def>
