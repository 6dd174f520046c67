"""Convolution layers, and the transposed ones."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from .. import ops
from ..creation import empty
from ..errors import ArgumentError, ShapeError
from ..ops.conv import convolution_algorithm, known_algorithm
from ..tensor import Tensor
from ..values.dtypes import DType
from ..values.shapes import each
from . import init
from .module import Module, Parameter

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

Sizes = int | tuple[int, ...]

_MODES = {
    "zeros": "constant",
    "reflect": "reflect",
    "replicate": "replicate",
    "circular": "circular",
}


class _Conv(Module):
    """What the layers of this file share; ``axes`` is how many the filters move along."""

    weight: Parameter
    bias: Parameter | None
    axes: ClassVar[int]
    transposed: ClassVar[bool] = False

    def _build(
        self,
        in_channels: int,
        out_channels: int,
        sizes: tuple[Sizes, Sizes, Sizes],
        padding: str | Sizes,
        groups: int,
        padding_mode: str,
        bias: bool,
        like: dict[str, Any],
    ) -> None:
        name = type(self).__name__
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ArgumentError(
                name,
                "groups divides the channels",
                in_channels=in_channels,
                out_channels=out_channels,
                groups=groups,
            )
        if padding_mode not in ("zeros",) if self.transposed else padding_mode not in _MODES:
            known = "'zeros'" if self.transposed else f"one of {', '.join(_MODES)}"
            raise ArgumentError(name, f"padding_mode is {known}", padding_mode=repr(padding_mode))
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size, self.stride, self.dilation = (
            each(size, self.axes, name, what)
            for size, what in zip(sizes, ("kernel_size", "stride", "dilation"), strict=True)
        )
        if isinstance(padding, str) and padding not in ("same", "valid"):
            law = "padding is a number, one for each axis, 'same' or 'valid'"
            raise ArgumentError(name, law, padding=repr(padding))
        if padding == "same" and set(self.stride) != {1}:
            raise ArgumentError(name, "padding 'same' needs stride 1", stride=self.stride)
        self.padding = (
            padding if isinstance(padding, str) else each(padding, self.axes, name, "padding")
        )
        self.groups = groups
        self.padding_mode = padding_mode
        outer, inner = out_channels, in_channels // groups
        if self.transposed:
            outer, inner = in_channels, out_channels // groups
        self.weight = Parameter(empty((outer, inner, *self.kernel_size), **like))
        own = Parameter(empty(out_channels, **like)) if bias else None
        self.register_parameter("bias", own)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        init.default_(self.weight, self.bias)

    @property
    def _reversed_padding_repeated_twice(self) -> list[int]:
        """The padding as :func:`clnet.nn.functional.pad` takes it."""
        ends: list[int] = []
        for axis in reversed(range(self.axes)):
            if isinstance(self.padding, str):
                total = self.dilation[axis] * (self.kernel_size[axis] - 1)
                total = total if self.padding == "same" else 0
                ends += [total // 2, total - total // 2]
            else:
                ends += [self.padding[axis]] * 2
        return ends

    def extra_repr(self) -> str:
        """The sizes, and the settings that are not the default."""
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )
        if self.padding != (0,) * self.axes:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * self.axes:
            text += f", dilation={self.dilation}"
        if extra := self._extra():
            text += f", output_padding={extra}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        return text if self.padding_mode == "zeros" else f"{text}, padding_mode={self.padding_mode}"

    def _extra(self) -> tuple[int, ...] | None:
        return None


class _Forward(_Conv):
    """Convolutions."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: str | Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: DType | None = None,
        *,
        algorithm: str | None = None,
    ) -> None:
        super().__init__()
        known_algorithm(type(self).__name__, algorithm)
        self.algorithm = algorithm
        self._build(
            in_channels,
            out_channels,
            (kernel_size, stride, dilation),
            padding,
            groups,
            padding_mode,
            bias,
            {"device": device, "dtype": dtype},
        )

    def forward(self, x: Tensor) -> Tensor:
        """``(n, out_channels, ...)`` from ``(n, in_channels, ...)``."""
        return self._conv_forward(x, self.weight, self.bias)

    def _conv_forward(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """With other weights: layers of users that change a convolution's call it by this name."""
        function = (ops.conv1d, ops.conv2d, ops.conv3d)[self.axes - 1]
        padding = self.padding
        if self.padding_mode != "zeros":
            x = ops.pad(x, self._reversed_padding_repeated_twice, _MODES[self.padding_mode])
            padding = 0
        settings = (self.stride, padding, self.dilation, self.groups)
        if self.algorithm is None:
            return function(x, weight, bias, *settings)
        with convolution_algorithm(self.algorithm):
            return function(x, weight, bias, *settings)

    def extra_repr(self) -> str:
        """The sizes, and the settings that are not the default."""
        text = super().extra_repr()
        return text if self.algorithm is None else f"{text}, algorithm={self.algorithm!r}"


class _Transposed(_Conv):
    """Transposed convolutions."""

    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        self.output_padding = each(output_padding, self.axes, name, "output_padding")
        self._build(
            in_channels,
            out_channels,
            (kernel_size, stride, dilation),
            each(padding, self.axes, name, "padding"),
            groups,
            padding_mode,
            bias,
            {"device": device, "dtype": dtype},
        )

    def forward(self, x: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """``(n, out_channels, ...)`` from ``(n, in_channels, ...)``.

        Args:
            x: rows, images or volumes.
            output_size: their size, where several would have given ``x`` by convolution; axes
                before them are ignored. None: as ``output_padding`` says.

        Raises:
            ShapeError: if no convolution takes that size to ``x``'s.
        """
        transposed = (ops.conv_transpose1d, ops.conv_transpose2d, ops.conv_transpose3d)
        return transposed[self.axes - 1](
            x,
            self.weight,
            self.bias,
            self.stride,
            tuple(map(int, self.padding)),
            self.output_padding if output_size is None else self._needed(x, output_size),
            self.groups,
            self.dilation,
        )

    def _needed(self, x: Tensor, output_size: Sequence[int]) -> tuple[int, ...]:
        """The output padding that gives an output size."""
        sizes = tuple(output_size)[-self.axes :]
        least = tuple(
            (n - 1) * s - 2 * int(p) + d * (k - 1) + 1
            for n, s, p, d, k in zip(
                x.shape[-self.axes :],
                self.stride,
                self.padding,
                self.dilation,
                self.kernel_size,
                strict=True,
            )
        )
        extra = tuple(a - b for a, b in zip(sizes, least, strict=False))
        if len(extra) != self.axes or any(
            not 0 <= e < s for e, s in zip(extra, self.stride, strict=True)
        ):
            raise ShapeError(
                type(self).__name__,
                f"output_size is {least} or less than a stride larger",
                x=x.shape,
                output_size=tuple(output_size),
                stride=self.stride,
            )
        return extra

    def _extra(self) -> tuple[int, ...] | None:
        return self.output_padding if any(self.output_padding) else None


class Conv1d(_Forward):
    """Cross-correlation of rows ``(n, c, length)``; arguments as :class:`Conv2d`'s."""

    axes = 1


class Conv2d(_Forward):
    """Cross-correlation of images with filters, plus a bias for each channel.

    Args:
        in_channels: channels of ``x``.
        out_channels: channels of ``y``.
        kernel_size: an int or a pair ``(vertical, horizontal)``.
        stride: the same.
        padding: zeros on every side, an int or a pair; ``"valid"`` for none; ``"same"`` for as many
            as keep the image's size (stride 1; an odd one goes below and right).
        dilation: as ``kernel_size``.
        groups: divides both channel counts.
        bias: whether there is one.
        padding_mode: ``"zeros"``, or what stands there instead: ``"reflect"``, ``"replicate"`` or
            ``"circular"``.
        device: where the parameters are; None: the current device.
        dtype: of the parameters.
        algorithm: how it is computed, as :func:`clnet.convolution_algorithm` has it; None: as is
            fastest.

    Attributes:
        weight: ``(out_channels, in_channels / groups, kh, kw)``, uniform within
            ``1 / sqrt(fan_in)`` at first.
        bias: ``(out_channels,)``, as the weight at first, or None.

    Raises:
        ArgumentError: if ``groups`` does not divide the channels, or a setting has no such value.
    """

    axes = 2


class Conv3d(_Forward):
    """Cross-correlation of volumes ``(n, c, d, h, w)``; arguments as :class:`Conv2d`'s."""

    axes = 3


class ConvTranspose1d(_Transposed):
    """Transposed convolution of rows; arguments as :class:`ConvTranspose2d`'s."""

    axes = 1


class ConvTranspose2d(_Transposed):
    """What :class:`Conv2d`'s gradient does to its output, as a layer.

    The arguments are those of :class:`Conv2d` but for these.

    Args:
        padding: rows and columns taken off each side.
        output_padding: rows and columns added below and right, less than the stride or the
            dilation.
        padding_mode: ``"zeros"``, the only one.

    Attributes:
        weight: ``(in_channels, out_channels / groups, kh, kw)``.
        bias: ``(out_channels,)`` or None.
    """

    axes = 2


class ConvTranspose3d(_Transposed):
    """Transposed convolution of volumes; arguments as :class:`ConvTranspose2d`'s."""

    axes = 3


# PyTorch's names of what layers share, by which programs tell them.
_ConvNd, _ConvTransposeNd = _Conv, _Transposed
