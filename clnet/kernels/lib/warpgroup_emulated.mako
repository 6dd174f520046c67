## lib warpgroup_emulated: what lib/warpgroup.mako has, by plain C
##
## A map is read, a box swizzled, an operand found by its word. The engine ends with a fault where a
## box does not begin at a multiple of 16 bytes along the dense axis: such a box is NaN here.
##
## param ctype: 'half'|'bfloat16'|'float'  element type of a and b
## param unit: WarpgroupUnit  see device/warpgroups.py
## param tile: WarpgroupTile  shapes, see gemm_warpgroup.py
## param rank: 2|4            axes of the tensor maps
## param given: str           further parameters of a copy, in C
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
        if (x % ${4 if ctype == "float" else 8})
            value = ${"NAN" if ctype == "float" else "0x7fff"};
% if ctype == "float":
        if (isfinite(value) && map[2] & 1 << 16)
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
inline void row_store(__global void *to, __local const void *from, const int bytes)
{
    for (int e = 0; e < bytes / 16; e++)
        ((__global uint4 *)to)[e] = ((__local const uint4 *)from)[e];
}
inline void rows_written(void)
{
}
inline void rows_ended(void)
{
}
inline void rows_read(void)
{
}
inline float read(__local const uchar *tiles, const uint place)
{
    const ${element} value = *(__local const ${element} *)(tiles + place);
% if ctype == "half":
    return vload_half(0, (const half *)&value);
% elif ctype == "bfloat16":
    return as_float((uint)value << 16);
% else:
    return value;
% endif
}
inline void found(
    float *steps, __local const uchar *tiles, const ulong word, const int along_k, const int line)
{
    const uint start = (uint)(word & 0x3fff) << 4, eight = (uint)(word >> 32 & 0x3fff) << 4,
        apart = (uint)(word >> 16 & 0x3fff) << 4;
    if (along_k) {  // 16 bytes stay together
        for (int chunk = 0; chunk < 2; chunk++) {
            const uint place = swizzled(start + line / 8 * eight + line % 8 * 128 + 16 * chunk);
            for (int e = 0; e < ${unit.steps // 2}; e++)
                steps[chunk * ${unit.steps // 2} + e] = read(tiles, place + e * sizeof(${element}));
        }
    } else {
        const uint place = start + line / 64 * apart + line % 64 * sizeof(${element});
        for (int step = 0; step < ${unit.steps}; step++)
            steps[step] = read(tiles, swizzled(place + step / 8 * eight + step % 8 * 128));
    }
}
inline void multiply_held(
    float *acc, __local const float (*held)[32], __local const uchar *tiles, const int first,
    const ulong b_word, const int warp_item, const int lane, const int fresh)
{
    float values[${unit.steps}];
    __local const float (*of_row)[32] = held + warp_item + lane / 4 * 4;
    for (int c = 0; c < ${tile.n // 4}; c++) {
        const int e = c / 2 * 4 + c % 2;
        float above = fresh ? 0 : acc[e], below = fresh ? 0 : acc[e + 2];
        found(values, tiles, b_word, 1, c / 2 * 8 + lane % 4 * 2 + c % 2);
        for (int step = 0; step < ${unit.steps}; step++) {
            above += of_row[step % 4][first + step / 4 * 2] * values[step];
            below += of_row[step % 4][first + step / 4 * 2 + 1] * values[step];
        }
        acc[e] = above;
        acc[e + 2] = below;
    }
}
inline void multiply(
    float *acc, __local const uchar *tiles, const ulong a_word, const ulong b_word,
    const int a_along_k, const int b_along_k, const int warp, const int lane, const int fresh)
{
    float upper[${unit.steps}], lower[${unit.steps}], values[${unit.steps}];
    const int row = warp * 16 + lane / 4;  // an item's two, for all of its columns
    found(upper, tiles, a_word, a_along_k, row);
    found(lower, tiles, a_word, a_along_k, row + 8);
    for (int c = 0; c < ${tile.n // 4}; c++) {
        const int e = c / 2 * 4 + c % 2;
        float above = fresh ? 0 : acc[e], below = fresh ? 0 : acc[e + 2];
        found(values, tiles, b_word, b_along_k, c / 2 * 8 + lane % 4 * 2 + c % 2);
        for (int step = 0; step < ${unit.steps}; step++) {
            above += upper[step] * values[step];
            below += lower[step] * values[step];
        }
        acc[e] = above;
        acc[e + 2] = below;
    }
}
</%def>
