## kernel attention_warpgroup: attention.mako's forward kernel, 128 items at once
##
## Groups take tiles of rows in turn. Of a group, one item copies boxes of queries, keys and values
## into local memory; every other 128 items, a team, own 64 rows. Scores stay in registers, where,
## exponentiated and rounded, they are the operand that multiplies the values: those of the next
## keys are multiplied while these are. See lib/warpgroup.mako.
##
## Boxes come in the order of their use: keys 0, keys 1, values 0, keys 2, values 1, ...
##
## math     as in attention.mako, exponentials to the base 2
## layout   rows of q, k and v begin at whole runs of 16 bytes and are dense; y and lse are dense
## param    ctype: 'half'|'bfloat16'   element type
## param    unit: WarpgroupUnit        see device/warpgroups.py
## param    matrix: MatrixUnit         what lib/attend_matrix.mako asks for
## param    tile: AttendTeams          shapes, see attention_warpgroup.py
## param    head: int                  elements of a row of q, k and v, a multiple of 8
## param    causal: bool               a key counts for its own row and later ones only
## param    ragged: bool               whether the last box of keys is not full
## param    emulated: bool             plain C copies and multiplies, all items in step
## param    form: int                  word of the tensor maps, see device/warpgroups.py
## param    begin: str                 C expression, number of a box's first key
## param    others: int                keys of a box
## arg      rows, keys, heads, images: int
## arg      sharing: int               heads of q that share one of k and v, one after another
## arg      strides: long16            of q, k, v: batch, head, row
## arg      scale: float               above 0
## arg      maps: inout uint[groups][96], may alias  memory for the tensor maps, at multiples of 128
##                                     bytes
## arg      y: out ctype[batch, rows, head], may alias
## arg      lse: out float[batch, rows], may alias  logarithms of the sums of exponentials
## arg      q: in ctype[batch, rows, head]
## arg      k: in ctype[batch, keys, head]
## arg      v: in ctype[batch, keys, head]
## launch   global (groups * items,), local (items,); as many groups as wanted
## numerics the running maximum is subtracted; exponentials are rounded to ctype for the product
##          alone; a row of no keys gives 0; sums in the order of keys, 16 at once
<%namespace name="boxes" file="/lib/warpgroup_boxes.mako"/>
<%namespace name="lib" file="/lib/attend_matrix.mako"/>
<%namespace name="sums_of" file="/lib/matrix_sums.mako"/>
<%namespace name="teams" file="/lib/attend_warpgroup.mako"/>
<%def name="attention_warpgroup(ctype, unit, matrix, tile, head, causal, ragged, emulated, form)">
<%
    blocks = -(-head // 64)
    wide, own, others, stages = 64 * blocks, tile.own, tile.others, tile.stages
    box, q_bytes = 128 * others * blocks, 128 * own * blocks
%>
${boxes.functions(ctype, unit, tile, 4, emulated)}
${sums_of.elements(ctype, "ushort", not emulated)}
${lib.scalars(matrix)}
% if emulated:
${teams.emulation(ctype, tile, head)}
% endif
__attribute__((reqd_work_group_size(${tile.items(emulated=emulated)}, 1, 1)))
__kernel void attention_warpgroup(...)
{
    __local uint4 tiles[${(q_bytes + stages * box) // 16}] __attribute__((aligned(1024)));
    const int self = get_local_id(0), lane = self % 32, warp = self / 32 % 4, team = self / 128;
% if emulated:
    __local ushort held[${own * others}];
    __local float quads[${4 * tile.teams}][4][32];
    const uint start = 0;
    const int patch = self / 32;
    for (int e = self; e < ${(q_bytes + stages * box) // 16}; e += ${tile.items(emulated=True)})
        tiles[e] = (uint4)(0);
% else:
    __local ulong bars[${2 * stages + 2}] __attribute__((aligned(8)));
    const uint full = (uint)(size_t)bars, left = full + ${8 * stages};
    const uint q_full = full + ${16 * stages}, q_left = q_full + 8;
    const uint start = (uint)(size_t)tiles;
% endif
    const uint ring = start + ${q_bytes};
    const int across = (rows + ${own - 1}) / ${own}, all = across * heads * images;
    const float factor = scale * 1.4426950408889634f;
    __global const ushort *const q_from = (__global const ushort *)q + q_offset;
    __global const ushort *const k_from = (__global const ushort *)k + k_offset;
    __global const ushort *const v_from = (__global const ushort *)v + v_offset;
    __global uint *const q_map = maps + maps_offset + get_group_id(0) * 96;
    __global uint *const k_map = q_map + 32, *const v_map = q_map + 64;
    if (self == ${0 if emulated else 128 * tile.teams}) {
        ${teams.mapped("q", "rows", "heads", 0, own, form, head)}
        ${teams.mapped("k", "keys", "heads / sharing", 3, others, form, head)}
        ${teams.mapped("v", "keys", "heads / sharing", 6, others, form, head)}
        maps_written(q_map, 3);
    }
% if emulated:
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
% else:
    if (self == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(q_full) : "memory");
        asm volatile("mbarrier.init.shared::cta.b64 [%0], ${4 * tile.teams};"
            :: "r"(q_left) : "memory");
        bars_begin(full, ${tile.stages}, 1, ${4 * tile.teams});
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (team == ${tile.teams}) {
        if (lane == 0) {
            int slot = 0;
            uint turn = 1, q_turn = 1;
            for (int round = 0;; round++) {
                ${placed(tile, causal)}
                for (int e = 0; e < 2 * count; e++) {
                    const int of_keys = e == 0 || (e % 2 && e != 2 * count - 1);
                    const int begin = (of_keys ? (e + 1) / 2 : (e - 1) / 2) * ${others};
                    bar_wait(left + 8 * slot, turn);
                    bar_expect(full + 8 * slot, ${box});
                    const uint to = ring + ${box} * slot;
                    if (of_keys) {
                        ${teams.copied("k", "begin", "key_head", others, blocks)}
                    } else {
                        ${teams.copied("v", "begin", "key_head", others, blocks)}
                    }
                    if (e == 0) {
                        bar_wait(q_left, q_turn);
                        bar_expect(q_full, ${q_bytes});
                        ${teams.copied("q", "row0", "head_q", own, blocks, "start", "q_full")}
                        q_turn ^= 1;
                    }
                    ${teams.advanced(stages)}
                }
            }
        }
        return;
    }
% endif
    float s[${others // 2}], sums[${wide // 2}];
    uint p[${others // 4}];
    int slot = 0;
    uint turn = 0, q_turn = 0;
    for (int round = 0;; round++) {
        ${placed(tile, causal)}
        const int own_first = row0 + team * 64 + warp * 16;
        float top_0 = -INFINITY, top_1 = -INFINITY, total_0 = 0, total_1 = 0;
        float kept_0, kept_1;
% if emulated:
        barrier(CLK_LOCAL_MEM_FENCE);
        {
            ${teams.copied("q", "row0", "head_q", own, blocks, "start", "tiles")}
        }
% else:
        bar_wait(q_full, q_turn);
        q_turn ^= 1;
% endif
        ${teams.arrived("k", "0", others, box, blocks, emulated)}
        ${teams.fenced(emulated)}
        ${teams.scores(ctype, unit, tile, blocks, emulated)}
        ${teams.waited(0, "s", others // 2, emulated)}
        ${teams.released("slot", emulated)}
        ${teams.advanced(stages)}
        ${softened("0", matrix, tile, causal, ragged)}
        ${packed(others)}
% for e in range(wide // 2):
        sums[${e}] = 0;
% endfor
        for (int j = 1; j < count; j++) {
            ${teams.arrived("k", f"j * {others}", others, box, blocks, emulated)}
            ${teams.fenced(emulated)}
            ${teams.scores(ctype, unit, tile, blocks, emulated)}
            const int slot_k = slot;
            ${teams.advanced(stages)}
            ${teams.arrived("v", f"(j - 1) * {others}", others, box, blocks, emulated)}
            ${teams.values(unit, tile, wide, "own_first + lane / 4 < rows", emulated)}
            ${teams.waited(1, "s", others // 2, emulated)}
            ${teams.released("slot_k", emulated)}
            ${softened(f"j * {others}", matrix, tile, causal, ragged)}
            ${teams.waited(0, "sums", wide // 2, emulated)}
            ${teams.released("slot", emulated)}
            ${teams.advanced(stages)}
% for e in range(wide // 2):
            sums[${e}] *= kept_${e % 4 // 2};
% endfor
            ${packed(others)}
        }
% if not emulated:
        if (lane == 0)
            bar_arrive(q_left);
% endif
        ${teams.arrived("v", f"(count - 1) * {others}", others, box, blocks, emulated)}
        ${teams.fenced(emulated)}
        ${teams.values(unit, tile, wide, "own_first + lane / 4 < rows", emulated)}
        ${lib.together(matrix, ["total_0", "total_1"], "+")}
        ${teams.waited(0, "sums", wide // 2, emulated)}
        ${teams.released("slot", emulated)}
        ${teams.advanced(stages)}
        ${stored(head)}
    }
}
</%def>
##
## Which tile is the at-th: its rows, its head, and how many boxes of keys it takes. Tiles of a head
## follow each other, for the cache; every other round runs backwards, where they are not alike.
<%def name="placed(tile, causal)">
    const int groups = get_num_groups(0), group = get_group_id(0);
% if causal:
    const int at = round * groups + (round % 2 ? groups - 1 - group : group);
% else:
    const int at = round * groups + group;
% endif
    if (at >= all)
        break;
    const int item = at / across, image = item / heads, head_q = item % heads;
    const int key_head = head_q / sharing;
% if causal:
    const int row0 = (across - 1 - at % across) * ${tile.own};
    const int limit = min(keys, row0 + ${tile.own});
% else:
    const int row0 = at % across * ${tile.own}, limit = keys;
% endif
    const int count = (limit + ${tile.others - 1}) / ${tile.others};
</%def>
##
## Scores of keys from `begin` on become weights, before they are rounded.
<%def name="softened(begin, matrix, tile, causal, ragged)">
    {
        const int first_key = ${begin};
## Without a branch where no row differs: ptxas would have products wait for each other.
% if causal:
        if (first_key + ${tile.others} > min(keys, own_first + 1)) {
% else:
        {
% endif
% if causal or ragged:
% for half in range(2):
            {
% if causal:
                const int past = min(keys, own_first + ${8 * half + 1} + lane / 4)
                    - first_key - lane % 4 * 2;
% else:
                const int past = keys - first_key - lane % 4 * 2;
% endif
% for j in range(tile.others // 8):
% for c in range(2):
                if (${8 * j + c} >= past)
                    s[${4 * j + 2 * half + c}] = -INFINITY;
% endfor
% endfor
            }
% endfor
% endif
        }
        float most_0 = s[0], most_1 = s[2];
% for j in range(tile.others // 8):
% for half in range(2):
        most_${half} = fmax(most_${half}, fmax(s[${4 * j + 2 * half}], s[${4 * j + 2 * half + 1}]));
% endfor
% endfor
        ${lib.together(matrix, ["most_0", "most_1"], "fmax")}
% for half in range(2):
        {
            const float most = fmax(top_${half}, most_${half});
            const float base = most == -INFINITY ? 0 : most * factor;
            kept_${half} = two_to(top_${half} * factor - base);
            top_${half} = most;
            float added = 0;
% for j in range(tile.others // 8):
% for c in range(2):
            s[${4 * j + 2 * half + c}] = two_to(s[${4 * j + 2 * half + c}] * factor - base);
            added += s[${4 * j + 2 * half + c}];
% endfor
% endfor
            total_${half} = total_${half} * kept_${half} + added;
        }
% endfor
    }
</%def>
##
## Weights, rounded, as the registers of an operand.
<%def name="packed(others)">
% for e in range(others // 4):
    p[${e}] = nearest(s[${2 * e}], s[${2 * e + 1}]);
% endfor
</%def>
##
## Own rows, two elements at a time.
<%def name="stored(head)">
    __global uint *const to = (__global uint *)((__global ushort *)y + y_offset
        + (long)item * rows * ${head});
    __global float *const lse_to = lse + lse_offset + (long)item * rows;
% for half in range(2):
    {
        const int row = own_first + ${8 * half} + lane / 4;
        const float share = total_${half} == 0 ? 0 : 1 / total_${half};
        if (row < rows) {
            if (lane % 4 == 0)
                lse_to[row] = total_${half} == 0 ? 0 : top_${half} * scale + log(total_${half});
            __global uint *const words = to + (long)row * ${head // 2} + lane % 4;
% for j in range(head // 8):
            words[${4 * j}] = nearest(sums[${4 * j + 2 * half}] * share,
                sums[${4 * j + 2 * half + 1}] * share);
% endfor
        }
    }
% endfor
</%def>
