"""Convolutions between blocked arrays: what the layout pass puts in place of plain ones.

They are no public ops. A form (:class:`.BlockedForm`) says how one is computed and what its
operands look like; filters are packed once per update, by an op of its own.
"""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Target
from ...kernels.conv import ConvGeometry, ConvObstacle, Direction
from ...kernels.conv_blocked import (
    BlockedAlgorithm,
    BlockedForm,
    blocked_forward,
    blocked_input_grad,
    blocked_weight_grad,
    choose_form,
    considered,
    pack_filters,
    packed_size,
)
from ...kernels.epilogue import Activation, Epilogue
from ..machinery.function import Arrays, Function

__all__ = [
    "BlockedAlgorithm",
    "BlockedConv2d",
    "BlockedConvInputGrad",
    "BlockedConvWeightGrad",
    "BlockedForm",
    "ConvObstacle",
    "Direction",
    "PackFilters",
    "choose_form",
    "considered",
]


class PackFilters(Function):
    """Filters ``(oc, ic, kh, kw)`` as the blocked convolution of a direction reads them.

    Attributes:
        geometry: the convolution's sizes.
        direction: forward or input gradient.
        form: how it is computed.
    """

    geometry: ConvGeometry
    direction: Direction
    form: BlockedForm

    def infer(self, weight: Array) -> tuple[Array, ...]:
        """One axis of packed filters, meant for these settings alone."""
        size = packed_size(self.geometry, self.direction, self.form)
        return (Array.abstract((size,), weight.dtype, weight.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """The packing, or the transform."""
        return pack_filters(target, outputs[0], inputs[0], self.geometry, self.direction, self.form)


class BlockedConv2d(Function):
    """A convolution from packed filters, with its bias, a value to be added, and an activation.

    Attributes:
        geometry: the sizes.
        form: how it is computed.
        added: whether the last input is added to the result, before the activation.
        activation: None, ``"relu"``, or another function of the result.
    """

    direction = Direction.FORWARD

    geometry: ConvGeometry
    form: BlockedForm
    added: bool = False
    activation: str | Activation | None = None
    op_name = "conv2d"

    @property
    def adds(self) -> bool:
        """Whether a value can be added that is not yet."""
        return not (self.added or self.activation or self.form.plain_x)

    def infer(self, x: Array, packed: Array, *others: Array) -> tuple[Array, ...]:
        """``(n, oc / block, oh, ow, block)``."""
        return (Array.abstract(self.form.y_shape(self.geometry), x.dtype, x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """The forward convolution."""
        x, packed, *bias = inputs
        added = bias.pop() if self.added else None
        epilogue = Epilogue(bias[0] if bias else None, added, self.activation)
        return blocked_forward(target, outputs[0], x, packed, self.geometry, self.form, epilogue)


class BlockedConvInputGrad(Function):
    """The gradient that arrives at a convolution's blocked ``x``, from packed filters.

    Attributes:
        geometry: the convolution's sizes.
        form: how it is computed.
    """

    direction = Direction.INPUT_GRAD

    geometry: ConvGeometry
    form: BlockedForm
    op_name = "conv2d_input_grad"

    def infer(self, gy: Array, packed: Array) -> tuple[Array, ...]:
        """``(n, ic / block, h, w, block)``."""
        return (Array.abstract(self.form.x_shape(self.geometry), gy.dtype, gy.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """The input gradient."""
        gy, packed = inputs
        return blocked_input_grad(target, outputs[0], gy, packed, self.geometry, self.form)


class BlockedConvWeightGrad(Function):
    """The gradient that arrives at a convolution's ``weight``, plain ``(oc, ic, kh, kw)``.

    Attributes:
        geometry: the convolution's sizes.
        form: how it is computed.
    """

    direction = Direction.WEIGHT_GRAD

    geometry: ConvGeometry
    form: BlockedForm
    op_name = "conv2d_weight_grad"

    def infer(self, gy: Array, x: Array) -> tuple[Array, ...]:
        """``(oc, ic / groups, kh, kw)``."""
        g = self.geometry
        return (Array.abstract((g.oc, g.icg, g.kh, g.kw), gy.dtype, gy.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """The weight gradient."""
        gy, x = inputs
        return blocked_weight_grad(target, outputs[0], gy, x, self.geometry, self.form)
