"""Dropout of whole channels, and dropout that keeps mean and variance."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError, ShapeError
from ..expr import where
from .machinery.function import Face, op, require_floating
from .machinery.pointwise import evaluate
from .random import random_like
from .shape import settled, squeeze, unsqueeze

if TYPE_CHECKING:
    from ..tensor import Tensor

_FACE = Face.FUNCTION | Face.FUNCTIONAL
_SELU_FLOOR = 1.7580993408473766
"""Minus the limit of :func:`.activation.selu` at minus infinity."""


def _dropped(x: Any, draw: Any, p: Any, scale: Any) -> Any:
    return where(draw < p, 0, x * scale)


def _held(x: Any, draw: Any, p: Any, floor: Any, scale: Any, shift: Any) -> Any:
    return where(draw < p, floor, x) * scale + shift


@op(Face.FUNCTIONAL)
def dropout1d(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """As :func:`dropout2d`, for rows ``(n, c, l)`` or ``(c, l)``."""
    if x.ndim not in (2, 3):
        raise ShapeError("dropout1d", "x has 2 or 3 axes", x=x.shape)
    return settled(x, _channels("dropout1d", x, p, training, alone=x.ndim == 2), inplace=inplace)


@op(Face.FUNCTIONAL)
def dropout2d(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels 0 with probability ``p``, the others divided by ``1 - p``.

    ``x`` are images, ``(n, c, h, w)``, or ``(n, c, ...)`` of any number of axes, rows and channels
    of one element, too; the arguments are those of :func:`dropout`.

    Raises:
        ArgumentError: if ``p`` lies outside ``[0, 1]``.
        ShapeError: if ``x`` has no channels.
    """
    return settled(x, _channels("dropout2d", x, p, training), inplace=inplace)


@op(Face.FUNCTIONAL)
def dropout3d(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """As :func:`dropout2d`, for volumes ``(n, c, d, h, w)``; what has not 5 axes is one example.

    One example is ``(c, ...)``, as PyTorch takes it.
    """
    return settled(x, _channels("dropout3d", x, p, training, alone=x.ndim != 5), inplace=inplace)


@op(_FACE)
def alpha_dropout(
    x: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Elements at :func:`selu`'s floor with probability ``p``; mean 0 and variance 1 stay.

    The arguments are those of :func:`dropout`.
    """
    return settled(x, _alpha("alpha_dropout", x, p, training, x.shape), inplace=inplace)


@op(_FACE)
def feature_alpha_dropout(
    x: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """As :func:`alpha_dropout`, but whole channels of ``(n, c, ...)``."""
    if x.ndim < 2 and training:
        raise ShapeError("feature_alpha_dropout", "x has a batch and a channel axis", x=x.shape)
    shape = (*x.shape[:2], *(1,) * (x.ndim - 2))
    return settled(x, _alpha("feature_alpha_dropout", x, p, training, shape), inplace=inplace)


def _channels(name: str, x: Tensor, p: float, training: bool, *, alone: bool = False) -> Tensor:
    """Channels dropped, those of axis 0 if ``x`` is one example alone."""
    _check(name, x, p)
    if x.ndim + alone < 2:
        raise ShapeError(name, "x has channels", x=x.shape)
    if not training or p == 0:
        return x
    batch = unsqueeze(x, 0) if alone else x
    shape = (*batch.shape[:2], *(1,) * (batch.ndim - 2))
    draw = random_like(x, low=0.0, high=1.0, shape=shape)
    y = evaluate(name, _dropped, [batch, draw], [p, 1 / (1 - p) if p < 1 else 0.0], promoted=[x])
    return squeeze(y, 0) if alone else y


def _alpha(name: str, x: Tensor, p: float, training: bool, shape: tuple[int, ...]) -> Tensor:
    _check(name, x, p)
    if not training or p == 0:
        return x
    if p == 1:
        return x * 0
    scale = 1 / sqrt((_SELU_FLOOR * _SELU_FLOOR * p + 1) * (1 - p))
    draw = random_like(x, low=0.0, high=1.0, shape=shape)
    return evaluate(
        name, _held, [x, draw], [p, -_SELU_FLOOR, scale, _SELU_FLOOR * scale * p], promoted=[x]
    )


def _check(name: str, x: Tensor, p: float) -> None:
    require_floating(name, x.array)
    if not 0 <= p <= 1:
        raise ArgumentError(name, "p lies in [0, 1]", p=p)
