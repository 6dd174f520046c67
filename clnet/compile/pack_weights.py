"""Weights of linear layers that no step changes are packed once, as the products read them.

A product on a CPU packs its right operand into panels at every call. That is work for each number
of the weight, beside one multiplication for each row of the input: of few rows a quarter of the
time.
"""

from __future__ import annotations

from dataclasses import replace

from ..ops.matmul import Linear
from ..ops.rewritten.packed import PackedLinear, PackPanels, elements_of_panels
from ..values.dtypes import float32
from .trace import Trace
from .tracer import Action, Step


def pack_weights(trace: Trace) -> Trace:
    """The trace with such layers reading panels, which ``with_constants`` then makes once.

    Sums may be cut in other places than those of products that pack for themselves.
    """
    steps: list[Step | Action] = []
    for step in trace.steps:
        function = step.function if isinstance(step, Step) else None
        elements = None
        if isinstance(step, Step) and isinstance(function, Linear):
            elements = _panel_elements(trace, step)
            if elements is not None:
                steps += _packed(step, function, elements)
        if elements is None:
            steps.append(step)
    return trace.with_steps(steps)


def _panel_elements(trace: Trace, step: Step) -> int | None:
    """Elements of the panels that a linear layer should read; None if it should not."""
    x, weight = step.inputs[:2]
    outside = weight.storage in trace.outside or weight.storage in trace.constants
    if not outside or weight.storage in trace.writers or weight.dtype is not float32:
        return None
    return elements_of_panels(trace.device.target, x.shape[0], weight)


def _packed(step: Step, layer: Linear, elements: int) -> tuple[Step, Step]:
    """The packing, and the layer that reads the panels."""
    x, weight, *bias = step.inputs
    packing = PackPanels(x.shape[0], elements)
    panels = packing.infer(weight)
    multiplying = PackedLinear(layer.activation)
    return (
        replace(step, function=packing, inputs=(weight,), outputs=panels),
        replace(step, function=multiplying, inputs=(x, weight, *panels, *bias)),
    )
