## lib warpgroup_emulated: what warpgroup_boxes.mako and warpgroup.mako have, by plain C
##
## A map is read, a box swizzled, an operand found by its word. A simulator takes as long for a
## vector's instruction as for a number's: boxes are copied by runs of 16 bytes, and an item's sums
## of a row are vectors across its columns, to which products are added one after another along k.
## An item whose rows are zeros multiplies nothing: in a small problem's tile most rows are.
## The engine ends with a fault where a box does not begin at a multiple of 16 bytes along the dense
## axis: such a box is NaN here.
##
## param ctype: 'half'|'bfloat16'|'float'  element type of a and b
## param unit: WarpgroupUnit  see device/warpgroups.py
## param tile: WarpgroupTile  shapes, see gemm_warpgroup.py
## param rank: 2|4            axes of the tensor maps
## param given: str           further parameters of a copy, in C
## param lanes: 4|8           columns of a vector
## param sums: str            an item's sums, from those of the vector's first column on
## param upper, lower: str    C expressions, the item's two rows at `step`
## param steps: int           of `values`
## param element: 'ushort'|'float'  of a box
## param of_run: int          elements of 16 bytes
## param body: str            what is done with a run, in C
<%def name="emulation(ctype, unit, tile, rank, given)">
<%
    element, of_run = ("float", 4) if ctype == "float" else ("ushort", 8)
