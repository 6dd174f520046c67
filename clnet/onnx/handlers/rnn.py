"""Recurrent layers: the sums over inputs in one product, then a step at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ... import ops
from ...errors import ArgumentError
from ...nn import functional
from ...tensor import Tensor
from ...values.dtypes import float32
from ..registry import handler
from .quantised import in_8_bits

Activation = Callable[[Tensor], Tensor]
Cell = Callable[[Tensor, list[Tensor]], list[Tensor]]

PLAIN: dict[str, Activation] = {
    "relu": ops.relu,
    "tanh": ops.tanh,
    "sigmoid": ops.sigmoid,
    "softsign": functional.softsign,
    "softplus": functional.softplus,
}
_WITH_BETA = {"affine", "scaledtanh", "hardsigmoid"}
_WITH_ALPHA = {*_WITH_BETA, "leakyrelu", "thresholdedrelu", "elu"}


def _activation(name: str, alpha: float | None, beta: float | None) -> Activation:
    """An activation with its settings, or with ONNX's defaults.

    Raises:
        ArgumentError: if ONNX has none of that name.
    """

    def given(a: float, b: float) -> tuple[float, float]:
        return (a if alpha is None else alpha), (b if beta is None else beta)

    lower = name.lower()
    if lower in PLAIN:
        return PLAIN[lower]
    if lower == "affine":
        a, b = given(1.0, 0.0)
        return lambda x: x * a + b
    if lower == "leakyrelu":
        a, _ = given(0.01, 0.0)
        return lambda x: functional.leaky_relu(x, a)
    if lower == "thresholdedrelu":
        a, _ = given(1.0, 0.0)
        return lambda x: ops.where(ops.gt(x, a), x, ops.zeros_like(x))
    if lower == "scaledtanh":
        a, b = given(1.0, 1.0)
        return lambda x: ops.tanh(x * b) * a
    if lower == "hardsigmoid":
        a, b = given(0.2, 0.5)
        return lambda x: ops.clamp(x * a + b, 0.0, 1.0)
    if lower == "elu":
        a, _ = given(1.0, 0.0)
        return lambda x: functional.elu(x, a)
    raise ArgumentError("onnx", "an activation is one of ONNX's", activation=name)


def _activations(
    names: Sequence[str] | None,
    default: Sequence[str],
    directions: int,
    alphas: Sequence[float] | None,
    betas: Sequence[float] | None,
) -> list[Activation]:
    """Activations by name; those that have settings take the next ones, others take none."""
    asked = list(names or list(default) * directions)
    first, second = iter(alphas or ()), iter(betas or ())
    return [
        _activation(
            name,
            next(first, None) if name.lower() in _WITH_ALPHA else None,
            next(second, None) if name.lower() in _WITH_BETA else None,
        )
        for name in asked
    ]


def _run(
    x: Tensor,
    states: list[Tensor],
    step: Cell,
    lengths: Tensor | None,
    *,
    backwards: bool,
) -> tuple[Tensor, list[Tensor]]:
    """A cell along the first axis; sequences that are over keep their state and give zeros."""
    steps = x.shape[0]
    rows: list[Tensor] = []
    for t in range(steps - 1, -1, -1) if backwards else range(steps):
        fresh = step(ops.select(x, 0, t), states)
        row = fresh[0]
        if lengths is not None:
            going = ops.gt(lengths, t).unsqueeze(-1)
            fresh = [ops.where(going, new, old) for new, old in zip(fresh, states, strict=True)]
            row = ops.where(going, row, ops.zeros_like(row))
        states = fresh
        rows.append(row)
    return ops.stack(rows[::-1] if backwards else rows, 0), states


def _layer(
    x: Tensor,
    states: list[Tensor],
    make: Callable[[int], tuple[Callable[[Tensor], Tensor], Cell]],
    lengths: Tensor | None,
    direction: str,
    layout: int,
) -> Any:
    """All directions of a layer: ``make`` gives of each the product over inputs and the cell."""
    if layout:
        x = ops.transpose(x, 0, 1)
        states = [ops.transpose(s, 0, 1) for s in states]
    ways = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}.get(direction)
    if ways is None:
        raise ArgumentError("onnx", "a direction is one of three", direction=direction)
    made: list[Tensor] = []
    last: list[list[Tensor]] = []
    for i, backwards in enumerate(ways):
        product, cell = make(i)
        y, end = _run(
            product(x), [ops.select(s, 0, i) for s in states], cell, lengths, backwards=backwards
        )
        made.append(y)
        last.append(end)
    y = ops.stack(made, 1)
    ends = [ops.stack(list(column), 0) for column in zip(*last, strict=True)]
    if layout:
        y = ops.permute(y, (2, 0, 1, 3))
        ends = [ops.transpose(e, 0, 1) for e in ends]
    return y, *ends


def _state(x: Tensor, given: Tensor | None, r: Tensor, layout: int) -> Tensor:
    if given is not None:
        return given
    directions, size = r.shape[0], r.shape[-1]
    rows = x.shape[0] if layout else x.shape[1]
    return ops.new_zeros(x, (rows, directions, size) if layout else (directions, rows, size))


def _inputs(w: Tensor, bias: Tensor | None) -> Callable[[Tensor], Tensor]:
    def product(x: Tensor) -> Tensor:
        y = ops.matmul(x, ops.transpose(w, 0, 1))
        return y if bias is None else y + bias

    return product


def _limited(x: Tensor, clip: float | None) -> Tensor:
    return x if clip is None else ops.clamp(x, -clip, clip)


@handler("RNN")
def rnn(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    output_sequence: int = 1,
) -> Any:
    """``f(W x + R h + b)``, a step after the other."""
    size = r.shape[-1]
    chosen = _activations(activations, ["Tanh"], w.shape[0], activation_alpha, activation_beta)

    def make(i: int) -> tuple[Callable[[Tensor], Tensor], Cell]:
        bias = None if b is None else b[i][:size] + b[i][size:]
        back = ops.transpose(r[i], 0, 1)

        def cell(row: Tensor, state: list[Tensor]) -> list[Tensor]:
            return [chosen[i](_limited(row + ops.matmul(state[0], back), clip))]

        return _inputs(w[i], bias), cell

    return _layer(x, [_state(x, h, r, layout)], make, lengths, direction, layout)


@handler("GRU")
def gru(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    linear_before_reset: int = 0,
    output_sequence: int = 1,
) -> Any:
    """Gated recurrent units: gates z and r, and the new state h, in this order."""
    size = r.shape[-1]
    chosen = _activations(
        activations, ["Sigmoid", "Tanh"], w.shape[0], activation_alpha, activation_beta
    )

    def make(i: int) -> tuple[Callable[[Tensor], Tensor], Cell]:
        f, g = chosen[2 * i : 2 * i + 2]
        outer = None if b is None else b[i][: 3 * size]
        inner = None if b is None else b[i][3 * size :]
        back = ops.transpose(r[i], 0, 1)
        gates, fresh = ops.narrow(back, 1, 0, 2 * size), ops.narrow(back, 1, 2 * size, size)

        def cell(row: Tensor, state: list[Tensor]) -> list[Tensor]:
            old = state[0]
            both = ops.narrow(row, 1, 0, 2 * size) + ops.matmul(old, gates)
            both = both if inner is None else both + inner[: 2 * size]
            both = f(_limited(both, clip))
            z, reset = ops.narrow(both, 1, 0, size), ops.narrow(both, 1, size, size)
            part = ops.matmul(old if linear_before_reset else reset * old, fresh)
            part = part if inner is None else part + inner[2 * size :]
            part = reset * part if linear_before_reset else part
            new = g(_limited(ops.narrow(row, 1, 2 * size, size) + part, clip))
            return [(1 - z) * new + z * old]

        return _inputs(w[i], outer), cell

    return _layer(x, [_state(x, h, r, layout)], make, lengths, direction, layout)


@handler("LSTM")
def lstm(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
    c: Tensor | None = None,
    p: Tensor | None = None,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    layout: int = 0,
    output_sequence: int = 1,
) -> Any:
    """Long short-term memory: gates i, o, f and the new part c, in this order; with peepholes."""
    chosen = _activations(
        activations, ["Sigmoid", "Tanh", "Tanh"], w.shape[0], activation_alpha, activation_beta
    )
    cells = LstmCells(w, r, b, p, chosen, clip, coupled=bool(input_forget))
    states = [_state(x, h, r, layout), _state(x, c, r, layout)]
    return _layer(x, states, cells.of, lengths, direction, layout)


@dataclass(frozen=True)
class LstmCells:
    """The cells of an LSTM's directions.

    Attributes:
        w: ``(directions, 4 hidden, size)``.
        r: ``(directions, 4 hidden, hidden)``.
        b: ``(directions, 8 hidden)``, or None.
        p: of peepholes, ``(directions, 3 hidden)``, or None.
        chosen: three activations of each direction.
        clip: what bounds the activations' operands.
        coupled: whether what is not let in is forgotten.
        seen: what a product sees of inputs and states.
    """

    w: Tensor
    r: Tensor
    b: Tensor | None
    p: Tensor | None
    chosen: list[Activation]
    clip: float | None
    coupled: bool = False
    seen: Activation = lambda x: x

    def of(self, i: int) -> tuple[Callable[[Tensor], Tensor], Cell]:
        """The product over inputs and the cell of a direction."""
        size, b, p = self.r.shape[-1], self.b, self.p
        f, g, out = self.chosen[3 * i : 3 * i + 3]
        bias = None if b is None else b[i][: 4 * size] + b[i][4 * size :]
        back = ops.transpose(self.r[i], 0, 1)
        peep = None if p is None else [p[i][n * size : (n + 1) * size] for n in range(3)]

        def cell(row: Tensor, state: list[Tensor]) -> list[Tensor]:
            old, memory = state
            sums = row + ops.matmul(self.seen(old), back)
            gate_i, gate_o, gate_f, fresh = (ops.narrow(sums, 1, n * size, size) for n in range(4))
            if peep is not None:
                gate_i, gate_f = gate_i + peep[0] * memory, gate_f + peep[2] * memory
            gate_i = f(_limited(gate_i, self.clip))
            gate_f = 1 - gate_i if self.coupled else f(_limited(gate_f, self.clip))
            memory = gate_f * memory + gate_i * g(_limited(fresh, self.clip))
            if peep is not None:
                gate_o = gate_o + peep[1] * memory
            return [f(_limited(gate_o, self.clip)) * out(_limited(memory, self.clip)), memory]

        whole = _inputs(self.w[i], bias)
        return lambda x: whole(self.seen(x)), cell


@handler("DynamicQuantizeLSTM", domain="com.microsoft")
def dynamic_lstm(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None,
    lengths: Tensor | None,
    h: Tensor | None,
    c: Tensor | None,
    p: Tensor | None,
    w_scale: Tensor,
    w_zero: Tensor,
    r_scale: Tensor,
    r_zero: Tensor,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
) -> Any:
    """An LSTM whose weights have 8 bits, as inputs and states have before each product.

    Inputs:
        x: ``(t, n, size)``.
        w: ``(directions, size, 4 hidden)``, with a scale of each direction or column.
        r: ``(directions, hidden, 4 hidden)``, the same.
    """
    chosen = _activations(
        activations, ["Sigmoid", "Tanh", "Tanh"], w.shape[0], activation_alpha, activation_beta
    )
    floats = (_columns(w, w_scale, w_zero), _columns(r, r_scale, r_zero))
    cells = LstmCells(*floats, b, p, chosen, clip, coupled=bool(input_forget), seen=in_8_bits)
    states = [_state(x, h, floats[1], 0), _state(x, c, floats[1], 0)]
    return _layer(x, states, cells.of, lengths, direction, 0)


def _columns(w: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    """What weights of 8 bits stand for, the columns as rows."""
    scale, zero = (t.to(float32).reshape((w.shape[0], 1, -1)) for t in (scale, zero))
    return ops.transpose((w.to(float32) - zero) * scale, 1, 2)
