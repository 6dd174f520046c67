## lib warpgroup: products of 128 items at once, and what brings their operands into local memory
##
## A box lies in local memory in lines of 128 bytes, eight of which make 1024; in them, runs of 16
## bytes are exchanged by the line's number (bits 4 to 6 of an address are xored with bits 7 to 9).
## Along k a line is a row of the operand; otherwise a line is a step of k, of 64 rows, and further
## rows follow in boxes of their own. A product finds its operands by a word of 64 bits: where they
## begin, how far apart boxes of 64 rows lie, and each eight lines. What an item holds of sums:
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
## across its lines.
##
## Emulated, all items copy, and multiply, in step; maps, places and words are the same, see
## warpgroup_emulated.mako.
##
## Of maps with four axes, boxes may have lines along three, that lie `skip` elements apart.
##
## param ctype: 'half'|'bfloat16'|'float'  element type of a and b
## param unit: WarpgroupUnit  see device/warpgroups.py
## param tile: WarpgroupTile  shapes, see gemm_warpgroup.py
## param rank: 2|4            axes of the tensor maps
## param emulated: bool       see above
## param a_along: 'tile'|'k'  axis of a that is dense
## param b_along: 'tile'|'k'  the same of b
## param along: 'tile'|'k'    an operand's
## param b_from: str          C expression, where b begins
## param wait: int            products that may go on
<%namespace name="held" file="warpgroup_held.mako"/>
<%namespace name="plain" file="warpgroup_emulated.mako"/>
##
## Copies, barriers and products.
<%def name="functions(ctype, unit, tile, rank, emulated)">
<%
    places = ("x", "y", "inner", "outer")[:rank]
    given = "".join(map(", const int {}".format, places))
    listed = ", ".join(map("%{}".format, range(2, 2 + rank)))
    passed = ", ".join(map('"r"({})'.format, places))
%>
inline void map_write(
    __global uint *map, const uint form, const ulong from, const int size_0, const int size_1,
    const ulong step_1, const uint box_0, const uint box_1, const uint item
% if rank == 4:
    , const int size_2, const ulong step_2, const int size_3, const ulong step_3,
    const uint box_2, const uint box_3, const uint skip_1, const uint skip_2
% endif
    )
{
    for (int e = 0; e < 32; e++)
        map[e] = 0;
    map[0] = (uint)from;
    map[1] = (uint)(from >> 32);
    map[2] = form;
    map[3] = (uint)((size_1 > 1 ? step_1 : 16) >> 4);
    map[8] = size_0 - 1;
    map[9] = size_1 - 1;
% if rank == 4:
    map[4] = (uint)((size_2 > 1 ? step_2 : 16) >> 4);
    map[5] = (uint)((size_3 > 1 ? step_3 : 16) >> 4);
    map[10] = size_2 - 1;
    map[11] = size_3 - 1;
% endif
    map[13] = box_0 - 1 << 24;
    map[14] = box_1 - 1;
    map[16] = item * box_0 * box_1;
    map[18] = 1024;
% if rank == 4:
    map[13] |= skip_1 - 1 << 3 | skip_2 - 1 << 6;
    map[14] = (box_1 - 1) * skip_1 | (box_2 - 1) * skip_2 << 8 | box_3 - 1 << 16;
    map[16] *= box_2 * box_3;
% endif
% if not emulated:
    asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(map) : "memory");
% endif
}
% if emulated:
${plain.emulation(ctype, unit, tile, rank, given)}
% else:
inline void box_copy(const uint to, __global const uint *map${given}, const uint bar)
{
    asm volatile("cp.async.bulk.tensor.${rank}d.shared::cluster.global"
        ".mbarrier::complete_tx::bytes [%0], [%1, {${listed}}], [%${2 + rank}];"
        :: "r"(to), "l"(map), ${passed}, "r"(bar) : "memory");
}
inline void bars_begin(const uint full, const uint count, const uint writers, const uint readers)
{
    for (uint e = 0; e < count; e++) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
            :: "r"(full + 8 * e), "r"(writers) : "memory");
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
            :: "r"(full + 8 * count + 8 * e), "r"(readers) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
inline void bar_expect(const uint bar, const uint bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
        :: "r"(bar), "r"(bytes) : "memory");
}
inline void bar_arrive(const uint bar)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(bar) : "memory");
}
inline void bar_wait(const uint bar, const uint turn)
{
    uint done;
    do
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
            "selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(bar), "r"(turn) : "memory");
    while (!done);
}
inline void team_wait(void)
{
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
}
/* The copy engine stores whole runs of 16 bytes, which it reads after items have gone on. */
inline void row_store(__global void *to, __local const void *from, const int bytes)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
        :: "l"(to), "r"((uint)(size_t)from), "r"(bytes) : "memory");
}
inline void rows_written(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
inline void rows_ended(void)
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
inline void rows_read(void)
{
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
% endif
</%def>
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
