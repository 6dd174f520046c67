"""Steps of recurrent layers: two products, then one fused pointwise launch over the gates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from .. import expr as e
from ..array import Array
from ..device import Launch, Target
from ..errors import ArgumentError, ShapeError
from ..expr import Const, Expr, Input, vjp
from ..kernels.pointwise import pointwise as launch_pointwise
from ..values.dtypes import from_name
from .activation import relu, sigmoid, tanh
from .join import stack
from .machinery.autocast import computes_as_one
from .machinery.function import (
    Arrays,
    Face,
    Function,
    Grads,
    Needs,
    Saved,
    apply,
    op,
    require_floating,
    require_same_dtype,
)
from .matmul import linear
from .shape import contiguous, narrow, reshape

if TYPE_CHECKING:
    from ..tensor import Tensor

Body = Callable[..., tuple[Any, ...]]


def _sigmoid(x: Expr) -> Expr:
    return 1 / (1 + e.exp(-x))


def _lstm(x: Any, h: Any, c: Any, sigmoid: Any, tanh: Any) -> tuple[Any, ...]:
    kept = sigmoid(x[1] + h[1]) * c + sigmoid(x[0] + h[0]) * tanh(x[2] + h[2])
    return sigmoid(x[3] + h[3]) * tanh(kept), kept


def _gru(x: Any, h: Any, state: Any, sigmoid: Any, tanh: Any) -> tuple[Any, ...]:
    update = sigmoid(x[1] + h[1])
    new = tanh(x[2] + sigmoid(x[0] + h[0]) * h[2])
    return (new + update * (state - new),)


class Cell(Enum):
    """Kinds of gated cells: the op's name, its gates, its results, and what it computes.

    The body gets the gates' shares of the input and of the last hidden state, the state, and the
    two functions; PyTorch's order of gates.
    """

    LSTM = ("lstm_cell", 4, 2, _lstm)
    GRU = ("gru_cell", 3, 1, _gru)

    @property
    def gates(self) -> int:
        """How many there are."""
        return self.value[1]

    @property
    def results(self) -> int:
        """How many states it gives."""
        return self.value[2]

    @property
    def body(self) -> Body:
        """What it computes."""
        return self.value[3]


class Gates(Function):
    """New states: inputs are the gates' two shares, ``(n, gates * hidden)``, and the state."""

    repeats = True

    cell: Cell

    @property
    def name(self) -> str:
        """The cell's."""
        return self.cell.value[0]

    def infer(self, x: Array, h: Array, state: Array) -> tuple[Array, ...]:
        """Dense outputs shaped as the state."""
        like = Array.abstract(state.shape, state.dtype, state.device)
        others = (
            Array.abstract(state.shape, state.dtype, state.device)
            for _ in range(self.cell.results - 1)
        )
        return like, *others

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """One launch that reads every gate in place."""
        x, h, state = inputs
        operands = (*gate_views(x, self.cell), *gate_views(h, self.cell), state)
        compute = from_name(state.dtype.compute)
        return launch_pointwise(target, outputs, operands, gate_results(self.cell), compute=compute)

    def saves(self, needs: tuple[bool, ...]) -> tuple[Sequence[int], Sequence[int]]:
        """The inputs: the gates are computed again."""
        return range(3), ()

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """One launch for all gradients."""
        arrived = tuple(g is not None for g in grads)
        function = GatesBackward(self.cell, arrived)
        given = [g for g in grads if g is not None]
        found = apply(function, *(saved.inputs[i] for i in range(3)), *given)
        gx, *rest = found
        return (gx, gx, *rest) if len(rest) == 1 else (gx, *rest)

    def decompose(self, x: Tensor, h: Tensor, state: Tensor) -> tuple[Any, ...]:
        """Gate by gate."""
        n, size = self.cell.gates, state.shape[-1]
        own, last = ([narrow(t, -1, k * size, size) for k in range(n)] for t in (x, h))
        return self.cell.body(own, last, state, sigmoid, tanh)


class GatesBackward(Function):
    """Gradients of :class:`Gates`: of the gates (for each share, where they differ), of the state.

    Attributes:
        cell: the kind.
        arrived: for each result, whether its gradient is among the inputs.
    """

    repeats = True

    cell: Cell
    arrived: tuple[bool, ...]

    @property
    def name(self) -> str:
        """The cell's, and that it is its gradient."""
        return f"{self.cell.value[0]}_backward"

    def infer(self, x: Array, h: Array, state: Array, *grads: Array) -> tuple[Array, ...]:
        """Dense outputs shaped as what they are gradients of."""
        one_share = len(gate_gradients(self.cell, self.arrived)) == self.cell.gates + 1
        of = (x, state) if one_share else (x, h, state)
        return tuple(Array.abstract(a.shape, a.dtype, a.device) for a in of)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """One launch that writes every gate's gradient in place."""
        x, h, state, *grads = inputs
        *shares, gstate = outputs
        written = [gate for share in shares for gate in gate_views(share, self.cell)]
        operands = (*gate_views(x, self.cell), *gate_views(h, self.cell), state, *grads)
        exprs = gate_gradients(self.cell, self.arrived)
        compute = from_name(state.dtype.compute)
        return launch_pointwise(target, (*written, gstate), operands, exprs, compute=compute)


class Steps(Function):
    """Views of every step along the first axis."""

    def infer(self, x: Array) -> tuple[Array, ...]:
        """As many views as the axis is long."""
        step = x.strides[0]
        return tuple(
            x.view(x.shape[1:], x.strides[1:], x.offset + t * step) for t in range(x.shape[0])
        )

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """The steps' gradients one after another."""
        given = next(g for g in grads if g is not None)
        return (stack([given * 0 if g is None else g for g in grads]),)


