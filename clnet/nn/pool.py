"""Pooling layers: maxima, means and powers over windows of rows, images and volumes."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from .. import ops
from ..tensor import Tensor
from ..values.shapes import each
from .module import Module

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


class _MaxPool(Module):
    """What the maxima share; ``axes`` is how many the windows move along."""

    axes: ClassVar[int]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, x: Tensor) -> Any:
        """The maxima, with their positions if asked for."""
        return (ops.max_pool1d, ops.max_pool2d, ops.max_pool3d)[self.axes - 1](
            x,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.ceil_mode,
            self.return_indices,
        )

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """As :class:`MaxPool2d`, over rows."""

    axes = 1


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

    axes = 2


class MaxPool3d(_MaxPool):
    """As :class:`MaxPool2d`, over volumes."""

    axes = 3


class _AvgPool(Module):
    """What the means over images and volumes share."""

    axes: ClassVar[int]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, x: Tensor) -> Tensor:
        """The means."""
        return (ops.avg_pool2d, ops.avg_pool3d)[self.axes - 2](
            x,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )

    def extra_repr(self) -> str:
        """The settings."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(Module):
    """The mean of each window of rows.

    Args:
        kernel_size: the window.
        stride: from window to window; None: the kernel size.
        padding: zeros on both sides, at most half the window.
        ceil_mode: whether a window that starts inside the row may reach beyond its end.
        count_include_pad: whether the zeros count.
    """

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = each(kernel_size, 1, "AvgPool1d", "kernel_size")
        steps = kernel_size if stride is None else stride
        self.stride = each(steps, 1, "AvgPool1d", "stride")
        self.padding = each(padding, 1, "AvgPool1d", "padding")
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, x: Tensor) -> Tensor:
        """The means."""
        settings = (self.padding, self.ceil_mode, self.count_include_pad)
        return ops.avg_pool1d(x, self.kernel_size, self.stride, *settings)

    def extra_repr(self) -> str:
        """The settings."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


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

    axes = 2


class AvgPool3d(_AvgPool):
    """As :class:`AvgPool2d`, over volumes."""

    axes = 3


class _AdaptiveAvgPool(Module):
    """What the adaptive means share."""

    axes: ClassVar[int]

    def __init__(self, output_size: OptionalSizes) -> None:
        super().__init__()
        self.output_size: Any = output_size

    def forward(self, x: Tensor) -> Tensor:
        """The means."""
        pools = (ops.adaptive_avg_pool1d, ops.adaptive_avg_pool2d, ops.adaptive_avg_pool3d)
        return pools[self.axes - 1](x, self.output_size)

    def extra_repr(self) -> str:
        """The size."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """As :class:`AdaptiveAvgPool2d`, over rows."""

    axes = 1


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Means over windows as large as it takes to get an image of a given size.

    Args:
        output_size: the size, an int or a pair ``(vertical, horizontal)``; None keeps an axis.
    """

    axes = 2


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """As :class:`AdaptiveAvgPool2d`, over volumes."""

    axes = 3


class _AdaptiveMaxPool(Module):
    """What the adaptive maxima share."""

    axes: ClassVar[int]

    def __init__(self, output_size: OptionalSizes, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size: Any = output_size
        self.return_indices = return_indices

    def forward(self, x: Tensor) -> Any:
        """The maxima, with their positions if asked for."""
        pools = (ops.adaptive_max_pool1d, ops.adaptive_max_pool2d, ops.adaptive_max_pool3d)
        return pools[self.axes - 1](x, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        """The size."""
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """As :class:`AdaptiveMaxPool2d`, over rows."""

    axes = 1


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """Maxima over windows as large as it takes to get an image of a given size.

    Args:
        output_size: the size, an int or a pair ``(vertical, horizontal)``; None keeps an axis.
        return_indices: whether the places of the maxima in their planes are given as well.
    """

    axes = 2


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """As :class:`AdaptiveMaxPool2d`, over volumes."""

    axes = 3


class _MaxUnpool(Module):
    """What the inverses of maxima share."""

    axes: ClassVar[int]

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        super().__init__()
        name = type(self).__name__
        self.kernel_size = each(kernel_size, self.axes, name, "kernel_size")
        steps = kernel_size if stride is None else stride
        self.stride = each(steps, self.axes, name, "stride")
        self.padding = each(padding, self.axes, name, "padding")

    def forward(
        self, x: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        """The maxima where they were, among zeros."""
        unpools = (ops.max_unpool1d, ops.max_unpool2d, ops.max_unpool3d)
        settings = (self.kernel_size, self.stride, self.padding)
        return unpools[self.axes - 1](x, indices, *settings, output_size)

    def extra_repr(self) -> str:
        """The settings."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """As :class:`MaxUnpool2d`, over rows."""

    axes = 1


class MaxUnpool2d(_MaxUnpool):
    """Maxima put back where they were; called with them and their positions.

    Args:
        kernel_size: of the layer that found them.
        stride: the same.
        padding: the same.
    """

    axes = 2


class MaxUnpool3d(_MaxUnpool):
    """As :class:`MaxUnpool2d`, over volumes."""

    axes = 3


class _LPPool(Module):
    """What the powers share."""

    axes: ClassVar[int]

    def __init__(
        self,
        norm_type: float,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size: Any = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, x: Tensor) -> Tensor:
        """The powers."""
        pool = (ops.lp_pool1d, ops.lp_pool2d, ops.lp_pool3d)[self.axes - 1]
        return pool(x, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    """As :class:`LPPool2d`, over rows."""

    axes = 1


class LPPool2d(_LPPool):
    """``sum(x ** p) ** (1 / p)`` of each window.

    Args:
        norm_type: ``p``.
        kernel_size: the window, an int or a pair ``(vertical, horizontal)``.
        stride: from window to window; None: the kernel size.
        ceil_mode: whether a window that starts inside the image may reach beyond its end.
    """

    axes = 2


class LPPool3d(_LPPool):
    """As :class:`LPPool2d`, over volumes."""

    axes = 3


class _FractionalMaxPool(Module):
    """What the fractional ones share."""

    axes: ClassVar[int]

    def __init__(
        self,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size: Any = kernel_size
        self.output_size = output_size
        self.output_ratio = output_ratio
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)

    def forward(self, x: Tensor) -> Any:
        """The maxima; with ``return_indices`` their positions too."""
        pool = ops.fractional_max_pool2d if self.axes == 2 else ops.fractional_max_pool3d
        return pool(
            x, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
            self._random_samples,
        )  # fmt: skip

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

    axes = 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """As :class:`FractionalMaxPool2d`, over volumes."""

    axes = 3
