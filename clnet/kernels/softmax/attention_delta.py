"""What the gradients of attention on devices with local memory want of each row."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Target
from ...values.shapes import ceil_div
from ..kernel import Kernel, by_name, joined

_RUN = 8
DELTA = Kernel("attention_delta", "softmax/attention_delta.mako")


def in_runs(x: Array) -> bool:
    """Whether rows are whole runs of eight elements, and begin at multiples of 16 bytes."""
    aligned = 16 // x.dtype.itemsize
    steps = (x.offset, *(s for n, s in zip(x.shape[:3], x.strides[:3], strict=True) if n > 1))
    return x.strides[3] == 1 and x.shape[3] % _RUN == 0 and not any(s % aligned for s in steps)


def attention_delta(target: Target, delta: Array, gy: Array, y: Array) -> list[Launch]:
    """``delta = sum(gy y)`` of each row, which the gradients want.

    Args:
        target: what the device is like.
        delta: written, dense ``(n, heads, rows)``, float32.
        gy: ``(n, heads, rows, value_head)``, of 16 bits, or float32; :func:`in_runs`.
        y: the same.
    """
    n, heads, rows, size = y.shape
    total = n * heads * rows
    if total == 0:
        return []
    args = by_name("total rows heads size delta gy y", total, rows, heads, size, delta, gy, y)
    names = "gy_image gy_head gy_row y_image y_head y_row"
    steps = by_name(names, *gy.strides[:3], *y.strides[:3])
    return [
        DELTA.launch(
            {"ctype": y.dtype.stored},
            joined(args, steps),
            global_size=(ceil_div(total, 8) * 64,),
            local_size=(64,),
            flops=2 * y.size,
            bytes=gy.nbytes + y.nbytes + delta.nbytes,
        )
    ]
