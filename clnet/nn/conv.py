"""Convolution layers."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from typing import Any

from .. import ops
from ..dtypes import DType, float32
from ..errors import ArgumentError
from ..shapes import pair
from ..tensor import Tensor, empty
from . import init
from .module import Module, Parameter

__all__ = ["Conv2d"]

IntOrPair = int | tuple[int, int]


class Conv2d(Module):
    """Cross-correlation of images with filters, plus a bias for each channel.

    Args:
        in_channels: channels of ``x``.
        out_channels: channels of ``y``.
        kernel_size, stride, dilation: an int or a pair ``(vertical, horizontal)``.
        padding: zeros on every side, an int or a pair; ``"valid"`` for none; ``"same"`` for as many
            as keep the image's size (stride 1; an odd one goes below and right).
        groups: divides both channel counts.
        bias: whether there is one.
        padding_mode: ``"zeros"``, the only one.
        device: where the parameters are; None: the current device.
        dtype: of the parameters.

    Attributes:
        weight: ``(out_channels, in_channels / groups, kh, kw)``, uniform within
            ``1 / sqrt(fan_in)`` at first.
        bias: ``(out_channels,)``, as the weight at first, or None.

    Raises:
        ArgumentError: if ``groups`` does not divide the channels, or a setting has no such value.
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: IntOrPair,
        stride: IntOrPair = 1,
        padding: str | IntOrPair = 0,
        dilation: IntOrPair = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: DType = float32,
    ) -> None:
        super().__init__()
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ArgumentError(
                "Conv2d",
                "groups divides the channels",
                in_channels=in_channels,
                out_channels=out_channels,
                groups=groups,
            )
        if padding_mode != "zeros":
            raise ArgumentError(
                "Conv2d",
                "padding_mode is 'zeros'",
                padding_mode=repr(padding_mode),
                remedy="Pad the images before the layer",
            )
        if padding == "same" and pair(stride, "Conv2d", "stride") != (1, 1):
            raise ArgumentError("Conv2d", "padding 'same' needs stride 1", stride=stride)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = pair(kernel_size, "Conv2d", "kernel_size")
        self.stride = pair(stride, "Conv2d", "stride")
        self.padding = padding if isinstance(padding, str) else pair(padding, "Conv2d", "padding")
        self.dilation = pair(dilation, "Conv2d", "dilation")
        self.groups = groups
        self.padding_mode = padding_mode
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        self.weight = Parameter(empty(shape, device=device, dtype=dtype))
        own = Parameter(empty(out_channels, device=device, dtype=dtype)) if bias else None
        self.register_parameter("bias", own)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        init.default_(self.weight, self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, out_channels, oh, ow)`` from ``(n, in_channels, h, w)``."""
        return ops.conv2d(
            x,
            self.weight,
            self.bias,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
            groups=self.groups,
        )

    def extra_repr(self) -> str:
        """The sizes, and the settings that are not the default."""
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )
        if self.padding != (0, 0):
            text += f", padding={self.padding}"
        if self.dilation != (1, 1):
            text += f", dilation={self.dilation}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        return text if self.bias is not None else f"{text}, bias=False"
