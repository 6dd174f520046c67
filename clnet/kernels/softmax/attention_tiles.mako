## kernel attention_tiles: attention.mako's three kernels in tiles of local memory and registers
##
## A group owns rows of one operand; tiles of the others come into local memory, scores stay in
## registers but for their way to the items that add them up.
##
## math     as in attention.mako, exponentials to the base 2
## layout   rows of q, k, v and gy are dense, and lie anywhere; all others are dense
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
## param    slopes: bool                   gradients of the scores are stored, for a product with k
## param    block: int                     rows that the product takes at once; where causal, those
##                                         before a key in its block are stored, too, as 0
## def      attention_tiles, attention_tiles_grad_q, attention_tiles_grad_kv
## arg      rows, keys, heads: int
## arg      strides: long16                of q, k, v, gy: batch, head, row; of the mask: all
## arg      scale: ctype
## def      attention_tiles
## arg      y: out ctype[batch, rows, value_head]
## arg      lse: out ctype[batch, rows]    logarithms of the sums of exponentials
## def      attention_tiles_grad_q
## arg      gq: out ctype[batch, rows, head]
## def      attention_tiles_grad_kv
## arg      gk: out ctype[batch, keys, head]
## arg      gv: out ctype[batch, keys, value_head]
## % if slopes:
## arg      store: out ctype[batch, keys, step]    gradients of scores, divided by scale
## arg      step: int                      rows, rounded up
## % endif
## def      attention_tiles_grad_q, attention_tiles_grad_kv
## arg      gy: in ctype[batch, rows, value_head]
## arg      lse: in ctype[batch, rows]
## arg      delta: in ctype[batch, rows]
## def      attention_tiles, attention_tiles_grad_q, attention_tiles_grad_kv
## arg      q: in ctype[batch, rows, head]
## arg      k: in ctype[batch, keys, head]
## arg      v: in ctype[batch, keys, value_head]
## % if mask:
## arg      mask: in mask_ctype[batch, heads, rows, keys]
## % endif
## launch   (own rows in groups of lanes * columns items, batch)
## numerics the running maximum is subtracted; a row for which no key counts gives 0; sums in the
##          order of the others, of exponentials by columns first
<%namespace name="lib" file="/lib/attend_tiles.mako"/>
<%def name="attention_tiles(
    ctype, head, value_head, item, lanes, columns, tile, wide, causal, mask, mask_ctype)">
<%
    group, own, each = lanes * columns, item * lanes, tile // columns
    step, value_step = (head + 3) // 4 * 4 + 4, (value_head + 3) // 4 * 4 + 4
