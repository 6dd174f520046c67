## kernel attention_matrix: attention.mako's forward kernel on matrix units
##
## A group owns rows of q, 16 * tile.rows for every 32 items; keys and values come into a ring in
## local memory. Scores stay in registers, where those of a tile of keys, exponentiated and rounded,
## are the operand that multiplies the values.
##
## math     as in attention.mako, exponentials to the base 2
## layout   rows of q, k and v begin at whole runs of 16 bytes and are dense; y and lse are dense
## param    ctype: 'half'|'bfloat16'|'float'  element type; float is rounded to TF32
## param    unit: MatrixUnit           of the way "ptx", see device/matrix_units.py
## param    tile: AttendTile           shapes, see attention_matrix.py
## param    head: int                  elements of a row of q and k, a multiple of runs of 16 bytes
## param    value_head: int            elements of a row of v, a multiple of runs of 16 bytes
## param    causal: bool               a key counts for its own row and later ones only
## param    rows: int                  blocks of 16 own rows
## param    steps: int                 of 32 bytes of a row
## param    run: int                   elements of 16 bytes
## param    pitch, value_pitch: int    elements from row to row in local memory
## param    query: str                 name of the own rows' registers, of {s}, {i} and {r}
## arg      rows, keys, heads: int
## arg      sharing: int               heads of q that share one of k and v, one after another
## arg      strides: long16            of q, k, v: batch, head, row
## arg      scale: float               above 0
## arg      y: out ctype[batch, rows, value_head]
## arg      lse: out float[batch, rows]    logarithms of the sums of exponentials
## arg      q: in ctype[batch, rows, head]
## arg      k: in ctype[batch, keys, head]
## arg      v: in ctype[batch, keys, value_head]
## launch   (own rows in groups of tile.items, batch); causal (batch in groups, groups of own rows)
## numerics the running maximum is subtracted; exponentials are rounded to ctype for the product
##          alone; a row of no keys gives 0; sums in the order of keys, 16 at once
<%namespace name="lib" file="/lib/attend_matrix.mako"/>
<%namespace name="units" file="/lib/attend_products.mako"/>
<%def name="attention_matrix(ctype, unit, tile, head, value_head, causal)">
<%
    run = 4 if ctype == "float" else 8
    pitch, value_pitch = tile.pitch(head, run), tile.pitch(value_head, run)
    own, rows, columns = tile.own, tile.rows, tile.others // 8
    steps, value_columns = -(-head // (2 * run)), (value_head + 15) // 16 * 2
    k_size, v_size = tile.others * pitch, tile.others * value_pitch
    terms = tile.others // (2 * run)
    score, sum, weight = "s_{i}_{j}", "y_{i}_{j}", "p_{s}_{i}_{r}"
    query = "q_{s}_{i}_{r}" if tile.kept else ""
    places = tile.places
%>
${lib.functions(ctype, unit, tile)}
__attribute__((reqd_work_group_size(${tile.items}, 1, 1)))
__kernel void attention_matrix(...)
{
    __local element q_tile[${own * pitch}] __attribute__((aligned(16)));
    __local element k_tile[${tile.stages * k_size}] __attribute__((aligned(16)));
    __local element v_tile[${tile.stages * v_size}] __attribute__((aligned(16)));
    ${lib.exchange(unit, tile, max(columns, value_columns))}
    const int batch = ${"get_group_id(0)" if causal else "get_group_id(1)"};
    ${lib.begin(tile)}
% if causal:
    ## Those with the most keys begin first, of all heads, so that the last to end are short.
    const int row0 = (get_num_groups(1) - 1 - get_group_id(1)) * ${own};
    const int limit = min(keys, row0 + ${own});
% else:
    const int row0 = get_group_id(0) * ${own}, limit = keys;
% endif
    const int own_first = row0 + patch * ${16 * rows};
    ${lib.fetch(run, tile, "q_tile", "q_from", "strides.s2", "row0", "rows", own, head, pitch)}
    for (int slot = 0; slot < ${tile.stages - 1}; slot++) {
        const int first = slot * ${tile.others};
        ${fetched(run, tile, head, value_head, pitch, value_pitch)}
    }
    ${lib.cleared(sum, rows, value_columns)}
    float ${", ".join(f"top_{i}_{half} = -INFINITY, total_{i}_{half} = 0" for i, half in places)};
% if tile.kept:
    copies_wait();
    barrier(CLK_LOCAL_MEM_FENCE);
    ${own_rows(ctype, unit, run, rows, steps, pitch, query)}
% endif
    int slot = ${tile.stages - 1}, next = 0;
    for (int begin = 0; begin < limit; begin += ${tile.others}) {
        copies_wait();
        barrier(CLK_LOCAL_MEM_FENCE);
        {
            const int first = begin + ${(tile.stages - 1) * tile.others};
            ${fetched(run, tile, head, value_head, pitch, value_pitch)}
        }
        __local const element *const k_now = k_tile + next * ${k_size};
        __local const element *const v_now = v_tile + next * ${v_size};
% if causal and not unit.emulated:
        if (begin < own_first + ${16 * rows}) {
% else:
        {
% endif
        ${lib.cleared(score, rows, columns)}
        ${units.products(ctype, unit, score, rows, columns, steps, query, "q_tile", pitch,
            "k_now", pitch, "0", False)}
        if (begin + ${tile.others} > ${"min(keys, own_first + 1)" if causal else "keys"}) {
% for i, half in places:
            {
% if causal:
                const int past = min(keys, own_first + ${16 * i + 8 * half + 1} + lane / 4)
                    - begin - lane % 4 * 2;
% else:
                const int past = keys - begin - lane % 4 * 2;
% endif
% for j in range(columns):
% for c in range(2):
                if (${8 * j + c} >= past)
                    s_${i}_${j}[${2 * half + c}] = -INFINITY;
% endfor
% endfor
            }
% endfor
        }
        float ${", ".join(f"most_{i}_{half} = s_{i}_0[{2 * half}]" for i, half in places)};
% for j in range(columns):
% for i, half in places:
        most_${i}_${half} = fmax(most_${i}_${half},
            fmax(s_${i}_${j}[${2 * half}], s_${i}_${j}[${2 * half + 1}]));
% endfor
% endfor
        ${lib.together(unit, [f"most_{i}_{half}" for i, half in places], "fmax")}
% for i, half in places:
        {
            const float most = fmax(top_${i}_${half}, most_${i}_${half});
            const float base = most == -INFINITY ? 0 : most * factor;
            const float kept = two_to(top_${i}_${half} * factor - base);
            top_${i}_${half} = most;
            float added = 0;
% for j in range(columns):
% for c in range(2):
            s_${i}_${j}[${2 * half + c}]
                = two_to(s_${i}_${j}[${2 * half + c}] * factor - base);
            added += s_${i}_${j}[${2 * half + c}];
% endfor
% endfor
            total_${i}_${half} = total_${i}_${half} * kept + added;
% for j in range(value_columns):
            y_${i}_${j}[${2 * half}] *= kept;
            y_${i}_${j}[${2 * half + 1}] *= kept;
% endfor
        }
% endfor
        ${lib.operand(ctype, score, weight, rows, columns)}
        ${units.products(ctype, unit, sum, rows, value_columns, terms, weight, "", 0,
            "v_now", value_pitch, "0", True)}
        }
        slot = next;
        next = next + 1 == ${tile.stages} ? 0 : next + 1;
    }
    ${lib.together(unit, [f"total_{i}_{half}" for i, half in places], "+")}
    if (lane % 4 == 0) {
% for i, half in places:
        if (own_first + ${16 * i + 8 * half} + lane / 4 < rows)
            lse[own_first + ${16 * i + 8 * half} + lane / 4] = total_${i}_${half} == 0 ? 0
                : top_${i}_${half} * scale + log(total_${i}_${half});
% endfor
    }
    __global element *const to = (__global element *)y + y_offset
        + (long)batch * rows * ${value_head};
    ${lib.release(ctype, "to", sum, "row0", "rows", rows, value_head,
        "total_{i}_{h} == 0 ? 0 : 1 / total_{i}_{h}")}
}
</%def>
##
## Keys and values from number `first` on begin to come into `slot`.
<%def name="fetched(run, tile, head, value_head, pitch, value_pitch)">
    ${lib.fetch(run, tile, f"k_tile + slot * {tile.others * pitch}", "k_from", "strides.s5",
        "first", "keys", tile.others, head, pitch)}
    ${lib.fetch(run, tile, f"v_tile + slot * {tile.others * value_pitch}", "v_from", "strides.s8",
        "first", "keys", tile.others, value_head, value_pitch)}
    copies_end();
</%def>
##
## Own rows, in registers for good.
<%def name="own_rows(ctype, unit, run, rows, steps, pitch, query)">
<% lie = "(patch * %d + ({0} & 15)) * %d + ({0} >> 4) * %d" % (16 * rows, pitch, run) %>
% for s in range(steps):
% for i in range(rows):
    uint ${", ".join(query.format(s=s, i=i, r=r) for r in range(4))};
% if not unit.emulated:
    ${units.matrices(ctype, "(uint)(size_t)(q_tile + %s)" % lie.format("lane"),
        16 // run * (16 * i * pitch + 2 * run * s), False,
        [query.format(s=s, i=i, r=r) for r in range(4)])}
% else:
% for r in range(4):
    ${query.format(s=s, i=i, r=r)}
        = ${units.emulated(ctype, "q_tile", lie, 16 * i * pitch + 2 * run * s, r, False)};
% endfor
% endif
% endfor
% endfor
</%def>
