"""Pooling layers: maxima and means over windows of images."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from typing import Any

from .. import ops
from ..tensor import Tensor
from .module import Module

__all__ = ["AdaptiveAvgPool2d", "AvgPool2d", "MaxPool2d"]

IntOrPair = int | tuple[int, int]


class MaxPool2d(Module):
    """The largest element of each window.

    Args:
        kernel_size: the window, an int or a pair ``(vertical, horizontal)``.
        stride: from window to window; None: the kernel size.
        padding: on every side, at most half the window; it never wins.
        dilation: steps within a window.
        return_indices: whether the places of the maxima in their planes are given as well.
        ceil_mode: whether a window that starts inside the image may reach beyond its end.
    """

    def __init__(
        self,
        kernel_size: IntOrPair,
        stride: IntOrPair | None = None,
        padding: IntOrPair = 0,
        dilation: IntOrPair = 1,
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
        """``(..., oh, ow)`` from ``(..., h, w)``, with the indices if asked for."""
        return ops.max_pool2d(
            x,
            self.kernel_size,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class AvgPool2d(Module):
    """The mean of each window.

    Args:
        kernel_size: the window, an int or a pair ``(vertical, horizontal)``.
        stride: from window to window; None: the kernel size.
        padding: zeros on every side, at most half the window.
        ceil_mode: whether a window that starts inside the image may reach beyond its end.
        count_include_pad: whether the zeros count.
        divisor_override: what sums are divided by instead of their number of elements.
    """

    def __init__(
        self,
        kernel_size: IntOrPair,
        stride: IntOrPair | None = None,
        padding: IntOrPair = 0,
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
        """``(..., oh, ow)`` from ``(..., h, w)``."""
        return ops.avg_pool2d(
            x,
            self.kernel_size,
            stride=self.stride,
            padding=self.padding,
            ceil_mode=self.ceil_mode,
            count_include_pad=self.count_include_pad,
            divisor_override=self.divisor_override,
        )

    def extra_repr(self) -> str:
        """The settings."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AdaptiveAvgPool2d(Module):
    """Means over windows as large as it takes to get an image of a given size.

    Args:
        output_size: the size, an int or a pair ``(vertical, horizontal)``; None keeps an axis.
    """

    def __init__(self, output_size: int | tuple[int | None, int | None] | None) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, x: Tensor) -> Tensor:
        """``(..., oh, ow)`` from ``(..., h, w)``."""
        return ops.adaptive_avg_pool2d(x, self.output_size)

    def extra_repr(self) -> str:
        """The size."""
        return f"output_size={self.output_size}"
