"""Gradients of means over windows of planes."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..array import Array
from ..device import Launch, Target
from .avg_pool import LAWS
from .grid import items
from .kernel import Kernel
from .reduce import lanes_of
from .window import Window, by_rows, plane_sizes, planes_of, real_type, unchecked


class _Gradient(NamedTuple):
    ctype: str
    real: str
    include_pad: bool
    divisor: int
    kh: int
    kw: int
    sh: int
    sw: int
    ph: int
    pw: int


class _Planes(NamedTuple):
    ctype: str
    unchecked: str
    include_pad: bool
    divisor: int
    kh: int
    kw: int
    sh: int
    sw: int
    ph: int
    pw: int
    lanes: int


_GRADIENT = Kernel("avg_pool_gradient", "avg_pool_grad.mako", constraints=LAWS)
_GRADIENT_PLANES = Kernel("avg_pool_gradient_planes", "avg_pool_grad.mako", constraints=LAWS)


def avg_pool_gradient(
    target: Target, gx: Array, gy: Array, *, window: Window, include_pad: bool, divisor: int = 0
) -> list[Launch]:
    """To each element its share of the gradients of the windows that cover it.

    Args:
        target: what to choose the kernel for.
        gx: ``(..., h, w)``, dense; written whole.
        gy: ``(..., oh, ow)``, dense.
        window: how it lay.
        include_pad: as in :func:`.avg_pool.avg_pool`.
        divisor: as in :func:`.avg_pool.avg_pool`.

    Returns:
        The launches; none for no elements.
    """
    if gx.size == 0:
        return []
    cost: dict[str, Any] = {
        "flops": gy.size * (window.kh * window.kw + 1),
        "bytes": gx.nbytes + gy.nbytes,
    }
    how = (include_pad, divisor, *window[:6])
    if by_rows(target):
        args = (*gy.shape[-2:], *gx.shape[-2:], gx, gy)
        # Rows are short: with half a vector fewer of them are made one by one.
        lanes = max(lanes_of(target, gx.dtype.itemsize) // 2, 2)
        shape: dict[str, Any] = {"global_size": (planes_of(gx),), "local_size": (1,)}
        return [
            _GRADIENT_PLANES.launch(
                _Planes(gx.dtype.ctype, unchecked(target, window, gy, gx), *how, lanes),
                args,
                **shape,
                **cost,
            )
        ]
    args = (*plane_sizes(gx, gy, gx), gx, gy)
    global_size, local_size = items(target, gx.size)
    shape = {"global_size": global_size, "local_size": local_size}
    params = _Gradient(gx.dtype.ctype, real_type(gx), *how)
    return [_GRADIENT.launch(params, args, **shape, **cost)]
