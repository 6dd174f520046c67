## kernel attention_tiles_grad: attention.mako's gradients in tiles of local memory and registers
##
## A group owns rows of one operand; tiles of the others come into local memory, scores stay in
## registers but for their way to the items that add them up.
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
## param    tile: int                      others gone through at once, a multiple of columns
## param    wide: bool                     rows begin at whole fours, and are read in fours
## param    causal: bool                   a key counts for its own row and later ones only
## param    mask: None|'add'|'keep'        added to the scores, or tells which count
## param    mask_ctype: str                its element type
## param    dropped: bool                  weights are dropped, as Philox numbers say
## param    slopes: bool                   gradients of the scores are stored, for a product with k
## param    pieces: bool                   groups of keys store what they add to the gradient to q
## param    block: int                     rows that the product takes at once; where causal, those
##                                         before a key in its block are stored, too, as 0
## def      attention_tiles_grad_q, attention_tiles_grad_kv
## arg      rows, keys, heads: int
## arg      sharing: int                   heads of q that share one of k and v, one after another
## arg      strides: long16                of q, k, v, gy: batch, head, row; of the mask: all
## arg      places: long16                 the same of gq, or of gk and gv
## arg      scale: ctype
## % if dropped:
## arg      seed: ulong                    the generator's key
## arg      offset: long                   the first counter
## arg      p: float                       probability that a weight is dropped
## arg      spread_by: ctype               factor of the others
## % endif
## def      attention_tiles_grad_q
## arg      gq: out ctype[batch, rows, head]
## def      attention_tiles_grad_kv
## arg      gk: out ctype[batch, keys, head]
## arg      gv: out ctype[batch, keys, value_head]
## % if slopes:
## arg      store: out ctype[batch, keys, step]    gradients of scores, divided by scale
## arg      step: int                      rows, rounded up
## % endif
## % if pieces:
## arg      piece: out ctype[groups, batch, rows, head]    divided by scale; where causal, none of
## % endif                                 rows before the group's keys
## def      attention_tiles_grad_q, attention_tiles_grad_kv
## arg      gy: in ctype[batch, rows, value_head]
## arg      lse: in ctype[batch, rows]
## arg      delta: in ctype[batch, rows]
## def      attention_tiles_grad_q, attention_tiles_grad_kv
## arg      q: in ctype[batch, rows, head]
## arg      k: in ctype[batch, keys, head]
## arg      v: in ctype[batch, keys, value_head]
## % if mask:
## arg      mask: in mask_ctype[batch, heads, rows, keys]
## % endif
## launch   (own rows in groups of lanes * columns items, batch); where causal, (batch in groups,
##          groups of own rows)
## numerics sums in the order of the others
<%namespace name="lib" file="/lib/attend_tiles.mako"/>
<%def name="attention_tiles_grad_q(
    ctype, head, value_head, item, lanes, columns, tile, wide, causal, mask, mask_ctype, dropped)">
<%
    group, own, each = lanes * columns, item * lanes, tile // columns
    step, value_step = (head + 3) // 4 * 4 + 4, (value_head + 3) // 4 * 4 + 4
