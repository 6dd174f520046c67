## lib step_tiles: a product of few rows, in which a group's items share every sum
##
## A group multiplies tiles in local memory, each tile's terms shared out among `slices` of its
## items, while the next tiles are on their way into registers. It has `rows` rows of a, and as many
## `columns` of each of `runs` parts of b, whose lines lie one behind the other.
##
## param size: int            columns of a part of b
## param gates: int           parts of a line that an element of the result belongs to
## param rows, columns: int   of a group; columns are a multiple of 4
## param down, across: int    sums of an item: so many rows and columns, of each part
## param slices: int          items that share a sum, a power of two above 1
## param chunk: int           terms of a tile, `deep` times the slices or a multiple
## param deep: int            terms that an item reads at a time, 2 or 4
## param patches: bool        32 items make 4 by 8 blocks, of which every other item reads the same
##                            of b and every next two of a: local memory answers such at once
## param ahead: int           tiles that are on their way while one is multiplied
## param group: int           work-items of a group: rows * columns / down / across * slices
## param aligned: bool        a and b begin at multiples of four elements
## param room: int            elements of local memory
## param terms: int           of a sum, a multiple of 4
## param runs: int            parts of b
## param run: int             one of them
## param u: int               which of an item's elements
## param where: str           pointer to four elements
## param into: int            which of `ahead` sets of registers
## param k: str|int           the first term
##
<%def name="four(aligned, where)">${
    f"*(__global const float4 *)({where})" if aligned else f"vload4(0, {where})"}</%def>
##
## The group's place, and its local memory.
<%def name="begin(rows, columns, room)">
    __local float room[${room}] __attribute__((aligned(16)));
    const int item = get_local_id(0), layer = get_group_id(2);
    const int from = get_group_id(0) * ${rows}, column_from = get_group_id(1) * ${columns};
    const int count = n - from;
    const long row = (long)layer * n + from;
</%def>
##
## The place of the item's u-th element to finish: `inside` or not, in a state and in gates.
<%def name="place(size, gates, rows, columns, group, u)">
    const int at_${u} = item + ${u * group};
    const int row_${u} = at_${u} / ${columns}, column_${u} = column_from + at_${u} % ${columns};
    const bool inside_${u} = at_${u} < ${rows * columns} && row_${u} < count
        && column_${u} < ${size};
    const int own_${u} = row_${u} * ${size} + column_${u};
    const int gate_${u} = row_${u} * ${gates * size} + column_${u};
