"""Convolutions and pooling between images whose channels are dense, ``(n, h, w, c)``.

The pass for such images puts them in the place of the ops; kernels are those of the ops, or others
that give the same bits.
"""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Target
from ...kernels import pool
from ...kernels.moving import copy
from ...kernels.pool import Window
from ...values.dtypes import int32
from ...values.shapes import Shape
from ..conv import Conv2d, ConvInputGrad, ConvWeightGrad
from ..conv_settings import ConvSettings
from ..machinery.function import Function

Arrays = tuple[Array, ...]


def as_first(x: Array) -> Array:
    """An array ``(n, h, w, c)`` as ``(n, c, h, w)``, in the same memory."""
    n, h, w, c = x.shape
    of_n, of_h, of_w, of_c = x.strides
    return x.view((n, c, h, w), (of_n, of_c, of_h, of_w))


def as_last(x: Array) -> Array:
    """An array ``(n, c, h, w)`` as ``(n, h, w, c)``, in the same memory."""
    n, c, h, w = x.shape
    of_n, of_c, of_h, of_w = x.strides
    return x.view((n, h, w, c), (of_n, of_h, of_w, of_c))


def _made(plain: Array) -> Array:
    n, c, h, w = plain.shape
    return Array.abstract((n, h, w, c), plain.dtype, plain.device)


class _OfViews(Function):
    """An op that computes what another does, of views of its arrays."""

    sixteen_bit = False

    def narrow_on(self, target: Target, inputs: Arrays) -> bool:
        """Where the other's kernels take them."""
        return self._function.narrow_on(target, self._views(inputs))

    @property
    def _function(self) -> Conv2d | ConvInputGrad | ConvWeightGrad:
        raise NotImplementedError

    def _views(self, inputs: Arrays) -> Arrays:
        raise NotImplementedError

    def _lowered(self, target: Target, output: Array, inputs: Arrays) -> list[Launch]:
        """The other's launches.

        Only matrix units' kernels take any strides: others, beside which those are compared at
        their first use, get copies, in memory of their own.
        """
        function, given = self._function, self._views(inputs)
        if function.narrow_on(target, given):
            return function.lower(target, (output,), given)
        dense = [Array.abstract(x.shape, x.dtype, x.device) for x in (output, *given)]
        for x in dense:
            x.storage.materialize()
        y, *copies = dense
        before = [
            launch for to, x in zip(copies, given, strict=True) for launch in copy(target, to, x)
        ]
        return [*before, *function.lower(target, (y,), tuple(copies)), *copy(target, output, y)]


class LastConv2d(_OfViews):
    """:class:`.Conv2d`; ``x`` may also be ``(n, c, h, w)`` where ``plain`` says so.

    Attributes:
        settings: how filters move.
        plain: whether ``x``'s channels lie first.
        activation: None, or ``"relu"``, applied last.
    """

    settings: ConvSettings
    plain: bool = False
    activation: str | None = None
    op_name = "conv2d"

    def infer(self, x: Array, weight: Array, *bias: Array) -> Arrays:
        """``(n, oh, ow, oc)``."""
        found = self._function.infer(*self._views((x, weight, *bias)))
        return (_made(found[0]),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """The convolution's, of views."""
        return self._lowered(target, as_first(outputs[0]), inputs)

    @property
    def _function(self) -> Conv2d:
        return Conv2d(self.settings, self.activation)

    def _views(self, inputs: Arrays) -> Arrays:
        x, *others = inputs
        return (x if self.plain else as_first(x), *others)


class LastConvInputGrad(_OfViews):
    """:class:`.ConvInputGrad` of a gradient ``(n, oh, ow, oc)``."""

    settings: ConvSettings
    x_shape: Shape
    op_name = "conv2d_input_grad"

    def infer(self, gy: Array, weight: Array) -> Arrays:
        """``(n, h, w, ic)``."""
        return (_made(self._function.infer(*self._views((gy, weight)))[0]),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """The gradient's, of views."""
        return self._lowered(target, as_first(outputs[0]), inputs)

    @property
    def _function(self) -> ConvInputGrad:
        return ConvInputGrad(self.settings, self.x_shape)

    def _views(self, inputs: Arrays) -> Arrays:
        gy, weight = inputs
        return as_first(gy), weight


class LastConvWeightGrad(_OfViews):
    """:class:`.ConvWeightGrad` of a gradient ``(n, oh, ow, oc)``; the filters' lies as they do.

    Attributes:
        settings: how filters move.
        weight_shape: of the filters.
        plain: whether the channels of ``x`` lie first.
    """

    settings: ConvSettings
    weight_shape: Shape
    plain: bool = False
    op_name = "conv2d_weight_grad"

    def infer(self, gy: Array, x: Array) -> Arrays:
        """The filters' shape."""
        return self._function.infer(*self._views((gy, x)))

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """The gradient's, of views."""
        return self._lowered(target, outputs[0], inputs)

    @property
    def _function(self) -> ConvWeightGrad:
        return ConvWeightGrad(self.settings, self.weight_shape)

    def _views(self, inputs: Arrays) -> Arrays:
        gy, x = inputs
        return as_first(gy), x if self.plain else as_first(x)


class LastMaxPool(Function):
    """Maxima over windows and, where they are asked for, their positions in their planes."""

    window: Window
    size: tuple[int, int]
    indexed: bool
    op_name = "max_pool2d"

    def infer(self, x: Array) -> Arrays:
        """Maxima, and positions."""
        shape = (x.shape[0], *self.size, x.shape[3])
        dtypes = (x.dtype, int32) if self.indexed else (x.dtype,)
        return tuple(Array.abstract(shape, dtype, x.device) for dtype in dtypes)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        index = outputs[1] if self.indexed else None
        return pool.last_max_pool(target, outputs[0], inputs[0], window=self.window, index=index)


class LastMaxPoolBackward(Function):
    """Gradients added up at the positions of the maxima; images have ``size``."""

    window: Window
    size: tuple[int, int]
    op_name = "max_pool_backward"

    def infer(self, gy: Array, index: Array) -> Arrays:
        """Images of ``size``."""
        shape = (gy.shape[0], *self.size, gy.shape[3])
        return (Array.abstract(shape, gy.dtype, gy.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        return pool.last_max_pool_gradient(target, outputs[0], *inputs, window=self.window)
