## lib warpgroup: products of 128 items at once, whose operands lie in local memory
##
## Boxes bring them, see warpgroup_boxes.mako. Along k a line is a row of the operand; otherwise a
## line is a step of k, of 64 rows, and further rows follow in boxes of their own. A product finds
## its operands by a word of 64 bits: where they begin, how far apart boxes of 64 rows lie, and each
## eight lines. What an item holds of sums:
##
##     acc[4 * j + r]  of its warp's 16 rows lane / 4 + r / 2 * 8,
##                     column j * 8 + lane % 4 * 2 + r % 2
##
## A stage has two barriers: `full` counts the bytes that came, `left` the warps that have done with
## it.
##
## Marked lines are of a target that the driver's compiler does not name: device/warpgroups.py.
##
## Of a tile whose a is whole, items read its elements, split them and hold them in registers. TF32
## is multiplied along k alone: of a tile that is turned, a further team writes b to local memory
## once more, along k, into one of two buffers, which have barriers like a stage's; items read a
## across its lines. Of a tile that is sided only a comes so; stages come in pairs, so that what is
## held of one is another's than what products still read.
##
## Emulated, all items copy, and multiply, in step; maps, places and words are the same, see
## warpgroup_emulated.mako.
##
## param ctype: 'half'|'bfloat16'|'float'  element type of a and b
## param unit: WarpgroupUnit  see device/warpgroups.py
## param tile: WarpgroupTile  shapes, see gemm_warpgroup.py
## param emulated: bool       see above
## param a_along: 'tile'|'k'  axis of a that is dense
## param b_along: 'tile'|'k'  the same of b
## param along: 'tile'|'k'    an operand's
## param b_from: str          C expression, where b begins
## param wait: int            products that may go on
<%namespace name="held" file="warpgroup_held.mako"/>
##
## The word by which a product finds an operand, without where it begins.
<%def name="word(along, ctype)" filter="trim">
<% apart = 1 if along == "k" else 128 * (32 if ctype == "float" else 64) // 16 %>
(${apart}ul << 16 | 64ul << 32 | 1ul << 62)
</%def>
##
## All products of a stage, behind which the one before it is left.
<%def name="multiplied(ctype, unit, tile, a_along, b_along, emulated)">
<%
    steps, ring = tile.steps(ctype) // unit.steps, tile.stages * tile.stage_bytes
    ready = f"full + {16 * tile.stages} + count % 2 * 8"
    used = f"full + {16 * tile.stages + 16} + count % 2 * 8" if tile.turned else "left + 8 * slot"
