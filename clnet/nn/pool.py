"""Pooling layers: maxima, means and powers over windows of rows, images and volumes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from .. import ops
from ..tensor import Tensor
from ..values.shapes import each
from .op_layer import OpLayer

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]

Sizes = int | tuple[int, ...]
OptionalSizes = int | tuple[int | None, ...] | None


def _each(layer: Any, axes: int) -> None:
    """Write sizes as one for each axis; windows without a stride lie side by side."""
    if layer.stride is None:
        layer.stride = layer.kernel_size
    for name in ("kernel_size", "stride", "padding"):
        setattr(layer, name, each(getattr(layer, name), axes, type(layer).__name__, name))


class _MaxPool(OpLayer):
    """What the maxima share."""

    kernel_size: Sizes
    stride: Sizes | None = None
    padding: Sizes = 0
    dilation: Sizes = 1
    return_indices: bool = False
    ceil_mode: bool = False
    _shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    def _check_settings(self) -> None:
        self.stride = self.kernel_size if self.stride is None else self.stride


class MaxPool1d(_MaxPool):
    """As :class:`MaxPool2d`, over rows."""

    op = ops.max_pool1d


class MaxPool2d(_MaxPool):
    """The largest element of each window.

    Args:
        kernel_size: the window, an int or a pair ``(vertical, horizontal)``.
        stride: from window to window; None: the kernel size.
        padding: on every side, at most half the window; it never wins.
        dilation: steps within a window.
        return_indices: whether the places of the maxima in their planes are given as well.
        ceil_mode: whether a window that starts inside the image may reach beyond its end.
    """

    op = ops.max_pool2d


class MaxPool3d(_MaxPool):
    """As :class:`MaxPool2d`, over volumes."""

    op = ops.max_pool3d


class _AvgPool(OpLayer):
    """What the means over images and volumes share."""

    kernel_size: Sizes
    stride: Sizes | None = None
    padding: Sizes = 0
    ceil_mode: bool = False
    count_include_pad: bool = True
    divisor_override: int | None = None
    _shown = ("kernel_size", "stride", "padding")

    def _check_settings(self) -> None:
        self.stride = self.kernel_size if self.stride is None else self.stride


class AvgPool1d(OpLayer):
    """The mean of each window of rows.

    Args:
        kernel_size: the window.
        stride: from window to window; None: the kernel size.
        padding: zeros on both sides, at most half the window.
        ceil_mode: whether a window that starts inside the row may reach beyond its end.
        count_include_pad: whether the zeros count.
    """

    op = ops.avg_pool1d
    kernel_size: Sizes
    stride: Sizes | None = None
    padding: Sizes = 0
    ceil_mode: bool = False
    count_include_pad: bool = True
    _shown = ("kernel_size", "stride", "padding")

    def _check_settings(self) -> None:
        _each(self, 1)


class AvgPool2d(_AvgPool):
    """The mean of each window.

    Args:
        kernel_size: the window, an int or a pair ``(vertical, horizontal)``.
        stride: from window to window; None: the kernel size.
        padding: zeros on every side, at most half the window.
        ceil_mode: whether a window that starts inside the image may reach beyond its end.
        count_include_pad: whether the zeros count.
        divisor_override: what sums are divided by instead of their number of elements.
    """

    op = ops.avg_pool2d


class AvgPool3d(_AvgPool):
    """As :class:`AvgPool2d`, over volumes."""

    op = ops.avg_pool3d


class _AdaptiveAvgPool(OpLayer):
    """What the adaptive means share."""

    output_size: OptionalSizes


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """As :class:`AdaptiveAvgPool2d`, over rows."""

    op = ops.adaptive_avg_pool1d


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Means over windows as large as it takes to get an image of a given size.

    Args:
        output_size: the size, an int or a pair ``(vertical, horizontal)``; None keeps an axis.
    """

    op = ops.adaptive_avg_pool2d


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """As :class:`AdaptiveAvgPool2d`, over volumes."""

    op = ops.adaptive_avg_pool3d


