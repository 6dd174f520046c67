## kernel attention: y = softmax(scale q k^T + mask) v and its gradients, without storing scores
##
## layout   q (batch, rows, head), k (batch, keys, head), v (batch, keys, value_head), all dense; a
##          lane keeps one row of q (or of k and v) in registers and goes over the others in blocks;
##          attention_grad goes over a head's keys like that, and adds up gq in memory
## math     p = exp(s - lse), ds = p (gy v - delta) scale, delta = sum(gy y);
##          gq = ds k, gk = ds^T q, gv = p^T gy
## param    ctype: str                     element type
## param    acc: str                       element type in registers
## param    lanes: int                     rows a work-item keeps, lanes of its vectors
## param    head: int                      elements of a row of q and k
## param    value_head: int                elements of a row of v
## param    tile: int                      others gone through at once, a multiple of at_once
## param    at_once: int                   others whose scores are computed together
## param    across: int                    vectors of a row of gq whose sums are added at once
## param    shared: bool                   these are copied to local memory first
## param    group: int                     work-items of a group
## param    causal: bool                   a key counts for its own row and later ones only
## param    mask: None|'add'|'keep'        added to the scores, or tells which count
## param    mask_ctype: str                its element type
## param    dropped: bool                  weights are dropped, as Philox numbers say
## def      attention, attention_grad, attention_grad_q, attention_grad_kv
## arg      rows, keys, heads: int
## arg      scale: acc
## def      attention
## arg      y: out ctype[batch, rows, value_head]
## arg      lse: out acc[batch, rows]      logarithms of the sums of exponentials
## arg      hollow: acc                    what rows for which no key counts give
## def      attention_grad_q
## arg      gq: out ctype[batch, rows, head]
## def      attention_grad
## arg      gq: inout ctype[batch, rows, head]
## def      attention_grad, attention_grad_kv
## arg      gk: out ctype[batch, keys, head]
## arg      gv: out ctype[batch, keys, value_head]
## def      attention_grad, attention_grad_q, attention_grad_kv
## arg      gy: in ctype[batch, rows, value_head]
## arg      lse: in acc[batch, rows]
## arg      delta: in acc[batch, rows]
## def      attention, attention_grad, attention_grad_q, attention_grad_kv
## arg      q: in ctype[batch, rows, head]
## arg      k: in ctype[batch, keys, head]
## arg      v: in ctype[batch, keys, value_head]
## % if mask:
## arg      mask_batch, mask_head, mask_row, mask_key: int   its strides
## arg      mask: in mask_ctype[batch, heads, rows, keys]
## % endif
## % if mask == "keep":
## arg      fill: acc                      score of what does not count
## % endif
## % if dropped:
## arg      seed: ulong                    the generator's key
## arg      offset: long                   the first counter
## arg      p: float                       probability that a weight is dropped
## arg      spread_by: acc                 factor of the others
## % endif
## launch   (blocks of lanes rounded up to groups, batch), local (group, 1); attention_grad (batch),
##          local (1)
## numerics the running maximum is subtracted; sums in the order of keys; where all keys' scores are
##          fill, lse is, too (their logarithm would be lost), and each has the same weight
<%namespace name="lib" file="/lib/attend.mako"/>
<%namespace name="drops" file="/lib/attend_dropped.mako"/>
<%namespace name="queries" file="/lib/attend_queries.mako"/>
<%def name="attention(
    ctype, acc, lanes, head, value_head, tile, at_once, shared, group, causal, mask, mask_ctype,
    dropped)">
${lib.vectors(acc, lanes, mask, mask_ctype, dropped)}
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
% if dropped:
    ${drops.rows_begin(lanes)}
% endif
<% weight = "w" if dropped else "p" %>
    vector sums[${value_head}];
    for (int e = 0; e < ${value_head}; e++)
        sums[e] = 0;
% if not shared:
    ${lib.nothing("y", value_head, "keys", at_once)}
