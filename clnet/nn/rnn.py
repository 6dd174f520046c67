"""Recurrent layers, with PyTorch's parameters; single steps are in :mod:`.rnn_cell`."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any, ClassVar

from .. import ops
from ..creation import empty, zeros
from ..errors import ArgumentError, ShapeError
from ..ops.recurrence import both_directions, recurrence, side_by_side
from ..ops.rnn import Cell, gru_gates, lstm_gates, steps
from ..tensor import Tensor
from ..values.arguments import require_tensors
from ..values.dtypes import DType
from . import init
from .module import Module, Parameter
from .packed import PackedSequence
from .packed_steps import PackedSteps, resized
from .rnn_cell import GRUCell, LSTMCell, RNNCell, check_nonlinearity
from .rnn_cell import RNNCellBase as RNNCellBase  # where PyTorch has it

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

States = tuple[Tensor, ...]
_MOST_LAYERS = 2**16


_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
"""How many a step of each mode has."""
_USUAL = {
    "proj_size": 0,
    "num_layers": 1,
    "bias": True,
    "batch_first": False,
    "dropout": 0.0,
    "bidirectional": False,
}
"""Settings that are not shown where they are these."""


class RNNBase(Module):
    """Layers of a recurrent network in one or both directions, their parameters alone.

    Subclasses compute. Arguments as :class:`LSTM`'s, behind one:

    Args:
        mode: ``"LSTM"``, ``"GRU"``, ``"RNN_TANH"`` or ``"RNN_RELU"``.

    Raises:
        ArgumentError: if a setting is out of range, or there is no such mode.
    """

    kind: ClassVar[str]
    """The mode of a subclass."""
    cell: ClassVar[Cell | None] = None
    """The kind whose steps are one op, where they are."""

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if mode not in _GATES:
            raise ArgumentError(name, f"mode is one of {', '.join(_GATES)}", mode=repr(mode))
        if num_layers < 1 or input_size < 0 or hidden_size < 1:
            raise ArgumentError(
                name,
                "there are layers, each with a state",
                input_size=input_size,
                hidden_size=hidden_size,
                num_layers=num_layers,
            )
        if num_layers > _MOST_LAYERS:
            raise ArgumentError(
                name, f"there are at most {_MOST_LAYERS} layers", num_layers=num_layers
            )
        if not 0 <= dropout <= 1:
            raise ArgumentError(name, "dropout lies in [0, 1]", dropout=dropout)
        if not 0 <= proj_size < hidden_size:
            raise ArgumentError(
                name,
                "proj_size is less than hidden_size",
                proj_size=proj_size,
                hidden_size=hidden_size,
            )
        self.mode = mode
        self.gates = _GATES[mode]
        self.states = 2 if mode == "LSTM" else 1
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        for layer, suffix in self._places():
            for kind, shape in self._shapes(layer).items():
                made = Parameter(empty(shape, device=device, dtype=dtype))
                self.register_parameter(kind + suffix, made)
        self.reset_parameters()

    def _shapes(self, layer: int) -> dict[str, tuple[int, ...]]:
        """Of the parameters of one direction of a layer."""
        rows, given = self.gates * self.hidden_size, self.proj_size or self.hidden_size
        below = self.input_size if layer == 0 else given * self._directions
        shapes: dict[str, tuple[int, ...]] = {
            "weight_ih": (rows, below),
            "weight_hh": (rows, given),
        }
        if self.bias:
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
        if self.proj_size:
            shapes |= {"weight_hr": (self.proj_size, self.hidden_size)}
        return shapes

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    def _places(self) -> list[tuple[int, str]]:
        """Layer and suffix of the parameters' names, in order."""
        ways = ("", "_reverse")[: self._directions]
        return [(layer, f"_l{layer}{way}") for layer in range(self.num_layers) for way in ways]

    @property
    def _all_weights(self) -> list[list[str]]:
        """Names of the parameters of every layer and direction, which programs draw by."""
        return [[kind + suffix for kind in self._shapes(layer)] for layer, suffix in self._places()]

    @property
    def all_weights(self) -> list[list[Tensor]]:
        """The parameters of every layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Tensor]:
        return [weight for weights in self.all_weights for weight in weights]

    def reset_parameters(self) -> None:
        """Draw the parameters anew, uniform within ``1 / sqrt(hidden_size)``."""
        bound = 1 / sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def flatten_parameters(self) -> None:
        """Nothing: parameters stay where they are, and need not lie side by side."""

    def extra_repr(self) -> str:
        """The settings that are not the defaults."""
        shown = [
            f"{n}={getattr(self, n)}" for n, usual in _USUAL.items() if getattr(self, n) != usual
        ]
        return ", ".join([f"{self.input_size}, {self.hidden_size}", *shown])

    def _step(self, x: Tensor, h: Tensor, states: States) -> States:
        """The next states from both shares of the gates."""
        raise NotImplementedError

    def _run(self, x: Any, given: Sequence[Tensor] | None) -> tuple[Any, States]:
        """Outputs of the last layer, and the last states of every layer and direction."""
        if isinstance(x, PackedSequence):
            return self._run_packed(x, given)
        name = type(self).__name__
        require_tensors(name, x=x)
        if x.ndim not in (2, 3) or x.shape[-1] != self.input_size:
            raise ShapeError(
                name, "x has two or three axes, the last input_size", x=x.shape,
                input_size=self.input_size,
            )  # fmt: skip
        batched = x.ndim == 3
        x = (x.transpose(0, 1) if self.batch_first else x) if batched else x.unsqueeze(1)
        if x.shape[0] == 0:
            raise ShapeError(name, "a sequence has one step or more", x=x.shape)
        if given is not None and not batched:
            given = tuple(s.unsqueeze(1) for s in given)
        y, found = self._layers(x, self._initial(x, x.shape[1], given), None)
        if not batched:
            return y.squeeze(1), tuple(s.squeeze(1) for s in found)
        return (y.transpose(0, 1) if self.batch_first else y), found

    def _run_packed(
        self, x: PackedSequence, given: Sequence[Tensor] | None
    ) -> tuple[PackedSequence, States]:
        """As :meth:`_run`; states come and go in the order that sequences had unpacked."""
        data, sizes = x.data, x.sizes
        if data.ndim != 2 or data.shape[1] != self.input_size:
            raise ShapeError(
                type(self).__name__, "packed data is (steps, input_size)", data=data.shape,
                input_size=self.input_size,
            )  # fmt: skip
        states = self._initial(data, sizes[0], given)
        if given is not None:
            states = _reordered(states, x.sorted_indices)
        y, found = self._layers(data, states, PackedSteps(sizes, data))
        return x._replace(data=y), _reordered(found, x.unsorted_indices)

    def _layers(
        self, x: Tensor, states: States, packed: PackedSteps | None
    ) -> tuple[Tensor, States]:
        """All layers, one upon the other; ``packed``: the steps, if they differ in sequences."""
        if self.cell is not None and self._joined(x, packed):
            return self._both_ways(self.cell, x, states, packed)
        ends: list[States] = []
        outputs: list[Tensor] = []
        for place, (layer, suffix) in enumerate(self._places()):
            backwards = place % self._directions == 1
            first = tuple(s[place] for s in states)
            sequence, last = self._direction(x, first, suffix, packed, backwards=backwards)
            outputs.append(sequence)
            ends.append(last)
            if len(outputs) == self._directions:
                x = outputs[0] if len(outputs) == 1 else ops.cat(outputs, -1)
                outputs = []
                if self.dropout and layer < self.num_layers - 1:
                    x = ops.dropout(x, self.dropout, training=self.training)
        return x, tuple(ops.stack([end[i] for end in ends]) for i in range(self.states))

    def _joined(self, x: Tensor, packed: PackedSteps | None) -> bool:
        """Whether both directions go side by side."""
        whole = (packed is None or packed.together) and not self.proj_size
        return whole and self.bidirectional and side_by_side(x)

    def _both_ways(
        self, cell: Cell, x: Tensor, states: States, packed: PackedSteps | None
    ) -> tuple[Tensor, States]:
        """All layers, both directions of each in the same launches."""
        ends: list[States] = []
        for layer in range(self.num_layers):
            ways = [f"_l{layer}{way}" for way in ("", "_reverse")]

            def pair(kind: str, ways: Sequence[str] = ways) -> list[Any]:
                return [getattr(self, kind + way) for way in ways]

            bias, own = None, None
            if self.bias:
                bias, own = ops.cat(pair("bias_ih")), ops.stack(pair("bias_hh"))
            product = ops.linear(x, ops.cat(pair("weight_ih")), bias)
            first = tuple(s[2 * layer : 2 * layer + 2] for s in states)
            run = both_directions if packed is None else packed.both_directions
            x, last = run(cell, product, first, ops.stack(pair("weight_hh")), own)
            ends.append(last)
            if self.dropout and layer < self.num_layers - 1:
                x = ops.dropout(x, self.dropout, training=self.training)
        return x, tuple(ops.cat([end[i] for end in ends]) for i in range(self.states))

    def _initial(self, x: Tensor, n: int, given: Sequence[Tensor] | None) -> States:
        layers = self.num_layers * self._directions
        sizes = (self.proj_size or self.hidden_size, self.hidden_size)[: self.states]
        shapes = [(layers, n, size) for size in sizes]
        if given is None:
            return tuple(zeros(shape, dtype=x.dtype, device=x.device) for shape in shapes)
        if [s.shape for s in given] != shapes:
            raise ShapeError(
                type(self).__name__,
                "states are (layers * directions, n, hidden_size)",
                states=[s.shape for s in given],
                expected=shapes,
            )
        return tuple(given)

    def _direction(
        self,
        x: Tensor,
        first: States,
        suffix: str,
        packed: PackedSteps | None,
        *,
        backwards: bool,
    ) -> tuple[Tensor, States]:
        """One layer in one direction: one product for all steps' inputs, one in each step."""
        weight, bias = self._weights("ih", suffix)
        product = ops.linear(x, weight, bias)
        if self.cell is not None and not self.proj_size and (packed is None or packed.together):
            weight, bias = self._weights("hh", suffix)
            if packed is not None:
                given = (self.cell, product, first, weight, bias)
                return packed.direction(*given, backwards=backwards)
            made = recurrence(self.cell, product, first, weight, bias, backwards=backwards)
            return made[0], tuple(s[0 if backwards else -1] for s in made)
        if packed is None:
            outputs, states = self._walk(steps(product)[:: -1 if backwards else 1], first, suffix)
            return ops.stack(outputs[::-1] if backwards else outputs), states
        own = ops.split(product, packed.sizes)[:: -1 if backwards else 1]
        outputs, states = self._walk(own, first, suffix)
        return ops.cat(outputs[::-1] if backwards else outputs), states

    def _weights(self, kind: str, suffix: str) -> tuple[Parameter, Parameter | None]:
        """A layer's weight and bias of a kind, ``"ih"`` or ``"hh"``."""
        bias = getattr(self, f"bias_{kind}{suffix}") if self.bias else None
        return getattr(self, f"weight_{kind}{suffix}"), bias

    def _walk(
        self, gates: Sequence[Tensor], first: States, suffix: str
    ) -> tuple[list[Tensor], States]:
        """The outputs of steps in the order they are taken, and the last states of all sequences.

        Fewer sequences than in the step before: the last ones have ended. More: those that follow
        begin. Of three sequences of 3, 2 and 1 steps, steps have 3, 2, 1 rows, and backwards 1, 2,
        3.
        """
        begin = gates[0].shape[0]
        states = first if first[0].shape[0] == begin else tuple(s[:begin] for s in first)
        outputs: list[Tensor] = []
        ended: list[States] = []
        for own in gates:
            states = resized(states, own.shape[0], first, ended)
            share = ops.linear(states[0], *self._weights("hh", suffix))
            states = self._step(own, share, states)
            if self.proj_size:
                projected = ops.linear(states[0], getattr(self, f"weight_hr{suffix}"))
                states = (projected, *states[1:])
            outputs.append(states[0])
        if ended:  # sequences that ended earlier lie behind
            ends = (states, *reversed(ended))
            states = tuple(ops.cat([end[i] for end in ends]) for i in range(self.states))
        return outputs, states


