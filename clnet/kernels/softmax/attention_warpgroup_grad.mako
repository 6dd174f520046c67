## kernel attention_warpgroup_grad: attention.mako's gradients, 128 items at once
##
## Groups take tiles of rows of one operand in turn. Of a group, one item copies boxes into local
## memory; every other 128 items, a team, own 64 rows. Scores are computed again; they and their
## gradients stay in registers, where, rounded, they are the operand that multiplies the others.
## Where the keys are a group's own, scores lie transposed. See lib/warpgroup.mako.
##
## math     as in attention.mako, exponentials to the base 2
## layout   rows of q, k, v and gy begin at whole runs of 16 bytes and are dense; all others are
##          dense, those of k and v with as many heads as these have
## param    ctype: 'half'|'bfloat16'   element type
## param    unit: WarpgroupUnit        see device/warpgroups.py
## param    matrix: MatrixUnit         what lib/attend_matrix.mako asks for
## param    tile: AttendTeams          shapes, see attention_warpgroup.py
## param    head: int                  elements of a row, a multiple of 8
## param    causal: bool               a key counts for its own row and later ones only
## param    emulated: bool             plain C copies and multiplies, all items in step
## param    form: int                  word of the tensor maps, see device/warpgroups.py
## param    name, source, factor: str  an output, or an operand's registers, its sums, and a factor
## param    limit: str                 C expression, its rows
## param    j: int                     eight of the rows that pass by
## def      attention_warpgroup_grad_q, attention_warpgroup_grad_kv
## arg      rows, keys, heads, images: int
## arg      sharing: int               heads of q that share one of k and v, one after another
## arg      strides: long16            of q, k, v, gy: batch, head, row
## arg      scale: float               above 0
## arg      maps: inout uint[groups][128], may alias  memory for the tensor maps, at multiples of
##                                     128 bytes
## def      attention_warpgroup_grad_q
## arg      gq: out ctype[batch, rows, head], may alias
## def      attention_warpgroup_grad_kv
## arg      gk: out ctype[batch, keys, head], may alias
## arg      gv: out ctype[batch, keys, head], may alias
## def      attention_warpgroup_grad_q, attention_warpgroup_grad_kv
## arg      gy: in ctype[batch, rows, head]
## arg      lse: in float[batch, rows]
## arg      delta: in float[batch, rows]
## arg      q: in ctype[batch, rows, head]
## arg      k: in ctype[batch, keys, head]
## arg      v: in ctype[batch, keys, head]
## launch   global (groups * items,), local (items,); as many groups as wanted
## numerics exponentials and the scores' gradients are rounded to ctype for the products alone; sums
##          in the order of the others, 16 at once
<%namespace name="lib" file="/lib/attend_matrix.mako"/>
<%namespace name="passing" file="/lib/attend_passing.mako"/>
<%namespace name="sums_of" file="/lib/matrix_sums.mako"/>
<%namespace name="teams" file="/lib/attend_warpgroup.mako"/>
<%namespace name="units" file="/lib/warpgroup.mako"/>
<%def name="attention_warpgroup_grad_q(
    ctype, unit, matrix, tile, head, causal, emulated, form)">
${functions(ctype, unit, matrix, tile, head, emulated)}
__attribute__((reqd_work_group_size(${tile.items(emulated=emulated)}, 1, 1)))
__kernel void attention_warpgroup_grad_q(...)
{
    __global const ushort *const q_from = (__global const ushort *)q + q_offset;
    __global const ushort *const k_from = (__global const ushort *)k + k_offset;
    __global const ushort *const v_from = (__global const ushort *)v + v_offset;
    __global const ushort *const gy_from = (__global const ushort *)gy + gy_offset;
    __global ushort *const gq_to = (__global ushort *)gq + gq_offset;
    ${passing.walked(tile, head, emulated, form, ("q", "gy"), ("k", "v"), "rows", "heads", "head_q",
        "key_head", ["gq_sum"], capture(placed_rows, tile, causal), capture(step_keys, tile),
        capture(used_by_rows, ctype, unit, tile, head, causal, emulated),
        capture(released_rows, head))}
}
</%def>
<%def name="attention_warpgroup_grad_kv(
    ctype, unit, matrix, tile, head, causal, emulated, form)">
