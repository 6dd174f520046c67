"""Boxes that the emulated copy engine brings: what lies beyond an array's edges is zero.

And boxes that it stores: what lies there stays. They begin at multiples of 16 bytes along the
dense axis, as the engine wants them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
import pyopencl as cl
import pytest

import clnet
from clnet.device.quiet_build import built
from clnet.device.warpgroups import LINE_BYTES, MAP_WORDS, WARPGROUP_UNITS, map_form
from clnet.kernels.gemm.gemm_warpgroup import WarpgroupTile
from clnet.kernels.template import render
from tests.groups import UNOPTIMISED

pytestmark = pytest.mark.device

TILE = WarpgroupTile(64, 8, 2)
SIZES = (2, 3, 5, 45)  # of an array within one that is longer along its last axis
LONGER = 48
BOX, SKIPS = (2, 2, 3), (1, 2, 1)  # lines along the outer axes, and how far apart they lie
ROUNDS = 1 << 16
KERNEL = """
__kernel void boxes(__global uint *map, __global const uint4 *x, __global uint4 *y,
    const int n0, const int n1, const int n2, const int n3)
{
    __local uint4 tiles[LINES * 8] __attribute__((aligned(1024)));
    if (get_local_id(0) == 0)
        map_write(map, FORM, (ulong)x, SIZE_0, SIZE_1, STEP, WIDE, BOX_1, ITEM, SIZE_2,
            STEP * SIZE_1, SIZE_3, STEP * SIZE_1 * SIZE_2, BOX_2, BOX_3, SKIP_1, SKIP_2);
    barrier(CLK_GLOBAL_MEM_FENCE);
    box_copy(0, map, n0, n1, n2, n3, tiles);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int e = get_local_id(0); e < LINES * 8; e += get_local_size(0))
        y[e] = tiles[e ^ (e >> 3 & 7)];
}
__kernel void stored(__global uint *map, __global uint4 *x, __global const uint4 *y,
    const int n0, const int n1, const int n2, const int n3)
{
    __local uint4 tiles[LINES * 8] __attribute__((aligned(1024)));
    if (get_local_id(0) == 0)
        map_write(map, FORM, (ulong)x, SIZE_0, SIZE_1, STEP, WIDE, BOX_1, ITEM, SIZE_2,
            STEP * SIZE_1, SIZE_3, STEP * SIZE_1 * SIZE_2, BOX_2, BOX_3, SKIP_1, SKIP_2);
    for (int e = get_local_id(0); e < LINES * 8; e += get_local_size(0))
        tiles[e ^ (e >> 3 & 7)] = y[e];
    barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
    box_store(map, 0, n0, n1, n2, n3, tiles);
}
"""


class Elements(NamedTuple):
    """What arrays have: C's type, NumPy's that holds the same bits, and a map's word."""

    ctype: str
    dtype: type
    form: int


def elements(ctype: str, *, rounds: bool = True) -> Elements:
    form = map_form(WARPGROUP_UNITS[ctype], 4)
    return Elements(
        ctype, np.float32 if ctype == "float" else np.uint16, form if rounds else form & ~ROUNDS
    )


@cache
def program(of: Elements) -> cl.Program:
    """With the kernel that copies a box of such elements."""
    unit, item = WARPGROUP_UNITS[of.ctype], np.dtype(of.dtype).itemsize
    params = {"ctype": of.ctype, "unit": unit, "tile": TILE, "rank": 4, "emulated": True}
    numbers = {
        **{f"SIZE_{axis}": size for axis, size in enumerate(reversed(SIZES))},
        **{f"BOX_{axis}": size for axis, size in enumerate(reversed(BOX), 1)},
        **{f"SKIP_{axis}": skip for axis, skip in enumerate(reversed(SKIPS), 1)},
        "FORM": of.form,
        "ITEM": item,
        "WIDE": LINE_BYTES // item,
        "STEP": LONGER * item,
        "LINES": np.prod(BOX),
    }
    options = ["-cl-std=CL1.2", "-w", UNOPTIMISED]
    options += (f"-D{name}={value}" for name, value in numbers.items())
    text = render("lib/warpgroup_boxes.mako", "functions", params) + KERNEL
    return built(cl.Program(clnet.device().queue._context, text), options)


