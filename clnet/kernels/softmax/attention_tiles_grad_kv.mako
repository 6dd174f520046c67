## kernel attention_tiles_grad_kv: attention.mako's gradients to k and v in tiles
##
## A group owns keys and values, which lie in local memory turned. Rows of q and gy come a part at
## a time, each while the items multiply the part before it: some elements of all of a tile, for
## scores and their gradients, then all elements of some, for sums. Scores stay in registers but for
## their way to the items that add them up.
##
## math     as in attention.mako, exponentials to the base 2
## layout   rows of q, k, v, gy and the gradients are dense, and lie anywhere, those of k and v with
##          as many heads as these have; all others are dense
## param    ctype: str                     element type
## param    head: int                      elements of a row of q and k
## param    value_head: int                elements of a row of v
## param    item: int                      own rows of an item, a multiple of 4
## param    lanes: int                     items below each other; a group owns item * lanes rows
## param    columns: int                   items beside each other, which share rows; a power of two
## param    tile: int                      others gone through at once, a multiple of 4 * columns
## param    chunk: int                     elements of q or k at once, a multiple of 4
## param    value_chunk: int               the same of v and gy
## param    few: int                       rows of q or k at once, a divisor of tile, of whole fours
## param    value_few: int                 the same of gy
## param    unroll: 1|2                    fours of elements written out at once
## param    wide: bool                     rows begin at whole fours, and are read in fours
## param    causal: bool                   a key counts for its own row and later ones only
## param    mask: None|'add'|'keep'        added to the scores, or tells which count
## param    mask_ctype: str                its element type
## param    dropped: bool                  weights are dropped, as Philox numbers say
## param    slopes: bool                   gradients of the scores are stored, for a product with k
## param    pieces: bool                   groups of keys store what they add to the gradient to q
## param    several: 4|8                   rows that an item adds pieces up of at once
## param    block: int                     rows that the product takes at once; where causal, those
##                                         before a key in its block are stored, too, as 0
## arg      rows, keys, heads: int
## arg      sharing: int                   heads of q that share one of k and v, one after another
## arg      strides: long16                of q, k, v, gy: batch, head, row; of the mask: all
## arg      places: long16                 the same of gk and gv
## arg      scale: ctype
## % if dropped:
## arg      seed: ulong                    the generator's key
## arg      offset: long                   the first counter
## arg      p: float                       probability that a weight is dropped
## arg      spread_by: ctype               factor of the others
## % endif
## arg      gk: out ctype[batch, keys, head]
## arg      gv: out ctype[batch, keys, value_head]
## % if slopes:
## arg      store: out ctype[batch, keys, step]    gradients of scores, divided by scale
## arg      step: int                      rows, rounded up
## % endif
## % if pieces:
## arg      piece: out ctype[groups, batch, rows, head]    divided by scale; where causal, none of
## % endif                                 rows before the group's keys
## arg      gy: in ctype[batch, rows, value_head]
## arg      lse: in ctype[batch, rows]
## arg      delta: in ctype[batch, rows]
## arg      q: in ctype[batch, rows, head]
## arg      k: in ctype[batch, keys, head]
## arg      v: in ctype[batch, keys, value_head]
## % if mask:
## arg      mask: in mask_ctype[batch, heads, rows, keys]
## % endif
## % if mask == "keep":
## arg      fill: ctype                    score of what does not count
## % endif
## launch   (own rows in groups of lanes * columns items, batch); where causal, (batch in groups,
##          groups of own rows)
## numerics sums in the order of the rows
<%namespace name="lib" file="/lib/attend_tiles.mako"/>
<%namespace name="turned" file="/lib/attend_turned.mako"/>
<%def name="attention_tiles_grad_kv(
    ctype, head, value_head, item, lanes, columns, tile, chunk, value_chunk, few, value_few, unroll,
    wide, causal, mask, mask_ctype, dropped, slopes, pieces, several, block)">