%>
${lib.types(ctype)}
__attribute__((reqd_work_group_size(${group}, 1, 1)))
__kernel void attention_tiles_grad_q(...)
{
    ## The weights take the place of the values, which are done with by then.
    __local four q_four[${own * step // 4}], gy_four[${own * value_step // 4}];
    __local four k_four[${tile * step // 4}];
    __local four v_four[${max(tile * value_step, tile * (own + 4)) // 4}];
    __local element *q_tile = (__local element *)q_four, *k_tile = (__local element *)k_four;
    __local element *v_tile = (__local element *)v_four, *gy_tile = (__local element *)gy_four;
% if dropped:
    __local uchar kept[${own * (tile + 4)}];
% endif
    ${lib.begin(item, lanes, columns, causal, mask, True)}
    gq += gq_offset + image * places.s0 + h * places.s1;
    gy += gy_offset + image * strides.s9 + h * strides.sa;
    delta += delta_offset + (long)batch * rows;
    ${lib.stage("q_tile", "q", "strides.s2", "group_first", "rows", own, head, group, wide)}
    ${lib.stage("gy_tile", "gy", "strides.sb", "group_first", "rows", own, value_head, group, wide)}
    ${lib.sums("sum", head, item, columns)}
% for a in range(item):
    const int self_${a} = own_first + ${a * lanes};
    const element base_${a} = self_${a} < rows ? lse[self_${a}] * LOG2E : 0;
    const element delta_${a} = self_${a} < rows ? delta[self_${a}] : 0;
% endfor
% if dropped:
    const int head_number = batch;
% endif
    const int limit = ${f"min(keys, group_first + {own})" if causal else "keys"};
    for (int first = 0; first < limit; first += ${tile}) {
        barrier(CLK_LOCAL_MEM_FENCE);
        ${lib.stage("k_tile", "k", "strides.s5", "first", "keys", tile, head, group, wide)}
        ${lib.stage("v_tile", "v", "strides.s8", "first", "keys", tile, value_head, group, wide)}
% if dropped:
        ${lib.keep(own, tile, group, "group_first", "first")}
% endif
        barrier(CLK_LOCAL_MEM_FENCE);
        ${lib.products("s", "q_tile", "k_tile", head, item, lanes, columns, tile)}
        ${lib.exponents(item, lanes, columns, tile, "keys", True, causal, mask)}
        ${lib.products("d", "gy_tile", "v_tile", value_head, item, lanes, columns, tile)}
% for a in range(item):
% for u in range(each):
% if dropped:
        d_${a}_${u} = ${lib.dropped(f"d_{a}_{u}", a, u, lanes, columns, tile, True)};
% endif
        d_${a}_${u} = (d_${a}_${u} - delta_${a}) * exp2(s_${a}_${u} - base_${a});
% endfor
% endfor
        barrier(CLK_LOCAL_MEM_FENCE);
        ${lib.spread("d", "v_tile", item, columns, tile, own)}
        barrier(CLK_LOCAL_MEM_FENCE);
        ${lib.gathered("sum", "v_tile", "k_tile", head, item, columns, tile, own)}
    }
    ${lib.release("gq", "places.s2", "sum", head, item, lanes, columns, "rows", "scale")}
}
</%def>
<%def name="attention_tiles_grad_kv(
    ctype, head, value_head, item, lanes, columns, tile, wide, causal, mask, mask_ctype,
    dropped, slopes, pieces, block)">
<%
    group, own, each = lanes * columns, item * lanes, tile // columns
    step, value_step = (head + 3) // 4 * 4 + 4, (value_head + 3) // 4 * 4 + 4
%>
${lib.types(ctype)}
__attribute__((reqd_work_group_size(${group}, 1, 1)))
__kernel void attention_tiles_grad_kv(...)
{
    __local four k_four[${own * step // 4}], v_four[${own * value_step // 4}];
    __local four q_four[${tile * step // 4}], gy_four[${tile * value_step // 4}];
    __local four weight_four[${tile * (own + 4) // 4}];
    __local element *q_tile = (__local element *)q_four, *k_tile = (__local element *)k_four;
    __local element *v_tile = (__local element *)v_four, *gy_tile = (__local element *)gy_four;
    __local element *weights = (__local element *)weight_four;
% if dropped:
    __local uchar kept[${tile * (own + 4)}];
% endif
    ${lib.begin(item, lanes, columns, causal, mask, False)}
    gk += gk_offset + image * places.s0 + key_head * places.s1;
    gv += gv_offset + image * places.s3 + key_head * places.s4;
    gy += gy_offset + image * strides.s9 + h * strides.sa;
    delta += delta_offset + (long)batch * rows;
    ${lib.stage("k_tile", "k", "strides.s5", "group_first", "keys", own, head, group, wide)}
    ${lib.stage("v_tile", "v", "strides.s8", "group_first", "keys", own, value_head, group, wide)}
    ${lib.sums("k_sum", head, item, columns)}
    ${lib.sums("v_sum", value_head, item, columns)}
% if slopes:
    ## Neighbouring items store neighbouring rows.
    store += store_offset + ((long)batch * keys + own_first) * step;
% endif
% if pieces:
    piece += piece_offset
        + ((long)number * heads_in_all * sharing + batch) * rows * ${head};
% endif
    ## One after the other the heads of q that share these keys.
    for (int turn = 0; turn < sharing; turn++) {
% if dropped:
        const int head_number = batch + turn;
% endif
        int first = ${f"group_first / {tile} * {tile}" if causal else "0"};
% if slopes:
% if causal:
        for (int other = group_first / ${block} * ${block} + across; other < min(first, rows);
            other += ${columns}) {
% for a in range(item):
            if (own_first + ${a * lanes} < keys)
                store[(long)${a * lanes} * step + other] = 0;
% endfor
        }
% endif
% endif
        for (; first < rows; first += ${tile}) {
            barrier(CLK_LOCAL_MEM_FENCE);
            ${lib.stage("q_tile", "q", "strides.s2", "first", "rows", tile, head, group, wide)}
            ${lib.stage(
                "gy_tile", "gy", "strides.sb", "first", "rows", tile, value_head, group, wide)}
% if dropped:
            ${lib.keep(tile, own, group, "first", "group_first")}
% endif
            barrier(CLK_LOCAL_MEM_FENCE);
            ${lib.products("s", "k_tile", "q_tile", head, item, lanes, columns, tile)}
            ${lib.exponents(item, lanes, columns, tile, "rows", False, causal, mask)}
% for u in range(each):
            {
                const int other = first + across + ${u * columns};
                const element base = other < rows ? lse[other] * LOG2E : 0;
% for a in range(item):
                s_${a}_${u} = exp2(s_${a}_${u} - base);
% endfor
            }
% endfor
% if dropped:
% for a in range(item):
% for u in range(each):
            const element w_${a}_${u} =
                ${lib.dropped(f"s_{a}_{u}", a, u, lanes, columns, own, False)};
% endfor
% endfor
            ${lib.spread("w", "weights", item, columns, tile, own)}
% else:
            ${lib.spread("s", "weights", item, columns, tile, own)}
% endif
            ${lib.products("d", "v_tile", "gy_tile", value_head, item, lanes, columns, tile)}
            barrier(CLK_LOCAL_MEM_FENCE);
            ${lib.gathered("v_sum", "weights", "gy_tile", value_head, item, columns, tile, own)}
% for u in range(each):
            {
                const int other = first + across + ${u * columns};
                const element less = other < rows ? delta[other] : 0;
% for a in range(item):
% if dropped:
                d_${a}_${u} = ${lib.dropped(f"d_{a}_{u}", a, u, lanes, columns, own, False)};
% endif
                d_${a}_${u} = (d_${a}_${u} - less) * s_${a}_${u};
% if pieces:
                if (own_first + ${a * lanes} >= keys)
                    d_${a}_${u} = 0;
% endif
% if slopes:
                if (other < rows && own_first + ${a * lanes} < keys)
                    store[(long)${a * lanes} * step + other] = d_${a}_${u};
% endif
% endfor
            }
% endfor
            barrier(CLK_LOCAL_MEM_FENCE);
            ${lib.spread("d", "weights", item, columns, tile, own)}
            barrier(CLK_LOCAL_MEM_FENCE);
            ${lib.gathered("k_sum", "weights", "q_tile", head, item, columns, tile, own)}
% if pieces:
            ${lib.crossed(
                "piece", "weights", "k_tile", head, item, lanes, columns, tile, own, "rows")}
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
