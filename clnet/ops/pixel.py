"""Channels and pixels exchanged: pixel shuffle, its inverse, channel shuffle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import ArgumentError, ShapeError
from .machinery.function import EVERYWHERE, Face, op
from .shape import fresh, permute, reshape

if TYPE_CHECKING:
    from ..tensor import Tensor

_EVERYWHERE = EVERYWHERE & ~Face.METHOD


@op(_EVERYWHERE)
def pixel_shuffle(x: Tensor, upscale_factor: int) -> Tensor:
    """Channels spread over finer pixels (Shi et al. 2016).

    Args:
        x: ``(..., c * r * r, h, w)``.
        upscale_factor: ``r``.

    Returns:
        ``(..., c, h * r, w * r)``.

    Raises:
        ArgumentError: if the factor is below 1.
        ShapeError: if ``x`` has no channels, or they are no multiple of ``r * r``.
    """
    r = upscale_factor
    _check("pixel_shuffle", x, r)
    *lead, c, h, w = x.shape
    if c % (r * r):
        raise ShapeError(
            "pixel_shuffle", "channels are a multiple of the factor's square", x=x.shape, factor=r
        )
    k = len(lead)
    parts = reshape(x, (*lead, c // (r * r), r, r, h, w))
    parts = permute(parts, (*range(k), k, k + 3, k + 1, k + 4, k + 2))
    return fresh(reshape(parts, (*lead, c // (r * r), h * r, w * r)), x)


@op(_EVERYWHERE)
def pixel_unshuffle(x: Tensor, downscale_factor: int) -> Tensor:
    """The inverse of :func:`pixel_shuffle`.

    Args:
        x: ``(..., c, h * r, w * r)``.
        downscale_factor: ``r``.

    Returns:
        ``(..., c * r * r, h, w)``.

    Raises:
        ArgumentError: if the factor is below 1.
        ShapeError: if ``x`` has no channels, or a side is no multiple of ``r``.
    """
    r = downscale_factor
    _check("pixel_unshuffle", x, r)
    *lead, c, h, w = x.shape
    if h % r or w % r:
        raise ShapeError(
            "pixel_unshuffle", "sides are multiples of the factor", x=x.shape, factor=r
        )
    k = len(lead)
    parts = reshape(x, (*lead, c, h // r, r, w // r, r))
    parts = permute(parts, (*range(k), k, k + 2, k + 4, k + 1, k + 3))
    return fresh(reshape(parts, (*lead, c * r * r, h // r, w // r)), x)


@op(_EVERYWHERE)
def channel_shuffle(x: Tensor, groups: int) -> Tensor:
    """Channels of all groups dealt out in turn (Zhang et al. 2017).

    Args:
        x: ``(n, c, ...)``.
        groups: divides ``c``.

    Returns:
        The same shape.

    Raises:
        ArgumentError: if there are no groups.
        ShapeError: if ``x`` has no channels, or ``groups`` does not divide them.
    """
    if groups < 1:
        raise ArgumentError("channel_shuffle", "groups is 1 or more", groups=groups)
    if x.ndim < 3 or x.shape[1] % groups:
        raise ShapeError("channel_shuffle", "groups divides the channels", x=x.shape, groups=groups)
    n, c, *rest = x.shape
    parts = reshape(x, (n, groups, c // groups, *rest))
    return fresh(reshape(permute(parts, (0, 2, 1, *range(3, parts.ndim))), x.shape), x)


def _check(name: str, x: Tensor, factor: int) -> None:
    if factor < 1:
        raise ArgumentError(name, "the factor is 1 or more", factor=factor)
    if x.ndim < 3:
        raise ShapeError(name, "x is (..., channels, h, w)", x=x.shape)


@op(Face.FUNCTION | Face.FUNCTIONAL)
def native_channel_shuffle(x: Tensor, groups: int) -> Tensor:
    """:func:`channel_shuffle`."""
    return channel_shuffle(x, groups)
