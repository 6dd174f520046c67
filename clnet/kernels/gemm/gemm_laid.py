"""Operands of products, copied so that steps of k lie densely."""

from __future__ import annotations

from ...array import Array
from ...device import Launch
from ...values.shapes import ceil_div, round_up
from ..kernel import Kernel, by_name, joined

LAID = Kernel("gemm_laid", "gemm/gemm_laid.mako")


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
        global_size=(round_up(pitch, 32), ceil_div(rows, 32) * 8, items),
        local_size=(32, 8, 1),
        flops=0,
        bytes=x.size * item + to.nbytes,
    )