${functions(ctype, unit, matrix, tile, head, emulated)}
__attribute__((reqd_work_group_size(${tile.items(emulated=emulated)}, 1, 1)))
__kernel void attention_warpgroup_grad_kv(...)
{
    __global const ushort *const q_from = (__global const ushort *)q + q_offset;
    __global const ushort *const k_from = (__global const ushort *)k + k_offset;
    __global const ushort *const v_from = (__global const ushort *)v + v_offset;
    __global const ushort *const gy_from = (__global const ushort *)gy + gy_offset;
    __global ushort *const gk_to = (__global ushort *)gk + gk_offset;
    __global ushort *const gv_to = (__global ushort *)gv + gv_offset;
    ${passing.walked(tile, head, emulated, form, ("k", "v"), ("q", "gy"), "keys", "heads / sharing",
        "key_head", "head_q", ["gk_sum", "gv_sum"], capture(placed_keys, tile, causal),
        capture(step_rows, tile),
        capture(used_by_keys, ctype, unit, tile, head, causal, emulated),
        capture(released_keys, head))}
}
</%def>
<%def name="functions(ctype, unit, matrix, tile, head, emulated)">
${units.functions(ctype, unit, tile, 4, emulated)}
${sums_of.elements(ctype, "ushort", not emulated)}
${lib.scalars(matrix)}
% if emulated:
${teams.emulation(ctype, unit, tile, -(-head // 64))}
% endif
</%def>
##
## Tiles of rows, those with the most keys first; every other round runs backwards.
<%def name="placed_rows(tile, causal)">
    const int groups = get_num_groups(0), group = get_group_id(0);
    const int at = round * groups + (${int(causal)} && round % 2 ? groups - 1 - group : group);
    if (at >= all)
        break;
    const int item = at / across, image = item / heads, head_q = item % heads;
    const int key_head = head_q / sharing;
    const int own0 = ${"(across - 1 - at % across)" if causal else "at % across"} * ${tile.own};
    const int limit = ${f"min(keys, own0 + {tile.own})" if causal else "keys"};
    const int count = (limit + ${tile.others - 1}) / ${tile.others};
</%def>
##
## Tiles of keys likewise, which the rows of all heads that share them pass by.
<%def name="placed_keys(tile, causal)">
    const int groups = get_num_groups(0), group = get_group_id(0);
    const int at = round * groups + (${int(causal)} && round % 2 ? groups - 1 - group : group);
    if (at >= all)
        break;
    const int item = at / across, image = item / (heads / sharing),
        key_head = item % (heads / sharing);
    const int own0 = at % across * ${tile.own};
    const int from = ${f"own0 / {tile.others} * {tile.others}" if causal else "0"};
    const int each = max(0, (rows - from + ${tile.others - 1}) / ${tile.others});
    const int count = each * sharing;
</%def>
<%def name="step_keys(tile)">
    const int begin = i * ${tile.others};
</%def>
<%def name="step_rows(tile)">
    const int begin = from + i % each * ${tile.others}, head_q = key_head * sharing + i / each;
</%def>
##
## Scores, and the gradients of weights; what was multiplied before is done with then.
<%def name="both_scores(ctype, unit, tile, head, emulated)">
<% blocks = -(-head // 64) %>
    ${teams.fenced(emulated)}
    ${teams.scores(ctype, unit, tile, blocks, emulated, "s", "start", "to")}
    ${teams.scores(ctype, unit, tile, blocks, emulated, "d", "second", "behind")}
    ${teams.waited(1, "s", tile.others // 2, emulated)}
% if not emulated:
    if (lane == 0 && i > 0)
        bar_arrive(left + 8 * (slot ? slot - 1 : ${tile.stages - 1}));
% endif
</%def>
<%def name="used_by_rows(ctype, unit, tile, head, causal, emulated)">
    ${both_scores(ctype, unit, tile, head, emulated)}
    const long known = ((long)image * heads + head_q) * rows;
% for half in range(2):
    const int row_${half} = min(mine + ${8 * half}, rows - 1);
    const float base_${half} = lse[lse_offset + known + row_${half}] * 1.4426950408889634f;
    const float less_${half} = delta[delta_offset + known + row_${half}];
    const int past_${half} = ${f"min(keys, mine + {8 * half + 1})" if causal else "keys"}
        - begin - lane % 4 * 2;
% endfor
% for j in range(tile.others // 8):
% for half in range(2):
% for c in range(2):
    s[${4 * j + 2 * half + c}] = ${8 * j + c} < past_${half}
        ? two_to(s[${4 * j + 2 * half + c}] * factor - base_${half}) : 0;
% endfor
% endfor
% endfor
    ${teams.waited(0, "d", tile.others // 2, emulated)}
% for j in range(tile.others // 8):
% for half in range(2):
% for c in range(2):
    d[${4 * j + 2 * half + c}] = (d[${4 * j + 2 * half + c}] - less_${half})
        * s[${4 * j + 2 * half + c}];
% endfor
% endfor
% endfor
    ${packed("x", "d", tile)}
    ${teams.fenced(emulated)}
    ${teams.values(ctype, unit, tile, 64 * -(-head // 64), emulated, "gq_sum", "x", "to")}
</%def>
##
## What is known of the passing rows is spread over the items, who ask each other.
<%def name="used_by_keys(ctype, unit, tile, head, causal, emulated)">
<% wide, parts = 64 * -(-head // 64), range(-(-tile.others // 32)) %>
    const long known = ((long)image * heads + head_q) * rows;
    __global const float *const lse_at = lse + lse_offset + known;
    __global const float *const delta_at = delta + delta_offset + known;
% if not emulated:
% for i in parts:
    const int row_${i} = begin + ${32 * i} + lane;
    const float lse_${i} = row_${i} < rows ? lse_at[row_${i}] * 1.4426950408889634f : 0;
    const float delta_${i} = row_${i} < rows ? delta_at[row_${i}] : 0;
% endfor
% endif
    ${both_scores(ctype, unit, tile, head, emulated)}
% for j in range(tile.others // 8):
    {
        ${of_columns("lse", j, " * 1.4426950408889634f", emulated)}
% for half in range(2):
% for c in range(2):
        s[${4 * j + 2 * half + c}] = two_to(s[${4 * j + 2 * half + c}] * factor - lse_of_${c});
% if causal:
        if (begin + ${8 * j + c} + lane % 4 * 2 < mine + ${8 * half})
            s[${4 * j + 2 * half + c}] = 0;
% endif
% endfor
% endfor
    }
% endfor
    ${packed("p", "s", tile)}
    ${teams.fenced(emulated)}
    ${teams.values(ctype, unit, tile, wide, emulated, "gv_sum", "p", "behind")}
    ${teams.waited(1, "d", tile.others // 2, emulated)}
% for j in range(tile.others // 8):
    {
        ${of_columns("delta", j, "", emulated)}
% for half in range(2):
% for c in range(2):
        d[${4 * j + 2 * half + c}] = (d[${4 * j + 2 * half + c}] - delta_of_${c})
            * s[${4 * j + 2 * half + c}];
% endfor
% endfor
    }
% endfor
    ${packed("x", "d", tile)}
    ${teams.fenced(emulated)}
    ${teams.values(ctype, unit, tile, wide, emulated, "gk_sum", "x", "to")}
</%def>
##
## A number of two neighbouring rows that pass by, 0 beyond the last.
<%def name="of_columns(name, j, factor, emulated)">
% for c in range(2):
% if emulated:
    const int column_${c} = begin + ${8 * j + c} + lane % 4 * 2;
    const float ${name}_of_${c} = column_${c} < rows ? ${name}_at[column_${c}]${factor} : 0;
% else:
    float ${name}_of_${c};
    asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(${name}_of_${c})
        : "f"(${name}_${8 * j // 32}), "r"(${8 * j % 32 + c} + lane % 4 * 2));
% endif
% endfor
</%def>
<%def name="packed(name, source, tile)">
% for e in range(tile.others // 4):
    ${name}[${e}] = nearest(${source}[${2 * e}], ${source}[${2 * e + 1}]);
% endfor
</%def>
<%def name="released_rows(head)">
    ${rows_of("gq", "gq_sum", "scale", "rows", head)}
</%def>
<%def name="released_keys(head)">
    ${rows_of("gk", "gk_sum", "scale", "keys", head)}
    ${rows_of("gv", "gv_sum", "1", "keys", head)}
</%def>
##
## Own rows, two elements at a time.
<%def name="rows_of(name, source, factor, limit, head)">
% for half in range(2):
    if (mine + ${8 * half} < ${limit}) {
        __global uint *const words = (__global uint *)(
            ${name}_to + ((long)item * ${limit} + mine + ${8 * half}) * ${head}) + lane % 4;
% for j in range(head // 8):
        words[${4 * j}] = nearest(${source}[${4 * j + 2 * half}] * ${factor},
            ${source}[${4 * j + 2 * half + 1}] * ${factor});
% endfor
    }
% endfor
</%def>
