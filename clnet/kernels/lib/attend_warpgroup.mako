## lib attend_warpgroup: what attention by 128 items at once is made of, beside lib/warpgroup.mako
##
## Queries lie in local memory from `start` on, keys and values behind them in a ring of boxes; rows
## of more than 64 elements take several boxes. A box that has come is used, and then released, by
## every team; products of boxes add to registers.
##
## param ctype: 'half'|'bfloat16'   element type
## param unit: WarpgroupUnit  see device/warpgroups.py
## param tile: AttendTeams    shapes, see softmax/attention_warpgroup.py
## param emulated: bool       see lib/warpgroup.mako
## param form: int            word of the tensor maps, see device/warpgroups.py
## param name: str            'q', 'k' or 'v'; of what is waited for, an array of sums
## param limit, many: str     C expressions, an operand's rows and heads
## param first: int           its first stride
## param head: int            elements of its rows
## param extent: int          rows of its box
## param blocks: int          boxes of 64 elements that a row takes
## param begin, of: str       C expressions, number of a box's first row, and of its head
## param to, tail: str        C expressions, where a box comes to, and its barrier
## param box, stages: int     bytes of a box of keys, and how many there is room for
## param others: int          keys of a box
## param slot: str            C expression, which of them
## param most: int            products that may go on
## param count: int           sums of an item
## param wide: int            elements of a row in local memory
## param inside: str          C expression, whether the item's first row is one of the operand's
## param sums, weights: str   arrays of registers
## param own, others_at: str  C expressions, where the own rows lie, and a box
<%namespace name="plain" file="/lib/warpgroup_emulated.mako"/>
<%namespace name="units" file="/lib/warpgroup.mako"/>
##
## Write an operand's tensor map. An axis of one element has any stride.
<%def name="mapped(name, limit, many, first, extent, form, head)">
<% step = lambda axis: f"(ulong)strides.s{first + axis:x} * 2" %>
    map_write(${name}_map, ${form}u, (ulong)${name}_from, ${head},
        ${limit}, ${step(2)}, 64, ${extent}, 2, ${many}, ${step(1)}, images, ${step(0)},
        1, 1, 1, 1);
</%def>
##
## Copy the boxes of some rows.
<%def name="copied(name, begin, of, extent, blocks, to='to', tail='full + 8 * slot')">
% for block in range(blocks):
    box_copy(${to} + ${128 * extent * block}, ${name}_map, ${64 * block}, ${begin}, ${of}, image,
        ${tail});
% endfor
</%def>
<%def name="advanced(stages)">
    slot++;
    if (slot == ${stages}) {
        slot = 0;
        turn ^= 1;
    }
</%def>
##
## The next box is there, at `to`.
<%def name="arrived(name, begin, others, box, blocks, emulated)">
% if emulated:
    barrier(CLK_LOCAL_MEM_FENCE);
    {
        const uint to = ring + ${box} * slot;
        ${copied(name, begin, "key_head", others, blocks, "to", "tiles")}
    }
    barrier(CLK_LOCAL_MEM_FENCE);
% else:
    bar_wait(full + 8 * slot, turn);
% endif
</%def>
<%def name="released(slot, emulated)">
% if not emulated:
    if (lane == 0)
        bar_arrive(left + 8 * ${slot});
% endif
</%def>
<%def name="fenced(emulated)">
% if not emulated:
    asm volatile("//@ wgmma.fence.sync.aligned;" ::: "memory");
% endif
</%def>
##
## Wait until no more products than these go on; then these sums may be read.
<%def name="waited(most, name, count, emulated)">
% if not emulated:
    asm volatile("//@ wgmma.wait_group.sync.aligned ${most};" ::: "memory");
% for e in range(count):
    asm volatile("" : "+f"(${name}[${e}]) :: "memory");
% endfor
% endif
</%def>
##
## Words that begin here are not worth a register each, for all turns of a loop.
<%def name="hidden(name, emulated)">
% if not emulated:
    asm volatile("" : "+r"(${name}));
% endif
</%def>
##
## sums = own rows at `own` times those of a box at `others_at`.
<%def name="scores(
    ctype, unit, tile, blocks, emulated, sums='s', own='start', others_at=None)">
<%
    count = tile.others // 2
    registers = ", ".join(map("%{}".format, range(count)))
    listed = ", ".join(map('"+f"({}[{}])'.format, [sums] * count, range(count)))
    box_at = others_at or f"ring + {128 * tile.others * blocks} * slot"
    word = capture(units.word, "k", ctype)
%>
    {
        uint a_start = ${own} + team * 8192, b_start = ${box_at};
        ${hidden("a_start", emulated)}
        ${hidden("b_start", emulated)}
% if emulated:
        multiply_keys(${sums}, (__local const uchar *)tiles, a_start, b_start, warp, lane);
% else:
% for step in range(4 * blocks):
<%
    a_at = step // 4 * 128 * tile.own + step % 4 * 32
    b_at = step // 4 * 128 * tile.others + step % 4 * 32
%>
        asm volatile("//@ { .reg .pred p; setp.ne.u32 p, ${int(step > 0)}, 0; "
            "wgmma.mma_async.sync.aligned.m64n${tile.others}k16.f32.${unit.kind} "
            "{${registers}}, %${count}, %${count + 1}, p, 1, 1, 0, 0; }"
            : ${listed}
            : "l"(${word} | (a_start + ${a_at} & 0x3ffff) >> 4),
            "l"(${word} | (b_start + ${b_at} & 0x3ffff) >> 4) : "memory");
% endfor
        asm volatile("//@ wgmma.commit_group.sync.aligned;" ::: "memory");
% endif
    }
