"""Operands of products, copied so that steps of k lie densely."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Scratch
from ...values.shapes import ceil_div, contiguous_strides, round_up
from ..kernel import Kernel, by_name, joined

LAID = Kernel("gemm_laid", "gemm/gemm_laid.mako")
# Seconds of a launch; bytes a second that copies of float32 reach. Rough figures of an H200.
COPY_S, COPY_BYTES_S = 5e-6, 2.5e12
# Groups that drivers take along an axis. A copy has one for so many rows, and for each item.
MOST_GROUPS = 65535
_ROWS = 32


def copies_fit(rows: int, *items: int) -> bool:
    """Whether drivers take the launch that copies so many rows of so many items."""
    return max(ceil_div(rows, _ROWS), *items) <= MOST_GROUPS


def copy_seconds(x: Array) -> float:
    """That :func:`copied` takes, by a rough estimate: an element's is the same at any size."""
    return COPY_S + 2 * 4 * x.size / COPY_BYTES_S


def laid(to: Array, x: Array, *, parts: int = 1) -> Launch:
    """The launch that copies an operand.

    Args:
        to: ``(outer, inner, rows, parts * pitch)``, dense; pitch is k or more. Of batch axes that
            repeat an item in ``x`` it has one.
        x: ``(outer, inner, rows, k)``, any strides.
        parts: 1, or 2 of float32.
    """
    rows, k, item = x.shape[2], x.shape[3], x.dtype.itemsize
    pitch, items = to.shape[3] // parts, to.shape[0] * to.shape[1]
    along = "tile" if x.strides[2] == 1 and x.strides[3] != 1 else "k"
    return LAID.launch(
        {"element": "float" if item == 4 else "ushort", "parts": parts, "along": along},
        joined(
            by_name("rows k pitch to from", rows, k, pitch, to, x),
            by_name("row_step k_step", x.strides[2], x.strides[3]),
            by_name("inner outer_step inner_step", to.shape[1], *x.strides[:2]),
        ),
        global_size=(round_up(pitch, 32), ceil_div(rows, _ROWS) * 8, items),
        local_size=(32, 8, 1),
        flops=0,
        bytes=x.size * item + to.nbytes,
    )


def copied(
    memory: Scratch, x: Array, launches: list[Launch], *, whole: int, parts: int = 1
) -> Array:
    """A copy of an operand with steps of k densely, in parts, which launches make.

    Args:
        memory: where it lies.
        x: as for :func:`laid`.
        launches: get the one that copies.
        whole: elements that a part's row is a multiple of.
        parts: as there.

    Returns:
        ``(outer, inner, rows, parts * pitch)``; items that batch axes repeat are copied once.
    """
    sizes = [n if s else 1 for n, s in zip(x.shape[:2], x.strides[:2], strict=True)]
    pitch = round_up(x.shape[3], whole)
    to = Array.scratch(memory, (*sizes, x.shape[2], parts * pitch), x.dtype)
    launches.append(laid(to, x, parts=parts))
    steps = contiguous_strides(to.shape)
    moved = (step if size else 0 for step, size in zip(steps, x.strides[:2], strict=False))
    return to.view((*x.shape[:3], parts * pitch), (*moved, *steps[2:]))