% endif
    vector top = -INFINITY, total = 0;
    const int limit = ${f"least(keys, group_first + {group * lanes})" if causal else "keys"};
    for (int first = 0; first < limit; first += ${tile}) {
        ${lib.fetch((("k", head), ("v", value_head)), "keys", tile, shared, group)}
        for (int j = first; j < least(first + ${tile}, limit); j += ${at_once}) {
            ${lib.other("k", head, "keys", shared, at_once)}
            ${lib.other("v", value_head, "keys", shared, at_once)}
% if not shared:
            ${lib.none_behind("v", "keys", at_once)}
% endif
            ${lib.scores(acc, lanes, head, at_once, "keys", causal, mask, True)}
            vector higher = top;
% for u in range(at_once):
            higher = s_${u} > higher ? s_${u} : higher;
% endfor
            const vector base = higher == -INFINITY ? (vector)0 : higher;
            const vector kept = decay(top - base);
            top = higher;
% for u in range(at_once):
            const vector p_${u} = decay(s_${u} - base);
% endfor
            total = total * kept + (${" + ".join(f"p_{u}" for u in range(at_once))});
% if dropped:
            ${drops.of_rows(acc, lanes, at_once)}
% for u in range(at_once):
            const vector w_${u} = p_${u} * kept_${u};
% endfor
% endif
            ${lib.add_weighted("sums", value_head, weight, "v", acc, at_once, "kept")}
        }
    }
    const vector share = total == 0 ? (vector)hollow : 1 / total;
    for (int e = 0; e < ${value_head}; e++)
        sums[e] *= share;
    vector logs[1] = {total == 0 ? (vector)hollow : top + log(total)};
% if mask == "keep":
    logs[0] = total != 0 && top == fill ? top : logs[0];
% endif
    ${lib.release("y", "sums", value_head, acc, ctype, lanes)}
    ${lib.release("lse", "logs", 1, acc, acc, lanes)}
}
</%def>
<%def name="attention_grad_q(
    ctype, acc, lanes, head, value_head, tile, at_once, shared, group, causal, mask, mask_ctype,
    dropped)">
${lib.vectors(acc, lanes, mask, mask_ctype, dropped)}
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
% if dropped:
    ${drops.rows_begin(lanes)}
% endif
    ${lib.keep("gy_own", "gy", value_head, acc, lanes)}
    ${lib.keep("lse_own", "lse", 1, acc, lanes)}
    ${lib.keep("delta_own", "delta", 1, acc, lanes)}
    vector sums[${head}];
    for (int e = 0; e < ${head}; e++)
        sums[e] = 0;
    const int limit = ${f"least(keys, group_first + {group * lanes})" if causal else "keys"};
    for (int first = 0; first < limit; first += ${tile}) {
        ${lib.fetch((("k", head), ("v", value_head)), "keys", tile, shared, group)}
        for (int j = first; j < least(first + ${tile}, limit); j += ${at_once}) {
            ${lib.other("k", head, "keys", shared, at_once)}
            ${lib.other("v", value_head, "keys", shared, at_once)}
            ${lib.scores(acc, lanes, head, at_once, "keys", causal, mask, True)}
            ## Delta comes last: Intel's CPU runtime mixes up work-items in (-own + shared * shared)
            ## behind a barrier.
            vector ${", ".join(f"d_{u} = 0" for u in range(at_once))};
            for (int e = 0; e < ${value_head}; e++) {
                const vector x = gy_own[e];
% for u in range(at_once):
                d_${u} += x * (${acc})v_${u}[e];
% endfor
            }
% if dropped:
            ${drops.of_rows(acc, lanes, at_once)}
% for u in range(at_once):
            d_${u} *= kept_${u};
% endfor
% endif
% for u in range(at_once):
            d_${u} = (d_${u} - delta_own[0]) * (scale * decay(s_${u} - lse_own[0]));
% endfor
            ${lib.still(at_once, mask)}
            ${lib.add_weighted("sums", head, "d", "k", acc, at_once)}
        }
    }
    ${lib.release("gq", "sums", head, acc, ctype, lanes)}
}
</%def>
<%def name="attention_grad_kv(
    ctype, acc, lanes, head, value_head, tile, at_once, shared, group, causal, mask, mask_ctype,
    dropped)">
