"""Products of 128 items at once (``wgmma``), and copies of boxes (tensor maps), through PTX.

NVIDIA's OpenCL compiler names a target that has neither instruction (``sm_90``); the same PTX text
under another name (``sm_90a``) has them. So a kernel holds each such line as a comment of PTX,
marked; the program's text is taken from the compiler, the marks are taken away, and it is loaded
again as a binary. Whether a driver does all that is found out by trying, in a process of its own
(:mod:`.probe`).

A tensor map is the 128 bytes that the copy engine reads: where an array begins, its sizes and
strides, and the box that one instruction copies into local memory, zeros beyond the edges. NVIDIA
documents the function that makes it (cuTensorMapEncodeTiled), not the bytes: they were inferred
from 20 of its results, all of which they reproduce (driver 580.159.04).
"""

from __future__ import annotations

from ..values.record import NamedTuple
from .builder import changed

MARK = "//@ "
# A line of a box in local memory has so many bytes; eight of them are swizzled together.
LINE_BYTES = 128
MAP_WORDS = 32
RETARGETED = ((rb"(?m)^\.target sm_90\b(?!a)", b".target sm_90a"), (MARK.encode(), b""))
"""What is replaced in PTX with marks, the target first; without that one it is of no use."""
_FORM = 3 << 13 | 2 << 17  # swizzled in lines of 128 bytes; the last cache fetches 128 bytes


class WarpgroupUnit(NamedTuple):
    """A product of 64 rows by 128 items, for one type of elements.

    Attributes:
        kind: of the instruction's operands.
        steps: of k of an instruction.
        code: of the elements, in a tensor map.
        turns: whether operands may be dense along their axis that is not k.
    """

    kind: str
    steps: int
    code: int
    turns: bool


WARPGROUP_UNITS = {
    "half": WarpgroupUnit("f16.f16", 16, 6 << 7, turns=True),
    "bfloat16": WarpgroupUnit("bf16.bf16", 16, 10 << 7, turns=True),
    # The copy rounds to TF32, half away from zero.
    "float": WarpgroupUnit("tf32.tf32", 8, 7 << 7 | 1 << 16, turns=False),
}


def map_form(unit: WarpgroupUnit, rank: int) -> int:
    """The word of a tensor map that says what its elements and boxes are like."""
    return (rank - 1) << 4 | unit.code | _FORM


def retargeted(binary: bytes) -> bytes | None:
    """PTX text with its marked lines taken in, for the target that has them.

    Args:
        binary: what the compiler made of a kernel with marks.

    Returns:
        The text; None if this is no PTX for a target that has a form with these instructions.
    """
    try:
        return changed(binary, RETARGETED)
    except LookupError:
        return None


def is_marked(text: str) -> bool:
    """Whether a kernel's source has marked lines."""
    return MARK in text


# One group copies a by a map that it writes itself, multiplies it with b, which lies in local
# memory as a copy would leave it, and stores the sums: all that such kernels need.
TRIAL = """
__attribute__((reqd_work_group_size(128, 1, 1)))
__kernel void probe_warpgroup(__global float *y, __global const float *x, __global uint *map)
{
    __local uint4 a[40960 / 16] __attribute__((aligned(1024)));
    __local ushort b[512] __attribute__((aligned(1024)));
    __local ulong bar[1] __attribute__((aligned(8)));
    const int self = get_local_id(0), lane = self % 32;
    const uint to = (uint)(size_t)a, mine = (uint)(size_t)b, ready = (uint)(size_t)bar;
    for (int e = self; e < 512; e += 128) {
        const int line = e / 64, step = e % 64;
        b[(line * 128 + step * 2 ^ line << 4) / 2] =
            ((__global const ushort *)x)[64 * 64 + step * 8 + line];
    }
    if (self == 0) {
        for (int e = 0; e < 32; e++)
            map[e] = 0;
        map[0] = (uint)(ulong)x;
        map[1] = (uint)((ulong)x >> 32);
        map[2] = FORM;
        map[3] = 128 >> 4;
        map[8] = 64 - 1;
        map[9] = 64 - 1;
        map[13] = 63u << 24;
        map[14] = 63;
        map[16] = 64 * 64 * 2;
        map[18] = 1024;
        asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
        asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;"
            :: "l"(map) : "memory");
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(ready) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    barrier(CLK_LOCAL_MEM_FENCE);
    if (self == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 8192;"
            :: "r"(ready) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
            "[%0], [%1, {%2, %3}], [%4];" :: "r"(to), "l"(map), "r"(0), "r"(0), "r"(ready)
            : "memory");
    }
    uint done;
    do
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; "
            "selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(ready) : "memory");
    while (!done);
    float acc[4] = {0, 0, 0, 0};
    const ulong form = 1ul << 16 | 64ul << 32 | 1ul << 62;
    asm volatile("MARKwgmma.fence.sync.aligned;" ::: "memory");
    for (int step = 0; step < 4; step++)
        asm volatile("MARKwgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, "
            "%4, %5, 1, 1, 1, 0, 0;"
            : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
            : "l"(form | (to + step * 32) >> 4 & 0x3fff),
            "l"(form | (mine + step * 32) >> 4 & 0x3fff) : "memory");
    asm volatile("MARKwgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("MARKwgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int r = 0; r < 4; r++) {
        asm volatile("" : "+f"(acc[r]) :: "memory");
        y[(self / 32 * 16 + lane / 4 + r / 2 * 8) * 8 + lane % 4 * 2 + r % 2] = acc[r];
    }
}
""".replace("MARK", MARK).replace("FORM", str(map_form(WARPGROUP_UNITS["half"], 2)))
