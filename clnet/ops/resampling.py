"""Images in another size: nearest, linear and cubic interpolation, axis by axis.

Each axis is a sparse linear map (see :mod:`clnet.ops.axis_map`): so its gradient is one too.
"""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import floor, isfinite, prod
from typing import TYPE_CHECKING

import numpy as np

from ..errors import ArgumentError, ShapeError
from ..values.dtypes import uint8
from .axis_map import Table, map_axis
from .machinery.function import Face, op, require_floating
from .pool import adaptive_avg_pool2d
from .pool_nd import adaptive_avg_pool1d, adaptive_avg_pool3d

if TYPE_CHECKING:
    from ..tensor import Tensor

_AXES = {
    "nearest": (1, 2, 3),
    "nearest-exact": (1, 2, 3),
    "linear": (1,),
    "bilinear": (2,),
    "trilinear": (3,),
    "bicubic": (2,),
    "area": (1, 2, 3),
}
_CORNERED = ("linear", "bilinear", "trilinear", "bicubic")
_CUBIC = -0.75
_CUBIC_ANTIALIAS = -0.5


@op(Face.FUNCTIONAL)
def interpolate(
    x: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Rows, images or volumes in another size.

    Args:
        x: ``(n, c, ...)`` with one, two or three further axes.
        size: the new size of these, a number for all or one for each.
        scale_factor: or how many times as large they become (rounded down).
        mode: ``"nearest"``, ``"nearest-exact"``, ``"area"``; ``"linear"``, ``"bilinear"``,
            ``"trilinear"`` or ``"bicubic"`` for one, two, three and two axes.
        align_corners: whether the centres of the outermost elements stay where they are, instead
            of their edges; for the last four.
        recompute_scale_factor: take the ratio of the rounded sizes instead of ``scale_factor``.
        antialias: average over what an element covers when shrinking (bilinear, bicubic).

    Returns:
        ``(n, c, ...)`` in the new size.

    Raises:
        ArgumentError: if not exactly one of ``size`` and ``scale_factor`` is given, there is no
            such mode, or a setting does not go with it.
        ShapeError: if ``x`` has other axes than the mode needs, or a size would be below 1.

    Example:
        >>> import clnet
        >>> clnet.nn.functional.interpolate(clnet.ones(1, 3, 4, 6), scale_factor=2).shape
        (1, 3, 8, 12)
    """
    _check_mode(mode, x, align_corners, antialias)
    sizes, scales = _sizes(x, size, scale_factor, recompute_scale_factor)
    if mode == "area":
        pools = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)
        return pools[x.ndim - 3](x, sizes)
    whole = mode in _CORNERED and x.dtype is uint8
    steps = [*enumerate(zip(sizes, scales, strict=True), start=2)]
    if whole:  # rounded to bytes behind each axis, the last one first, as PyTorch does
        x, steps = x.float(), steps[::-1]
    if mode in _CORNERED:
        require_floating("interpolate", x.array)
    for axis, (n, scale) in steps:
        rows = x.shape[axis]
        if _by_sizes(mode, rows, n, x.ndim, antialias):
            scale = None
        if antialias:
            table = _smoothed(rows, n, scale, bool(align_corners), mode == "bicubic")
        elif mode in _CORNERED:
            table = _between(rows, n, scale, bool(align_corners), mode == "bicubic")
        else:
            table = _nearest(rows, n, scale, mode == "nearest-exact")
        x = map_axis("interpolate", x, axis, table)
        x = (x + 0.5).floor().clamp(0, 255) if whole else x
    return x.to(uint8) if whole else x


def _check_mode(mode: str, x: Tensor, align_corners: bool | None, antialias: bool) -> None:
    if mode not in _AXES:
        raise ArgumentError("interpolate", f"mode is one of {', '.join(_AXES)}", mode=repr(mode))
    if x.ndim - 2 not in _AXES[mode]:
        axes = " or ".join(str(n + 2) for n in _AXES[mode])
        raise ShapeError("interpolate", f"for mode {mode!r} x has {axes} axes", x=x.shape)
    if align_corners is not None and mode not in _CORNERED:
        raise ArgumentError(
            "interpolate",
            f"align_corners goes with {', '.join(_CORNERED)}",
            mode=repr(mode),
            align_corners=align_corners,
        )
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ArgumentError(
            "interpolate", "antialias goes with bilinear and bicubic", mode=repr(mode)
        )


def _sizes(
    x: Tensor,
    size: int | Sequence[int] | None,
    scale_factor: float | Sequence[float] | None,
    recompute: bool | None,
) -> tuple[tuple[int, ...], tuple[float | None, ...]]:
    """The new sizes, and the factors that coordinates are computed with (None: from the sizes)."""
    count = x.ndim - 2
    if (size is None) == (scale_factor is None):
        raise ArgumentError(
            "interpolate",
            "either size or scale_factor is given",
            size=size,
            scale_factor=scale_factor,
        )
    if recompute and size is not None:
        raise ArgumentError("interpolate", "recompute_scale_factor needs scale_factor", size=size)
    given = size if scale_factor is None else scale_factor
    values = tuple(given) if isinstance(given, Sequence) else (given,) * count
    if len(values) != count:
        raise ArgumentError(
            "interpolate", f"there is one number for each of {count} axes", got=given
        )
    if scale_factor is None:
        sizes, scales = tuple(int(v or 0) for v in values), (None,) * count
    else:
        scales = tuple(float(v or 0) for v in values)
        if not all(isfinite(s) for s in scales):
            raise ArgumentError("interpolate", "scale_factor is finite", scale_factor=scale_factor)
        sizes = tuple(floor(n * s) for n, s in zip(x.shape[2:], scales, strict=True))
        scales = (None,) * count if recompute else scales
    if min(sizes) < 1 or 0 in x.shape[2:]:
        raise ShapeError("interpolate", "sizes are 1 or more", x=x.shape, size=sizes)
    # Before the host lays out what each element of the result is made of, also of no images.
    for done in range(1, count + 1):
        shape = (*(max(n, 1) for n in x.shape[:2]), *sizes[:done], *x.shape[2 + done :])
        x.device.pool.check(prod(shape) * x.dtype.itemsize)
    return sizes, scales


def _by_sizes(mode: str, rows: int, n: int, ndim: int, antialias: bool) -> bool:
    """Whether an axis goes by its sizes though a factor is given, as on PyTorch's CPU.

    There it is copied where its size stays (of 3 elements by 1.3), but for plain bicubic; to the
    nearest element in images alone, where doubled axes repeat each, too.
    """
    if mode == "nearest":
        return ndim == 4 and n in (rows, 2 * rows)
    return n == rows and (antialias or mode.endswith("linear"))


@lru_cache(maxsize=256)
def _nearest(rows: int, n: int, scale: float | None, exact: bool) -> Table:
    """In single precision, as PyTorch: which element is nearest may hang on the last bit."""
    ratio = np.float32(rows) / np.float32(n) if scale is None else np.float32(1 / scale)
    at = (np.arange(n, dtype=np.float32) + np.float32(0.5 if exact else 0)) * ratio
    return Table.of(rows, np.minimum(np.floor(at).astype(np.int64), rows - 1))


def _ratio(rows: int, n: int, scale: float | None, align_corners: bool) -> float:
    if align_corners:
        return (rows - 1) / (n - 1) if n > 1 else 0.0
    return rows / n if scale is None else 1 / scale


@lru_cache(maxsize=256)
def _between(rows: int, n: int, scale: float | None, align_corners: bool, cubic: bool) -> Table:
    ratio = _ratio(rows, n, scale, align_corners)
    at = np.arange(n) * ratio if align_corners else (np.arange(n) + 0.5) * ratio - 0.5
    if not cubic:
        at = np.maximum(at, 0)
    first = np.floor(at)
    taps = np.arange(-1, 3) if cubic else np.arange(2)
    index = first[:, None] + taps
    distance = np.abs(at[:, None] - index)
    weight = _cubic(distance, _CUBIC) if cubic else np.maximum(1 - distance, 0)
    return Table.of(rows, index.clip(0, rows - 1).astype(np.int64), weight)


@lru_cache(maxsize=256)
def _smoothed(rows: int, n: int, scale: float | None, align_corners: bool, cubic: bool) -> Table:
    ratio = _ratio(rows, n, scale, align_corners)
    stretch = max(ratio, 1.0)
    support = (2 if cubic else 1) * stretch
    centre = (np.arange(n) + 0.5) * ratio
    first = np.maximum(np.trunc(centre - support + 0.5), 0)
    last = np.minimum(np.trunc(centre + support + 0.5), rows)
    index = first[:, None] + np.arange(int((last - first).max()))
    distance = np.abs((index - centre[:, None] + 0.5) / stretch)
    weight = _cubic(distance, _CUBIC_ANTIALIAS) if cubic else np.maximum(1 - distance, 0)
    weight = np.where(index < last[:, None], weight, 0)
    return Table.of(rows, index.astype(np.int64), weight / weight.sum(1, keepdims=True))


def _cubic(distance: np.ndarray, a: float) -> np.ndarray:
    """Keys' cubic convolution kernel."""
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = ((distance - 5) * distance + 8) * distance * a - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


@op(Face.FUNCTIONAL)
def upsample(
    x: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """:func:`interpolate`."""
    return interpolate(x, size, scale_factor, mode, align_corners)


@op(Face.FUNCTIONAL)
def upsample_nearest(
    x: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
) -> Tensor:
    """:func:`interpolate` from the nearest element."""
    return interpolate(x, size, scale_factor, "nearest")


@op(Face.FUNCTIONAL)
def upsample_bilinear(
    x: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
) -> Tensor:
    """:func:`interpolate` of images between neighbours, with corners aligned."""
    return interpolate(x, size, scale_factor, "bilinear", align_corners=True)