${lib.vectors(acc, lanes, mask, mask_ctype, dropped)}
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
% if dropped:
    ${drops.keys_begin(acc, lanes, at_once)}
% endif
    vector k_sums[${head}], v_sums[${value_head}];
    for (int e = 0; e < ${head}; e++)
        k_sums[e] = 0;
    for (int e = 0; e < ${value_head}; e++)
        v_sums[e] = 0;
% if not shared:
    ${lib.nothing("gv", value_head, "rows", at_once)}
% endif
    int first = ${f"group_first / {tile} * {tile}" if causal else "0"};
    for (; first < rows; first += ${tile}) {
        ${lib.fetch((("q", head), ("gy", value_head)), "rows", tile, shared, group)}
        for (int j = first; j < least(first + ${tile}, rows); j += ${at_once}) {
            ${lib.other("q", head, "rows", shared, at_once)}
            ${lib.other("gy", value_head, "rows", shared, at_once)}
% if not shared:
            ${lib.none_behind("gy", "rows", at_once)}
% endif
            ${lib.scores(acc, lanes, head, at_once, "rows", causal, mask, False)}
            ${lib.slopes_of_keys(acc, lanes, value_head, at_once, mask, dropped)}
            ${lib.add_weighted("k_sums", head, "d", "q", acc, at_once)}
        }
    }
    ${lib.release("gk", "k_sums", head, acc, ctype, lanes)}
    ${lib.release("gv", "v_sums", value_head, acc, ctype, lanes)}
}
</%def>
<%def name="attention_grad(
    ctype, acc, lanes, head, value_head, at_once, across, causal, mask, mask_ctype, dropped)">
${lib.vectors(acc, lanes, mask, mask_ctype, dropped)}
typedef ${ctype} element;
typedef ${acc} float_type;
__kernel void attention_grad(...)
{
    const int batch = get_global_id(0);
    const int own_last = keys - 1;
% if mask:
    mask += mask_offset + (long)(batch / heads) * mask_batch + (long)(batch % heads) * mask_head;
% endif
    gq += gq_offset + (long)batch * rows * ${head};
    gk += gk_offset + (long)batch * keys * ${head};
    gv += gv_offset + (long)batch * keys * ${value_head};
    gy += gy_offset + (long)batch * rows * ${value_head};
    lse += lse_offset + (long)batch * rows;
    delta += delta_offset + (long)batch * rows;
    q += q_offset + (long)batch * rows * ${head};
    k += k_offset + (long)batch * keys * ${head};
    v += v_offset + (long)batch * keys * ${value_head};
% if dropped:
    ${drops.keys_begin(acc, lanes, at_once)}
% endif
    for (int own = 0; own < keys; own += ${lanes}) {
        ${lib.keep("k_own", "k", head, acc, lanes)}
        ${lib.keep("v_own", "v", value_head, acc, lanes)}
        vector k_sums[${head}], v_sums[${value_head}];
        for (int e = 0; e < ${head}; e++)
            k_sums[e] = 0;
        for (int e = 0; e < ${value_head}; e++)
            v_sums[e] = 0;
        ${lib.nothing("gv", value_head, "rows", at_once)}
        int j = ${f"own / {at_once} * {at_once}" if causal else "0"};
        for (; j < rows; j += ${at_once}) {
            ${lib.other("q", head, "rows", False, at_once)}
            ${lib.other("gy", value_head, "rows", False, at_once)}
            ${lib.none_behind("gy", "rows", at_once)}
            ${lib.scores(acc, lanes, head, at_once, "rows", causal, mask, False)}
            ${lib.slopes_of_keys(acc, lanes, value_head, at_once, mask, dropped)}
            ${lib.add_weighted("k_sums", head, "d", "q", acc, at_once)}
            ${queries.add_to_queries(acc, lanes, head, at_once, across)}
        }
        ${lib.release("gk", "k_sums", head, acc, ctype, lanes)}
        ${lib.release("gv", "v_sums", value_head, acc, ctype, lanes)}
    }
}
</%def>
