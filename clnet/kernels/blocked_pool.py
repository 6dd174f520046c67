"""Maxima and means over windows of blocked arrays, ``(n, c / b, h, w, b)``, and their gradients."""

from __future__ import annotations

from typing import NamedTuple

from ..array import Array
from ..device import Launch
from .kernel import Constraint, Kernel
from .window import Window

_LANES = (Constraint("lanes in (4, 8, 16)", "vectors OpenCL has"),)
_ONE = (1,)


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

    def params(self, lanes: int) -> _Mean:
        """The kernels' parameters."""
        window = self.window or Window(1, 1, 1, 1)
        return _Mean(lanes, self.window is None, self.include_pad, self.divisor, *window[:6])


class _Max(NamedTuple):
    lanes: int
    with_index: bool
    kh: int
    kw: int
    sh: int
    sw: int
    ph: int
    pw: int
    dh: int
    dw: int


class _MaxGradient(NamedTuple):
    lanes: int
    kh: int
    kw: int
    sh: int
    sw: int
    ph: int
    pw: int
    dh: int
    dw: int


class _Mean(NamedTuple):
    lanes: int
    adaptive: bool
    include_pad: bool
    divisor: int
    kh: int
    kw: int
    sh: int
    sw: int
    ph: int
    pw: int


MAX = Kernel("blocked_max_pool", "blocked_pool.mako", _LANES)
MAX_GRADIENT = Kernel("blocked_max_pool_gradient", "blocked_pool.mako", _LANES)
AVG = Kernel("blocked_avg_pool", "blocked_pool.mako", _LANES)
AVG_GRADIENT = Kernel("blocked_avg_pool_gradient", "blocked_pool.mako", _LANES)


def blocked_max_pool(y: Array, x: Array, *, window: Window, index: Array | None) -> list[Launch]:
    """Maxima over windows; of equal ones the first, NaN above all.

    Args:
        y: ``(n, c / b, oh, ow, b)``, float32, dense.
        x: ``(n, c / b, h, w, b)``, dense but for its steps over images and blocks.
        window: how it lies.
        index: as ``y``, int32: where in its plane each maximum was; None to leave it out.

    Returns:
        One launch; none for no elements.
    """
    if y.size == 0:
        return []
    outputs = (y,) if index is None else (y, index)
    return [
        MAX.launch(
            _Max(y.shape[-1], index is not None, *window),
            (x.shape[1], *y.shape[2:4], *x.shape[2:4], *outputs, x, *x.strides[:2]),
            global_size=(_rows(y),),
            local_size=_ONE,
            flops=y.size * window.kh * window.kw,
            bytes=x.nbytes + sum(o.nbytes for o in outputs),
        )
    ]


def blocked_max_pool_gradient(
    gx: Array, gy: Array, index: Array, *, window: Window
) -> list[Launch]:
    """To each element the sum of the gradients of the windows that chose it, in their order.

    Args:
        gx: ``(n, c / b, h, w, b)``, dense; written whole.
        gy: ``(n, c / b, oh, ow, b)``, dense.
        index: as ``gy``, what :func:`blocked_max_pool` stored.
        window: how it lay.

    Returns:
        One launch; none for no elements.
    """
    if gx.size == 0:
        return []
    return [
        MAX_GRADIENT.launch(
            _MaxGradient(gx.shape[-1], *window),
            (*gy.shape[2:4], *gx.shape[2:4], gx, gy, index),
            global_size=(_rows(gx),),
            local_size=_ONE,
            flops=gy.size * window.kh * window.kw,
            bytes=gx.nbytes + gy.nbytes + index.nbytes,
        )
    ]


def blocked_avg_pool(y: Array, x: Array, *, means: Means) -> list[Launch]:
    """Means over windows, or over nearly equal parts.

    Args:
        y: ``(n, c / b, oh, ow, b)``, float32, dense.
        x: ``(n, c / b, h, w, b)``, dense but for its steps over images and blocks.
        means: of what.

    Returns:
        One launch; none for no elements.
    """
    if y.size == 0:
        return []
    return [
        AVG.launch(
            means.params(y.shape[-1]),
            (x.shape[1], *y.shape[2:4], *x.shape[2:4], y, x, *x.strides[:2]),
            global_size=(_rows(y),),
            local_size=_ONE,
            flops=max(x.size, y.size),
            bytes=x.nbytes + y.nbytes,
        )
    ]


def blocked_avg_pool_gradient(gx: Array, gy: Array, *, means: Means) -> list[Launch]:
    """To each element its share of the gradients of the windows that hold it.

    Args:
        gx: ``(n, c / b, h, w, b)``, dense; written whole.
        gy: ``(n, c / b, oh, ow, b)``, dense.
        means: as in :func:`blocked_avg_pool`.

    Returns:
        One launch; none for no elements.
    """
    if gx.size == 0:
        return []
    return [
        AVG_GRADIENT.launch(
            means.params(gx.shape[-1]),
            (*gy.shape[2:4], *gx.shape[2:4], gx, gy),
            global_size=(_rows(gx),),
            local_size=_ONE,
            flops=max(gx.size, gy.size),
            bytes=gx.nbytes + gy.nbytes,
        )
    ]


def _rows(result: Array) -> int:
    """Rows of an output: its items."""
    return result.size // (result.shape[-1] * result.shape[-2])
