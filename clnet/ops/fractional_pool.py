"""Maxima over windows at random places, a fraction of a step apart (Graham 2014)."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from .. import expr as e
from ..errors import ArgumentError, ShapeError
from ..values.dtypes import int64
from ..values.shapes import Shape, each
from .create import positions
from .index import gather_within
from .machinery.function import Face, op, require_floating
from .machinery.pointwise import evaluate
from .random import random_like
from .reduce import argmax, widened
from .shape import contiguous, reshape, to_dtype, unsqueeze

if TYPE_CHECKING:
    from ..tensor import Tensor

Sizes = int | Sequence[int]
Ratios = float | Sequence[float]


@op(Face.FUNCTIONAL)
def fractional_max_pool2d(
    x: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Ratios | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Maxima over windows whose places are drawn anew for every plane and cover it evenly.

    Args:
        x: images, ``(n, c, h, w)`` or ``(c, h, w)``, floating.
        kernel_size: the window, an int or a pair ``(vertical, horizontal)``.
        output_size: an int or a pair.
        output_ratio: the same as a share of the image, in (0, 1); one of both is given.
        return_indices: also return where in its plane each maximum was.
        _random_samples: ``(n, c, 2)``, what is drawn otherwise: in [0, 1), for columns and rows.

    Returns:
        ``(n, c, *output_size)``; with ``return_indices`` also the positions, int64.

    Raises:
        ArgumentError: if not one of ``output_size`` and ``output_ratio`` is given.
        ShapeError: if ``x`` has no planes, or the windows do not fit into them.
        DtypeError: if ``x`` is not floating.
    """
    settings = (kernel_size, output_size, output_ratio)
    return _fractional("fractional_max_pool2d", x, 2, settings, _random_samples, return_indices)


@op(Face.FUNCTIONAL)
def fractional_max_pool3d(
    x: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Ratios | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """As :func:`fractional_max_pool2d`, over volumes ``(n, c, d, h, w)`` or ``(c, d, h, w)``."""
    settings = (kernel_size, output_size, output_ratio)
    return _fractional("fractional_max_pool3d", x, 3, settings, _random_samples, return_indices)


def _fractional(
    name: str,
    x: Tensor,
    count: int,
    settings: tuple[Sizes, Sizes | None, Ratios | None],
    samples: Tensor | None,
    return_indices: bool,
) -> Any:
    require_floating(name, x.array)
    if x.ndim not in (count + 1, count + 2):
        raise ShapeError(name, f"x has {count + 1} or {count + 2} axes", x=x.shape)
    *lead, channels = x.shape[:-count]
    axes = x.shape[-count:]
    kernel = each(settings[0], count, name, "kernel_size")
    sizes = _sizes(name, axes, *settings[1:])
    if any(k < 1 or o < 0 or o + k - 1 > n for n, k, o in zip(axes, kernel, sizes, strict=True)):
        raise ShapeError(
            name, "windows fit beside each other", x=x.shape, kernel_size=kernel, output_size=sizes
        )
    batch = lead[0] if lead else 1
    if samples is None:
        samples = random_like(x, low=0.0, high=1.0, shape=(batch, channels, count))
    if samples.shape != (batch, channels, count):
        raise ShapeError(
            name, "there is a sample for each axis of each plane", x=x.shape, samples=samples.shape
        )
    planes = reshape(contiguous(x), (batch, channels, prod(axes)))
    taps = _taps(widened(samples), axes, kernel, sizes)
    windows = (batch, channels, prod(sizes), prod(kernel))
    found = reshape(gather_within(planes.detach(), -1, taps), windows)
    each_window = reshape(taps, found.shape)
    index = reshape(gather_within(each_window, -1, unsqueeze(argmax(found, -1), -1)), windows[:3])
    y = reshape(gather_within(planes, -1, index), (*lead, channels, *sizes))
    return (y, reshape(index, y.shape)) if return_indices else y


def _sizes(
    name: str, axes: Shape, output_size: Sizes | None, output_ratio: Ratios | None
) -> tuple[int, ...]:
    if (output_size is None) == (output_ratio is None):
        raise ArgumentError(
            name,
            "either output_size or output_ratio is given",
            output_size=output_size,
            output_ratio=output_ratio,
        )
    if output_size is not None:
        return each(output_size, len(axes), name, "output_size")
    several = isinstance(output_ratio, Sequence)
    ratios = tuple(output_ratio) if several else (output_ratio,) * len(axes)
    if len(ratios) != len(axes) or not all(0 < float(r or 0) < 1 for r in ratios):
        raise ArgumentError(name, "ratios lie in (0, 1), one an axis", output_ratio=output_ratio)
    return tuple(int(n * float(r or 0)) for n, r in zip(axes, ratios, strict=True))


def _start(i: Any, u: Any, step: Any, last: Any, end: Any) -> Any:
    return e.where(e.eq(i, last), end, e.floor((i + u) * step) - e.floor(u * step))


def _taps(samples: Tensor, axes: Shape, kernel: Shape, sizes: Shape) -> Tensor:
    """Positions in its plane of the elements of all windows, ``(n, c, windows * taps)``."""
    count = len(axes)
    flat: Any = None
    for axis, (n, k, size) in enumerate(zip(axes, kernel, sizes, strict=True)):
        drawn = samples[..., 1 - axis if count == 2 else axis]  # PyTorch's order
        shape = [1] * (2 * count)
        shape[axis], shape[count + axis] = size, k
        step = (n - k) / (size - 1) if size > 1 else 0.0
        at = reshape(positions(type(samples), size, samples.device), (1, 1, size))
        start = evaluate(
            "fractional_max_pool", _start, [to_dtype(at, samples.dtype), unsqueeze(drawn, -1)],
            [step, size - 1, n - k],
        )  # fmt: skip
        within = reshape(positions(type(samples), k, samples.device), (1, 1, 1, k))
        rows = unsqueeze(to_dtype(start, int64), -1) + within
        rows = reshape(rows, (*samples.shape[:2], *shape))
        flat = rows if flat is None else flat * n + rows
    return reshape(flat, (*samples.shape[:2], prod(sizes) * prod(kernel)))
