## lib attend_passing: a group that owns boxes of two operands, by which pairs of boxes pass
##
## What lib/attend_warpgroup.mako has is what it is made of; kernels say what becomes of a pair.
##
## param tile: AttendTeams    shapes, see softmax/attention_warpgroup.py
## param head: int            elements of a row
## param emulated: bool       see lib/warpgroup.mako
## param form: int            word of the tensor maps, see device/warpgroups.py
## param own_names, other_names: tuple  the two operands that are the group's, that pass by
## param limit: str           C expression, own rows in all
## param heads_of: str        C expression, heads of what the tiles are of
## param own_heads, other_heads: str  C expressions, the boxes' heads
## param sums: list           names of the sums
## param placed, step: str    C: which tile is the at-th, and which boxes the i-th
## param used, stored: str    C: what becomes of boxes, and of the sums
## param names: tuple         of two operands
## param begin, of: str       C expressions, number of a box's first row, and of its head
## param extent: int          rows of a box
## param blocks: int          boxes of 64 elements that a row takes
## param to, tail: str        C expressions, where boxes come to, and their barrier
<%namespace name="teams" file="attend_warpgroup.mako"/>
##
## What a group does: it takes tiles in turn, one item copies, the others multiply.
<%def name="walked(
    tile, head, emulated, form, own_names, other_names, limit, heads_of, own_heads, other_heads,
    sums, placed, step, used, stored)">
<%
    blocks = -(-head // 64)
    box, own_bytes, stages = 128 * tile.others * blocks, 128 * tile.own * blocks, tile.stages
    total = 2 * own_bytes + stages * 2 * box
    many = lambda name: "heads / sharing" if name in "kv" else "heads"
    long = lambda name: "keys" if name in "kv" else "rows"
    first = {"q": 0, "k": 3, "v": 6, "gy": 9}
%>
    __local uint4 tiles[${total // 16}] __attribute__((aligned(1024)));
    const int self = get_local_id(0), lane = self % 32, warp = self / 32 % 4, team = self / 128;
% if emulated:
    __local ushort held[${tile.own * tile.others}];
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
    const int across = (${limit} + ${tile.own - 1}) / ${tile.own},
        all = across * (${heads_of}) * images;
    const float factor = scale * 1.4426950408889634f;
    __global uint *const ${own_names[0]}_map = maps + maps_offset + get_group_id(0) * 128;
    __global uint *const ${own_names[1]}_map = ${own_names[0]}_map + 32,
        *const ${other_names[0]}_map = ${own_names[0]}_map + 64,
        *const ${other_names[1]}_map = ${own_names[0]}_map + 96;
    if (self == ${0 if emulated else 128 * tile.teams}) {
% for extent, names in ((tile.own, own_names), (tile.others, other_names)):
% for name in names:
        ${teams.mapped(name, long(name), many(name), first[name], extent, form, head)}
% endfor
% endfor
    }
% if emulated:
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
% else:
    if (self == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(own_full) : "memory");
        asm volatile("mbarrier.init.shared::cta.b64 [%0], ${4 * tile.teams};"
            :: "r"(own_left) : "memory");
        bars_begin(full);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (team == ${tile.teams}) {
        if (lane == 0) {
            int slot = 0;
            uint turn = 1, own_turn = 1;
            for (int round = 0;; round++) {
                ${placed}
                bar_wait(own_left, own_turn);
                bar_expect(own_full, ${2 * own_bytes});
                own_turn ^= 1;
                ${both(own_names, own_heads, "own0", tile.own, blocks, "start", "own_full")}
                for (int i = 0; i < count; i++) {
                    ${step}
                    bar_wait(left + 8 * slot, turn);
                    bar_expect(full + 8 * slot, ${2 * box});
                    ${both(other_names, other_heads, "begin", tile.others, blocks,
                        f"ring + {2 * box} * slot", "full + 8 * slot")}
                    ${teams.advanced(stages)}
                }
            }
        }
        return;
    }
% endif
    float s[${tile.others // 2}], d[${tile.others // 2}];
    float ${", ".join(f"{name}[{32 * blocks}]" for name in sums)};
    uint p[${tile.others // 4}], x[${tile.others // 4}];
    int slot = 0;
    uint turn = 0, own_turn = 0;
    for (int round = 0;; round++) {
        ${placed}
        const int mine = own0 + team * 64 + warp * 16 + lane / 4;
% for name in sums:
% for e in range(32 * blocks):
        ${name}[${e}] = 0;
% endfor
% endfor
% if emulated:
        barrier(CLK_LOCAL_MEM_FENCE);
        ${both(own_names, own_heads, "own0", tile.own, blocks, "start", "tiles")}
% else:
        bar_wait(own_full, own_turn);
        own_turn ^= 1;
% endif
        for (int i = 0; i < count; i++) {
            ${step}
            const uint to = ring + ${2 * box} * slot, behind = to + ${box};
% if emulated:
            barrier(CLK_LOCAL_MEM_FENCE);
            ${both(other_names, other_heads, "begin", tile.others, blocks, "to", "tiles")}
            barrier(CLK_LOCAL_MEM_FENCE);
% else:
            bar_wait(full + 8 * slot, turn);
% endif
            ${used}
            ${teams.advanced(stages)}
        }
% for name in sums:
        ${teams.waited(0, name, 32 * blocks, emulated)}
% endfor
% if not emulated:
        if (lane == 0) {
            if (count > 0)
                bar_arrive(left + 8 * (slot ? slot - 1 : ${stages - 1}));
            bar_arrive(own_left);
        }
% endif
        ${stored}
    }
</%def>
##
## Copy a pair of boxes.
<%def name="both(names, of, begin, extent, blocks, to, tail)">
% for n, name in enumerate(names):
    ${teams.copied(name, begin, of, extent, blocks, f"{to} + {n * 128 * extent * blocks}", tail)}
% endfor
</%def>
