"""Images of another size, by linear interpolation on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ArgumentError, ShapeError
from .counter import Draw

_CHUNK = 64  # images interpolated at a time: what lies between fits in the caches


def resize(
    images: NDArray[Any], size: tuple[int, int], *, beyond: str = "edge"
) -> NDArray[np.float64]:
    """Interpolate linearly between the centres of pixels.

    Args:
        images: ``(..., h, w)``, any real dtype.
        size: ``(height, width)`` of the result, which is not smoothed first: for larger images.
        beyond: what lies around the image: ``"edge"``, its outermost pixels, or ``"zero"``.

    Returns:
        ``(..., height, width)``.

    Raises:
        ShapeError: if there is no image.
        ArgumentError: if a size is below 1, or ``beyond`` is neither.
    """
    if images.ndim < 2 or images.size == 0:
        raise ShapeError("resize", "needs images (..., h, w)", images=images.shape)
    if len(size) != 2 or min(size) < 1:
        raise ArgumentError("resize", "size is (height, width), 1 or more", size=size)
    if beyond not in ("edge", "zero"):
        raise ArgumentError("resize", "beyond is 'edge' or 'zero'", beyond=repr(beyond))
    rows, columns = (
        _weights(before, after, clamped=beyond == "edge")
        for before, after in zip(images.shape[-2:], size, strict=True)
    )
    flat = images.reshape(-1, *images.shape[-2:])
    out = np.empty((len(flat), *size))
    for i in range(0, len(flat), _CHUNK):
        out[i : i + _CHUNK] = rows @ flat[i : i + _CHUNK] @ columns.T
    return out.reshape(*images.shape[:-2], *size)


class Resize:
    """Every image of a batch interpolated to one size, in float32; see :func:`resize`.

    Args:
        size: ``(height, width)``.
        beyond: as :func:`resize`'s.
    """

    def __init__(self, size: tuple[int, int], *, beyond: str = "edge") -> None:
        self.size = size
        self.beyond = beyond

    def __call__(self, x: NDArray[Any], draw: Draw) -> NDArray[Any]:
        """``(n, c, height, width)``."""
        return resize(x, self.size, beyond=self.beyond).astype(np.float32)


def _weights(before: int, after: int, *, clamped: bool) -> NDArray[np.float64]:
    """What each of ``before`` pixels counts in each of ``after``."""
    place = (np.arange(after) + 0.5) * before / after - 0.5
    left = np.floor(place).astype(int)
    weights = np.zeros((after, before))
    for index, share in ((left, 1 - (place - left)), (left + 1, place - left)):
        inside = (index >= 0) & (index < before)
        rows = np.arange(after) if clamped else np.flatnonzero(inside)
        np.add.at(weights, (rows, index[rows].clip(0, before - 1)), share[rows])
    return weights
