## kernel attention_matrix_grad: attention.mako's gradients on matrix units
##
## A group owns rows of one operand, 16 * tile.rows for every 32 items; the others come into a ring
## in local memory. Scores are computed again; they and their gradients stay in registers, where,
## rounded, they are the operand that multiplies the others. Where the keys are a group's own,
## scores lie transposed.
##
## math     as in attention.mako, exponentials to the base 2
## layout   rows of q, k, v and gy begin at whole runs of 16 bytes and are dense; all others are
##          dense, those of k and v with as many heads as these have
## param    ctype: 'half'|'bfloat16'|'float'  element type; float is rounded to TF32
## param    unit: MatrixUnit           of the way "ptx", see device/matrix_units.py
## param    tile: AttendTile           shapes, see attention_matrix.py
## param    head: int                  elements of a row of q and k, a multiple of runs of 16 bytes
## param    value_head: int            elements of a row of v, a multiple of runs of 16 bytes
## param    causal: bool               a key counts for its own row and later ones only
## def      attention_matrix_grad_q, attention_matrix_grad_kv
## arg      rows, keys, heads: int
## arg      sharing: int               heads of q that share one of k and v, one after another
## arg      strides: long16            of q, k, v, gy: batch, head, row
## arg      scale: float               above 0
## def      attention_matrix_grad_q
## arg      gq: out ctype[batch, rows, head]
## def      attention_matrix_grad_kv
## arg      gk: out ctype[batch, keys, head]
## arg      gv: out ctype[batch, keys, value_head]
## def      attention_matrix_grad_q, attention_matrix_grad_kv
## arg      gy: in ctype[batch, rows, value_head]
## arg      lse: in float[batch, rows]
## arg      delta: in float[batch, rows]
## arg      q: in ctype[batch, rows, head]
## arg      k: in ctype[batch, keys, head]
## arg      v: in ctype[batch, keys, value_head]
## launch   (own rows in groups of tile.items, batch); causal (batch in groups, groups of own rows)
## numerics exponentials and the scores' gradients are rounded to ctype for the products alone; sums
##          in the order of the others, 16 at once
<%namespace name="lib" file="/lib/attend_matrix.mako"/>
<%namespace name="units" file="/lib/attend_products.mako"/>
<%def name="attention_matrix_grad_q(ctype, unit, tile, head, value_head, causal)">
<%
    run = 4 if ctype == "float" else 8
    pitch, value_pitch = tile.pitch(head, run), tile.pitch(value_head, run)
    own, rows, columns = tile.own, tile.rows, tile.chunk // 8
    steps, value_steps = -(-head // (2 * run)), -(-value_head // (2 * run))
    blocks, value_blocks = (head + 15) // 16 * 2, (value_head + 15) // 16 * 2
    terms = tile.chunk // (2 * run)
    places = tile.places
%>
${lib.functions(ctype, unit, tile)}
__attribute__((reqd_work_group_size(${tile.items}, 1, 1)))
__kernel void attention_matrix_grad_q(...)
{
    __local element q_tile[${own * pitch}] __attribute__((aligned(16)));
    __local element gy_tile[${own * value_pitch}] __attribute__((aligned(16)));
    __local element k_tile[${tile.stages * tile.others * pitch}] __attribute__((aligned(16)));
    __local element v_tile[${tile.stages * tile.others * value_pitch}] __attribute__((aligned(16)));
    ${lib.exchange(unit, tile, max(columns, blocks))}
    const int batch = ${"get_group_id(0)" if causal else "get_group_id(1)"};
    ${lib.begin(tile)}
    __global const element *const gy_from = (__global const element *)gy + gy_offset
        + image * strides.s9 + h * strides.sa;
    delta += delta_offset + (long)batch * rows;
% if causal:
    ## Those with the most keys begin first, of all heads, so that the last to end are short.
    const int row0 = (get_num_groups(1) - 1 - get_group_id(1)) * ${own};
    const int limit = min(keys, row0 + ${own});
% else:
    const int row0 = get_group_id(0) * ${own}, limit = keys;
% endif
    const int own_first = row0 + patch * ${16 * rows};
    ${lib.fetch(run, tile, "q_tile", "q_from", "strides.s2", "row0", "rows", own, head, pitch)}
    ${lib.fetch(run, tile, "gy_tile", "gy_from", "strides.sb", "row0", "rows", own, value_head,
        value_pitch)}
    for (int slot = 0; slot < ${tile.stages - 1}; slot++) {
        const int first = slot * ${tile.others};
        ${fetched_keys(ctype, tile, head, value_head)}
    }
    ${lib.cleared("g_{i}_{j}", rows, blocks)}
% for i, half in places:
    const int self_${i}_${half} = own_first + ${16 * i + 8 * half} + lane / 4;
    const float base_${i}_${half} = self_${i}_${half} < rows ? lse[self_${i}_${half}] * LOG2E : 0;
    const float delta_${i}_${half} = self_${i}_${half} < rows ? delta[self_${i}_${half}] : 0;
% endfor
    int slot = ${tile.stages - 1}, next = 0;
    for (int begin = 0; begin < limit; begin += ${tile.others}) {
        copies_wait();
        barrier(CLK_LOCAL_MEM_FENCE);
        {
            const int first = begin + ${(tile.stages - 1) * tile.others};
            ${fetched_keys(ctype, tile, head, value_head)}
        }
        __local const element *const k_now = k_tile + next * ${tile.others * pitch};
        __local const element *const v_now = v_tile + next * ${tile.others * value_pitch};
        #pragma unroll 1
        for (int part = 0; part < ${tile.others}; part += ${tile.chunk}) {
% if causal and not unit.emulated:
            if (begin + part >= own_first + ${16 * rows})
                break;
% endif
            ${lib.cleared("s_{i}_{j}", rows, columns)}
            ${units.products(ctype, unit, "s_{i}_{j}", rows, columns, steps, "", "q_tile", pitch,
                "k_now", pitch, "part", False)}
            ${lib.cleared("d_{i}_{j}", rows, columns)}
            ${units.products(ctype, unit, "d_{i}_{j}", rows, columns, value_steps, "", "gy_tile",
                value_pitch, "v_now", value_pitch, "part", False)}
            if (begin + part + ${tile.chunk} > ${
                "min(keys, own_first + 1)" if causal else "keys"}) {
% for i, half in places:
                {
                    const int past = ${f"min(keys, self_{i}_{half} + 1)" if causal else "keys"}
                        - begin - part - lane % 4 * 2;
% for j in range(columns):
% for c in range(2):
                    if (${8 * j + c} >= past)
                        s_${i}_${j}[${2 * half + c}] = -INFINITY;
% endfor
% endfor
                }
% endfor
            }
% for i, half in places:
% for j in range(columns):
% for r in (2 * half, 2 * half + 1):
            d_${i}_${j}[${r}] = (d_${i}_${j}[${r}] - delta_${i}_${half})
                * two_to(s_${i}_${j}[${r}] * factor - base_${i}_${half});
% endfor
% endfor
% endfor
            ${lib.operand(ctype, "d_{i}_{j}", "w_{s}_{i}_{r}", rows, columns)}
            ${units.products(ctype, unit, "g_{i}_{j}", rows, blocks, terms, "w_{s}_{i}_{r}", "", 0,
                "k_now", pitch, "part", True)}
        }
        slot = next;
        next = next + 1 == ${tile.stages} ? 0 : next + 1;
    }
    __global element *const to = (__global element *)gq + gq_offset + (long)batch * rows * ${head};
    ${lib.release(ctype, "to", "g_{i}_{j}", "row0", "rows", rows, head, "scale")}
}
</%def>
<%def name="attention_matrix_grad_kv(ctype, unit, tile, head, value_head, causal)">
<%
    run = 4 if ctype == "float" else 8
    pitch, value_pitch = tile.pitch(head, run), tile.pitch(value_head, run)
    own, rows, columns = tile.own, tile.rows, tile.chunk // 8
    steps, value_steps = -(-head // (2 * run)), -(-value_head // (2 * run))
    blocks, value_blocks = (head + 15) // 16 * 2, (value_head + 15) // 16 * 2
    terms = tile.chunk // (2 * run)
    places = tile.places
%>
${lib.functions(ctype, unit, tile)}
__attribute__((reqd_work_group_size(${tile.items}, 1, 1)))
__kernel void attention_matrix_grad_kv(...)
{
    __local element k_tile[${own * pitch}] __attribute__((aligned(16)));
    __local element v_tile[${own * value_pitch}] __attribute__((aligned(16)));
    __local element q_tile[${tile.stages * tile.others * pitch}] __attribute__((aligned(16)));
    __local element gy_tile[${tile.stages * tile.others * value_pitch}]
        __attribute__((aligned(16)));
    __local float lse_tile[${tile.stages * tile.others}] __attribute__((aligned(16)));
    __local float delta_tile[${tile.stages * tile.others}] __attribute__((aligned(16)));
    ${lib.exchange(unit, tile, max(columns, blocks, value_blocks))}
    ## One after the other the heads of q that share these keys.
    const int batch = ${"get_group_id(0)" if causal else "get_group_id(1)"} * sharing;
    ${lib.begin(tile)}
    __global const element *gy_from = (__global const element *)gy + gy_offset + image * strides.s9
        + h * strides.sa;
    delta += delta_offset + (long)batch * rows;
    const int key0 = ${"get_group_id(1)" if causal else "get_group_id(0)"} * ${own};
    const int own_first = key0 + patch * ${16 * rows};
    const int start = ${f"key0 / {tile.others} * {tile.others}" if causal else "0"};
    ${lib.fetch(run, tile, "k_tile", "k_from", "strides.s5", "key0", "keys", own, head, pitch)}
    ${lib.fetch(run, tile, "v_tile", "v_from", "strides.s8", "key0", "keys", own, value_head,
        value_pitch)}
    int first = start, turn = 0;
    for (int slot = 0; slot < ${tile.stages - 1}; slot++) {
        ${fetched_rows(ctype, tile, head, value_head)}
    }
    ${lib.cleared("gk_{i}_{j}", rows, blocks)}
    ${lib.cleared("gv_{i}_{j}", rows, value_blocks)}
    int slot = ${tile.stages - 1}, next = 0;
    for (int count = sharing, begin = start; begin < rows && count > 0;) {
        copies_wait();
        barrier(CLK_LOCAL_MEM_FENCE);
        ${fetched_rows(ctype, tile, head, value_head)}
        __local const element *const q_now = q_tile + next * ${tile.others * pitch};
        __local const element *const gy_now = gy_tile + next * ${tile.others * value_pitch};
        #pragma unroll 1
        for (int part = 0; part < ${tile.others}; part += ${tile.chunk}) {
% if causal and not unit.emulated:
            if (begin + part + ${tile.chunk} <= own_first)
                continue;
% endif
            const int known = next * ${tile.others} + part + lane % 4 * 2;
            __local const float *const base = lse_tile + known, *const less = delta_tile + known;
            ${lib.cleared("s_{i}_{j}", rows, columns)}
            ${units.products(ctype, unit, "s_{i}_{j}", rows, columns, steps, "", "k_tile", pitch,
                "q_now", pitch, "part", False)}
% for j in range(columns):
            {
                const float2 low = *(__local const float2 *)(base + ${8 * j}) * LOG2E;
% for i in range(rows):
% for r in range(4):
                s_${i}_${j}[${r}] = two_to(s_${i}_${j}[${r}] * factor - low.s${r % 2});
% endfor
% endfor
            }
% endfor
% if causal:
            if (begin + part < own_first + ${16 * rows}) {
% for i, half in places:
                {
                    const int from = own_first + ${16 * i + 8 * half} + lane / 4 - begin - part
                        - lane % 4 * 2;
% for j in range(columns):
% for c in range(2):
                    if (${8 * j + c} < from)
                        s_${i}_${j}[${2 * half + c}] = 0;
% endfor
% endfor
                }
% endfor
            }
% endif
            ${lib.operand(ctype, "s_{i}_{j}", "w_{s}_{i}_{r}", rows, columns)}
            ${units.products(ctype, unit, "gv_{i}_{j}", rows, value_blocks, terms,
                "w_{s}_{i}_{r}", "", 0, "gy_now", value_pitch, "part", True)}
            ${lib.cleared("d_{i}_{j}", rows, columns)}
            ${units.products(ctype, unit, "d_{i}_{j}", rows, columns, value_steps, "", "v_tile",
                value_pitch, "gy_now", value_pitch, "part", False)}
% for j in range(columns):
            {
                const float2 low = *(__local const float2 *)(less + ${8 * j});
% for i in range(rows):
% for r in range(4):
                d_${i}_${j}[${r}] = (d_${i}_${j}[${r}] - low.s${r % 2}) * s_${i}_${j}[${r}];
% endfor
% endfor
            }
% endfor
            ${lib.operand(ctype, "d_{i}_{j}", "x_{s}_{i}_{r}", rows, columns)}
            ${units.products(ctype, unit, "gk_{i}_{j}", rows, blocks, terms, "x_{s}_{i}_{r}", "",
                0, "q_now", pitch, "part", True)}
        }
        slot = next;
        next = next + 1 == ${tile.stages} ? 0 : next + 1;
        begin += ${tile.others};
        if (begin >= rows) {
            begin = start;
            count--;
        }
    }
    const long place = ${"get_group_id(0)" if causal else "get_group_id(1)"} * (long)keys;
    __global element *const to_k = (__global element *)gk + gk_offset + place * ${head};
    __global element *const to_v = (__global element *)gv + gv_offset + place * ${value_head};
    ${lib.release(ctype, "to_k", "gk_{i}_{j}", "key0", "keys", rows, head, "scale")}
    ${lib.release(ctype, "to_v", "gv_{i}_{j}", "key0", "keys", rows, value_head, "1")}
}
</%def>
##
## Keys and values from number `first` on begin to come into `slot`.
<%def name="fetched_keys(ctype, tile, head, value_head)">
<%
    run = 4 if ctype == "float" else 8
    pitch, value_pitch = tile.pitch(head, run), tile.pitch(value_head, run)
%>
    ${lib.fetch(run, tile, f"k_tile + slot * {tile.others * pitch}", "k_from", "strides.s5",
        "first", "keys", tile.others, head, pitch)}
    ${lib.fetch(run, tile, f"v_tile + slot * {tile.others * value_pitch}", "v_from", "strides.s8",
        "first", "keys", tile.others, value_head, value_pitch)}
    copies_end();
</%def>
##
## Rows of q and gy from number `first` on begin to come into `slot`, with what is known of them;
## behind the last those of the next head.
<%def name="fetched_rows(ctype, tile, head, value_head)">
<%
    run = 4 if ctype == "float" else 8
    pitch, value_pitch = tile.pitch(head, run), tile.pitch(value_head, run)
%>
    if (turn < sharing) {
        ${lib.fetch(run, tile, f"q_tile + slot * {tile.others * pitch}", "q_from", "strides.s2",
            "first", "rows", tile.others, head, pitch)}
        ${lib.fetch(run, tile, f"gy_tile + slot * {tile.others * value_pitch}", "gy_from",
            "strides.sb", "first", "rows", tile.others, value_head, value_pitch)}
        for (int i = self; i < ${tile.others}; i += ${tile.items}) {
            copy_word(lse_tile + slot * ${tile.others} + i, lse + first + i, first + i < rows);
            copy_word(delta_tile + slot * ${tile.others} + i, delta + first + i, first + i < rows);
        }
        first += ${tile.others};
        if (first >= rows) {
            first = start;
            turn++;
            q_from += strides.s1;
            gy_from += strides.sa;
            lse += rows;
            delta += rows;
        }
    }
    copies_end();
</%def>
