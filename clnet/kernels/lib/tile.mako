## lib tile: a product of tiles in local memory, an item's part of it in registers
##
## A group multiplies a_tile[step][row] with b_tile[step][column], tile_k steps at a time, while the
## tiles that follow are on their way. Neighbouring items form patches of 32 (lanes_m rows of them);
## an item's elements are runs of four, one lanes_m * 4 rows or lanes_n * 4 columns after the other:
##
##     row       self_m + i / 4 * lanes_m * 4 + i % 4              acc_<i>_<j>: the j-th run of
##     column    self_n + j * lanes_n * 4 + lane of the run         four columns of the i-th row
##
## Teams of the group's items share the tiles: team t multiplies the steps from t * steps on, and
## `gather` adds the teams' sums up, in their order, in those of team 0.
##
## Operands come in as lib/tile_copies.mako says.
##
## param tile: Tile           shapes, see tile.py
## param ctype: str           element type, and the type of the sums
## param a: Loads             how a comes in, see tile.py
## param b: Loads             how b comes in
## param loads: Loads         one of them
## param name: 'a'|'b'        the operand
## param copies: str          C that brings the next tile in: into stage `slot`, or into registers
## param stores: str          C that puts the registers into stage `slot`
## param parity: int          which of two sets of fragments
## param step: str|int        a step of the tile
## param slot: str            a stage
##
## Functions of the program's own.
<%def name="functions(tile, ctype)">
% if tile.copy == "async":
% for width, cache in ((1, "ca"), (4, "cg")):
inline void copy_${width}(__local ${ctype} *to, __global const ${ctype} *from, const bool valid)
{
    asm volatile("cp.async.${cache}.shared.global [%0], [%1], ${4 * width}, %2;"
        :: "r"((uint)(size_t)to), "l"(from), "r"(valid ? ${4 * width} : 0));
}
% endfor
inline void copy_inside(__local ${ctype} *to, __global const ${ctype} *from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"((uint)(size_t)to), "l"(from));
}
% elif tile.copy == "direct":
inline void copy_1(__local ${ctype} *to, __global const ${ctype} *from, const bool valid)
{
    *to = valid ? *from : 0;
}
inline void copy_4(__local ${ctype} *to, __global const ${ctype} *from, const bool valid)
{
    ${ctype}4 run = 0;
    if (valid)
        run = *(__global const ${ctype}4 *)from;
    *(__local ${ctype}4 *)to = run;
}
% endif
</%def>
##
## The tiles in local memory, the item's place, and its sums.
<%def name="begin(tile, ctype, a, b)">
    __local ${ctype} a_tile[${tile.stages}][${tile.tile_k}][${a.pitch}]
        __attribute__((aligned(32)));
    __local ${ctype} b_tile[${tile.stages}][${tile.tile_k}][${b.pitch}]
        __attribute__((aligned(32)));
    const int self = get_local_id(0), lane = self % 32;
% if tile.teams > 1:
    const int team = self / ${tile.team_items}, patch = self % ${tile.team_items} / 32;
% else:
    const int patch = self / 32;
% endif
% if tile.lanes_m == 8:
    const int lane_m = lane >> 1 & 7, lane_n = (lane & 1) | (lane >> 3 & 2);
% else:
    const int lane_m = (lane & 1) | (lane >> 3 & 2), lane_n = lane >> 1 & 7;
% endif
    const int self_m = patch / ${tile.patches_n} * ${tile.lanes_m * tile.item_m} + lane_m * 4;
    const int self_n = patch % ${tile.patches_n} * ${tile.lanes_n * tile.item_n} + lane_n * 4;
    const int a_lane = self % ${a.lanes} * ${a.width}, a_line = self / ${a.lanes};
    const int b_lane = self % ${b.lanes} * ${b.width}, b_line = self / ${b.lanes};
    __local ${ctype} *a_to = &a_tile[0]
        [${"a_line" if a.along == "tile" else "a_lane"}]
        [${"a_lane" if a.along == "tile" else "a_line"}];
    __local ${ctype} *b_to = &b_tile[0]
        [${"b_line" if b.along == "tile" else "b_lane"}]
        [${"b_lane" if b.along == "tile" else "b_line"}];