def ran(
    name: str, of: Elements, memory: np.ndarray, lines: np.ndarray, begin: tuple[int, ...]
) -> None:
    """Run a kernel, which changes the array or the box's lines, these in their order.

    Args:
        name: the kernel's.
        of: the elements.
        memory: the longer array; what lies behind each line is none of the array's.
        lines: of the box.
        begin: where the box begins, the outermost axis first.
    """
    context, flags = clnet.device().queue._context, cl.mem_flags
    buffers = (
        cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=host)
        for host in (np.zeros(MAP_WORDS, np.uint32), memory, lines)
    )
    kernel, queue = cl.Kernel(program(of), name), cl.CommandQueue(context)
    maps, x, y = buffers
    kernel.set_args(maps, x, y, *map(np.int32, reversed(begin)))
    items = TILE.items(emulated=True)
    cl.enqueue_nd_range_kernel(queue, kernel, (items,), (items,))
    cl.enqueue_copy(queue, memory, x)
    cl.enqueue_copy(queue, lines, y)


def inside(
    lines: np.ndarray, begin: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Places of a box, and where they lie in the array."""
    for place in np.ndindex(lines.shape):
        at = tuple(b + p * s for b, p, s in zip(begin, place, (*SKIPS, 1), strict=True))
        if all(0 <= a < size for a, size in zip(at, SIZES, strict=True)):
            yield place, at


def copied(of: Elements, memory: np.ndarray, begin: tuple[int, ...]) -> np.ndarray:
    """A box's lines, as the emulated copy leaves them but in their order."""
    lines = np.full((*BOX, LINE_BYTES // memory.itemsize), 77, memory.dtype)
    ran("boxes", of, memory, lines, begin)
    return lines


def expected(memory: np.ndarray, begin: tuple[int, ...]) -> np.ndarray:
    """The same, by NumPy."""
    lines = np.zeros((*BOX, LINE_BYTES // memory.itemsize), memory.dtype)
    for place, at in inside(lines, begin):
        lines[place] = memory[at]
    return lines


BEGINS = [
    (0, 0, 0, 0),
    (0, 0, 0, -8),
    (0, 0, 0, -16),
    (0, 0, 0, -136),
    (-1, 0, 0, 0),
    (0, -2, 0, 0),
    (0, 0, -1, 0),
    (-1, -1, -2, -8),
    (1, 1, 3, 24),
    (1, 2, 4, 40),
    (0, 0, 0, 48),
    (2, 0, 0, 0),
    (0, 3, 0, 0),
    (0, 0, 5, 0),
]


def counted(of: Elements) -> np.ndarray:
    """An array within a longer one, each element another."""
    return 1 + np.arange(np.prod(SIZES[:3]) * LONGER).reshape(*SIZES[:3], LONGER).astype(of.dtype)


@pytest.mark.parametrize("begin", BEGINS)
@pytest.mark.parametrize("ctype", ["half", "float"])
def test_a_box_is_zero_before_an_array_and_behind_it(ctype, begin):
    of = elements(ctype, rounds=False)
    memory = counted(of)
    np.testing.assert_array_equal(copied(of, memory, begin), expected(memory, begin))


@pytest.mark.parametrize("begin", [begin for begin in BEGINS if min(begin) >= 0])
def test_what_lies_around_a_stored_box_stays(begin):
    of = elements("half")
    memory = counted(of)
    lines = 5000 + np.arange(np.prod(BOX) * 64).reshape(*BOX, 64).astype(of.dtype)
    left = memory.copy()
    for place, at in inside(lines, begin):
        left[at] = lines[place]
    ran("stored", of, memory, lines, begin)
    np.testing.assert_array_equal(memory, left)


@pytest.mark.parametrize(("ctype", "begins"), [("half", [-4, 1, 20]), ("float", [-3, 2, 21])])
def test_a_box_that_begins_between_is_no_number(ctype, begins):
    """The engine would end with a fault, and take the context along."""
    of = elements(ctype)
    memory = np.ones((*SIZES[:3], LONGER), of.dtype)
    for begin in begins:
        found = copied(of, memory, (0, 0, 0, begin))
        assert np.isnan(found.view(np.float16 if ctype == "half" else np.float32)).all()


@pytest.mark.parametrize("rounds", [False, True])
def test_a_map_says_whether_copies_round_to_tf32(rounds):
    of = elements("float", rounds=rounds)
    memory = np.random.default_rng(0).normal(size=(*SIZES[:3], LONGER)).astype(np.float32)
    memory[0, 0, 0, :3] = np.inf, -np.inf, np.nan
    rounded = ((memory.view(np.uint32) + 0x1000) & 0xFFFFE000).view(np.float32)
    taken = np.where(np.isfinite(memory) & rounds, rounded, memory)
    np.testing.assert_array_equal(copied(of, memory, BEGINS[0]), expected(taken, BEGINS[0]))