def gate_views(x: Array, cell: Cell) -> list[Array]:
    """The gates' parts of the last axis."""
    size = x.shape[-1] // cell.gates
    shape = (*x.shape[:-1], size)
    return [
        x.view(shape, x.strides, x.offset + k * size * x.strides[-1]) for k in range(cell.gates)
    ]


@lru_cache(maxsize=8)
def gate_results(cell: Cell) -> tuple[Expr, ...]:
    """A cell's results, over both shares of the gates and the state."""
    n = cell.gates
    symbols = [Input(i) for i in range(2 * n + 1)]
    return cell.body(symbols[:n], symbols[n : 2 * n], symbols[2 * n], _sigmoid, e.tanh)


@lru_cache(maxsize=64)
def gate_gradients(cell: Cell, terms: tuple[int, ...]) -> tuple[Expr, ...]:
    """Gradients to the first share's gates, the second's unless the same, and the state.

    Args:
        cell: the kind.
        terms: for each result, how many inputs (they follow the cell's own) add up to its gradient.
    """
    leaves = [Input(i) for i in range(2 * cell.gates + 1)]
    position = len(leaves)
    cotangents: list[Expr] = []
    for count in terms:
        arriving = [Input(position + k) for k in range(count)]
        cotangents.append(sum(arriving[1:], arriving[0]) if arriving else Const(0))
        position += count
    found = vjp(gate_results(cell), cotangents, wrt=leaves)
    own, last = found[: cell.gates], found[cell.gates : -1]
    return (*own, found[-1]) if own == last else found


def steps(x: Tensor) -> tuple[Tensor, ...]:
    """The slices of the first axis, without a copy; their gradients are joined in one pass."""
    if x.shape[0] == 1:
        return (reshape(x, x.shape[1:]),)
    return apply(Steps(), x) if x.shape[0] else ()


def lstm_gates(x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """The next hidden and cell state from both shares of the gates, ``(n, 4 * hidden)`` each."""
    return apply(Gates(Cell.LSTM), x, h, contiguous(c))


def gru_gates(x: Tensor, h: Tensor, state: Tensor) -> Tensor:
    """The next state from both shares of the gates, ``(n, 3 * hidden)`` each."""
    return apply(Gates(Cell.GRU), x, h, contiguous(state))


@op(Face.FUNCTION)
@computes_as_one
def lstm_cell(
    x: Tensor,
    hx: tuple[Tensor, Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One step of an LSTM: two products and one fused launch.

    Args:
        x: ``(n, in)``, floating.
        hx: the hidden and the cell state, ``(n, hidden)`` each.
        w_ih: ``(4 * hidden, in)``: input, forget, cell and output gate.
        w_hh: ``(4 * hidden, hidden)``.
        b_ih: ``(4 * hidden,)`` or None.
        b_hh: the same.

    Returns:
        The next hidden and cell state.

    Raises:
        DtypeError: if the dtypes differ or are not floating.
        ArgumentError: if there are not two states.
        ShapeError: if the shapes do not fit.
    """
    if len(hx) != 2:
        raise ArgumentError("lstm_cell", "hx is the hidden and the cell state", states=len(hx))
    h, c = hx
    _check("lstm_cell", 4, x, h, w_ih, w_hh)
    if c.shape != h.shape:
        raise ShapeError("lstm_cell", "both states have one shape", h=h.shape, c=c.shape)
    return lstm_gates(linear(x, w_ih, b_ih), linear(h, w_hh, b_hh), c)


@op(Face.FUNCTION)
@computes_as_one
def gru_cell(
    x: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """One step of a GRU; arguments as :func:`lstm_cell`'s, with one state and three gates.

    The gates are reset, update and new.
    """
    _check("gru_cell", 3, x, hx, w_ih, w_hh)
    return gru_gates(linear(x, w_ih, b_ih), linear(hx, w_hh, b_hh), hx)


@op(Face.FUNCTION)
@computes_as_one
def rnn_tanh_cell(
    x: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """``tanh(x @ w_ih.T + b_ih + hx @ w_hh.T + b_hh)``; arguments as :func:`lstm_cell`'s."""
    _check("rnn_tanh_cell", 1, x, hx, w_ih, w_hh)
    return tanh(linear(x, w_ih, b_ih) + linear(hx, w_hh, b_hh))


@op(Face.FUNCTION)
@computes_as_one
def rnn_relu_cell(
    x: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """``relu(x @ w_ih.T + b_ih + hx @ w_hh.T + b_hh)``; arguments as :func:`lstm_cell`'s."""
    _check("rnn_relu_cell", 1, x, hx, w_ih, w_hh)
    return relu(linear(x, w_ih, b_ih) + linear(hx, w_hh, b_hh))


def _check(name: str, gates: int, x: Tensor, h: Tensor, w_ih: Tensor, w_hh: Tensor) -> None:
    require_floating(name, x.array)
    require_same_dtype(name, x=x.array, h=h.array, w_ih=w_ih.array)
    size = h.shape[-1] if h.ndim else 0
    fits = 1 <= x.ndim <= 2 and x.shape[:-1] == h.shape[:-1] and w_hh.shape == (gates * size, size)
    if not fits or w_ih.shape != (gates * size, *x.shape[-1:]):
        raise ShapeError(
            name,
            "x and the state have one batch or none, the weights a row for each gate and state",
            x=x.shape,
            state=h.shape,
            w_ih=w_ih.shape,
            w_hh=w_hh.shape,
        )
