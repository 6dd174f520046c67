"""Layers between images and the columns of their patches."""

from __future__ import annotations

from .. import ops
from ..tensor import Tensor
from .module import Module

__all__ = ["Fold", "Unfold"]

IntOrPair = int | tuple[int, int]


class Unfold(Module):
    """The patches of images as columns.

    Args:
        kernel_size: the patch, an int or a pair ``(vertical, horizontal)``.
        dilation: steps within a patch.
        padding: zeros on every side.
        stride: steps from patch to patch.
    """

    def __init__(
        self,
        kernel_size: IntOrPair,
        dilation: IntOrPair = 1,
        padding: IntOrPair = 0,
        stride: IntOrPair = 1,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """``(n, c * kh * kw, patches)`` from ``(n, c, h, w)``."""
        return ops.unfold(x, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, "
            f"stride={self.stride}"
        )


class Fold(Module):
    """Columns summed into the images whose patches they are.

    Args:
        output_size: of the images, an int or a pair.
        kernel_size: the patch, an int or a pair ``(vertical, horizontal)``.
        dilation: steps within a patch.
        padding: zeros there were on every side.
        stride: steps from patch to patch.
    """

    def __init__(
        self,
        output_size: IntOrPair,
        kernel_size: IntOrPair,
        dilation: IntOrPair = 1,
        padding: IntOrPair = 0,
        stride: IntOrPair = 1,
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """``(n, c, *output_size)`` from ``(n, c * kh * kw, patches)``."""
        settings = (self.kernel_size, self.dilation, self.padding, self.stride)
        return ops.fold(x, self.output_size, *settings)

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, "
            f"dilation={self.dilation}, padding={self.padding}, stride={self.stride}"
        )