<%
    group, own, each = lanes * columns, item * lanes, tile // columns
    padded, value_padded = -(-head // chunk) * chunk, -(-value_head // value_chunk) * value_chunk
    q_row, gy_row = (head + 3) // 4 * 4, (value_head + 3) // 4 * 4
    room = max(tile * max(chunk, value_chunk), few * (q_row + 4), value_few * (gy_row + 4))
    most = max(max(own, tile) * max(chunk, value_chunk), few * q_row, value_few * gy_row)
    own_swirl, row_swirl = min(8, lanes & -lanes), min(8, columns & -columns)
    def come(source, step, first, begin, count, size, elements):
        return capture(turned.fetch,
            source, step, first, "rows", begin, count, size, elements, group, wide)
    def q_comes(first, begin):
        return come("q", "strides.s2", first, begin, tile, head, chunk)
    def gy_comes(begin):
        return come("gy", "strides.sb", "first", begin, tile, value_head, value_chunk)
    def q_rows_come(first):
        return come("q", "strides.s2", first, "0", few, head, q_row)
    def gy_rows_come(first):
        return come("gy", "strides.sb", first, "0", value_few, value_head, gy_row)
    q_stays = capture(turned.put_turned, "part + turn", tile, chunk, group, wide, row_swirl)
    gy_stays = capture(turned.put_turned, "part + turn", tile, value_chunk, group, wide, row_swirl)
    q_rows_stay = capture(turned.put, "part + turn", few, q_row, group, wide)
    gy_rows_stay = capture(turned.put, "part + turn", value_few, gy_row, group, wide)
%>
${lib.types(ctype)}
__attribute__((reqd_work_group_size(${group}, 1, 1)))
__kernel void attention_tiles_grad_kv(...)
{
    __local four k_four[${own * padded // 4}], v_four[${own * value_padded // 4}];
    __local four part_four[${2 * room // 4}], weight_four[${tile * own // 4}];
    __local element *k_tile = (__local element *)k_four, *v_tile = (__local element *)v_four;
    __local element *part = (__local element *)part_four;
    __local element *weights = (__local element *)weight_four;
% if dropped:
    __local uchar kept[${tile * (own + 4)}];
% endif
    ${lib.begin(item, lanes, columns, causal, mask, False)}
    gk += gk_offset + image * places.s0 + key_head * places.s1;
    gv += gv_offset + image * places.s3 + key_head * places.s4;
    gy += gy_offset + image * strides.s9 + h * strides.sa;
    delta += delta_offset + (long)batch * rows;
    ${turned.reads(most, group, wide)}
    ${turned.stage(
        "k_tile", "k", "strides.s5", "group_first", "keys", own, head, chunk, group, wide,
        own_swirl)}
    ${turned.stage(
        "v_tile", "v", "strides.s8", "group_first", "keys", own, value_head, value_chunk, group,
        wide, own_swirl)}
    ${lib.sums("k_sum", head, item, columns)}
    ${lib.sums("v_sum", value_head, item, columns)}
% if slopes:
    store += store_offset + ((long)batch * keys + group_first) * step;
% endif
% if pieces:
    piece += piece_offset
        + ((long)number * heads_in_all * sharing + batch) * rows * ${head};
% endif
    ## Which half of the parts is read.
    int turn = 0;
    ## One after the other the heads of q that share these keys.
    for (int sharer = 0; sharer < sharing; sharer++) {
% if dropped:
        const int head_number = batch + sharer;
% endif
        int first = ${f"group_first / {tile} * {tile}" if causal else "0"};
% if slopes:
% if causal:
        for (int other = group_first / ${block} * ${block} + across; other < min(first, rows);
            other += ${columns}) {
% for a in range(item):
            if (group_first + ${lib.mine(a, lanes)} < keys)
                store[(long)${lib.mine(a, lanes)} * step + other] = 0;
% endfor
        }
% endif
% endif
        ${q_comes("first", "0")}
        ${q_stays}
        for (; first < rows; first += ${tile}) {
% if dropped:
            ${lib.keep(tile, own, group, "first", "group_first")}
% endif
            ${turned.zeros("s", item, each)}
            ${turned.streamed(
                padded, chunk, room,
                q_comes("first", f"begin + {chunk}"), q_stays, gy_rows_come("first"), gy_rows_stay,
                capture(turned.products,
                    "s", "k_tile", "part + turn", chunk, item, lanes, columns, tile, own_swirl,
                    row_swirl, unroll))}
            ${lib.exponents(item, lanes, columns, tile, "rows", False, causal, mask)}
% for u in range(each):
            {
                const int other = first + ${lib.other(u, columns)};
                const element base = other < rows ? lse[other] * LOG2E : 0;
% for a in range(item):
% if mask == "keep":
                s_${a}_${u} = exp2(s_${a}_${u} - base)
                    * (s_${a}_${u} == LOG2E * fill ? 1 / (element)keys : 1);
% else:
                s_${a}_${u} = exp2(s_${a}_${u} - base);
% endif
% endfor
            }
% endfor
% if dropped:
            {
% for a in range(item):
% for u in range(each):
                const element w_${a}_${u} =
                    ${lib.dropped(f"s_{a}_{u}", a, u, lanes, columns, own, False)};
% endfor
% endfor
                ${turned.spread("w", "weights", item, lanes, columns, tile, own_swirl)}
            }
% else:
            ${turned.spread("s", "weights", item, lanes, columns, tile, own_swirl)}
% endif
            ${turned.streamed(
                tile, value_few, room,
                gy_rows_come(f"first + begin + {value_few}"), gy_rows_stay, gy_comes("0"), gy_stays,
                capture(turned.gathered,
                    "v_sum", "weights", "part + turn", value_few, value_head, item, lanes, columns,
                    own_swirl))}
            ${turned.zeros("d", item, each)}
            ${turned.streamed(
                value_padded, value_chunk, room,
                gy_comes(f"begin + {value_chunk}"), gy_stays, q_rows_come("first"), q_rows_stay,
                capture(turned.products,
                    "d", "v_tile", "part + turn", value_chunk, item, lanes, columns, tile,
                    own_swirl, row_swirl, unroll))}
% if not dropped:
            ## Weights wait in local memory, not in registers.
            ${turned.gather_back("s", "weights", item, lanes, columns, tile, own_swirl)}
% endif
% for u in range(each):
            {
                const int other = first + ${lib.other(u, columns)};
                const element less = other < rows ? delta[other] : 0;
% for a in range(item):
% if dropped:
                d_${a}_${u} = ${lib.dropped(f"d_{a}_{u}", a, u, lanes, columns, own, False)};
% endif
                d_${a}_${u} = (d_${a}_${u} - less) * s_${a}_${u};
                ${lib.still(a, u, lanes, columns, False, mask)}
% if pieces:
                if (group_first + ${lib.mine(a, lanes)} >= keys)
                    d_${a}_${u} = 0;
% endif
% if slopes:
                if (other < rows && group_first + ${lib.mine(a, lanes)} < keys)
                    store[(long)${lib.mine(a, lanes)} * step + other] = d_${a}_${u};
% endif
% endfor
            }
% endfor
            ${turned.spread("d", "weights", item, lanes, columns, tile, own_swirl)}
            ${turned.streamed(
                tile, few, room,
                q_rows_come(f"first + begin + {few}"), q_rows_stay,
                q_comes(f"first + {tile}", "0"), q_stays,
                capture(turned.gathered,
                    "k_sum", "weights", "part + turn", few, head, item, lanes, columns, own_swirl))}
% if pieces:
            ${turned.crossed(
                "piece", "weights", "k_tile", "rows", head, group, item, lanes, tile, several,
                own_swirl)}
% endif
        }
        q += strides.s1;
        gy += strides.sa;
        lse += rows;
        delta += rows;
% if mask:
        mask += strides.sd;
% endif
% if slopes:
        store += (long)keys * step;
% endif
% if pieces:
        piece += (long)rows * ${head};
% endif
    }
    ${lib.release("gk", "places.s2", "k_sum", head, item, lanes, columns, "keys", "scale")}
    ${lib.release("gv", "places.s5", "v_sum", value_head, item, lanes, columns, "keys", "1")}
}
</%def>
