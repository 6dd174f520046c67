"""Ops of quantised inference, for those who hold images of uint8: no gradients, no public names.

Images lie as the kernels have them (:mod:`clnet.kernels.integer`): ``(n, h, w, c)`` uint8, the
channels rounded up to fours. What the numbers stand for is a setting of the ops, not part of a
tensor.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ..array import Array
from ..device import Launch, Target
from ..kernels import integer as kernels
from ..kernels.conv import ConvGeometry
from ..kernels.integer import IntegerEpilogue, Quantisation, stored_channels
from ..kernels.pool import Window
from ..values.dtypes import DType, float32, int32, uint8
from .machinery.function import Arrays, Function, apply
from .shape import contiguous

if TYPE_CHECKING:
    from ..tensor import Tensor


class QuantiseImages(Function):
    """``round(x / scale) + zero`` of ``(n, c, h, w)`` as images.

    Attributes:
        how: scale and zero point; None: they are inputs, one float32 and one uint8.
    """

    how: Quantisation | None
    sixteen_bit = False
    differentiable = ()

    def infer(self, x: Array, *computed: Array) -> tuple[Array, ...]:
        """``(n, h, w, stored_channels(c))``."""
        n, c, h, w = x.shape
        return (Array.abstract((n, h, w, stored_channels(c)), uint8, x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        how = (inputs[1], inputs[2]) if self.how is None else self.how
        return kernels.quantise_images(target, outputs[0], inputs[0], how)


class DequantiseImages(Function):
    """``(x - zero) * scale`` of images, ``(n, h, w, c)``."""

    how: Quantisation
    channels: int
    differentiable = ()

    def infer(self, x: Array) -> tuple[Array, ...]:
        """Dense floats of the channels that there are."""
        return (Array.abstract((*x.shape[:3], self.channels), float32, x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        return kernels.dequantise_images(target, outputs[0], inputs[0], self.how)


class PackIntegers(Function):
    """Filters ``(oc, ic / groups, kh, kw)`` int8, bias int32 and scales float32, packed.

    Attributes:
        geometry: of the convolution; its filters count.
        dot: the device's instruction.
    """

    geometry: ConvGeometry
    dot: str
    differentiable = ()

    def infer(self, w: Array, bias: Array, scale: Array) -> tuple[Array, ...]:
        """Packed filters and their table."""
        shapes = kernels.packed_shapes(w.device.target, self.dot, self.geometry)
        return tuple(Array.abstract(shape, int32, w.device) for shape in shapes)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        packed, table = outputs
        return kernels.pack_integers(target, (packed, table), inputs, self.geometry, dot=self.dot)


class IntegerConv(Function):
    """A convolution of images by packed filters; perhaps with what is added.

    Attributes:
        geometry: the sizes.
        given: of the images; what is padded is its zero point.
        epilogue: what is made of the sums.
        result: uint8 (images), float32 ``(n, oh, ow, oc)``, or int32: the sums.
        computed: whether the last input is the zero point of the images, one uint8.
        dot: the device's instruction; None: each channel has a filter, which needs none.
    """

    geometry: ConvGeometry
    given: Quantisation
    epilogue: IntegerEpilogue
    result: DType
    computed: bool
    dot: str | None
    differentiable = ()

    def infer(self, x: Array, *others: Array) -> tuple[Array, ...]:
        """Images, or dense floats or sums."""
        g = self.geometry
        channels = stored_channels(g.oc) if self.result is uint8 else g.oc
        return (Array.abstract((g.n, g.oh, g.ow, channels), self.result, x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        inputs, point = (inputs[:-1], inputs[-1]) if self.computed else (inputs, None)
        convolve = kernels.integer_depthwise
        if self.dot is not None:
            convolve = partial(kernels.integer_conv, dot=self.dot)
        return convolve(
            target,
            outputs[0],
            inputs,
            self.geometry,
            self.epilogue,
            given=self.given,
            point=point,
        )


class AddImages(Function):
    """The sum of what two images stand for, quantised.

    Attributes:
        left, right: of the images.
        how: of the sum.
        low, high: its bounds.
    """

    left: Quantisation
    right: Quantisation
    how: Quantisation
    low: float
    high: float
    differentiable = ()

    def infer(self, x: Array, other: Array) -> tuple[Array, ...]:
        """Images of the same size."""
        return (Array.abstract(x.shape, uint8, x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        x, other = inputs
        given, bounds = (self.left, self.right), (self.low, self.high)
        return kernels.add_images(target, outputs[0], (x, other), given, bounds, how=self.how)


class IntegerMaxPool(Function):
    """Maxima of windows of images, each of which has a pixel.

    Attributes:
        window: the window.
        size: height and width of the result.
    """

    window: Window
    size: tuple[int, int]
    differentiable = ()

    def infer(self, x: Array) -> tuple[Array, ...]:
        """Images of another size."""
        return (Array.abstract((x.shape[0], *self.size, x.shape[3]), uint8, x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        return kernels.integer_max_pool(target, outputs[0], inputs[0], window=self.window)


def quantise_images(x: Tensor, how: Quantisation | tuple[Tensor, Tensor]) -> Tensor:
    """Images of ``(n, c, h, w)`` floats, by a scale and a zero point that may be computed."""
    if isinstance(how, Quantisation):
        return apply(QuantiseImages(how), x)
    scale, point = how
    return apply(QuantiseImages(None), x, contiguous(scale), contiguous(point))


def dequantise_images(x: Tensor, how: Quantisation, channels: int) -> Tensor:
    """Floats ``(n, h, w, channels)`` of images."""
    return apply(DequantiseImages(how, channels), contiguous(x))


def pack_integers(
    w: Tensor, bias: Tensor, scale: Tensor, geometry: ConvGeometry
) -> tuple[Tensor, Tensor]:
    """Filters packed for :func:`integer_conv`, and their table."""
    dot = w.device.integer_dot
    return apply(PackIntegers(geometry, dot), *map(contiguous, (w, bias, scale)))


def integer_conv(
    x: Tensor,
    filters: tuple[Tensor, Tensor],
    geometry: ConvGeometry,
    *,
    given: Quantisation,
    epilogue: IntegerEpilogue,
    result: DType,
    added: Tensor | None = None,
    point: Tensor | None = None,
) -> Tensor:
    """The convolution of images by filters and their table; see :class:`IntegerConv`.

    Where :func:`.takes_depthwise` says so, the filters are those of a channel each, else packed.
    """
    dot = None if kernels.takes_depthwise(geometry) else x.device.integer_dot
    function = IntegerConv(geometry, given, epilogue, result, point is not None, dot)
    more = [contiguous(t) for t in (added, point) if t is not None]
    return apply(function, contiguous(x), *filters, *more)


def add_images(
    x: Tensor,
    other: Tensor,
    given: tuple[Quantisation, Quantisation],
    bounds: tuple[float, float],
    how: Quantisation,
) -> Tensor:
    """The sum of two images, as a third."""
    return apply(AddImages(*given, how, *bounds), contiguous(x), contiguous(other))


def integer_max_pool(x: Tensor, window: Window, size: tuple[int, int]) -> Tensor:
    """Maxima of windows of images."""
    return apply(IntegerMaxPool(window, size), contiguous(x))
