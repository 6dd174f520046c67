## kernel attention: y = softmax(scale q k^T + mask) v and its gradients, without storing scores
##
## layout   q (batch, rows, head), k (batch, keys, head), v (batch, keys, value_head), all dense; a
##          lane keeps one row of q (or of k and v) in registers and goes over the others in blocks
## math     p = exp(s - lse), ds = p (gy v - delta) scale, delta = sum(gy y);
##          gq = ds k, gk = ds^T q, gv = p^T gy
## param    ctype: str                     element type
## param    acc: str                       element type in registers
## param    lanes: int                     rows a work-item keeps, lanes of its vectors
## param    head: int                      elements of a row of q and k
## param    value_head: int                elements of a row of v
## param    tile: int                      others gone through at once, a multiple of 4
## param    shared: bool                   these are copied to local memory first
## param    group: int                     work-items of a group
## param    causal: bool                   a key counts for its own row and later ones only
## param    mask: None|'add'|'keep'        added to the scores, or tells which count
## param    mask_ctype: str                its element type
## def      attention, attention_grad_q, attention_grad_kv
## arg      rows, keys, heads: int
## arg      scale: acc
## def      attention
## arg      y: out ctype[batch, rows, value_head]
## arg      lse: out acc[batch, rows]      logarithms of the sums of exponentials
## def      attention_grad_q
## arg      gq: out ctype[batch, rows, head]
## def      attention_grad_kv
## arg      gk: out ctype[batch, keys, head]
## arg      gv: out ctype[batch, keys, value_head]
## def      attention_grad_q, attention_grad_kv
## arg      gy: in ctype[batch, rows, value_head]
## arg      lse: in acc[batch, rows]
## arg      delta: in acc[batch, rows]
## def      attention, attention_grad_q, attention_grad_kv
## arg      q: in ctype[batch, rows, head]
## arg      k: in ctype[batch, keys, head]
## arg      v: in ctype[batch, keys, value_head]
## % if mask:
## arg      mask_batch, mask_head, mask_row, mask_key: int   its strides
## arg      mask: in mask_ctype[batch, heads, rows, keys]
## % endif
## launch   (blocks of lanes rounded up to groups, batch), local (group, 1)
## numerics the running maximum is subtracted; a row for which no key counts gives 0; sums in the
##          order of keys
<%namespace name="lib" file="/lib/attend.mako"/>
<%def name="attention(
    ctype, acc, lanes, head, value_head, tile, shared, group, causal, mask, mask_ctype)">
${lib.vectors(acc, lanes)}
typedef ${ctype} element;
typedef ${acc} float_type;
__kernel void attention(...)
{
    ${lib.tiles("k", head, "v", value_head, acc, tile, shared)}
    ${lib.begin(lanes, group, "rows")}
% if mask:
    mask += mask_offset + (long)(batch / heads) * mask_batch + (long)(batch % heads) * mask_head;
% endif
    y += y_offset + (long)batch * rows * ${value_head};
    lse += lse_offset + (long)batch * rows;
    q += q_offset + (long)batch * rows * ${head};
    k += k_offset + (long)batch * keys * ${head};
    v += v_offset + (long)batch * keys * ${value_head};
    ${lib.keep("q_own", "q", head, acc, lanes)}
    vector sums[${value_head}];
    for (int e = 0; e < ${value_head}; e++)
        sums[e] = 0;
% if not shared:
    ## Stands for values behind the last key: another's would be infinite, which times 0 is NaN. An
    ## item's first row of y is free until the end, and the sums need no branch.
    __global element *zeros = y + (long)min(own, own_last) * ${value_head};
    if (keys % 4 && own <= own_last)
        for (int e = 0; e < ${value_head}; e++)
            zeros[e] = 0;
% endif
    vector top = -INFINITY, total = 0;
    const int limit = ${f"min(keys, group_first + {group * lanes})" if causal else "keys"};
    for (int first = 0; first < limit; first += ${tile}) {
        ${lib.fetch((("k", head), ("v", value_head)), "keys", tile, shared, group)}
        for (int j = first; j < min(first + ${tile}, limit); j += 4) {
            ${lib.other("k", head, "keys", shared)}
            ${lib.other("v", value_head, "keys", shared)}
% if not shared:
            if (j + 4 > keys && own <= own_last) {
% for u in range(1, 4):
                v_${u} = j + ${u} < keys ? v_${u} : zeros;
% endfor
            }
% endif
            ${lib.scores(acc, lanes, head, "keys", causal, mask, True)}
            vector higher = top;
% for u in range(4):
            higher = s_${u} > higher ? s_${u} : higher;
% endfor
            const vector base = higher == -INFINITY ? (vector)0 : higher;
            const vector kept = exp(top - base);
            top = higher;
% for u in range(4):
            const vector p_${u} = exp(s_${u} - base);
% endfor
            total = total * kept + ((p_0 + p_1) + (p_2 + p_3));
            for (int e = 0; e < ${value_head}; e++)
                sums[e] = sums[e] * kept
                    + ${lib.of_four("p", "v", acc)};
        }
    }
    const vector share = total == 0 ? (vector)0 : 1 / total;
    for (int e = 0; e < ${value_head}; e++)
        sums[e] *= share;
    const vector logs[1] = {total == 0 ? (vector)0 : top + log(total)};
    ${lib.release("y", "sums", value_head, acc, ctype, lanes)}
    ${lib.release("lse", "logs", 1, acc, acc, lanes)}
}
</%def>
<%def name="attention_grad_q(
    ctype, acc, lanes, head, value_head, tile, shared, group, causal, mask, mask_ctype)">
