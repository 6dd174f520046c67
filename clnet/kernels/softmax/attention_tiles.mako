## kernel attention_tiles: attention.mako's forward kernel in tiles of local memory and registers
##
## A group owns rows of q. Keys and values come into local memory a part at a time, each while the
## items multiply the part before it: first some elements of all keys of a tile, then the values of
## some of them. Scores stay in registers but for their way to the items that add them up.
##
## math     as in attention.mako, exponentials to the base 2
## layout   rows of q, k, v and y are dense, and lie anywhere; lse is dense
## param    ctype: str                     element type
## param    head: int                      elements of a row of q and k
## param    value_head: int                elements of a row of v
## param    item: int                      own rows of an item, a multiple of 4
## param    lanes: int                     items below each other; a group owns item * lanes rows
## param    columns: int                   items beside each other, which share rows; a power of two
## param    tile: int                      others gone through at once, a multiple of 4 * columns
## param    chunk: int                     elements of the keys at once, a multiple of 4
## param    value_few: int                 values at once, a divisor of tile and multiple of 4
## param    unroll: 1|2                    fours of elements written out at once
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
## arg      hollow: ctype                  what rows for which no key counts give
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
## numerics the running maximum is subtracted; sums in the order of
##          the others, of exponentials by columns first
<%namespace name="lib" file="/lib/attend_tiles.mako"/>
<%namespace name="turned" file="/lib/attend_turned.mako"/>
<%def name="attention_tiles(
    ctype, head, value_head, item, lanes, columns, tile, chunk, value_few, unroll, wide, causal,
    mask, mask_ctype, dropped)">
<%
    group, own, each = lanes * columns, item * lanes, tile // columns
    padded, value_padded = -(-head // chunk) * chunk, (value_head + 3) // 4 * 4
    room = max(tile * chunk, value_few * (value_padded + 4))
    most = max(own * chunk, tile * chunk, value_few * value_padded)
    own_swirl, key_swirl = min(8, lanes & -lanes), min(8, columns & -columns)
    def keys_come(first, begin):
        return capture(turned.fetch,
            "k", "strides.s5", first, "keys", begin, tile, head, chunk, group, wide)
    def values_come(first):
        return capture(turned.fetch,
            "v", "strides.s8", first, "keys", "0", value_few, value_head, value_padded, group, wide)
    keys_stay = capture(turned.put_turned, "part + turn", tile, chunk, group, wide, key_swirl)
    values_stay = capture(turned.put, "part + turn", value_few, value_padded, group, wide)
%>
${lib.types(ctype)}
__attribute__((reqd_work_group_size(${group}, 1, 1)))
__kernel void attention_tiles(...)
{
    ## The largest scores lie where the weights will.
    __local four q_four[${own * padded // 4}], part_four[${2 * room // 4}];
    __local four weight_four[${max(tile * own, own * (columns + 4)) // 4}];
    __local element *q_tile = (__local element *)q_four, *part = (__local element *)part_four;
    __local element *weights = (__local element *)weight_four, *tops = weights;
% if dropped:
    __local uchar kept[${own * (tile + 4)}];
% endif
    ${lib.begin(item, lanes, columns, causal, mask, True)}
    y += y_offset + image * strides.s9 + h * strides.sa;
    ${turned.reads(most, group, wide)}
    ${turned.stage(
        "q_tile", "q", "strides.s2", "group_first", "rows", own, head, chunk, group, wide,
        own_swirl)}
    ${lib.sums("sum", value_head, item, columns)}
    element ${", ".join(f"top_{a} = -INFINITY, total_{a} = 0" for a in range(item))};
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
            keys_come("first", f"begin + {chunk}"), keys_stay, values_come("first"), values_stay,
            capture(turned.products,
                "s", "q_tile", "part + turn", chunk, item, lanes, columns, tile, own_swirl,
                key_swirl, unroll))}
        ${lib.exponents(item, lanes, columns, tile, "keys", True, causal, mask)}
% for a in range(item):
        {
            element m = s_${a}_0;
% for u in range(1, each):
            m = fmax(m, s_${a}_${u});
% endfor
            tops[${lib.mine(a, lanes)} * ${columns + 4} + across] = m;
        }
% endfor
        barrier(CLK_LOCAL_MEM_FENCE);
% for a in range(item):
        {
            element m = top_${a};
% for c in range(0, columns, 4):
            {
                const four each = *(__local const four *)(
                    tops + ${lib.mine(a, lanes)} * ${columns + 4} + ${c});
% for i in range(4):
                m = fmax(m, each.s${i});
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
        s_${a}_${u} =
            ${lib.dropped(f"s_{a}_{u}", a, u, lanes, columns, tile, True)};
% endfor
% endfor
% endif
        barrier(CLK_LOCAL_MEM_FENCE);
        ${turned.spread("s", "weights", item, lanes, columns, tile, own_swirl)}
        ${turned.streamed(
            tile, value_few, room,
            values_come(f"first + begin + {value_few}"), values_stay,
            keys_come(f"first + {tile}", "0"), keys_stay,
            capture(turned.gathered,
                "sum", "weights", "part + turn", value_few, value_head, item, lanes, columns,
                own_swirl))}
    }
    barrier(CLK_LOCAL_MEM_FENCE);
% for a in range(item):
    tops[${lib.mine(a, lanes)} * ${columns + 4} + across] = total_${a};
% endfor
    barrier(CLK_LOCAL_MEM_FENCE);
% for a in range(item):
    total_${a} = 0;
    for (int i = 0; i < ${columns}; i++)
        total_${a} += tops[${lib.mine(a, lanes)} * ${columns + 4} + i];
    const element share_${a} = total_${a} == 0 ? hollow : 1 / total_${a};
    if (across == 0 && group_first + ${lib.mine(a, lanes)} < rows)
        lse[group_first + ${lib.mine(a, lanes)}] =
            total_${a} == 0 ? hollow
% if mask == "keep":
            : top_${a} == LOG2E * fill ? fill
% endif
            : top_${a} * LN2 + log(total_${a});
% endfor
    ${lib.release(
        "y", "strides.sb", "sum", value_head, item, lanes, columns, "rows", "share_{}")}
}
</%def>
