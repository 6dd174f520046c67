## kernel attention_warpgroup_grad: attention.mako's gradient to queries, 128 items at once
##
## Groups take tiles of rows in turn. Of a group, one item copies boxes into local memory: queries
## and the result's gradients of a tile, then pairs of boxes of keys and values. Every other 128
## items, a team, own 64 rows. Scores are computed again; they and their gradients stay in
## registers, where, rounded, they are the operand that multiplies the keys. See lib/warpgroup.mako.
##
## math     as in attention.mako, exponentials to the base 2
## layout   rows of q, k, v and gy begin at whole runs of 16 bytes and are dense; all others are
##          dense
## param    ctype: 'half'|'bfloat16'   element type
## param    unit: WarpgroupUnit        see device/warpgroups.py
## param    matrix: MatrixUnit         what lib/attend_matrix.mako asks for
## param    tile: AttendTeams          shapes, see attention_warpgroup.py
## param    head: int                  elements of a row, a multiple of 8
## param    causal: bool               a key counts for its own row and later ones only
## param    emulated: bool             plain C copies and multiplies, all items in step
## param    form: int                  word of the tensor maps, see device/warpgroups.py
## param    names: tuple               of two operands
## param    begin, of: str             C expressions, number of a box's first row, and of its head
## param    extent: int                rows of a box
## param    blocks: int                boxes of 64 elements that a row takes
## param    to, tail: str              C expressions, where boxes come to, and their barrier
## arg      rows, keys, heads, images: int
## arg      sharing: int               heads of q that share one of k and v, one after another
## arg      strides: long16            of q, k, v, gy: batch, head, row
## arg      scale: float               above 0
## arg      maps: inout uint[groups][128], may alias  memory for the tensor maps, at multiples of
##                                     128 bytes
## arg      gq: out ctype[batch, rows, head], may alias
## arg      gy: in ctype[batch, rows, head]
## arg      lse: in float[batch, rows]
## arg      delta: in float[batch, rows]
## arg      q: in ctype[batch, rows, head]
## arg      k: in ctype[batch, keys, head]
## arg      v: in ctype[batch, keys, head]
## launch   global (groups * items,), local (items,); as many groups as wanted
## numerics exponentials are not rounded; the scores' gradients are rounded to ctype for the product
##          alone; sums in the order of keys, 16 at once
<%namespace name="boxes" file="/lib/warpgroup_boxes.mako"/>
<%namespace name="lib" file="/lib/attend_matrix.mako"/>
<%namespace name="sums_of" file="/lib/matrix_sums.mako"/>
<%namespace name="teams" file="/lib/attend_warpgroup.mako"/>
<%def name="attention_warpgroup_grad_q(ctype, unit, matrix, tile, head, causal, emulated, form)">
<%
    blocks = -(-head // 64)
    others, stages = tile.others, tile.stages
    box, own_bytes = 128 * others * blocks, 128 * tile.own * blocks
    total = 2 * own_bytes + stages * 2 * box
%>
${boxes.functions(ctype, unit, tile, 4, emulated)}
${sums_of.elements(ctype, "ushort", not emulated)}
${lib.scalars(matrix)}
% if emulated:
${teams.emulation(ctype, tile, head)}
% endif
__attribute__((reqd_work_group_size(${tile.items(emulated=emulated)}, 1, 1)))
__kernel void attention_warpgroup_grad_q(...)
{
    __local uint4 tiles[${total // 16}] __attribute__((aligned(1024)));
    const int self = get_local_id(0), lane = self % 32, warp = self / 32 % 4, team = self / 128;
% if emulated:
    __local ushort held[${tile.own * others}];
    const uint start = 0;
    for (int e = self; e < ${total // 16}; e += ${tile.items(emulated=True)})
        tiles[e] = (uint4)(0);
% else:
    __local ulong bars[${2 * stages + 2}] __attribute__((aligned(8)));
    const uint full = (uint)(size_t)bars, left = full + ${8 * stages};
    const uint own_full = full + ${16 * stages}, own_left = own_full + 8;
    const uint start = (uint)(size_t)tiles;
% endif
    const uint second = start + ${own_bytes}, ring = second + ${own_bytes};
    const int across = (rows + ${tile.own - 1}) / ${tile.own}, all = across * heads * images;
    const float factor = scale * 1.4426950408889634f;
    __global const ushort *const q_from = (__global const ushort *)q + q_offset;
    __global const ushort *const k_from = (__global const ushort *)k + k_offset;
    __global const ushort *const v_from = (__global const ushort *)v + v_offset;
    __global const ushort *const gy_from = (__global const ushort *)gy + gy_offset;
    __global ushort *const gq_to = (__global ushort *)gq + gq_offset;
    __global uint *const q_map = maps + maps_offset + get_group_id(0) * 128;
    __global uint *const gy_map = q_map + 32, *const k_map = q_map + 64, *const v_map = q_map + 96;
    if (self == ${0 if emulated else 128 * tile.teams}) {
        ${teams.mapped("q", "rows", "heads", 0, tile.own, form, head)}
        ${teams.mapped("gy", "rows", "heads", 9, tile.own, form, head)}
        ${teams.mapped("k", "keys", "heads / sharing", 3, others, form, head)}
        ${teams.mapped("v", "keys", "heads / sharing", 6, others, form, head)}
        maps_written(q_map, 4);
    }
% if emulated:
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
% else:
    if (self == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(own_full) : "memory");
        asm volatile("mbarrier.init.shared::cta.b64 [%0], ${4 * tile.teams};"
            :: "r"(own_left) : "memory");
        bars_begin(full, ${tile.stages}, 1, ${4 * tile.teams});
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (team == ${tile.teams}) {
        if (lane == 0) {
            int slot = 0;
            uint turn = 1, own_turn = 1;
            for (int round = 0;; round++) {
                ${placed(tile, causal)}
                bar_wait(own_left, own_turn);
                bar_expect(own_full, ${2 * own_bytes});
                own_turn ^= 1;
                ${both(("q", "gy"), "own0", "head_q", tile.own, blocks, "start", "own_full")}
                for (int i = 0; i < count; i++) {
                    const int begin = i * ${others};
                    bar_wait(left + 8 * slot, turn);
                    bar_expect(full + 8 * slot, ${2 * box});
                    ${both(("k", "v"), "begin", "key_head", others, blocks,
                        f"ring + {2 * box} * slot", "full + 8 * slot")}
                    ${teams.advanced(stages)}
                }
            }
        }
        return;
    }
% endif
    float s[${others // 2}], d[${others // 2}];
    float sums[${32 * blocks}];
    uint x[${others // 4}];
    int slot = 0;
    uint turn = 0, own_turn = 0;
    for (int round = 0;; round++) {
        ${placed(tile, causal)}
        const int mine = own0 + team * 64 + warp * 16 + lane / 4;
% for e in range(32 * blocks):
        sums[${e}] = 0;
% endfor
% if emulated:
        barrier(CLK_LOCAL_MEM_FENCE);
        ${both(("q", "gy"), "own0", "head_q", tile.own, blocks, "start", "tiles")}
% else:
        bar_wait(own_full, own_turn);
        own_turn ^= 1;
% endif
        for (int i = 0; i < count; i++) {
            const int begin = i * ${others};
            const uint to = ring + ${2 * box} * slot, behind = to + ${box};
% if emulated:
            barrier(CLK_LOCAL_MEM_FENCE);
            ${both(("k", "v"), "begin", "key_head", others, blocks, "to", "tiles")}
            barrier(CLK_LOCAL_MEM_FENCE);
% else:
            bar_wait(full + 8 * slot, turn);
% endif
            ${teams.fenced(emulated)}
            ${teams.scores(ctype, unit, tile, blocks, emulated, "s", "start", "to")}
            ${teams.scores(ctype, unit, tile, blocks, emulated, "d", "second", "behind")}
            ${teams.waited(1, "s", others // 2, emulated)}
% if not emulated:
## What was multiplied before is done with now.
            if (lane == 0 && i > 0)
                bar_arrive(left + 8 * (slot ? slot - 1 : ${stages - 1}));
% endif
            ${sloped(tile, causal, emulated)}
            ${teams.fenced(emulated)}
            ${teams.values(unit, tile, 64 * blocks, "mine < rows", emulated, "sums", "x", "to")}
            ${teams.advanced(stages)}
        }
        ${teams.waited(0, "sums", 32 * blocks, emulated)}
% if not emulated:
        if (lane == 0) {
            if (count > 0)
                bar_arrive(left + 8 * (slot ? slot - 1 : ${stages - 1}));
            bar_arrive(own_left);
        }
% endif
        ${stored(head)}
    }
}
</%def>
##
## Tiles of rows, those with the most keys first; every other round runs backwards.
<%def name="placed(tile, causal)">
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
## Copy a pair of boxes.
<%def name="both(names, begin, of, extent, blocks, to, tail)">
% for n, name in enumerate(names):
    ${teams.copied(name, begin, of, extent, blocks, f"{to} + {n * 128 * extent * blocks}", tail)}
% endfor
</%def>
##
## Scores and gradients of weights become the scores' gradients, rounded.
<%def name="sloped(tile, causal, emulated)">
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
% for e in range(tile.others // 4):
    x[${e}] = nearest(d[${2 * e}], d[${2 * e + 1}]);
% endfor
</%def>
##
## Own rows, two elements at a time.
<%def name="stored(head)">
% for half in range(2):
    if (mine + ${8 * half} < rows) {
        __global uint *const words = (__global uint *)(
            gq_to + ((long)item * rows + mine + ${8 * half}) * ${head}) + lane % 4;
% for j in range(head // 8):
        words[${4 * j}] = nearest(sums[${4 * j + 2 * half}] * scale,
            sums[${4 * j + 2 * half + 1}] * scale);
% endfor
    }
% endfor
</%def>
