"""Padding layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from .. import ops
from ..errors import ShapeError
from ..tensor import Tensor
from ..values.shapes import each
from .op_layer import OpLayer

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]

Padding = int | Sequence[int]


class _Pad(OpLayer):
    """What the layers of this file share; ``axes`` are padded, by ``mode``."""

    axes: ClassVar[int]
    mode: ClassVar[str]
    op = ops.pad
    padding: Padding

    def _check_settings(self) -> None:
        self.padding = each(self.padding, 2 * self.axes, type(self).__name__, "padding")

    def forward(self, x: Tensor) -> Tensor:
        """``x`` with longer last axes.

        Raises:
            ShapeError: if ``x`` has not one or two axes before them.
        """
        if x.ndim not in (self.axes + 1, self.axes + 2):
            law = f"x has {self.axes + 1} or {self.axes + 2} axes"
            raise ShapeError(type(self).__name__, law, x=x.shape)
        return type(self).op(x, self.padding, self.mode)

    def extra_repr(self) -> str:
        """The sizes."""
        return str(self.padding)


class _ConstantPad(_Pad):
    """What the constant ones share: ``x`` may have any axes."""

    value: float

    def forward(self, x: Tensor) -> Tensor:
        """``x`` with longer last axes."""
        return type(self).op(x, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """The sizes and the value."""
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_Pad):
    """A constant of 0."""

    def _check_settings(self) -> None:
        super()._check_settings()
        self.value = 0.0

    def forward(self, x: Tensor) -> Tensor:
        """``x`` with longer last axes."""
        return type(self).op(x, self.padding)


class ConstantPad1d(_ConstantPad):
    """A constant around rows.

    Args:
        padding: an int, or ``(before, after)`` of the last axis.
        value: the constant.
    """

    axes = 1


class ConstantPad2d(_ConstantPad):
    """A constant around images.

    Args:
        padding: an int, or ``(before, after)`` of the last axis, then of the one before it.
        value: the constant.
    """

    axes = 2


class ConstantPad3d(_ConstantPad):
    """A constant around volumes.

    Args:
        padding: an int, or ``(before, after)`` of the last axis, then of the one before it.
        value: the constant.
    """

    axes = 3


class ZeroPad1d(_ZeroPad):
    """Zeros around rows."""

    axes = 1


class ZeroPad2d(_ZeroPad):
    """Zeros around images."""

    axes = 2


class ZeroPad3d(_ZeroPad):
    """Zeros around volumes."""

    axes = 3


class ReflectionPad1d(_Pad):
    """What lies inside rows, mirrored at the outermost element."""

    axes = 1
    mode = "reflect"


class ReflectionPad2d(_Pad):
    """What lies inside images, mirrored at the outermost element."""

    axes = 2
    mode = "reflect"


class ReflectionPad3d(_Pad):
    """What lies inside volumes, mirrored at the outermost element."""

    axes = 3
    mode = "reflect"


class ReplicationPad1d(_Pad):
    """The outermost elements of rows, repeated."""

    axes = 1
    mode = "replicate"


class ReplicationPad2d(_Pad):
    """The outermost elements of images, repeated."""

    axes = 2
    mode = "replicate"


class ReplicationPad3d(_Pad):
    """The outermost elements of volumes, repeated."""

    axes = 3
    mode = "replicate"


class CircularPad1d(_Pad):
    """What lies at the other end of rows."""

    axes = 1
    mode = "circular"


class CircularPad2d(_Pad):
    """What lies at the other end of images."""

    axes = 2
    mode = "circular"


class CircularPad3d(_Pad):
    """What lies at the other end of volumes."""

    axes = 3
    mode = "circular"