%>
    {
        const uint a_start = to + team * 8192;
% if tile.turned and emulated:
        ${held.b_turned(tile)}
% endif
% if tile.turned:
        ${held.a_turned(tile, emulated, steps)}
% elif tile.sided:
        ${held.a_beside(emulated, steps)}
% elif tile.whole:
        ${held.items_split(emulated, steps)}
% endif
% if tile.turned and not emulated:
        team_wait();  /* all lanes have read */
        if (lane == 0)
            bar_arrive(left + 8 * slot);
        bar_wait(${ready}, count / 2 % 2);
% endif
% if not tile.promotes:
        const int fresh = t == first_stage;
% endif
% if tile.turned:
        const uint b_start = start + ${ring} + count % 2 * ${tile.turned_bytes};
        ${issued(ctype, unit, tile, "k", "k", "b_start", emulated)}
% else:
        ${issued(ctype, unit, tile, a_along, b_along, "to", emulated)}
% endif
% if tile.turned or tile.promotes:
        ${awaited(tile, 0, emulated)}
% if not emulated:
        if (lane == 0)
            bar_arrive(${used});
% endif
% if tile.turned:
        count++;
% endif
% if tile.promotes:
% for e in range(tile.n // 2):
        sums[${e}] += acc[${e}];
% endfor
% endif
% elif not emulated:
        ${awaited(tile, 1, emulated)}
        if (lane == 0 && t > first_stage)
            bar_arrive(left + 8 * (slot ? slot - 1 : ${tile.stages - 1}));
% endif
    }
</%def>
##
## Products of a stage, whose sums go on in acc.
<%def name="issued(ctype, unit, tile, a_along, b_along, b_from, emulated)">
<%
    # Steps of k behind each other: 32 bytes of a line, or so many lines.
    a_next = 32 if a_along == "k" else 128 * unit.steps
    b_next = 32 if b_along == "k" else 128 * unit.steps
    pairs = ((1, 0), (0, 1), (0, 0)) if tile.parts == 2 else ((0, 0),)
    count, stage_steps = tile.n // 2, range(tile.steps(ctype) // unit.steps)
    registers = ", ".join(map("%{}".format, range(count)))
    sums = ", ".join(map('"+f"(acc[{}])'.format, range(count)))
    flags = f", {int(a_along != 'k')}, {int(b_along != 'k')}" if unit.turns else ""
%>
% if not emulated:
        asm volatile("//@ wgmma.fence.sync.aligned;" ::: "memory");
% endif
% for at, (a_part, b_part) in enumerate(pairs):
<%
    a_base, b_base = f"a_start + {tile.a_base(a_part)}", f"{b_from} + {tile.b_base(b_part)}"
%>
% if emulated and tile.whole:
        for (int step = 0; step < ${len(stage_steps)}; step++)
            multiply_held(acc, a_held, (__local const uchar *)tiles, ${a_part * 16} + step * 4,
                ${word(b_along, ctype)} | (${b_base} + step * ${b_next} & 0x3ffff) >> 4,
                team * 128 + warp * 32, lane, step == 0 && ${
                    0 if at else 1 if tile.promotes else "fresh"});
% elif emulated:
        for (int step = 0; step < ${len(stage_steps)}; step++)
            multiply(acc, (__local const uchar *)tiles,
                ${word(a_along, ctype)} | (${a_base} + step * ${a_next} & 0x3ffff) >> 4,
                ${word(b_along, ctype)} | (${b_base} + step * ${b_next} & 0x3ffff) >> 4,
                ${int(a_along == "k")}, ${int(b_along == "k")}, warp, lane,
                step == 0 && ${0 if at else 1 if tile.promotes else "fresh"});
% else:
% for step in stage_steps:
<% kept = "1u" if at or step else "0u" if tile.promotes else "(uint)!fresh" %>
% if tile.whole:
        asm volatile("//@ { .reg .pred p; setp.ne.u32 p, %${count + 5}, 0; "
            "wgmma.mma_async.sync.aligned.m64n${tile.n}k${unit.steps}.f32.${unit.kind} "
            "{${registers}}, {${", ".join(f"%{count + r}" for r in range(4))}}, "
            "%${count + 4}, p, 1, 1; }"
            : ${sums}
            : ${", ".join(f'"r"(a_held[{a_part * 16 + step * 4 + r}])' for r in range(4))},
            "l"(${word(b_along, ctype)} | (${b_base} + ${step * b_next} & 0x3ffff) >> 4),
            "r"(${kept}) : "memory");
<% continue %>
% endif
        asm volatile("//@ { .reg .pred p; setp.ne.u32 p, %${count + 2}, 0; "
            "wgmma.mma_async.sync.aligned.m64n${tile.n}k${unit.steps}.f32.${unit.kind} "
            "{${registers}}, %${count}, %${count + 1}, p, 1, 1${flags}; }"
            : ${sums}
            : "l"(${word(a_along, ctype)} | (${a_base} + ${step * a_next} & 0x3ffff) >> 4),
            "l"(${word(b_along, ctype)} | (${b_base} + ${step * b_next} & 0x3ffff) >> 4),
            "r"(${kept}) : "memory");
% endfor
% endif
% endfor
% if not emulated:
        asm volatile("//@ wgmma.commit_group.sync.aligned;" ::: "memory");
% endif
</%def>
##
## Wait until no more products than these go on; behind 0, sums may be read.
<%def name="awaited(tile, wait, emulated)">
% if not emulated:
    asm volatile("//@ wgmma.wait_group.sync.aligned ${wait};" ::: "memory");
% if wait == 0:
% for e in range(tile.n // 2):
    asm volatile("" : "+f"(acc[${e}]) :: "memory");
% endfor
% endif
% endif
</%def>
##
## Behind the last stage of a tile: its sums are in acc, and the stage is left.
<%def name="ended(tile, emulated)">
% if tile.promotes:
% for e in range(tile.n // 2):
    acc[${e}] = sums[${e}];
% endfor
% elif not emulated and not tile.turned:
    ${awaited(tile, 0, emulated)}
    if (lane == 0)
        bar_arrive(left + 8 * (slot ? slot - 1 : ${tile.stages - 1}));
% endif
</%def>