% for i in range(tile.item_m):
    ${ctype}4 ${", ".join("acc_%d_%d = 0" % (i, j) for j in range(tile.item_n // 4))};
% endfor
% for parity in range(1 + tile.ahead):
    ${ctype}4 ${", ".join("a%d_%d" % (parity, i) for i in range(tile.item_m // 4))};
    ${ctype}4 ${", ".join("b%d_%d" % (parity, j) for j in range(tile.item_n // 4))};
% endfor
% if not tile.ring:
% for name, loads in (("a", a), ("b", b)):
    ${ctype if loads.width == 1 else ctype + "4"} ${", ".join("%s_run_%d" % (name,
        i) for i in range(loads.count))};
% endfor
% endif
</%def>
##
## Put what an item read into local memory.
<%def name="stores(tile, ctype, loads, name)">
% for i in range(loads.count):
<% offset = "slot * %d + %d" % (loads.pitch * loads.tile_k,
    i * loads.jump * (loads.pitch if loads.along == "tile" else 1)) %>
% if loads.width == 1:
    ${name}_to[${offset}] = ${name}_run_${i};
% elif loads.along == "tile":
    *(__local ${ctype}4 *)(${name}_to + ${offset}) = ${name}_run_${i};
% else:
% for lane in range(4):
    ${name}_to[${offset} + ${lane * loads.pitch}] = ${name}_run_${i}.s${lane};
% endfor
% endif
% endfor
</%def>
##
## Multiply `tiles` tiles: acc_<i>_<j> += a * b, in the order of k. Declares `slot`.
<%def name="multiply(tile, ctype, a, b, copies, stores)">
    int slot = 0;
    if (tiles > 0) {
% if tile.ring:
    int head = 0;
    #pragma unroll
    for (; slot < ${tile.stages - 1}; slot++) {
        if (slot < tiles) {
            ${copies}
        }
        ${commit(tile)}
    }
    int due = tiles - ${tile.stages - 1};
    ${arrived(tile)}
    ${next_copy(tile, copies)}
    ${fragments(tile, ctype, 0, "head", 0)}
    for (int t = 0; t < tiles; t++) {
% for step in range(tile.steps - 1):
        ${fragments(tile, ctype, (step + 1) % 2, "head", step + 1)}
        ${products(tile, step % 2)}
% endfor
        head = head == ${tile.stages - 1} ? 0 : head + 1;
        ${arrived(tile)}
        ${fragments(tile, ctype, tile.steps % 2, "head", 0)}
        ${next_copy(tile, copies)}
        ${products(tile, (tile.steps - 1) % 2)}
    }
% else:
        ${copies}
        ${stores}
        barrier(CLK_LOCAL_MEM_FENCE);
% if tile.ahead:
        ${fragments(tile, ctype, 0, "0", 0)}
        for (int t = 1; ; t++) {
            if (t < tiles) {
                ${copies}
            }
% for step in range(tile.steps - 1):
            ${fragments(tile, ctype, (step + 1) % 2, "slot", step + 1)}
            ${products(tile, step % 2)}
% endfor
            if (t < tiles) {
                slot ^= 1;
                ${stores}
                barrier(CLK_LOCAL_MEM_FENCE);
                ${fragments(tile, ctype, tile.steps % 2, "slot", 0)}
            }
            ${products(tile, (tile.steps - 1) % 2)}
            if (t >= tiles)
                break;
        }
% else:
        for (int t = 1; ; t++) {
            if (t < tiles) {
                ${copies}
            }
            #pragma unroll
            for (int step = 0; step < ${tile.steps}; step++) {
                ${fragments(tile, ctype, 0, "slot", "step")}
                ${products(tile, 0)}
            }
            if (t >= tiles)
                break;
            slot ^= 1;
            ${stores}
            barrier(CLK_LOCAL_MEM_FENCE);
        }
% endif
% endif
    }
</%def>
<%def name="commit(tile)">
% if tile.copy == "async":
        asm volatile("cp.async.commit_group;" ::: "memory");
% endif
</%def>
##
## The oldest copies that were not waited for are complete, for the whole group.
<%def name="arrived(tile)">
% if tile.copy == "async":
        asm volatile("cp.async.wait_group ${tile.stages - 2};" ::: "memory");
% endif
        barrier(CLK_LOCAL_MEM_FENCE);
</%def>
<%def name="next_copy(tile, copies)">
        if (due > 0) {
            ${copies}
        }
        ${commit(tile)}
        due--;
        slot = slot == ${tile.stages - 1} ? 0 : slot + 1;
</%def>
##
## The teams' sums, added in the order of teams: those of team 0 are whole afterwards.
<%def name="gather(tile, ctype)">
% if tile.teams > 1:
    __local ${ctype}4 *sums = (__local ${ctype}4 *)&a_tile[0][0][0] + self % ${tile.team_items};
% for team in range(1, tile.teams):
    barrier(CLK_LOCAL_MEM_FENCE);
    if (team == ${team}) {
% for i in range(tile.item_m):
% for j in range(tile.item_n // 4):
        sums[${(i * tile.item_n // 4 + j) * tile.team_items}] = acc_${i}_${j};
% endfor
% endfor
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (team == 0) {
% for i in range(tile.item_m):
% for j in range(tile.item_n // 4):
        acc_${i}_${j} += sums[${(i * tile.item_n // 4 + j) * tile.team_items}];
% endfor
% endfor
    }
% endfor
% endif
</%def>
##
## Where in the tile a step of the item's team lies.
<%def name="own_step(tile, step)">${"team * %d + %s" % (tile.steps,
    step) if tile.teams > 1 else step}</%def>
##
## Read the item's part of one step of both tiles.
<%def name="fragments(tile, ctype, parity, slot, step)">
% for i in range(tile.item_m // 4):
            a${parity}_${i} = *(__local const ${ctype}4 *)&a_tile[${slot}][${own_step(tile,
                step)}][self_m + ${i * tile.lanes_m * 4}];
% endfor
% for j in range(tile.item_n // 4):
            b${parity}_${j} = *(__local const ${ctype}4 *)&b_tile[${slot}][${own_step(tile,
                step)}][self_n + ${j * tile.lanes_n * 4}];
% endfor
</%def>
<%def name="products(tile, parity)">
% for i in range(tile.item_m):
% for j in range(tile.item_n // 4):
            acc_${i}_${j} = a${parity}_${i // 4}.s${i % 4} * b${parity}_${j} + acc_${i}_${j};
% endfor
% endfor
</%def>
