"""Maxima over windows of blocked arrays, ``(n, c / b, h, w, b)``, and their gradients."""

from __future__ import annotations

from ...array import Array
from ...device import Launch
from ..kernel import Constraint, Kernel, Named, by_name, joined
from ..streaming import streams_rows
from .window import Window

BLOCKS = (Constraint("lanes in (4, 8, 16)", "vectors OpenCL has"),)


MAX = Kernel("blocked_max_pool", "pool/blocked_pool.mako", BLOCKS)
MAX_GRADIENT = Kernel("blocked_max_pool_gradient", "pool/blocked_pool.mako", BLOCKS)


def blocked_max_pool(y: Array, x: Array, *, window: Window, index: Array | None) -> list[Launch]:
    """Maxima over windows; of equal ones the first, NaN above all.

    Args:
        y: ``(n, c / b, oh, ow, b)``, float32, dense.
        x: ``(n, c / b, h, w, b)``, dense but for its steps over images and blocks.
        window: how it lies.
        index: as ``y``, int32: where in its plane each maximum was; None to leave it out.
    """
    if y.size == 0:
        return []
    return [
        MAX.launch(
            joined(by_name("lanes with_index", y.shape[-1], index is not None), window.params()),
            joined(blocked_sizes(y, x), blocked_steps(x), by_name("y index x", y, index, x)),
            global_size=(rows_of(y),),
            flops=y.size * window.kh * window.kw,
            bytes=x.nbytes + y.nbytes + (0 if index is None else index.nbytes),
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
    """
    if gx.size == 0:
        return []
    return [
        MAX_GRADIENT.launch(
            joined(by_name("lanes stream", gx.shape[-1], past_caches(gx)), window.params()),
            joined(blocked_sizes(gy, gx), by_name("gx gy index", gx, gy, index)),
            global_size=(rows_of(gx),),
            flops=gy.size * window.kh * window.kw,
            bytes=gx.nbytes + gy.nbytes + index.nbytes,
        )
    ]


def blocked_sizes(y: Array, x: Array) -> Named:
    """The sizes of an output and an input plane."""
    return by_name("out_h out_w height width", *y.shape[2:4], *x.shape[2:4])


def blocked_steps(x: Array) -> Named:
    """How many blocks of channels an image has, and its steps over images and blocks."""
    return by_name("groups image_step group_step", x.shape[1], *x.strides[:2])


def rows_of(result: Array) -> int:
    """Rows of an output."""
    return result.size // (result.shape[-1] * result.shape[-2])


def past_caches(result: Array) -> bool:
    """Whether an output's pixels, each a line, are stored past the caches."""
    return streams_rows(result, result.shape[-1], result.shape[-1])