${lib.vectors(acc, lanes)}
typedef ${ctype} element;
typedef ${acc} float_type;
__kernel void attention_grad_q(...)
{
    ${lib.tiles("k", head, "v", value_head, acc, tile, shared)}
    ${lib.begin(lanes, group, "rows")}
% if mask:
    mask += mask_offset + (long)(batch / heads) * mask_batch + (long)(batch % heads) * mask_head;
% endif
    gq += gq_offset + (long)batch * rows * ${head};
    gy += gy_offset + (long)batch * rows * ${value_head};
    lse += lse_offset + (long)batch * rows;
    delta += delta_offset + (long)batch * rows;
    q += q_offset + (long)batch * rows * ${head};
    k += k_offset + (long)batch * keys * ${head};
    v += v_offset + (long)batch * keys * ${value_head};
    ${lib.keep("q_own", "q", head, acc, lanes)}
    ${lib.keep("gy_own", "gy", value_head, acc, lanes)}
    ${lib.keep("lse_own", "lse", 1, acc, lanes)}
    ${lib.keep("delta_own", "delta", 1, acc, lanes)}
    vector sums[${head}];
    for (int e = 0; e < ${head}; e++)
        sums[e] = 0;
    const int limit = ${f"min(keys, group_first + {group * lanes})" if causal else "keys"};
    for (int first = 0; first < limit; first += ${tile}) {
        ${lib.fetch((("k", head), ("v", value_head)), "keys", tile, shared, group)}
        for (int j = first; j < min(first + ${tile}, limit); j += 4) {
            ${lib.other("k", head, "keys", shared)}
            ${lib.other("v", value_head, "keys", shared)}
            ${lib.scores(acc, lanes, head, "keys", causal, mask, True)}
            ## Delta comes last: Intel's CPU runtime mixes up work-items in (-own + shared * shared)
            ## behind a barrier.
            vector d_0 = 0, d_1 = 0, d_2 = 0, d_3 = 0;
            for (int e = 0; e < ${value_head}; e++) {
                const vector x = gy_own[e];
% for u in range(4):
                d_${u} += x * (${acc})v_${u}[e];
% endfor
            }
% for u in range(4):
            d_${u} = (d_${u} - delta_own[0]) * (scale * exp(s_${u} - lse_own[0]));
% endfor
            for (int e = 0; e < ${head}; e++)
                sums[e] += ${lib.of_four("d", "k", acc)};
        }
    }
    ${lib.release("gq", "sums", head, acc, ctype, lanes)}
}
</%def>
<%def name="attention_grad_kv(
    ctype, acc, lanes, head, value_head, tile, shared, group, causal, mask, mask_ctype)">
${lib.vectors(acc, lanes)}
typedef ${ctype} element;
typedef ${acc} float_type;
__kernel void attention_grad_kv(...)
{
    ${lib.tiles("q", head, "gy", value_head, acc, tile, shared)}
    ${lib.begin(lanes, group, "keys")}
% if mask:
    mask += mask_offset + (long)(batch / heads) * mask_batch + (long)(batch % heads) * mask_head;
% endif
    gk += gk_offset + (long)batch * keys * ${head};
    gv += gv_offset + (long)batch * keys * ${value_head};
    gy += gy_offset + (long)batch * rows * ${value_head};
    lse += lse_offset + (long)batch * rows;
    delta += delta_offset + (long)batch * rows;
    q += q_offset + (long)batch * rows * ${head};
    k += k_offset + (long)batch * keys * ${head};
    v += v_offset + (long)batch * keys * ${value_head};
    ${lib.keep("k_own", "k", head, acc, lanes)}
    ${lib.keep("v_own", "v", value_head, acc, lanes)}
    vector k_sums[${head}], v_sums[${value_head}];
    for (int e = 0; e < ${head}; e++)
        k_sums[e] = 0;
    for (int e = 0; e < ${value_head}; e++)
        v_sums[e] = 0;
    int first = ${f"group_first / {tile} * {tile}" if causal else "0"};
    for (; first < rows; first += ${tile}) {
        ${lib.fetch((("q", head), ("gy", value_head)), "rows", tile, shared, group)}
        for (int j = first; j < min(first + ${tile}, rows); j += 4) {
            ${lib.other("q", head, "rows", shared)}
            ${lib.other("gy", value_head, "rows", shared)}
            ${lib.scores(acc, lanes, head, "rows", causal, mask, False)}
% for u in range(4):
            const vector p_${u} = exp(s_${u} - lse[min(j + ${u}, rows - 1)]);
            vector d_${u} = -delta[min(j + ${u}, rows - 1)];
% endfor
            for (int e = 0; e < ${value_head}; e++) {
                const vector x = v_own[e];
% for u in range(4):
                d_${u} += x * (${acc})gy_${u}[e];
% endfor
                v_sums[e] += ${lib.of_four("p", "gy", acc)};
            }
% for u in range(4):
            d_${u} *= scale * p_${u};
% endfor
            for (int e = 0; e < ${head}; e++)
                k_sums[e] += ${lib.of_four("d", "q", acc)};
        }
    }
    ${lib.release("gk", "k_sums", head, acc, ctype, lanes)}
    ${lib.release("gv", "v_sums", value_head, acc, ctype, lanes)}
}
</%def>
