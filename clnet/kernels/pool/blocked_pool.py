"""Maxima over windows of blocked arrays, ``(n, c / b, h, w, b)``, and their gradients."""

from __future__ import annotations

from typing import NamedTuple

from ...array import Array
from ...device import Launch
from ..kernel import Constraint, Kernel
from ..streaming import streams_rows
from .window import Window

BLOCKS = (Constraint("lanes in (4, 8, 16)", "vectors OpenCL has"),)
_ONE = (1,)


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
    stream: bool
    kh: int
    kw: int
    sh: int
    sw: int
    ph: int
    pw: int
    dh: int
    dw: int


MAX = Kernel("blocked_max_pool", "pool/blocked_pool.mako", BLOCKS)
MAX_GRADIENT = Kernel("blocked_max_pool_gradient", "pool/blocked_pool.mako", BLOCKS)


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
            global_size=(rows_of(y),),
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
            _MaxGradient(gx.shape[-1], past_caches(gx), *window),
            (*gy.shape[2:4], *gx.shape[2:4], gx, gy, index),
            global_size=(rows_of(gx),),
            local_size=_ONE,
            flops=gy.size * window.kh * window.kw,
            bytes=gx.nbytes + gy.nbytes + index.nbytes,
        )
    ]


def rows_of(result: Array) -> int:
    """Rows of an output."""
    return result.size // (result.shape[-1] * result.shape[-2])


def past_caches(result: Array) -> bool:
    """Whether an output's pixels, each a line, are stored past the caches."""
    return streams_rows(result, result.shape[-1], result.shape[-1])
