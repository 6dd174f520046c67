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
## it. Marked lines are of a target that the driver's compiler does not name: device/warpgroups.py.
##
## Emulated, all items copy, and multiply, in step; maps, places and words are the same.
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
## param wait: int            products that may go on
## param given: str           further parameters of a copy, in C
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
${emulation(ctype, unit, tile, rank, given)}
% else:
inline void box_copy(const uint to, __global const uint *map${given}, const uint bar)
{
    asm volatile("cp.async.bulk.tensor.${rank}d.shared::cluster.global"
        ".mbarrier::complete_tx::bytes [%0], [%1, {${listed}}], [%${2 + rank}];"
        :: "r"(to), "l"(map), ${passed}, "r"(bar) : "memory");
}
inline void bars_begin(const uint full)
{
    for (uint e = 0; e < ${tile.stages}; e++) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(full + 8 * e) : "memory");
        asm volatile("mbarrier.init.shared::cta.b64 [%0], ${4 * tile.teams};"
            :: "r"(full + ${8 * tile.stages} + 8 * e) : "memory");
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
    # Steps of k behind each other: 32 bytes of a line, or so many lines.
    a_next = 32 if a_along == "k" else 128 * unit.steps
    b_next = 32 if b_along == "k" else 128 * unit.steps
    pairs = ((1, 0), (0, 1), (0, 0)) if tile.parts == 2 else ((0, 0),)
    count = tile.n // 2
    registers = ", ".join(map("%{}".format, range(count)))
    turned = f", {int(a_along != 'k')}, {int(b_along != 'k')}" if unit.turns else ""
    sums = ", ".join(map('"+f"(acc[{}])'.format, range(count)))
%>
    {
        const uint a_start = to + team * 8192, b_start = to + ${tile.m * 128};
% if not tile.promotes:
        const int fresh = t == first_stage;
% endif
% if not emulated:
        asm volatile("//@ wgmma.fence.sync.aligned;" ::: "memory");
% endif
% for at, (a_part, b_part) in enumerate(pairs):
<%
    a_base = f"a_start + {a_part * tile.part_bytes}"
    b_base = f"b_start + {b_part * tile.part_bytes}"
%>
% if emulated:
        for (int step = 0; step < ${tile.steps(ctype) // unit.steps}; step++)
            multiply(acc, (__local const uchar *)tiles,
                ${word(a_along, ctype)} | (${a_base} + step * ${a_next} & 0x3ffff) >> 4,
                ${word(b_along, ctype)} | (${b_base} + step * ${b_next} & 0x3ffff) >> 4,
                ${int(a_along == "k")}, ${int(b_along == "k")}, warp, lane,
                step == 0 && ${0 if at else 1 if tile.promotes else "fresh"});
% else:
% for step in range(tile.steps(ctype) // unit.steps):
<% kept = "1u" if at or step else "0u" if tile.promotes else "(uint)!fresh" %>
        asm volatile("//@ { .reg .pred p; setp.ne.u32 p, %${count + 2}, 0; "
            "wgmma.mma_async.sync.aligned.m64n${tile.n}k${unit.steps}.f32.${unit.kind} "
            "{${registers}}, %${count}, %${count + 1}, p, 1, 1${turned}; }"
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
% if tile.promotes:
        ${awaited(tile, 0, emulated)}
% if not emulated:
        if (lane == 0)
            bar_arrive(left + 8 * slot);
% endif
% for e in range(count):
        sums[${e}] += acc[${e}];
% endfor
% elif not emulated:
        ${awaited(tile, 1, emulated)}
        if (lane == 0 && t > first_stage)
            bar_arrive(left + 8 * (slot ? slot - 1 : ${tile.stages - 1}));
% endif
    }
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
% elif not emulated:
    ${awaited(tile, 0, emulated)}
    if (lane == 0)
        bar_arrive(left + 8 * (slot ? slot - 1 : ${tile.stages - 1}));
% endif
</%def>
##
## The same by plain C: a map is read, a box swizzled, an operand found by its word.
<%def name="emulation(ctype, unit, tile, rank, given)">
<% element = "float" if ctype == "float" else "ushort" %>
inline uint swizzled(const uint place)
{
    return place ^ (place >> 7 & 7) << 4;
}
inline void box_copy(const uint to, __global const uint *map${given}, __local uint4 *tiles)
{
    const int wide = (map[13] >> 24) + 1;
    __global const uchar *from = (__global const uchar *)((ulong)map[1] << 32 | map[0]);
    const int skip_1 = (map[13] >> 3 & 7) + 1, skip_2 = (map[13] >> 6 & 7) + 1;
    const int lines_1 = (map[14] & 0xff) / skip_1 + 1, lines_2 = (map[14] >> 8 & 0xff) / skip_2 + 1,
        lines_3 = (map[14] >> 16 & 0xff) + 1;
    for (int e = get_local_id(0); e < wide * lines_1 * lines_2 * lines_3;
            e += ${tile.items(emulated=True)}) {
        const uint line = e / wide, lane = e % wide;
        const uint at_0 = x + lane, at_1 = y + line % lines_1 * skip_1;
        ulong place = at_1 * ((ulong)map[3] << 4) + at_0 * sizeof(${element});
        int there = at_0 <= map[8] && at_1 <= map[9];
% if rank == 4:
        const uint at_2 = inner + line / lines_1 % lines_2 * skip_2,
            at_3 = outer + line / lines_1 / lines_2;
        place += at_2 * ((ulong)map[4] << 4) + at_3 * ((ulong)map[5] << 4);
        there = there && at_2 <= map[10] && at_3 <= map[11];
% endif
        ${element} value = there ? *(__global const ${element} *)(from + place) : 0;
% if ctype == "float":
        if (isfinite(value))
            value = as_float(as_uint(value) + 0x1000 & 0xffffe000);
% endif
        *(__local ${element} *)((__local uchar *)tiles
            + swizzled(to + line * 128 + lane * sizeof(value))) = value;
    }
}
inline void team_wait(void)
{
    barrier(CLK_LOCAL_MEM_FENCE);
}
inline float found(
    __local const uchar *tiles, const ulong word, const int along_k, const int line, const int step)
{
    const uint start = (uint)(word & 0x3fff) << 4, eight = (uint)(word >> 32 & 0x3fff) << 4,
        apart = (uint)(word >> 16 & 0x3fff) << 4;
    const uint place = along_k
        ? start + line / 8 * eight + line % 8 * 128 + step * sizeof(${element})
        : start + line / 64 * apart + step / 8 * eight + step % 8 * 128
            + line % 64 * sizeof(${element});
    const ${element} value = *(__local const ${element} *)(tiles + swizzled(place));
% if ctype == "half":
    return vload_half(0, (const half *)&value);
% elif ctype == "bfloat16":
    return as_float((uint)value << 16);
% else:
    return value;
% endif
}
inline void multiply(
    float *acc, __local const uchar *tiles, const ulong a_word, const ulong b_word,
    const int a_along_k, const int b_along_k, const int warp, const int lane, const int fresh)
{
    for (int e = 0; e < ${tile.n // 2}; e++) {
        const int row = warp * 16 + lane / 4 + e % 4 / 2 * 8,
            column = e / 4 * 8 + lane % 4 * 2 + e % 2;
        float sum = fresh ? 0 : acc[e];
        for (int step = 0; step < ${unit.steps}; step++)
            sum += found(tiles, a_word, a_along_k, row, step)
                * found(tiles, b_word, b_along_k, column, step);
        acc[e] = sum;
    }
}
</%def>