</%def>
##
## Read tiles into the registers `into`, from term `k` on: rows of a, `terms` long, and lines of b,
## `runs` parts each.
<%def name="bring(size, rows, columns, chunk, group, aligned, terms, runs, into, k)">
% for u in range(-(-rows * chunk // (4 * group))):
    {
        const int at = item + ${u * group}, line = at / ${chunk // 4};
        const int term = ${k} + at % ${chunk // 4} * 4;
        const bool valid = line < min(count, ${rows}) && term < ${terms};
        a_${into}_${u} = valid ? ${four(aligned, "a + line * %d + term" % terms)} : 0;
    }
% endfor
% for u in range(-(-chunk * runs * columns // (4 * group))):
    {
        const int at = (item + ${u * group}) * 4, line = ${k} + at / ${runs * columns};
        const int part = at % ${runs * columns}, run = part / ${columns};
        const int column = column_from + part % ${columns};
        const bool valid = at < ${chunk * runs * columns} && line < ${terms} && column < ${size};
        b_${into}_${u} = valid
            ? ${four(aligned, "b + line * %d + run * %d + column" % (runs * size, size))} : 0;
    }
% endfor
</%def>
##
## Put them into local memory, into the half `slot`.
<%def name="put(rows, columns, chunk, group, runs, into)">
% for u in range(-(-rows * chunk // (4 * group))):
    {
        const int at = item + ${u * group}, line = at / ${chunk // 4};
        if (line < ${rows})
            *(__local float4 *)(a_tile + (slot * ${rows} + line) * ${chunk + 4}
                + at % ${chunk // 4} * 4) = a_${into}_${u};
    }
% endfor
% for u in range(-(-chunk * runs * columns // (4 * group))):
    {
        const int at = (item + ${u * group}) * 4;
        if (at < ${chunk * runs * columns})
            *(__local float4 *)(b_tile + slot * ${chunk * runs * columns} + at) = b_${into}_${u};
    }
% endfor
</%def>
##
## Multiply what lies in the half `slot`.
<%def name="multiply(rows, columns, down, across, slices, chunk, runs, deep)">
<%
    ctype = "float" if across == 1 else f"float{across}"
    wide, pitch, apart = runs * columns, chunk + 4, rows // down
%>
    {
        __local const float *a_at = a_tile + (slot * ${rows} + item_row) * ${pitch}
            + slice * ${chunk // slices};
        __local const float *b_at = b_tile + item_column
            + (slot * ${chunk} + slice * ${chunk // slices}) * ${wide};
        for (int t = 0; t < ${chunk // slices}; t += ${deep},
            a_at += ${deep}, b_at += ${deep * wide}) {
% for t in range(deep):
% for run in range(runs):
            const ${ctype} b_${t}_${run} =
                *(__local const ${ctype} *)(b_at + ${t * wide + run * columns});
% endfor
% endfor
% for r in range(down):
            {
                const float${deep} a_few =
                    *(__local const float${deep} *)(a_at + ${r * apart * pitch});
% for t, element in enumerate("xyzw"[:deep]):
% for run in range(runs):
                sum_${r}_${run} =
                    fma((${ctype})(a_few.${element}), b_${t}_${run}, sum_${r}_${run});
% endfor
% endfor
            }
% endfor
        }
    }
</%def>
##
## room[part][run][row][column] afterwards: slices / 2 parts of a @ b, which add up in order.
<%def name="product(
    size, rows, columns, down, across, slices, chunk, ahead, group, patches, aligned, terms,
    runs)">
<%
    ctype = "float" if across == 1 else f"float{across}"
    wide, pitch = runs * columns, chunk + 4
%>
    __local float *const a_tile = room, *const b_tile = room + ${2 * rows * pitch};
    ${item_place(rows, columns, down, across, patches)}
% for into in range(ahead):
    float4 ${", ".join(f"a_{into}_{u}" for u in range(-(-rows * chunk // (4 * group))))};
    float4 ${", ".join(f"b_{into}_{u}" for u in range(-(-chunk * wide // (4 * group))))};
    ${bring(size, rows, columns, chunk, group, aligned, terms, runs, into, into * chunk)}
% endfor
% for r in range(down):
    ${ctype} ${", ".join(f"sum_{r}_{run} = 0" for run in range(runs))};
% endfor
    int slot = 0;
    for (int k = 0; k < ${terms}; ) {
% for into in range(ahead):
% if into:
        if (k >= ${terms})
            break;
% endif
        ${put(rows, columns, chunk, group, runs, into)}
        barrier(CLK_LOCAL_MEM_FENCE);
        if (k + ${ahead * chunk} < ${terms}) {
            ${bring(size, rows, columns, chunk, group, aligned, terms, runs, into,
                f"k + {ahead * chunk}")}
        }
        ${multiply(rows, columns, down, across, slices, chunk, runs, 4)}
        k += ${chunk};
        slot ^= 1;
% endfor
    }
    ${gather(rows, columns, down, across, slices, runs)}
</%def>
##
## The item's slice, and the first of its rows and columns.
<%def name="item_place(rows, columns, down, across, patches)">
<% lanes, team = columns // across, rows // down * (columns // across) %>
    const int slice = item / ${team}, lane = item % ${team};
% if patches and lanes % 8 == 0 and team // lanes % 4 == 0:
    const int patch = lane / 32;
    const int item_row = patch / ${lanes // 8} * 4 + ((lane & 1) | (lane >> 3 & 2));
    const int item_column = (patch % ${lanes // 8} * 8 + (lane >> 1 & 7)) * ${across};
% else:
    const int item_row = lane / ${lanes}, item_column = lane % ${lanes} * ${across};
% endif
</%def>
##
## room[part][run][row][column] afterwards: slices / 2 parts of the sums, which add up in order.
<%def name="gather(rows, columns, down, across, slices, runs)">
<%
    ctype = "float" if across == 1 else f"float{across}"
    block, apart = runs * rows * columns, rows // down
%>
    barrier(CLK_LOCAL_MEM_FENCE);
    __local float *part = room + slice % ${slices // 2} * ${block} + item_row * ${columns}
        + item_column;
    if (slice >= ${slices // 2}) {
% for r in range(down):
% for run in range(runs):
        *(__local ${ctype} *)(part + ${(run * rows + r * apart) * columns}) = sum_${r}_${run};
% endfor
% endfor
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (slice < ${slices // 2}) {
% for r in range(down):
% for run in range(runs):
        *(__local ${ctype} *)(part + ${(run * rows + r * apart) * columns}) += sum_${r}_${run};
% endfor
% endfor
    }
    barrier(CLK_LOCAL_MEM_FENCE);
</%def>
##
## The u-th element's sum of a run.
<%def name="whole(rows, columns, slices, runs, run, u)">${" + ".join(
    f"room[{(part * runs + run) * rows * columns} + at_{u}]" for part in range(slices // 2)
)}</%def>
