## lib attend_tiles: what attention in tiles has around its products: places, weights, results
##
## A group owns `own` rows of one operand and goes over the others' in tiles. Of each tile of
## scores, item (down, across) of lanes x columns items has rows and others in fours: four rows next
## to each other, the next 4 * lanes further, and others by columns likewise. Of its sums it has
## columns (u * columns + across) * width + i: neighbours read neighbouring banks.
##
## param ctype: str        element type
## param name: str         of what is computed, or of the tile in local memory
## param size: int         elements of a row
## param step: str         C expression, elements from a row to the next
## param limit: str        C expression, number of rows
## param group: int        work-items of a group
## param item: int         rows of an item, a multiple of 4
## param lanes: int        items below each other
## param columns: int      items that share a row
## param tile: int         others gone through at once
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
## Where the item's row lies in the group's, or one of the others in the tile.
<%def name="mine(a, lanes)" filter="trim">
(down * 4 + ${a // 4 * 4 * lanes + a % 4})
</%def>
<%def name="other(u, columns)" filter="trim">
(across * 4 + ${u // 4 * 4 * columns + u % 4})
</%def>
##
## The item's place, and its operands from their head's first element on: batch is the number of the
## head of q, and where the group goes over the rows of several the first's. Causal groups differ in
## their work: those with the most come first, of all heads, so that the last to end are short.
<%def name="begin(item, lanes, columns, causal, mask, own_is_row)">
% if columns > 8 and columns % 8 == 0 and lanes % 4 == 0:
    ## Of 32 neighbours 4 are below each other, so that they read at few addresses.
    const int across = get_local_id(0) / 32 % ${columns // 8} * 8 + get_local_id(0) % 8;
    const int down = get_local_id(0) / ${4 * columns} * 4 + get_local_id(0) / 8 % 4;
% else:
    const int across = get_local_id(0) % ${columns}, down = get_local_id(0) / ${columns};
% endif
% if causal:
    const int number = ${"get_num_groups(1) - 1 - " if own_is_row else ""}get_group_id(1);
    const int nth = get_group_id(0), heads_in_all = get_num_groups(0);
% else:
    const int number = get_group_id(0), nth = get_group_id(1), heads_in_all = get_num_groups(1);
% endif
    const int group_first = number * ${item * lanes};
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
    own, others = capture(mine, a, lanes), capture(other, u, columns)
    row, column = (own, others) if own_is_row else (others, own)
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
## Scores as exponents of 2, minus infinity where a key does not count. limit: of the others.
<%def name="exponents(item, lanes, columns, tile, limit, own_is_row, causal, mask)">
% for u in range(tile // columns):
    {
        const int other = first + ${other(u, columns)};
% for a in range(item):
        {
            const int self = group_first + ${mine(a, lanes)};
            const int row = ${"self" if own_is_row else "other"};
            const int key = ${"other" if own_is_row else "self"};
            s_${a}_${u} *= factor;
            if (other >= ${limit}${" || key > row" if causal else ""})
                s_${a}_${u} = -INFINITY;
% if mask:
            else if (row < rows && key < keys) {
% if mask == "keep":
                if (!mask[(long)row * mask_row + (long)key * mask_key])
                    s_${a}_${u} = LOG2E * fill;
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
## What a mask of booleans puts in a score's place has no slope: it may weigh where it is finite,
## and where it is all of a row, whose weights are then not a number.
<%def name="still(a, u, lanes, columns, own_is_row, mask)">
% if mask == "keep":
        if (fill > -INFINITY || isnan(d_${a}_${u})) {
            const int self = group_first + ${mine(a, lanes)};
            const int other = first + ${other(u, columns)};
            const int row = ${"self" if own_is_row else "other"};
            const int key = ${"other" if own_is_row else "self"};
            if (row >= rows || key >= keys
                || !mask[(long)row * mask_row + (long)key * mask_key])
                d_${a}_${u} = 0;
        }
% endif
</%def>
<%def name="sums(name, size, item, columns)">
% for a in range(item):
    element ${", ".join(f"{name}_{a}_{k} = 0" for k in range(-(-size // columns)))};
% endfor
</%def>
##
## Rows of the item.
<%def name="release(target, step, name, size, item, lanes, columns, limit, factor)">
<%
    each = -(-size // columns)
    width = 4 if size % (4 * columns) == 0 else 2 if size % (2 * columns) == 0 else 1
%>
% for a in range(item):
    if (group_first + ${mine(a, lanes)} < ${limit}) {
        __global element *to = ${target} + (group_first + ${mine(a, lanes)}) * ${step};
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
