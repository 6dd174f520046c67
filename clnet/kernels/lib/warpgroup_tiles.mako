## lib warpgroup_tiles: a group that takes tiles in turn, copies, multiplies, and stores sums
##
## What lib/warpgroup.mako has is what it is made of; kernels say what is copied and stored where.
##
## param ctype: 'half'|'bfloat16'|'float'  element type of a and b
## param unit: WarpgroupUnit  see device/warpgroups.py
## param tile: WarpgroupTile  shapes, see gemm_warpgroup.py
## param emulated: bool       see lib/warpgroup.mako
## param a_along: 'tile'|'k'  axis of a that is dense
## param b_along: 'tile'|'k'  the same of b
## param placed: str          which tile is the at-th, in C: sets first_stage, last_stage
## param fetched: str         brings stage t to local memory at `to`, and goes on to the next
## param stage_bytes: str     that it brings
## param stored: str          what becomes of a tile's sums
## param sum_ctype: 'half'|'bfloat16'|'float'  element type of what is stored
## param line: str            sets `inside`, `there` and `valid` of the `across`-th column behind
##                            `block`, in the tile's row `line`
## param more: int            bytes that begin at `further`
## param tail: str            further arguments of store_sums
## param before: str          reads what two columns, from `column` on, have in common
## param finish: str          makes results of their sums `u` and `v`, in the tile's row `row`
## param out_along: 'm'|'n'   the axis that runs of the result lie along
## param row_at, further: str  where a box of the result begins, along rows and the axes of a batch
<%namespace name="held" file="warpgroup_held.mako"/>
<%namespace name="units" file="warpgroup.mako"/>
##
## What a group does: it takes tiles in turn, one item copies, the others multiply.
<%def name="walked(
    ctype, unit, tile, a_along, b_along, emulated, placed, fetched, stage_bytes, stored)">