class _AdaptiveMaxPool(OpLayer):
    """What the adaptive maxima share."""

    output_size: OptionalSizes
    return_indices: bool = False
    _shown = ("output_size",)


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """As :class:`AdaptiveMaxPool2d`, over rows."""

    op = ops.adaptive_max_pool1d


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """Maxima over windows as large as it takes to get an image of a given size.

    Args:
        output_size: the size, an int or a pair ``(vertical, horizontal)``; None keeps an axis.
        return_indices: whether the places of the maxima in their planes are given as well.
    """

    op = ops.adaptive_max_pool2d


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """As :class:`AdaptiveMaxPool2d`, over volumes."""

    op = ops.adaptive_max_pool3d


class _MaxUnpool(OpLayer):
    """What the inverses of maxima share."""

    axes: ClassVar[int]
    kernel_size: Sizes
    stride: Sizes | None = None
    padding: Sizes = 0

    def _check_settings(self) -> None:
        _each(self, self.axes)

    def forward(
        self, x: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        """The maxima where they were, among zeros."""
        return type(self).op(x, indices, **self._settings(), output_size=output_size)


class MaxUnpool1d(_MaxUnpool):
    """As :class:`MaxUnpool2d`, over rows."""

    op = ops.max_unpool1d
    axes = 1


class MaxUnpool2d(_MaxUnpool):
    """Maxima put back where they were; called with them and their positions.

    Args:
        kernel_size: of the layer that found them.
        stride: the same.
        padding: the same.
    """

    op = ops.max_unpool2d
    axes = 2


class MaxUnpool3d(_MaxUnpool):
    """As :class:`MaxUnpool2d`, over volumes."""

    op = ops.max_unpool3d
    axes = 3


class _LPPool(OpLayer):
    """What the powers share."""

    norm_type: float
    kernel_size: Sizes
    stride: Sizes | None = None
    ceil_mode: bool = False


class LPPool1d(_LPPool):
    """As :class:`LPPool2d`, over rows."""

    op = ops.lp_pool1d


class LPPool2d(_LPPool):
    """``sum(x ** p) ** (1 / p)`` of each window.

    Args:
        norm_type: ``p``.
        kernel_size: the window, an int or a pair ``(vertical, horizontal)``.
        stride: from window to window; None: the kernel size.
        ceil_mode: whether a window that starts inside the image may reach beyond its end.
    """

    op = ops.lp_pool2d


class LPPool3d(_LPPool):
    """As :class:`LPPool2d`, over volumes."""

    op = ops.lp_pool3d


class _FractionalMaxPool(OpLayer):
    """What the fractional ones share."""

    kernel_size: Sizes
    output_size: Sizes | None = None
    output_ratio: float | Sequence[float] | None = None
    return_indices: bool = False
    _random_samples: Tensor | None = None

    def extra_repr(self) -> str:
        """The window and the size of the result."""
        if self.output_size is not None:
            return f"kernel_size={self.kernel_size}, output_size={self.output_size}"
        return f"kernel_size={self.kernel_size}, output_ratio={self.output_ratio}"


class FractionalMaxPool2d(_FractionalMaxPool):
    """Maxima of windows at places drawn anew for every plane (Graham 2014).

    Args:
        kernel_size: the window, an int or a pair ``(vertical, horizontal)``.
        output_size: an int or a pair.
        output_ratio: the same as a share of the image; one of both is given.
        return_indices: also return where in its plane each maximum was.
        _random_samples: what is drawn otherwise, ``(n, c, 2)`` in [0, 1).
    """

    op = ops.fractional_max_pool2d


class FractionalMaxPool3d(_FractionalMaxPool):
    """As :class:`FractionalMaxPool2d`, over volumes."""

    op = ops.fractional_max_pool3d


# PyTorch's names of what layers share, by which programs tell them.
_MaxPoolNd, _AvgPoolNd, _LPPoolNd = _MaxPool, _AvgPool, _LPPool
_AdaptiveAvgPoolNd, _AdaptiveMaxPoolNd = _AdaptiveAvgPool, _AdaptiveMaxPool
