"""Means over windows and parts of blocked arrays, ``(n, c / b, h, w, b)``, and their gradients."""

from __future__ import annotations

from typing import Any

from ...array import Array
from ...device import Launch, Target
from ...values.record import NamedTuple
from ...values.shapes import ceil_div
from ..grid import jobs_per_item
from ..kernel import Kernel, Named, by_name, joined
from .blocked_pool import BLOCKS, blocked_sizes, blocked_steps, past_caches, rows_of
from .window import Window

_TEMPLATE = "pool/blocked_means.mako"


class Means(NamedTuple):
    """How means are taken.

    Attributes:
        window: how it lies; None for as many nearly equal parts as there are results.
        include_pad: padding counts, as zeros.
        divisor: what sums are divided by, 0 for the number of elements.
    """

    window: Window | None
    include_pad: bool = True
    divisor: int = 0

    def params(self) -> Named:
        """Parameters of the kernels."""
        window = self.window or Window(1, 1, 1, 1)
        how = {"include_pad": self.include_pad, "divisor": self.divisor}
        return joined(how, window.params(dilated=False))


AVG = Kernel("blocked_avg_pool", _TEMPLATE, BLOCKS)
PLANE_GRADIENT = Kernel("blocked_plane_gradient", _TEMPLATE, BLOCKS)
PARTS_GRADIENT = Kernel("blocked_parts_gradient", _TEMPLATE, BLOCKS)
GRADIENT = Kernel("blocked_avg_pool_gradient", _TEMPLATE, BLOCKS)


def blocked_avg_pool(y: Array, x: Array, *, means: Means) -> list[Launch]:
    """Means over windows, or over nearly equal parts.

    Args:
        y: ``(n, c / b, oh, ow, b)``, float32, dense.
        x: ``(n, c / b, h, w, b)``, dense but for its steps over images and blocks.
        means: of what.
    """
    if y.size == 0:
        return []
    return [
        AVG.launch(
            joined(by_name("lanes adaptive", y.shape[-1], means.window is None), means.params()),
            joined(blocked_sizes(y, x), blocked_steps(x), by_name("y x", y, x)),
            global_size=(rows_of(y),),
            flops=max(x.size, y.size),
            bytes=x.nbytes + y.nbytes,
        )
    ]


def blocked_avg_pool_gradient(
    target: Target, gx: Array, gy: Array, *, means: Means
) -> list[Launch]:
    """To each element its share of the gradients of the windows that hold it.

    Args:
        target: whose cores share the work.
        gx: ``(n, c / b, h, w, b)``, dense; written whole.
        gy: ``(n, c / b, oh, ow, b)``, dense.
        means: as in :func:`blocked_avg_pool`.
    """
    if gx.size == 0:
        return []
    lanes, stream = gx.shape[-1], past_caches(gx)
    cost: dict[str, Any] = {"flops": max(gx.size, gy.size), "bytes": gx.nbytes + gy.nbytes}
    params = {"lanes": lanes, "stream": stream}
    arrays, rows = {"gx": gx, "gy": gy}, rows_of(gx)
    if means.window is not None:
        each = jobs_per_item(target, rows, rows, per_unit=32, least=1)
        items: dict[str, Any] = {"global_size": (ceil_div(rows, each),)}
        args = joined(by_name("rows each", rows, each), blocked_sizes(gy, gx), arrays)
        return [GRADIENT.launch(joined(params, means.params()), args, **items, **cost)]
    if gy.shape[2:4] == (1, 1):
        planes = gy.size // lanes
        each = jobs_per_item(target, planes, planes, per_unit=32, least=1)
        items = {"global_size": (ceil_div(planes, each),)}
        args = {"planes": planes, "each": each, "size": gx.size // gy.size, **arrays}
        return [PLANE_GRADIENT.launch(params, args, **items, **cost)]
    args = joined(blocked_sizes(gy, gx), arrays)
    return [PARTS_GRADIENT.launch({"lanes": lanes}, args, global_size=(rows,), **cost)]