<% pairs = 2 if tile.sided else 1 %>
% if not emulated:
    if (self == 0) {
        bars_begin(full, ${tile.stages}, 1, ${4 * (tile.teams + tile.turned)});
% if tile.turned:
        bars_begin(full + ${16 * tile.stages}, 2, 4, ${4 * tile.teams});
% endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (team == ${tile.teams}) {
% if tile.registers:
        asm volatile("//@ setmaxnreg.dec.sync.aligned.u32 ${tile.registers[0]};");
% endif
        if (self == ${tile.teams * 128}) {
            int slot = 0;
            uint turn = 1;
            for (int at = get_group_id(0); at < all; at += get_num_groups(0)) {
                ${placed}
                for (int t = first_stage; t < last_stage; t++) {
                    bar_wait(left + 8 * slot, turn);
                    bar_expect(full + 8 * slot, ${stage_bytes});
                    const uint to = start + ${tile.stage_bytes} * slot;
                    ${fetched}
                    slot++;
                    if (slot == ${tile.stages}) {
                        slot = 0;
                        turn ^= 1;
                    }
                }
            }
        }
        return;
    }
% if tile.turned:
    if (team == ${tile.teams + 1}) {
        ${turner(unit, tile, placed)}
        return;
    }
% endif
% if tile.registers:
    asm volatile("//@ setmaxnreg.inc.sync.aligned.u32 ${tile.registers[1]};");
% endif
% endif
    float acc[${tile.n // 2}];
% if tile.promotes:
    float sums[${tile.n // 2}];
% endif
    int slot = 0;
    uint turn = 0;
% if tile.turned:
    uint count = 0;
% endif
    for (int at = get_group_id(0); at < all; at += get_num_groups(0)) {
        ${placed}
% if tile.promotes:
% for e in range(tile.n // 2):
        sums[${e}] = 0;
% endfor
% endif
        for (int next = first_stage; next < last_stage; next += ${pairs}) {
% for half in range(pairs):
        {
            const int t = next + ${half};
            const uint to = start + ${tile.stage_bytes} * slot;
% if emulated:
            barrier(CLK_LOCAL_MEM_FENCE);
            ${fetched}
            barrier(CLK_LOCAL_MEM_FENCE);
% else:
            bar_wait(full + 8 * slot, turn);
% endif
            ${units.multiplied(ctype, unit, tile, a_along, b_along, emulated)}
            slot++;
            if (slot == ${tile.stages}) {
                slot = 0;
                turn ^= 1;
            }
        }
% endfor
        }
        ${units.ended(tile, emulated)}
        ${stored}
    }
    boxes_read();
</%def>
##
## What a team does that turns b for the others. Its buffers are free when all of those have left.
<%def name="turner(unit, tile, placed)">
% if tile.registers:
        asm volatile("//@ setmaxnreg.dec.sync.aligned.u32 ${tile.registers[0]};");
% endif
        int slot = 0;
        uint turn = 0, count = 0;
        for (int at = get_group_id(0); at < all; at += get_num_groups(0)) {
            ${placed}
            for (int t = first_stage; t < last_stage; t++) {
                const uint to = start + ${tile.stage_bytes} * slot;
                bar_wait(full + 8 * slot, turn);
                bar_wait(full + ${16 * tile.stages + 16} + count % 2 * 8, ~count / 2 % 2);
                ${held.b_turned(tile)}
                asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
                team_wait();
                if (lane == 0) {
                    bar_arrive(left + 8 * slot);
                    bar_arrive(full + ${16 * tile.stages} + count % 2 * 8);
                }
                count++;
                slot++;
                if (slot == ${tile.stages}) {
                    slot = 0;
                    turn ^= 1;
                }
            }
        }
</%def>
##
## Local memory of a group, and who an item is: the ring, what is held to be stored, `more`
## bytes for the kernel's own, and barriers. One array has them all, so that none lies in between.
<%def name="begun(tile, emulated, more=0)">
<%
    ring, held = tile.ring_bytes, tile.held_bytes
    bars = ring + held + more
%>
    __local uint4 tiles[${(bars + tile.barrier_bytes) // 16}] __attribute__((aligned(1024)));
% if not emulated:
    const uint start = (uint)(size_t)tiles;
    const uint full = start + ${bars}, left = full + ${8 * tile.stages};
% else:
    const uint start = 0;
% endif
% if emulated and tile.whole:
    __local float a_held[${tile.teams * 128}][32];
% endif
    const int self = get_local_id(0), lane = self % 32, warp = self / 32 % 4, team = self / 128;
    __local float *const own = (__local float *)(
        tiles + ${ring // 16} + (team * 4 + warp) * ${tile.held_bytes // tile.teams // 64});
% if more:
    __local uint4 *const further = tiles + ${(ring + held) // 16};
% endif
% if emulated:
    /* Boxes may be smaller than a tile. */
    for (int e = self; e < ${tile.stages * tile.stage_bytes // 16}; e += ${
            tile.items(emulated=True)})
        tiles[e] = (uint4)(0);
% endif
</%def>
##
## Sums go through local memory 64 columns at a time; neighbouring rows use other banks.
<%def name="stored(sum_ctype, tile, line, tail)">
<% run = tile.run(sum_ctype) %>
% for first in range(0, tile.n, 64):
% for half in range(2):
% for j in range(8):
<% e = (first // 8 + j) * 4 + 2 * half %>
    *(__local float2 *)(own + (lane / 4 + ${8 * half}) * 64 + (${j} ^ lane / 4 % 4) * 8
        + lane % 4 * 2) = (float2)(acc[${e}], acc[${e + 1}]);
% endfor
% endfor
    team_wait();
    for (int e = lane; e < ${16 * 64 // run}; e += 32) {
        const int block = ${first}, across = e % ${64 // run} * ${run};
        const int line = team * 64 + warp * 16 + e / ${64 // run};
        __local const float4 *x = (__local const float4 *)(own + line % 16 * 64
            + (across / 8 ^ line % 4) * 8 + across % 8);
% for part in range(run // 4):
        const float4 x_${part} = x[${part}];
% endfor
        ${line}
        if (inside)
            store_sums(there, ${", ".join(f"x_{e // 4}.s{e % 4}" for e in range(run))},
                valid, ${tail});
    }
    team_wait();
% endfor
</%def>
##
## Results go through local memory as boxes, from where the copy engine takes them while items go
## on: those of 16 bits at once, floats some columns at a time, in one of two places. Two columns'
## sums are made results together; a box's lines are rows, or columns where runs lie along m.
<%def name="stored_boxes(tile, sum_ctype, out_along, emulated, before, finish, row_at, further)">
<%
    floats, columns = sum_ctype == "float", tile.columns_stored(sum_ctype)
    wide, nbytes = 32 if floats else 64, tile.m * columns * (4 if floats else 2)
%>
% for first in range(0, tile.n, columns):
<% held = tile.ring_bytes + first // columns % 2 * nbytes %>
    if (self == 0)
        ${"boxes_read_but_one" if floats else "boxes_read"}();
    teams_wait(${tile.teams * 128});
    {
% if out_along == "m":
        __local uchar *const box = (__local uchar *)tiles + ${held}
            + (team * 2 + warp / 2) * ${columns * 128} + lane % 4 * 256 + lane / 4 % 4 * 4;
% else:
        __local uchar *const line = (__local uchar *)tiles + ${held}
            + (team * 64 + warp * 16 + lane / 4) * 128 + lane % ${2 if floats else 4} * ${
                8 if floats else 4};
% endif
% for j in range(columns // 8):
        {
            const int column = column0 + ${first + 8 * j} + lane % 4 * 2;
            float b_0 = 0, b_1 = 0;
            ${before}
% for half in range(2):
<%
    e = first // 2 + 4 * j + 2 * half
    to = j * 8 // wide * tile.m * 128 + half * 1024
%>
            {
                const int row = team * 64 + warp * 16 + lane / 4 + ${8 * half};
                float u = acc[${e}], v = acc[${e + 1}];
                ${finish}
% if out_along == "m":
                const int chunk = warp % 2 * 4 + lane / 16 + ${2 * half};
                *(__local float *)(box + ${1024 * j} + (chunk ^ lane % 4 * 2) * 16) = u;
                *(__local float *)(box + ${1024 * j + 128} + (chunk ^ lane % 4 * 2 + 1) * 16) = v;
% elif floats:
                *(__local float2 *)(line + ${to} + (${j % 4 * 2} + lane % 4 / 2 ^ lane / 4) * 16) =
                    (float2)(u, v);
% else:
                *(__local uint *)(line + ${to} + (${j % 8} ^ lane / 4) * 16) = nearest(u, v);
% endif
            }
% endfor
        }
% endfor
    }
    boxes_written();
    teams_wait(${tile.teams * 128});
% if not emulated:
    if (self == 0)
% endif
    {
% if out_along == "m":
% for block in range(tile.m // 32):
        if (column0 + ${first} < n && row0 + ${32 * block} < m)
            box_store(out_map, start + ${held + block * columns * 128}, (row0 + ${32 * block}) * 2,
                column0 + ${first}${further}${", tiles" * emulated});
% endfor
% else:
% for block in range(columns // wide):
<% column = f"column0 + {first + wide * block}" %>
        if (${column} < n)
            box_store(out_map, start + ${held + block * tile.m * 128},
                ${f"({column}) * 2" if floats else column}, ${row_at}${further}${
                    ", tiles" * emulated});
% endfor
% endif
        boxes_ended();
    }
% endfor
</%def>
