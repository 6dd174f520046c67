"""What the gradients of attention on matrix units want of each row."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Target
from ...values.shapes import ceil_div
from ..kernel import Kernel, by_name, joined

DELTA = Kernel("attention_delta", "softmax/attention_delta.mako")


def attention_delta(target: Target, delta: Array, gy: Array, y: Array) -> list[Launch]:
    """``delta = sum(gy y)`` of each row, which the gradients want.

    Args:
        target: what the device is like; it attends on units.
        delta: written, dense ``(n, heads, rows)``, float32.
        gy: ``(n, heads, rows, value_head)``, of 16 bits.
        y: the same, dense.
    """
    n, heads, rows, size = y.shape
    total = n * heads * rows
    if total == 0:
        return []
    args = by_name("total rows heads size delta gy y", total, rows, heads, size, delta, gy, y)
    steps = by_name("gy_image gy_head gy_row", *gy.strides[:3])
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
