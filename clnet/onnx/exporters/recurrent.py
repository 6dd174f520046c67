"""Sequences of LSTMs and GRUs as ONNX's layers, each of one direction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...array import Array
from ...compile.tracer import Step
from ...ops.matmul import Linear
from ...ops.recurrence import Recurrence
from ...ops.rnn import Cell
from ...ops.shape import Reshape, slice_view
from ...values.dtypes import float32
from ..writing import Graph
from .registry import Given, exporter

# Our gates in ONNX's order: i, o, f, c of i, f, c, o, and z, r, h of r, z, h.
_GATES = {Cell.LSTM: (0, 3, 1, 2), Cell.GRU: (1, 0, 2)}


@exporter(Recurrence)
def recurrence(given: Given) -> Any:
    """A layer, with the product that makes the gates' shares of its input; else step by step.

    Of a cell's states ONNX tells the last alone.
    """
    cell, graph, step = given.function.cell, given.graph, given.step
    found = _product(given)
    single = step.outputs[0].dtype is float32  # onnxruntime computes layers of no other dtype
    if found is None or step.inputs[1].ndim != 2 or not single:
        return None
    product, names = found
    width, hidden = product.inputs[1].shape[-1], step.inputs[1].shape[-1]
    sizes = [*given.shape()[:2], given.dynamic.size([width] * len(given.steps))]
    x = graph.reshape(names[0], sizes, [])
    states, (weight, *bias) = given.names[1 : 1 + cell.results], given.names[1 + cell.results :]
    layer: list[str | None] = [x, *(_turned(graph, w, cell) for w in (names[1], weight))]
    layer.append(_biases(graph, [names[2:], bias], cell, product.inputs[1]))
    layer += [None, *(graph.add("Unsqueeze", h, graph.integers([0])) for h in states)]
    made = graph.add_all(
        "LSTM" if cell is Cell.LSTM else "GRU",
        layer,
        1 + cell.results,
        hidden_size=hidden,
        direction="reverse" if given.function.backwards else "forward",
        linear_before_reset=1 if cell is Cell.GRU else None,
    )
    for each in given.steps:
        for state, name in zip(each.outputs, made[1:], strict=False):
            given.know(_last(state, backwards=given.function.backwards), name)
    return graph.add("Squeeze", made[0], graph.integers([1])), *(None for _ in step.outputs[1:])


def _product(given: Given) -> tuple[Step, Sequence[str]] | None:
    """What made the gates' shares of the input, and the names of what it read."""
    found = given.maker(given.step.inputs[0])
    while found is not None and isinstance(found[0].function, Reshape):
        found = given.maker(found[0].inputs[0])
    return found if found is not None and isinstance(found[0].function, Linear) else None


def _turned(graph: Graph, name: str, cell: Cell, *, axis: int | None = 0) -> str:
    """Gates in ONNX's order, behind an axis of one direction if there is to be one."""
    order = _GATES[cell]
    parts = graph.split(name, len(order), axis=0)
    turned = graph.add("Concat", *(parts[k] for k in order), axis=0)
    return turned if axis is None else graph.add("Unsqueeze", turned, graph.integers([axis]))


def _biases(graph: Graph, given: Sequence[Sequence[str]], cell: Cell, weight: Array) -> str | None:
    """That of the input and that of the state, one behind the other; None if there is neither."""
    if not any(given):
        return None
    none = graph.constant(np.zeros(weight.shape[0], weight.dtype.numpy))
    both = [_turned(graph, each[0], cell, axis=None) if each else none for each in given]
    return graph.add("Unsqueeze", graph.add("Concat", *both, axis=0), graph.integers([0]))


def _last(states: Array, *, backwards: bool) -> Array:
    """The state after the step that came last, as a slice of all steps sees it."""
    rest = states.shape[1:]
    at = 0 if backwards else states.shape[0] - 1
    return slice_view(states, (at, *[0] * len(rest)), (1,) * states.ndim, (1, *rest))
