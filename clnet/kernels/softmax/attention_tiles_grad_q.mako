## kernel attention_tiles_grad_q: attention.mako's gradient to q in tiles
##
## A group owns rows of q and gy, which lie in local memory turned. Keys and values come a part at
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
## param    chunk: int                     elements of the keys at once, a multiple of 4
## param    value_chunk: int               the same of the values
## param    few: int                       keys at once, a divisor of tile, of whole fours
## param    unroll: 1|2                    fours of elements written out at once
## param    wide: bool                     rows begin at whole fours, and are read in fours
## param    causal: bool                   a key counts for its own row and later ones only
## param    mask: None|'add'|'keep'        added to the scores, or tells which count
## param    mask_ctype: str                its element type
## param    dropped: bool                  weights are dropped, as Philox numbers say
## arg      rows, keys, heads: int
## arg      sharing: int                   heads of q that share one of k and v, one after another
## arg      strides: long16                of q, k, v, gy: batch, head, row; of the mask: all
## arg      places: long16                 the same of gq
## arg      scale: ctype
## % if dropped:
## arg      seed: ulong                    the generator's key
## arg      offset: long                   the first counter
## arg      p: float                       probability that a weight is dropped
## arg      spread_by: ctype               factor of the others
## % endif
## arg      gq: out ctype[batch, rows, head]
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
## numerics sums in the order of the keys
<%namespace name="lib" file="/lib/attend_tiles.mako"/>
<%namespace name="turned" file="/lib/attend_turned.mako"/>
<%def name="attention_tiles_grad_q(
    ctype, head, value_head, item, lanes, columns, tile, chunk, value_chunk, few, unroll, wide,
    causal, mask, mask_ctype, dropped)">
<%
    group, own, each = lanes * columns, item * lanes, tile // columns
    padded, value_padded = -(-head // chunk) * chunk, -(-value_head // value_chunk) * value_chunk
    key_row = (head + 3) // 4 * 4
    room = max(tile * max(chunk, value_chunk), few * (key_row + 4))
    most = max(max(own, tile) * max(chunk, value_chunk), few * key_row)
    own_swirl, key_swirl = min(8, lanes & -lanes), min(8, columns & -columns)
    def keys_come(first, begin):
        return capture(turned.fetch,
            "k", "strides.s5", first, "keys", begin, tile, head, chunk, group, wide)
    def values_come(begin):
        return capture(turned.fetch,
            "v", "strides.s8", "first", "keys", begin, tile, value_head, value_chunk, group, wide)
    def rows_come(first):
        return capture(turned.fetch,
            "k", "strides.s5", first, "keys", "0", few, head, key_row, group, wide)
    keys_stay = capture(turned.put_turned, "part + turn", tile, chunk, group, wide, key_swirl)
    values_stay = capture(
        turned.put_turned, "part + turn", tile, value_chunk, group, wide, key_swirl)
    rows_stay = capture(turned.put, "part + turn", few, key_row, group, wide)
%>
${lib.types(ctype)}
__attribute__((reqd_work_group_size(${group}, 1, 1)))
__kernel void attention_tiles_grad_q(...)
{
    __local four q_four[${own * padded // 4}], gy_four[${own * value_padded // 4}];
    __local four part_four[${2 * room // 4}], weight_four[${tile * own // 4}];
    __local element *q_tile = (__local element *)q_four, *gy_tile = (__local element *)gy_four;
    __local element *part = (__local element *)part_four;
    __local element *weights = (__local element *)weight_four;
% if dropped:
    __local uchar kept[${own * (tile + 4)}];
% endif
    ${lib.begin(item, lanes, columns, causal, mask, True)}
    gq += gq_offset + image * places.s0 + h * places.s1;
    gy += gy_offset + image * strides.s9 + h * strides.sa;
    delta += delta_offset + (long)batch * rows;
    ${turned.reads(most, group, wide)}
    ${turned.stage(
        "q_tile", "q", "strides.s2", "group_first", "rows", own, head, chunk, group, wide,
        own_swirl)}
    ${turned.stage(
        "gy_tile", "gy", "strides.sb", "group_first", "rows", own, value_head, value_chunk, group,
        wide, own_swirl)}
    ${lib.sums("sum", head, item, columns)}
% for a in range(item):
    const int self_${a} = group_first + ${lib.mine(a, lanes)};
    const element base_${a} = self_${a} < rows ? lse[self_${a}] * LOG2E : 0;
    const element delta_${a} = self_${a} < rows ? delta[self_${a}] : 0;
% endfor
% if dropped:
    const int head_number = batch;
% endif
    const int limit = ${f"min(keys, group_first + {own})" if causal else "keys"};
    ## Which half of the parts is read.
    int turn = 0;
    ${keys_come("0", "0")}
    ${keys_stay}
    for (int first = 0; first < limit; first += ${tile}) {
% if dropped:
        ${lib.keep(own, tile, group, "group_first", "first")}
% endif
        ${turned.zeros("s", item, each)}
        ${turned.streamed(
            padded, chunk, room,
            keys_come("first", f"begin + {chunk}"), keys_stay, values_come("0"), values_stay,
            capture(turned.products,
                "s", "q_tile", "part + turn", chunk, item, lanes, columns, tile, own_swirl,
                key_swirl, unroll))}
        ${lib.exponents(item, lanes, columns, tile, "keys", True, causal, mask)}
        ${turned.zeros("d", item, each)}
        ${turned.streamed(
            value_padded, value_chunk, room,
            values_come(f"begin + {value_chunk}"), values_stay, rows_come("first"), rows_stay,
            capture(turned.products,
                "d", "gy_tile", "part + turn", value_chunk, item, lanes, columns, tile, own_swirl,
                key_swirl, unroll))}
% for a in range(item):
% for u in range(each):
% if dropped:
        d_${a}_${u} = ${lib.dropped(f"d_{a}_{u}", a, u, lanes, columns, tile, True)};
% endif
        d_${a}_${u} = (d_${a}_${u} - delta_${a}) * exp2(s_${a}_${u} - base_${a});
        ${lib.still(a, u, lanes, columns, True, mask)}
% endfor
% endfor
        ${turned.spread("d", "weights", item, lanes, columns, tile, own_swirl)}
        ${turned.streamed(
            tile, few, room,
            rows_come(f"first + begin + {few}"), rows_stay,
            keys_come(f"first + {tile}", "0"), keys_stay,
            capture(turned.gathered,
                "sum", "weights", "part + turn", few, head, item, lanes, columns, own_swirl))}
    }
    ${lib.release("gq", "places.s2", "sum", head, item, lanes, columns, "rows", "scale")}
}
</%def>
