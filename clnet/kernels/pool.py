"""Maxima and means over windows of planes, and their gradients: gathers over the covering windows."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from ..array import Array
from ..device import Launch, Target
from .grid import items
from .kernel import Constraint, Kernel

_GPU_GROUP = 256
_LAWS = (
    Constraint("min(kh, kw, sh, sw) >= 1", "windows are not empty and move on"),
    Constraint("2 * ph <= dh * (kh - 1) + 1", "every window holds an element"),
    Constraint("2 * pw <= dw * (kw - 1) + 1", "every window holds an element"),
)
_MEAN_LAWS = (
    Constraint("min(kh, kw, sh, sw) >= 1", "windows are not empty and move on"),
    Constraint("2 * ph <= kh and 2 * pw <= kw", "every window holds an element"),
)
_POWER_OF_2 = Constraint("group & (group - 1) == 0", "the tree halves it")


class Window(NamedTuple):
    """A window and how it moves over a plane.

    Attributes:
        kh, kw: its height and width.
        sh, sw: steps from window to window.
        ph, pw: padding on every side of the plane, at most half the window.
        dh, dw: steps within a window (1 for means).
    """

    kh: int
    kw: int
    sh: int
    sw: int
    ph: int = 0
    pw: int = 0
    dh: int = 1
    dw: int = 1


class _MaxPool(NamedTuple):
    ctype: str
    index_type: str
    with_index: bool
    by_rows: bool
    kh: int
    kw: int
    sh: int
    sw: int
    ph: int
    pw: int
    dh: int
    dw: int


class _MaxPoolGradient(NamedTuple):
    ctype: str
    real: str
    index_type: str
    by_rows: bool
    kh: int
    kw: int
    sh: int
    sw: int
    ph: int
    pw: int
    dh: int
    dw: int


class _AvgPool(NamedTuple):
    ctype: str
    real: str
    by_rows: bool
    include_pad: bool
    divisor: int
    kh: int
    kw: int
    sh: int
    sw: int
    ph: int
    pw: int


class _Adaptive(NamedTuple):
    ctype: str
    real: str
    by_rows: bool
    h: int
    w: int
    oh: int
    ow: int


class _Mean(NamedTuple):
    ctype: str
    real: str
    vector: int


class _MeanLocal(NamedTuple):
    ctype: str
    real: str
    group: int


_MAX_POOL = Kernel("max_pool", "pool.mako", constraints=_LAWS)
_MAX_POOL_GRADIENT = Kernel("max_pool_gradient", "pool.mako", constraints=_LAWS)
_AVG_POOL = Kernel("avg_pool", "pool.mako", constraints=_MEAN_LAWS)
_AVG_POOL_GRADIENT = Kernel("avg_pool_gradient", "pool.mako", constraints=_MEAN_LAWS)
_ADAPTIVE = Kernel("adaptive_avg_pool", "pool.mako")
_ADAPTIVE_GRADIENT = Kernel("adaptive_avg_pool_gradient", "pool.mako")
_PLANE_MEAN = Kernel("plane_mean", "pool.mako")
_PLANE_MEAN_LOCAL = Kernel("plane_mean_local", "pool.mako", constraints=(_POWER_OF_2,))


def max_pool(
    target: Target, y: Array, x: Array, *, window: Window, index: Array | None = None
) -> list[Launch]:
    """Maxima over windows; of equal ones the first, NaN above all.

    Args:
        target: what to choose the kernel for.
        y: ``(..., oh, ow)``, dense.
        x: ``(..., h, w)``, dense.
        window: how it lies.
        index: as ``y``, int32 or int64: where in its plane each maximum was; None to leave it out.

    Returns:
        The launches; none for no elements.
    """
    if y.size == 0:
        return []
    by_rows = _by_rows(target)
    index_type = "int" if index is None else index.dtype.ctype
    outputs = (y,) if index is None else (y, index)
    return [
        _MAX_POOL.launch(
            _MaxPool(y.dtype.ctype, index_type, index is not None, by_rows, *window),
            (*_sizes(y, y, x), *outputs, x),
            **_items(target, y),
            flops=y.size * window.kh * window.kw,
            bytes=x.nbytes + sum(output.nbytes for output in outputs),
        )
    ]


def max_pool_gradient(
    target: Target, gx: Array, gy: Array, index: Array, *, window: Window
) -> list[Launch]:
    """To each element the sum of the gradients of the windows that chose it.

    Args:
        target: what to choose the kernel for.
        gx: ``(..., h, w)``, dense; written whole.
        gy: ``(..., oh, ow)``, dense.
        index: as ``gy``, what :func:`max_pool` stored.
        window: how it lay.

    Returns:
        The launches; none for no elements.
    """
    if gx.size == 0:
        return []
    params = _MaxPoolGradient(
        gx.dtype.ctype, _real(gx), index.dtype.ctype, _by_rows(target), *window
    )
    return [
        _MAX_POOL_GRADIENT.launch(
            params,
            (*_sizes(gx, gy, gx), gx, gy, index),
            **_items(target, gx),
            flops=gy.size,
            bytes=gx.nbytes + gy.nbytes + index.nbytes,
        )
    ]


def avg_pool(
    target: Target, y: Array, x: Array, *, window: Window, include_pad: bool, divisor: int = 0
) -> list[Launch]:
    """Means over windows.

    Args:
        target: what to choose the kernel for.
        y: ``(..., oh, ow)``, dense.
        x: ``(..., h, w)``, dense.
        window: how it lies.
        include_pad: padding counts, as zeros.
        divisor: what the sums are divided by, 0 for the number of elements.

    Returns:
        The launches; none for no elements.
    """
    if y.size == 0:
        return []
    return [
        _AVG_POOL.launch(
            _avg_params(target, y, window, include_pad=include_pad, divisor=divisor),
            (*_sizes(y, y, x), y, x),
            **_items(target, y),
            flops=y.size * window.kh * window.kw,
            bytes=x.nbytes + y.nbytes,
        )
    ]


def avg_pool_gradient(
    target: Target, gx: Array, gy: Array, *, window: Window, include_pad: bool, divisor: int = 0
) -> list[Launch]:
    """To each element its share of the gradients of the windows that cover it.

    Args:
        target: what to choose the kernel for.
        gx: ``(..., h, w)``, dense; written whole.
        gy: ``(..., oh, ow)``, dense.
        window: how it lay.
        include_pad: as in :func:`avg_pool`.
        divisor: as in :func:`avg_pool`.

    Returns:
        The launches; none for no elements.
    """
    if gx.size == 0:
        return []
    return [
        _AVG_POOL_GRADIENT.launch(
            _avg_params(target, gx, window, include_pad=include_pad, divisor=divisor),
            (*_sizes(gx, gy, gx), gx, gy),
            **_items(target, gx),
            flops=gy.size * window.kh * window.kw,
            bytes=gx.nbytes + gy.nbytes,
        )
    ]


def adaptive_avg_pool(target: Target, y: Array, x: Array) -> list[Launch]:
    """Means over ``oh x ow`` nearly equal parts: ``floor(i h / oh)`` to ``ceil((i + 1) h / oh)``.

    Args:
        target: what to choose the kernel for.
        y: ``(..., oh, ow)``, dense.
        x: ``(..., h, w)``, dense, not empty.

    Returns:
        The launches; none for no elements.
    """
    if y.size == 0:
        return []
    cost = {"flops": x.size, "bytes": x.nbytes + y.nbytes}
    if y.shape[-2:] == (1, 1):
        return [_plane_mean(target, y, x, cost)]
    params = _Adaptive(y.dtype.ctype, _real(y), _by_rows(target), *x.shape[-2:], *y.shape[-2:])
    return [_ADAPTIVE.launch(params, (y.size // y.shape[-1], y, x), **_items(target, y), **cost)]


def adaptive_avg_pool_gradient(target: Target, gx: Array, gy: Array) -> list[Launch]:
    """To each element its share of the gradients of the parts it lies in.

    Args:
        target: what to choose the kernel for.
        gx: ``(..., h, w)``, dense; written whole.
        gy: ``(..., oh, ow)``, dense.

    Returns:
        The launches; none for no elements.
    """
    if gx.size == 0:
        return []
    params = _Adaptive(gx.dtype.ctype, _real(gx), _by_rows(target), *gx.shape[-2:], *gy.shape[-2:])
    return [
        _ADAPTIVE_GRADIENT.launch(
            params,
            (gx.size // gx.shape[-1], gx, gy),
            **_items(target, gx),
            flops=gx.size,
            bytes=gx.nbytes + gy.nbytes,
        )
    ]


def _plane_mean(target: Target, y: Array, x: Array, cost: dict[str, int]) -> Launch:
    traits = target.traits
    dtypes = (y.dtype.ctype, _real(y))
    args = (prod(x.shape[-2:]), y, x)
    if traits.dedicated_local_memory:
        group = min(_GPU_GROUP, traits.max_group_size)
        sizes = {"global_size": (y.size * group,), "local_size": (group,)}
        return _PLANE_MEAN_LOCAL.launch(_MeanLocal(*dtypes, group), args, **sizes, **cost)
    sizes = {"global_size": (y.size,), "local_size": (1,)}
    return _PLANE_MEAN.launch(_Mean(*dtypes, max(traits.simd_width, 2)), args, **sizes, **cost)


def _avg_params(
    target: Target, array: Array, window: Window, *, include_pad: bool, divisor: int
) -> _AvgPool:
    by_rows = _by_rows(target)
    return _AvgPool(array.dtype.ctype, _real(array), by_rows, include_pad, divisor, *window[:6])


def _by_rows(target: Target) -> bool:
    return not target.traits.dedicated_local_memory


def _real(array: Array) -> str:
    return "double" if array.dtype.compute == "float64" else "float"


def _sizes(result: Array, y: Array, x: Array) -> tuple[int, ...]:
    """Rows of what is written, and the sizes of an output and an input plane."""
    return (result.size // result.shape[-1], *y.shape[-2:], *x.shape[-2:])


def _items(target: Target, result: Array) -> dict[str, Any]:
    if _by_rows(target):
        return {"global_size": (result.size // result.shape[-1],), "local_size": (1,)}
    global_size, local_size = items(target, result.size)
    return {"global_size": global_size, "local_size": local_size}