%>
${lib.types(ctype)}
__attribute__((reqd_work_group_size(${group}, 1, 1)))
__kernel void attention_tiles(...)
{
    ## The weights take the place of the keys, which are done with by then.
    __local four q_four[${own * step // 4}], k_four[${max(tile * step, tile * (own + 4)) // 4}];
    __local four v_four[${tile * value_step // 4}], top_four[${own * (columns + 4) // 4}];
    __local element *q_tile = (__local element *)q_four, *k_tile = (__local element *)k_four;
    __local element *v_tile = (__local element *)v_four, *tops = (__local element *)top_four;
    ${lib.begin(item, lanes, columns, mask)}
    y += y_offset + (long)batch * rows * ${value_head};
    ${lib.stage("q_tile", "q", "strides.s2", "group_first", "rows", own, head, group, wide)}
    ${lib.sums("sum", value_head, item, columns)}
    element ${", ".join(f"top_{a} = -INFINITY, total_{a} = 0" for a in range(item))};
    const int limit = ${f"min(keys, group_first + {own})" if causal else "keys"};
    for (int first = 0; first < limit; first += ${tile}) {
        barrier(CLK_LOCAL_MEM_FENCE);
        ${lib.stage("k_tile", "k", "strides.s5", "first", "keys", tile, head, group, wide)}
        ${lib.stage("v_tile", "v", "strides.s8", "first", "keys", tile, value_head, group, wide)}
        barrier(CLK_LOCAL_MEM_FENCE);
        ${lib.products("s", "q_tile", "k_tile", head, item, lanes, columns, tile)}
        ${lib.exponents(item, lanes, columns, tile, "keys", True, causal, mask)}
% for a in range(item):
        {
            element m = s_${a}_0;
% for u in range(1, each):
            m = s_${a}_${u} > m ? s_${a}_${u} : m;
% endfor
            tops[(down + ${a * lanes}) * ${columns + 4} + across] = m;
        }
% endfor
        barrier(CLK_LOCAL_MEM_FENCE);
% for a in range(item):
        {
            element m = top_${a};
% for c in range(0, columns, 4):
            {
                const four each = *(__local const four *)(
                    tops + (down + ${a * lanes}) * ${columns + 4} + ${c});
% for i in range(4):
                m = each.s${i} > m ? each.s${i} : m;
% endfor
            }
% endfor
            const element base = m == -INFINITY ? 0 : m, kept = exp2(top_${a} - base);
            top_${a} = m;
% for u in range(each):
            s_${a}_${u} = exp2(s_${a}_${u} - base);
% endfor
            total_${a} = total_${a} * kept + (${" + ".join(f"s_{a}_{u}" for u in range(each))});
% for k in range(-(-value_head // columns)):
            sum_${a}_${k} *= kept;
% endfor
        }
% endfor
        ${lib.spread("s", "k_tile", item, columns, tile, own)}
        barrier(CLK_LOCAL_MEM_FENCE);
        ${lib.gathered("sum", "k_tile", "v_tile", value_head, item, columns, tile, own)}
    }
    barrier(CLK_LOCAL_MEM_FENCE);
% for a in range(item):
    tops[(down + ${a * lanes}) * ${columns + 4} + across] = total_${a};
% endfor
    barrier(CLK_LOCAL_MEM_FENCE);
% for a in range(item):
    total_${a} = 0;
    for (int i = 0; i < ${columns}; i++)
        total_${a} += tops[(down + ${a * lanes}) * ${columns + 4} + i];
    const element share_${a} = total_${a} == 0 ? 0 : 1 / total_${a};
    if (across == 0 && own_first + ${a * lanes} < rows)
        lse[own_first + ${a * lanes}] = total_${a} == 0 ? 0 : top_${a} * LN2 + log(total_${a});
% endfor
    ${lib.release("y", "sum", value_head, item, lanes, columns, "rows", "share_{}")}
}
</%def>
<%def name="attention_tiles_grad_q(
    ctype, head, value_head, item, lanes, columns, tile, wide, causal, mask, mask_ctype)">
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
    ${lib.begin(item, lanes, columns, mask)}
    gq += gq_offset + (long)batch * rows * ${head};
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
    const int limit = ${f"min(keys, group_first + {own})" if causal else "keys"};
    for (int first = 0; first < limit; first += ${tile}) {
        barrier(CLK_LOCAL_MEM_FENCE);
        ${lib.stage("k_tile", "k", "strides.s5", "first", "keys", tile, head, group, wide)}
        ${lib.stage("v_tile", "v", "strides.s8", "first", "keys", tile, value_head, group, wide)}
        barrier(CLK_LOCAL_MEM_FENCE);
        ${lib.products("s", "q_tile", "k_tile", head, item, lanes, columns, tile)}
        ${lib.exponents(item, lanes, columns, tile, "keys", True, causal, mask)}
        ${lib.products("d", "gy_tile", "v_tile", value_head, item, lanes, columns, tile)}
% for a in range(item):
% for u in range(each):
        d_${a}_${u} = (d_${a}_${u} - delta_${a}) * exp2(s_${a}_${u} - base_${a});
% endfor
% endfor
        barrier(CLK_LOCAL_MEM_FENCE);
        ${lib.spread("d", "v_tile", item, columns, tile, own)}
        barrier(CLK_LOCAL_MEM_FENCE);
        ${lib.gathered("sum", "v_tile", "k_tile", head, item, columns, tile, own)}
    }
    ${lib.release("gq", "sum", head, item, lanes, columns, "rows", "scale")}
}
</%def>
<%def name="attention_tiles_grad_kv(
    ctype, head, value_head, item, lanes, columns, tile, wide, causal, mask, mask_ctype, slopes,
    block)">
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
    ${lib.begin(item, lanes, columns, mask)}
    gk += gk_offset + (long)batch * keys * ${head};
    gv += gv_offset + (long)batch * keys * ${value_head};
    gy += gy_offset + image * strides.s9 + h * strides.sa;
    delta += delta_offset + (long)batch * rows;
    ${lib.stage("k_tile", "k", "strides.s5", "group_first", "keys", own, head, group, wide)}
    ${lib.stage("v_tile", "v", "strides.s8", "group_first", "keys", own, value_head, group, wide)}
    ${lib.sums("k_sum", head, item, columns)}
    ${lib.sums("v_sum", value_head, item, columns)}
    int first = ${f"group_first / {tile} * {tile}" if causal else "0"};
% if slopes:
    ## Neighbouring items store neighbouring rows.
    store += store_offset + ((long)batch * keys + own_first) * step;
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
        ${lib.stage("gy_tile", "gy", "strides.sb", "first", "rows", tile, value_head, group, wide)}
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
        ${lib.spread("s", "weights", item, columns, tile, own)}
        ${lib.products("d", "v_tile", "gy_tile", value_head, item, lanes, columns, tile)}
        barrier(CLK_LOCAL_MEM_FENCE);
        ${lib.gathered("v_sum", "weights", "gy_tile", value_head, item, columns, tile, own)}
% for u in range(each):
        {
            const int other = first + across + ${u * columns};
            const element less = other < rows ? delta[other] : 0;
% for a in range(item):
            d_${a}_${u} = (d_${a}_${u} - less) * s_${a}_${u};
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
    }
    ${lib.release("gk", "k_sum", head, item, lanes, columns, "keys", "scale")}
    ${lib.release("gv", "v_sum", value_head, item, lanes, columns, "keys", "1")}
}
</%def>
