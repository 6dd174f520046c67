"""Plain images ``(n, c, h, w)`` to blocked ones ``(n, c / b, h, w, b)`` and back, on a CPU."""

from __future__ import annotations

from ...array import Array
from ...device import Launch
from ...values.shapes import ceil_div, round_up
from ..kernel import Constraint, Kernel, by_name, joined

# Pixels an item takes: so many elements of each of a block's planes.
_SHARE = 1024


REORDER = Kernel(
    "reorder",
    "conv_blocked/reorder.mako",
    (Constraint("lanes in (4, 8, 16)", "vectors OpenCL has"),),
)


def reorder(y: Array, x: Array) -> list[Launch]:
    """``y = x`` in the other layout.

    Args:
        y: ``(n, c, h, w)`` or ``(n, c / b, h, w, b)``, float32; written whole.
        x: the same images in the other layout. Either is dense but for its steps over images and
            blocks of channels.
    """
    if y.size == 0:
        return []
    blocked = y.ndim == 5
    inside, outside = (y, x) if blocked else (x, y)
    n, groups, height, width, lanes = inside.shape
    pixels = height * width
    steps = {id(inside): inside.strides[:2], id(outside): (outside.strides[0], lanes * pixels)}
    share = min(_SHARE, round_up(pixels, lanes))
    return [
        REORDER.launch(
            {"lanes": lanes, "blocked": blocked},
            joined(
                by_name("pixels share groups", pixels, share, groups),
                by_name("y y_image y_group", y, *steps[id(y)]),
                by_name("x x_image x_group", x, *steps[id(x)]),
            ),
            global_size=(ceil_div(pixels, share), groups, n),
            flops=0,
            bytes=x.nbytes + y.nbytes,
        )
    ]
