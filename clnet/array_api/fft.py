"""Fourier transforms by the standard's names: functions of ``clnet.fft``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import fft as own
from ..tensor import Tensor
from ..values.dtypes import DType

_LINES = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
_GRIDS = ("fftn", "ifftn", "rfftn", "irfftn")


def _line(name: str) -> Callable[..., Tensor]:
    function: Any = getattr(own, name)

    def transform(
        x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward"
    ) -> Tensor:
        return function(x, n, axis, norm)

    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = f"``clnet.fft.{name}``."
    return transform


def _grid(name: str) -> Callable[..., Tensor]:
    function: Any = getattr(own, name)

    def transform(
        x: Tensor,
        /,
        *,
        s: Sequence[int] | None = None,
        axes: Sequence[int] | None = None,
        norm: str = "backward",
    ) -> Tensor:
        return function(x, s, axes, norm)

    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = f"``clnet.fft.{name}``."
    return transform


globals().update({name: _line(name) for name in _LINES})
globals().update({name: _grid(name) for name in _GRIDS})


def fftfreq(n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: Any = None) -> Tensor:
    """The frequency of each element of a transform."""
    return own.fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(
    n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: Any = None
) -> Tensor:
    """The frequency of each element of a real signal's transform."""
    return own.rfftfreq(n, d, dtype=dtype, device=device)


def fftshift(x: Tensor, /, *, axes: Any = None) -> Tensor:
    """The frequency 0 in the middle."""
    return own.fftshift(x, axes)


def ifftshift(x: Tensor, /, *, axes: Any = None) -> Tensor:
    """The inverse of :func:`fftshift`."""
    return own.ifftshift(x, axes)


__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq", *_GRIDS, *_LINES]  # pyrefly: ignore[unresolvable-dunder-all] - made above