%>
inline uint swizzled(const uint place)
{
    return place ^ (place >> 7 & 7) << 4;
}
inline void box_copy(const uint to, __global const uint *map${given}, __local uint4 *tiles)
{
% if ctype == "float":
    const int rounded = map[2] & 1 << 16;
% endif
    ${each_run(element, of_run, tile, rank, capture(run_copied, ctype, element, of_run))}
}
inline void box_store(__global uint *map, const uint from${given}, __local const uint4 *tiles)
{
    ${each_run("ushort", 8, tile, rank, capture(run_stored))}
}
inline void team_wait(void)
{
    barrier(CLK_LOCAL_MEM_FENCE);
}
inline void teams_wait(const uint items)
{
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);  /* what was added had been read */
}
inline void boxes_written(void)
{
}
inline void boxes_ended(void)
{
}
inline void boxes_read(void)
{
}
inline void boxes_read_but_one(void)
{
}
% for lanes in (4, 8):
${numbers(ctype, lanes)}
${columns(ctype, unit, lanes)}
% endfor
inline int found(
    float *steps, __local const uchar *tiles, const ulong word, const int along_k, const int line)
{
    const uint start = (uint)(word & 0x3fff) << 4, eight = (uint)(word >> 32 & 0x3fff) << 4,
        apart = (uint)(word >> 16 & 0x3fff) << 4;
    int some = 0;
    if (along_k) {  // 16 bytes stay together
        for (int chunk = 0; chunk < 2; chunk++) {
            const uint place = swizzled(start + line / 8 * eight + line % 8 * 128 + 16 * chunk);
            const ${element}${of_run} read = *(__local const ${element}${of_run} *)(tiles + place);
            some |= any(read != (${element}${of_run})0);
            vstore${of_run}(wide_${of_run}(read), chunk, steps);
        }
    } else {
        const uint place = start + line / 64 * apart + line % 64 * sizeof(${element});
        for (int step = 0; step < ${unit.steps}; step += ${of_run}) {
            const uint${of_run} lines = place + step / 8 * eight
                + ((uint${of_run})(${", ".join(map(str, range(of_run)))}) + step % 8) * 128;
            const uint${of_run} at = lines ^ (lines >> 7 & 7) << 4;
            const ${element}${of_run} read = (${element}${of_run})(${", ".join(
                f"*(__local const {element} *)(tiles + at.s{e})" for e in range(of_run))});
            some |= any(read != (${element}${of_run})0);
            vstore${of_run}(wide_${of_run}(read), 0, steps + step);
        }
    }
    return some;
}
inline void multiply_held(
    float *acc, __local const float (*held)[32], __local const uchar *tiles, const int first,
    const ulong b_word, const int warp_item, const int lane, const int fresh)
{
    float values[${unit.steps} * 8];
    __local const float (*of_row)[32] = held + warp_item + lane / 4 * 4;
    if (fresh)
        for (int e = 0; e < ${tile.n // 2}; e++)
            acc[e] = 0;
    int some = 0;
    for (int step = 0; step < ${unit.steps}; step++)
        some |= any(vload2(0, of_row[step % 4] + first + step / 4 * 2) != (float2)0);
    if (!some)
        return;
    for (int j = 0; j < ${tile.n // 8}; j += 4) {
        columns_8(values, tiles, b_word, 1, j, lane);
        float *sums = acc + 4 * j;
        ${summed("sums", "of_row[step % 4][first + step / 4 * 2]",
            "of_row[step % 4][first + step / 4 * 2 + 1]", unit.steps, 8)}
    }
}
inline void multiply(
    float *acc, __local const uchar *tiles, const ulong a_word, const ulong b_word,
    const int a_along_k, const int b_along_k, const int warp, const int lane, const int fresh)
{
    float upper[${unit.steps}], lower[${unit.steps}], values[${unit.steps} * 8];
    const int row = warp * 16 + lane / 4;  // an item's two, for all of its columns
    const int some = found(upper, tiles, a_word, a_along_k, row)
        | found(lower, tiles, a_word, a_along_k, row + 8);
    if (fresh)
        for (int e = 0; e < ${tile.n // 2}; e++)
            acc[e] = 0;
    if (!some)
        return;
    for (int j = 0; j < ${tile.n // 8}; j += 4) {
        columns_8(values, tiles, b_word, b_along_k, j, lane);
        float *sums = acc + 4 * j;
        ${summed("sums", "upper[step]", "lower[step]", unit.steps, 8)}
    }
}
</%def>
##
## For each run of 16 bytes of a box: where it lies in the array, and how much of it is inside.
<%def name="each_run(element, of_run, tile, rank, body)">
    __global uchar *array = (__global uchar *)((ulong)map[1] << 32 | map[0]);
    const int skip_1 = (map[13] >> 3 & 7) + 1, skip_2 = (map[13] >> 6 & 7) + 1;
    const int lines_1 = (map[14] & 0xff) / skip_1 + 1, lines_2 = (map[14] >> 8 & 0xff) / skip_2 + 1,
        lines_3 = (map[14] >> 16 & 0xff) + 1;
    const int runs = ((map[13] >> 24) + 1) / ${of_run}, last_0 = map[8];
    const uint last_1 = map[9];
    const long apart_1 = (ulong)map[3] << 4;
% if rank == 4:
    const uint last_2 = map[10], last_3 = map[11];
    const long apart_2 = (ulong)map[4] << 4, apart_3 = (ulong)map[5] << 4;
% endif
    for (int e = get_local_id(0); e < runs * lines_1 * lines_2 * lines_3;
            e += ${tile.items(emulated=True)}) {
        const int line = e / runs, run = e % runs, at_0 = x + run * ${of_run};
        ## What begins before an array is far behind it without a sign.
        const uint at_1 = y + line % lines_1 * skip_1;
        long place = at_1 * apart_1 + at_0 * (long)sizeof(${element});
        int there = at_1 <= last_1;
% if rank == 4:
        const uint at_2 = inner + line / lines_1 % lines_2 * skip_2,
            at_3 = outer + line / lines_1 / lines_2;
        place += at_2 * apart_2 + at_3 * apart_3;
        there = there && at_2 <= last_2 && at_3 <= last_3;
% endif
        const int count = there && at_0 >= 0 ? min(last_0 + 1 - at_0, ${of_run}) : 0;
        __global ${element} *elements = (__global ${element} *)(array + place);
        ${body}
    }
</%def>
<%def name="run_copied(ctype, element, of_run)">
        uint4 value = 0;
        if (count == ${of_run})
            value = as_uint4(vload${of_run}(0, elements));
        else
            for (int i = 0; i < count; i++)
                ((${element} *)&value)[i] = elements[i];
% if ctype == "float":
        if (rounded)
            value = (value & 0x7f800000) == 0x7f800000 ? value : (value + 0x1000 & 0xffffe000);
% endif
        if (x % ${of_run})
            value = ${"0x7fc00000" if ctype == "float" else "0x7fff7fff"};
        *(__local uint4 *)((__local uchar *)tiles + swizzled(to + line * 128 + run * 16)) = value;
</%def>
<%def name="run_stored()">
        const uint4 value = *(__local const uint4 *)(
            (__local const uchar *)tiles + swizzled(from + line * 128 + run * 16));
        if (count == 8)
            *(__global uint4 *)elements = value;
        else
            for (int i = 0; i < count; i++)
                elements[i] = ((const ushort *)&value)[i];
</%def>
##
## Elements in float.
<%def name="numbers(ctype, lanes)">
% if ctype == "float":
inline float${lanes} wide_${lanes}(const float${lanes} values)
{
    return values;
}
% else:
inline float${lanes} wide_${lanes}(const ushort${lanes} bits)
{
% if ctype == "half":
    return vload_half${lanes}(0, (const half *)&bits);
% else:
    return as_float${lanes}(convert_uint${lanes}(bits) << 16);
% endif
}
% endif
</%def>
##
## An item's columns of some blocks of eight, from block `first` on: each step's are a vector.
<%def name="columns(ctype, unit, lanes)">
<% each, pairs = range(lanes), lanes // 2 %>
inline void columns_${lanes}(float *values, __local const uchar *tiles, const ulong word,
    const int along_k, const int first, const int lane)
{
    const uint start = (uint)(word & 0x3fff) << 4, eight = (uint)(word >> 32 & 0x3fff) << 4;
    const uint line = first * 8 + lane % 4 * 2;
    if (along_k) {
        const uint${lanes} lines = line + (uint${lanes})(
            ${", ".join(str(c // 2 * 8 + c % 2) for c in each)});
        const uint${lanes} place = start + lines / 8 * eight + lines % 8 * 128;
% for chunk in range(2):
        {
            const uint${lanes} runs = place + ${16 * chunk} ^ (place >> 7 & 7) << 4;
% for c in each:
            const uint4 run_${c} = *(__local const uint4 *)(tiles + runs.s${c});
% endfor
% for w in range(4):
            {
                const uint${lanes} words = (uint${lanes})(
                    ${", ".join(f"run_{c}.s{w}" for c in each)});
% if ctype == "float":
                vstore${lanes}(as_float${lanes}(words), ${4 * chunk + w}, values);
% else:
                vstore${lanes}(wide_${lanes}(convert_ushort${lanes}(words & 0xffff)),
                    ${8 * chunk + 2 * w}, values);
                vstore${lanes}(wide_${lanes}(convert_ushort${lanes}(words >> 16)),
                    ${8 * chunk + 2 * w + 1}, values);
% endif
            }
% endfor
        }
% endfor
% if unit.turns:
    } else {  // two columns are a word
        const uint apart = (uint)(word >> 16 & 0x3fff) << 4;
        const uint${pairs} lines = line + (uint${pairs})(
            ${", ".join(str(8 * j) for j in range(pairs))});
        const uint${pairs} place = start + lines / 64 * apart + lines % 64 * 2;
        for (int step = 0; step < ${unit.steps}; step++) {
            uint${pairs} at = place + (step / 8 * eight + step % 8 * 128);
            at ^= (at >> 7 & 7) << 4;
            const uint${pairs} words = (uint${pairs})(
                ${", ".join(f"*(__local const uint *)(tiles + at.s{j})" for j in range(pairs))});
            vstore${lanes}(wide_${lanes}(as_ushort${lanes}(words)), step, values);
        }
% endif
    }
}
</%def>
##
## The sums of two rows += these at each step, times `values`.
<%def name="summed(sums, upper, lower, steps, lanes)">
<% listed = lambda row: ", ".join(
    f"{sums}[{4 * (c // 2) + 2 * row + c % 2}]" for c in range(lanes)) %>
        {
            float${lanes} above = (float${lanes})(${listed(0)}),
                below = (float${lanes})(${listed(1)});
            for (int step = 0; step < ${steps}; step++) {
                const float${lanes} columns = vload${lanes}(step, values);
                above += ${upper} * columns;
                below += ${lower} * columns;
            }
% for c in range(lanes):
            ${sums}[${4 * (c // 2) + c % 2}] = above.s${c};
            ${sums}[${4 * (c // 2) + 2 + c % 2}] = below.s${c};
% endfor
        }
</%def>
