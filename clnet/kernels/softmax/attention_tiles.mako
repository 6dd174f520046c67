## kernel attention_tiles: attention.mako's forward kernel in tiles of local memory and registers
##
## A group owns rows of one operand; tiles of the others come into local memory, scores stay in
## registers but for their way to the items that add them up.
##
## math     as in attention.mako, exponentials to the base 2
## layout   rows of q, k, v and y are dense, and lie anywhere; lse is dense
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
## arg      rows, keys, heads: int
## arg      sharing: int                   heads of q that share one of k and v, one after another
## arg      strides: long16                of q, k, v, y: batch, head, row; of the mask: all
## arg      scale: ctype
## % if dropped:
## arg      seed: ulong                    the generator's key
## arg      offset: long                   the first counter
## arg      p: float                       probability that a weight is dropped
## arg      spread_by: ctype               factor of the others
## % endif
## arg      y: out ctype[batch, rows, value_head]
## arg      lse: out ctype[batch, rows]    logarithms of the sums of exponentials
## arg      q: in ctype[batch, rows, head]
## arg      k: in ctype[batch, keys, head]
## arg      v: in ctype[batch, keys, value_head]
## % if mask:
## arg      mask: in mask_ctype[batch, heads, rows, keys]
## % endif
## launch   (own rows in groups of lanes * columns items, batch); where causal, (batch in groups,
##          groups of own rows)
## numerics the running maximum is subtracted; a row for which no key counts gives 0; sums in the
##          order of the others, of exponentials by columns first
<%namespace name="lib" file="/lib/attend_tiles.mako"/>
<%def name="attention_tiles(
    ctype, head, value_head, item, lanes, columns, tile, wide, causal, mask, mask_ctype, dropped)">
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
% if dropped:
    __local uchar kept[${own * (tile + 4)}];
% endif
    ${lib.begin(item, lanes, columns, causal, mask, True)}
    y += y_offset + image * strides.s9 + h * strides.sa;
    ${lib.stage("q_tile", "q", "strides.s2", "group_first", "rows", own, head, group, wide)}
    ${lib.sums("sum", value_head, item, columns)}
    element ${", ".join(f"top_{a} = -INFINITY, total_{a} = 0" for a in range(item))};
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
% if dropped:
% for a in range(item):
% for u in range(each):
        s_${a}_${u} = ${lib.dropped(f"s_{a}_{u}", a, u, lanes, columns, tile, True)};
% endfor
% endfor
% endif
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
    ${lib.release("y", "strides.sb", "sum", value_head, item, lanes, columns, "rows", "share_{}")}
}
</%def>