</%def>
##
## sums += weights in registers times the rows of a box; emulated for rows that are `inside` alone.
<%def name="values(
    unit, tile, wide, inside, emulated, sums='sums', weights='p', others_at=None)">
<%
    count = wide // 2
    registers = ", ".join(map("%{}".format, range(count)))
    listed = ", ".join(map('"+f"({}[{}])'.format, [sums] * count, range(count)))
    box_at = others_at or f"ring + {2 * tile.others * wide} * slot"
    own = ", ".join(map("%{}".format, range(count, count + 4)))
    word = capture(across_lines, tile)
%>
    {
        uint b_start = ${box_at};
        ${hidden("b_start", emulated)}
% if emulated:
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int e = 0; e < ${tile.others // 4}; e++) {
            const int row = team * 64 + warp * 16 + lane / 4 + e % 2 * 8,
                column = e / 2 * 8 + lane % 4 * 2;
            held[row * ${tile.others} + column] = ${weights}[e] & 0xffff;
            held[row * ${tile.others} + column + 1] = ${weights}[e] >> 16;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (${inside})
            multiply_values(${sums}, held + (team * 64 + warp * 16) * ${tile.others},
                (__local const uchar *)tiles, b_start, lane);
% else:
% for step in range(tile.others // 16):
        asm volatile("//@ { .reg .pred p; setp.ne.u32 p, 1, 0; "
            "wgmma.mma_async.sync.aligned.m64n${wide}k16.f32.${unit.kind} "
            "{${registers}}, {${own}}, %${count + 4}, p, 1, 1, 1; }"
            : ${listed}
            : ${", ".join(f'"r"({weights}[{4 * step + r}])' for r in range(4))},
            "l"(${word} | (b_start + ${2048 * step} & 0x3ffff) >> 4) : "memory");
% endfor
        asm volatile("//@ wgmma.commit_group.sync.aligned;" ::: "memory");
% endif
    }
</%def>
##
## The word of an operand whose lines are steps, all those of a box; see lib/warpgroup.mako.
<%def name="across_lines(tile)" filter="trim">
(${8 * tile.others}ul << 16 | 64ul << 32 | 1ul << 62)
</%def>
##
## Products in plain C; operands are found by the same words. Behind a head's elements are zeros,
## which are passed over, as rows of them are.
<%def name="emulation(ctype, tile, head)">
<%
    key_lanes = 8 if tile.others % 32 == 0 else 4
    steps = (head + 15) // 16 * 16
%>
inline void multiply_keys(float *s, __local const uchar *tiles, const uint a_start,
    const uint b_start, const int warp, const int lane)
{
    float upper[${steps}], lower[${steps}], values[16 * ${key_lanes}];
    const int row = warp * 16 + lane / 4;  // an item's two, for all of its columns
    int some = 0;
    for (int k = 0; k < ${steps}; k += 16) {
        const ulong word = ${units.word("k", ctype)}
            | (a_start + k / 64 * ${128 * tile.own} + k % 64 * 2 & 0x3ffff) >> 4;
        some |= found(upper + k, tiles, word, 1, row);
        some |= found(lower + k, tiles, word, 1, row + 8);
    }
    for (int e = 0; e < ${tile.others // 2}; e++)
        s[e] = 0;
    if (!some)
        return;
    for (int j = 0; j < ${tile.others // 8}; j += ${key_lanes // 2}) {
        float *sums = s + 4 * j;
        for (int k = 0; k < ${steps}; k += 16) {
            columns_${key_lanes}(values, tiles, ${units.word("k", ctype)}
                | (b_start + k / 64 * ${128 * tile.others} + k % 64 * 2 & 0x3ffff) >> 4, 1,
                j, lane);
            ${plain.summed("sums", "upper[k + step]", "lower[k + step]", 16, key_lanes)}
        }
    }
}
inline void multiply_values(float *sums, __local const ushort *held, __local const uchar *tiles,
    const uint b_start, const int lane)
{
    float rows[${2 * tile.others}], values[16 * 8];  // an item's two, for all of its columns
    for (int half_row = 0; half_row < 2; half_row++) {
        __local const ushort *const row = held + (lane / 4 + half_row * 8) * ${tile.others};
        for (int e = 0; e < ${tile.others // 8}; e++)
            vstore8(wide_8(vload8(e, row)), half_row * ${tile.others // 8} + e, rows);
    }
    for (int j = 0; j < ${(head + 7) // 8}; j += 4) {
        float *of_columns = sums + 4 * j;
        for (int k = 0; k < ${tile.others}; k += 16) {
            columns_8(values, tiles, ${across_lines(tile)} | (b_start + k * 128 & 0x3ffff) >> 4, 0,
                j, lane);
            ${plain.summed(
                "of_columns", "rows[k + step]", f"rows[{tile.others} + k + step]", 16, 8)}
        }
    }
}
</%def>
