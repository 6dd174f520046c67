## lib warpgroup_boxes: what a copy engine brings into local memory, and stores from there
##
## A box lies in local memory in lines of 128 bytes, eight of which make 1024; in them, runs of 16
## bytes are exchanged by the line's number (bits 4 to 6 of an address are xored with bits 7 to 9).
## What lies beyond an array's edge is read as zeros, and not stored. Of maps with four axes, boxes
## may have lines along three, that lie `skip` elements apart.
##
## Emulated, all items copy, and multiply, in step; maps and places are the same, see
## warpgroup_emulated.mako.
##
## param ctype: 'half'|'bfloat16'|'float'  element type of a and b
## param unit: WarpgroupUnit  see device/warpgroups.py
## param tile: WarpgroupTile  shapes, see gemm_warpgroup.py
## param rank: 2|4            axes of the tensor maps
## param emulated: bool       see above
<%namespace name="plain" file="warpgroup_emulated.mako"/>
##
## Maps, copies and barriers.
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
    for (int e = 0; e < 8; e++)
        ((__global uint4 *)map)[e] = (uint4)(0);
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
}
/* What was written becomes known to the copy engine, of all maps at once: each wait takes long. */
inline void maps_written(__global uint *maps, const int count)
{
% if not emulated:
    asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
    for (int e = 0; e < count; e++)
        asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;"
            :: "l"(maps + 32 * e) : "memory");
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
inline void teams_wait(const uint items)
{
    asm volatile("bar.sync 1, %0;" :: "r"(items) : "memory");
}
/* What lies inside is stored; local memory is read after the item has gone on. */
inline void box_store(__global const uint *map, const uint from${given})
{
    asm volatile("cp.async.bulk.tensor.${rank}d.global.shared::cta.bulk_group "
        "[%0, {${listed}}], [%1];" :: "l"(map), "r"(from), ${passed} : "memory");
}
inline void boxes_written(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
inline void boxes_ended(void)
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
inline void boxes_read(void)
{
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
inline void boxes_read_but_one(void)
{
    asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
}
% endif
</%def>
