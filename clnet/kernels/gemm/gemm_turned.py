"""Operands of products in tiles, copied first so that they lie along the tile, where that pays.

Operands that lie along k come into local memory by copies of four bytes instead of sixteen. That
costs a share of the whole product, a copy of the operand only its bytes.
"""

from __future__ import annotations

from math import prod

from ...array import Array
from ...device import Launch, Scratch, Target
from ..epilogue import NO_EPILOGUE
from .gemm_laid import copied, copies_fit
from .gemm_problem import Problem

# What a product loses to each operand along k, as part of its time, measured on an H200: 52, 50 and
# 46 TFLOP/s with none, one and two of them (docs/notes/products-gpu.md). Copying an element's byte
# there and back costs so many operations, a launch as many of each unit.
SHARE, FLOPS_PER_BYTE, LAUNCH_FLOPS = 0.055, 20, 2_400_000
# What a copy that stays has to save, so that it is worth its memory: 0.8 us, and operations for a
# byte of it. Of some 150 rows or fewer weights are read but a few times: VGG's three dense layers
# would save 17 us of 64 images' 5 ms by 456 MiB.
# Beside a copy at each call it has to save a fiftieth of the product: what many rows read is copied
# in next to no time, into memory that others use, too.
LASTING_FLOPS, LASTING_FLOPS_PER_BYTE, LASTING_SHARE = 300_000, 4, 0.02
_RUN = 4  # elements that are copied at once where they lie along the tile


def along_a(problem: Problem) -> str:
    """The axis of ``a`` that neighbouring items read along: ``"k"`` or ``"tile"``."""
    return "k" if problem.a.strides[3] == 1 else "tile"


def along_b(problem: Problem) -> str:
    """The same of ``b``."""
    columns = problem.b.strides[3] != 1 and problem.b.strides[2] == 1
    return "k" if columns else "tile"


def turned(target: Target, problem: Problem, room: int) -> tuple[list[Launch], Problem]:
    """The product with operands that lie along the tile, and what copies them.

    Args:
        target: what the device is like; it copies to local memory directly.
        problem: the product.
        room: bytes of scratch memory.

    Returns:
        The copies' launches, none where they would take longer than they save, and the product of
        copies in scratch memory.
    """
    launches, memory = list[Launch](), problem.memory()
    if along_a(problem) == "k":
        a, room = _turned(target, problem, _flipped(problem.a), memory, launches, room)
        problem = problem if a is None else problem._replace(a=_flipped(a))
    if along_b(problem) == "k":
        b, room = _turned(target, problem, problem.b, memory, launches, room)
        problem = problem if b is None else problem._replace(b=b)
    return launches, problem


def lasting_saves(target: Target, problem: Problem, of: str) -> bool:
    """Whether ``a`` or ``b`` lies along k, and one along the tile saves enough.

    Args:
        target: what the device is like.
        problem: the product.
        of: ``"a"``, which whoever makes it lays so, or ``"b"``, which is there twice then.
    """
    along, saved = (along_a if of == "a" else along_b)(problem), problem.flops * SHARE
    least = LASTING_FLOPS * target.traits.compute_units
    if of == "b":
        nbytes = prod(problem.b.shape) * problem.b.dtype.itemsize
        least = max(least, LASTING_FLOPS_PER_BYTE * nbytes)
        if _copy_flops(target, nbytes) < problem.flops * LASTING_SHARE:
            return False
    return along == "k" and saved > least


def _turned(
    target: Target, problem: Problem, x: Array, memory: Scratch, launches: list[Launch], room: int
) -> tuple[Array | None, int]:
    """A copy of ``(..., k, tile's axis)``, dense along the last, and the room that is left."""
    nbytes = prod(n for n, s in zip(x.shape, x.strides, strict=True) if s) * x.dtype.itemsize
    fits = nbytes <= room and copies_fit(x.shape[2], x.shape[0] * x.shape[1])
    if not fits or not _pays(target, problem, nbytes):
        return None, room
    before = memory.nbytes
    to = copied(memory, x, launches, whole=_RUN)
    return to.view(x.shape, to.strides), room - (memory.nbytes - before)


def _pays(target: Target, problem: Problem, nbytes: int) -> bool:
    """Whether a copy takes less time than the product gains."""
    product = problem._replace(epilogue=NO_EPILOGUE).flops
    return product * SHARE > _copy_flops(target, nbytes)


def _copy_flops(target: Target, nbytes: int) -> float:
    """What units could compute while such an operand is copied."""
    return LAUNCH_FLOPS * target.traits.compute_units + 2 * nbytes * FLOPS_PER_BYTE


def _flipped(x: Array) -> Array:
    outer, inner, row, column = zip(x.shape, x.strides, strict=True)
    shape, strides = zip(outer, inner, column, row, strict=True)
    return x.view(shape, strides)
