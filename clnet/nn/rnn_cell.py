"""Single steps of recurrent networks, with PyTorch's parameters; layers are in :mod:`.rnn`."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from math import sqrt
from typing import Any, ClassVar

from .. import ops
from ..creation import empty, zeros
from ..errors import ArgumentError
from ..tensor import Tensor
from ..values.dtypes import DType
from . import init
from .module import Module, Parameter

__all__ = ["GRUCell", "LSTMCell", "RNNCell", "RNNCellBase", "check_nonlinearity"]


class RNNCellBase(Module):
    """One step of a recurrent network; arguments as :class:`LSTMCell`'s.

    Attributes:
        gates: how many it computes.
    """

    gates: ClassVar[int]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = self.gates * hidden_size
        like: dict[str, Any] = {"device": device, "dtype": dtype}
        self.weight_ih = Parameter(empty(rows, input_size, **like))
        self.weight_hh = Parameter(empty(rows, hidden_size, **like))
        self.register_parameter("bias_ih", Parameter(empty(rows, **like)) if bias else None)
        self.register_parameter("bias_hh", Parameter(empty(rows, **like)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew, uniform within ``1 / sqrt(hidden_size)``."""
        bound = 1 / sqrt(self.hidden_size) if self.hidden_size else 0.0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def extra_repr(self) -> str:
        """The sizes, and that there is no bias."""
        text = f"{self.input_size}, {self.hidden_size}"
        return text if self.bias else f"{text}, bias={self.bias}"

    def _zeros(self, x: Tensor) -> Tensor:
        return zeros((*x.shape[:-1], self.hidden_size), dtype=x.dtype, device=x.device)

    def _weights(self) -> tuple[Any, ...]:
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh


class RNNCell(RNNCellBase):
    """One step of :class:`.RNN`, whose ``nonlinearity`` is ``"tanh"`` or ``"relu"``.

    Raises:
        ArgumentError: if ``nonlinearity`` is neither.
    """

    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        check_nonlinearity("RNNCell", nonlinearity)
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self.nonlinearity = nonlinearity

    def extra_repr(self) -> str:
        """The sizes, and what is not the default."""
        text = super().extra_repr()
        return text if self.nonlinearity == "tanh" else f"{text}, nonlinearity={self.nonlinearity}"

    def forward(self, x: Tensor, hx: Tensor | None = None) -> Tensor:
        """The next state, ``(n, hidden_size)`` or ``(hidden_size,)``; zeros stand for no state."""
        step = ops.rnn_tanh_cell if self.nonlinearity == "tanh" else ops.rnn_relu_cell
        return step(x, self._zeros(x) if hx is None else hx, *self._weights())


class LSTMCell(RNNCellBase):
    """One step of :class:`.LSTM`.

    Args:
        input_size: features of ``x``.
        hidden_size: features of both states.
        bias: whether there are biases.
        device: where the parameters are; None: the current device.
        dtype: of the parameters.
    """

    gates = 4

    def forward(self, x: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """The next hidden and cell state; zeros stand for none."""
        states = (self._zeros(x), self._zeros(x)) if hx is None else hx
        return ops.lstm_cell(x, states, *self._weights())


class GRUCell(RNNCellBase):
    """One step of :class:`.GRU`; arguments as :class:`LSTMCell`'s."""

    gates = 3

    def forward(self, x: Tensor, hx: Tensor | None = None) -> Tensor:
        """The next state; zeros stand for none."""
        return ops.gru_cell(x, self._zeros(x) if hx is None else hx, *self._weights())


def check_nonlinearity(name: str, nonlinearity: str) -> None:
    """Refuse a function that no step computes.

    Args:
        name: of the layer, for the error.
        nonlinearity: ``"tanh"`` or ``"relu"``.

    Raises:
        ArgumentError: if it is neither.
    """
    if nonlinearity not in ("tanh", "relu"):
        raise ArgumentError(
            name, "nonlinearity is 'tanh' or 'relu'", nonlinearity=repr(nonlinearity)
        )
