"""Steps that are plain convolutions, and the blocked forms in which they would be faster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..device import Target
from ..kernels.conv import Algorithm, ConvGeometry, Order, computes_on_units, winograd_obstacle
from ..ops.conv import Conv2d, ConvInputGrad, ConvWeightGrad
from ..ops.matmul import rounds_to_tf32, splits
from ..ops.rewritten.blocked import (
    BlockedConvWeightGrad,
    BlockedForm,
    ConvObstacle,
    Direction,
    choose_form,
    considered,
)
from ..values.dtypes import float32
from .trace import Trace
from .tracer import Step


@dataclass(frozen=True)
class Convolution:
    """A float32 convolution, or one of its gradients.

    Attributes:
        geometry: the sizes.
        direction: what is computed.
        winograd: whether Winograd's transforms may be used.
    """

    geometry: ConvGeometry
    direction: Direction
    winograd: bool

    def form(self, target: Target, *, packing: bool = True) -> BlockedForm | None:
        """How it is computed between blocked arrays; None: it stays plain.

        Args:
            target: what the device is like.
            packing: whether its filters are packed at every run.
        """
        return choose_form(
            target, self.geometry, self.direction, winograd=self.winograd, packing=packing
        )

    def considered(self, target: Target) -> Iterator[tuple[BlockedForm, ConvObstacle | None]]:
        """The forms, the fastest first, each with what stands against it."""
        return considered(target, self.geometry, self.direction, winograd=self.winograd)

    def winograd_obstacle(self, target: Target) -> ConvObstacle | None:
        """What stands against Winograd's transforms where it stays plain, on a GPU."""
        return winograd_obstacle(
            target, self.geometry, self.direction, float32, winograd=self.winograd
        )


def learns(trace: Trace) -> bool:
    """Whether a trace has gradients of filters: they change, and are packed at every run."""
    weight_gradients = ConvWeightGrad | BlockedConvWeightGrad
    return any(isinstance(step.function, weight_gradients) for _, step in trace.ops)


def convolution_of(step: Step) -> Convolution | None:
    """What a step computes, if it is a plain convolution of float32 that is free to choose how."""
    function = step.function
    if not isinstance(function, Conv2d | ConvInputGrad | ConvWeightGrad):
        return None
    if step.inputs[0].dtype is not float32 or function.settings.algorithm is not None:
        return None
    geometry, direction = _sizes(step)
    return Convolution(geometry, direction, function.settings.winograd)


def on_units(target: Target, step: Step, order: Order = Order.LAST) -> bool:
    """Whether a step is a convolution, or a gradient of one, that matrix units compute.

    Args:
        target: what the device is like.
        step: any.
        order: how images lie around it, where float32 is computed as three products.
    """
    if not isinstance(step.function, Conv2d | ConvInputGrad | ConvWeightGrad):
        return False
    if step.function.settings.algorithm not in (None, Algorithm.MATRIX):
        return False
    geometry, direction = _sizes(step)
    dtype, winograd = step.inputs[0].dtype, step.function.settings.winograd
    return computes_on_units(
        target, geometry, direction, dtype,
        winograd=winograd, tf32=rounds_to_tf32(), split=order if splits() else None,
    )  # fmt: skip


def _sizes(step: Step) -> tuple[ConvGeometry, Direction]:
    """Of a convolution, or of a gradient of one."""
    function: Any = step.function
    settings, (first, second) = function.settings, (x.shape for x in step.inputs[:2])
    if isinstance(function, Conv2d):
        return settings.geometry(first, second), Direction.FORWARD
    if isinstance(function, ConvInputGrad):
        return settings.geometry(function.x_shape, second), Direction.INPUT_GRAD
    return settings.geometry(second, function.weight_shape), Direction.WEIGHT_GRAD