def _reordered(states: States, order: Tensor | None) -> States:
    if order is None:
        return states
    index = order.to(states[0].device)
    return tuple(ops.index_select(s, 1, index) for s in states)


class _OneState(RNNBase):
    """What has hidden states alone."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(
            self.kind, input_size, hidden_size, num_layers, bias, batch_first, dropout,
            bidirectional, 0, device, dtype,
        )  # fmt: skip

    def forward(
        self,
        input: Any,  # noqa: A002 - PyTorch's
        hx: Tensor | None = None,
    ) -> tuple[Any, Tensor]:
        """Outputs of all steps, and the last states, ``(layers * directions, n, hidden_size)``.

        A :class:`.packed.PackedSequence` gives one again.
        """
        y, (h,) = self._run(input, None if hx is None else (hx,))
        return y, h


class RNN(_OneState):
    """``h' = tanh(W_ih x + b_ih + W_hh h + b_hh)`` over a sequence, in layers.

    Arguments and parameters as :class:`LSTM`'s, but that there is no ``proj_size``, and behind
    ``num_layers`` comes ``nonlinearity``, ``"tanh"`` or ``"relu"``.
    """

    kind = "RNN_TANH"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        check_nonlinearity("RNN", nonlinearity)
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device,
            dtype,
        )  # fmt: skip
        self.nonlinearity = nonlinearity
        self.mode = f"RNN_{nonlinearity.upper()}"

    def _step(self, x: Tensor, h: Tensor, states: States) -> States:
        return ((ops.tanh if self.nonlinearity == "tanh" else ops.relu)(x + h),)


class LSTM(RNNBase):
    """Long short-term memory (Hochreiter, Schmidhuber 1997) over a sequence, in layers.

    Args:
        input_size: features of a step.
        hidden_size: features of both states.
        num_layers: how many, each reading the one below.
        bias: whether there are biases.
        batch_first: sequences are ``(n, steps, features)`` instead of ``(steps, n, features)``.
        dropout: of the outputs of all layers but the last.
        bidirectional: read in both directions; outputs are joined.
        proj_size: project hidden states to so many features, 0: not at all.
        device: where the parameters are; None: the current device.
        dtype: of the parameters.

    Attributes:
        weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0: the first layer's, of the input, forget,
            cell and output gate; ``_reverse`` follows for the other direction.

    Raises:
        ArgumentError: if a setting is out of range.
    """

    kind = "LSTM"
    cell = Cell.LSTM

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(
            self.kind, input_size, hidden_size, num_layers, bias, batch_first, dropout,
            bidirectional, proj_size, device, dtype,
        )  # fmt: skip

    def forward(
        self,
        input: Any,  # noqa: A002 - PyTorch's
        hx: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[Any, tuple[Tensor, Tensor]]:
        """Outputs of all steps, and the last hidden and cell states.

        A :class:`.packed.PackedSequence` gives one again.
        """
        y, (h, c) = self._run(input, hx)
        return y, (h, c)

    def _step(self, x: Tensor, h: Tensor, states: States) -> States:
        return lstm_gates(x, h, states[1])


class GRU(_OneState):
    """Gated recurrent units (Cho et al. 2014) over a sequence.

    Arguments as :class:`LSTM`'s, without ``proj_size``; so are the parameters, of the reset, update
    and new gate.
    """

    kind = "GRU"
    cell = Cell.GRU

    def _step(self, x: Tensor, h: Tensor, states: States) -> States:
        return (gru_gates(x, h, states[0]),)
