"""What training a language model needs beside the loop: carried states, perplexity, samples."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp
from typing import TYPE_CHECKING, Any

from .. import ops
from ..autograd import no_grad
from ..creation import zeros
from ..errors import ArgumentError
from ..nn import Module
from ..nn.module_mode import in_mode
from ..ops import cross_entropy
from ..tensor import Tensor, tensor
from .callback import Callback
from .history import VALIDATION

if TYPE_CHECKING:
    from .trainer import Trainer

_OVERFLOW = 700.0  # exp of more is infinite


class Carried(Module):
    """A recurrent model whose state goes on from batch to batch: truncated back-propagation.

    Gradients end where the batch began. The state is kept in buffers, so that a step can be
    compiled and a checkpoint goes on where it stopped; it is 0 again whenever the mode changes
    between training and evaluation.

    Args:
        model: ``model(tokens, states)`` gives ``(outputs, states)``, as
            :class:`~clnet.models.LSTMLanguageModel` does.
        *shapes: of the states.
    """

    def __init__(self, model: Module, *shapes: tuple[int, ...]) -> None:
        super().__init__()
        self.model = model
        device = next(model.parameters()).device
        self._count = len(shapes)
        for i, shape in enumerate(shapes):
            self.register_buffer(f"state{i}", zeros(shape, device=device))

    def forward(self, tokens: Tensor) -> Tensor:
        """The model's outputs for the next ``(steps, n)`` tokens of each column."""
        kept = [self.get_buffer(f"state{i}") for i in range(self._count)]
        # Copies, because backward reads the states after they have been overwritten.
        outputs, states = self.model(tokens, tuple(ops.clone(state) for state in kept))
        with no_grad():
            for state, new in zip(kept, states, strict=True):
                state.copy_(new.detach())
        return outputs

    def train(self, mode: bool = True) -> Module:  # noqa: FBT001, FBT002 - PyTorch's
        """Behave as in training (or not); another mode begins another text."""
        if mode != self.training:
            self.reset()
        return super().train(mode)

    def reset(self) -> None:
        """Forget the states."""
        with no_grad():
            for i in range(self._count):
                self.get_buffer(f"state{i}").zero_()


def token_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean cross entropy of what follows each token.

    Args:
        outputs: ``(..., vocabulary)``.
        targets: ``(...)``, numbers of tokens.

    Returns:
        One element, in nats.
    """
    return cross_entropy(outputs.reshape((-1, outputs.shape[-1])), targets.reshape((-1,)))


def perplexity(loss: float) -> float:
    """``exp(loss)``: among how many equally likely tokens the model chooses, in effect."""
    return exp(min(loss, _OVERFLOW))


class Perplexity(Callback):
    """Enters the perplexities of training and validation beside their losses."""

    def measure(self, trainer: Trainer, measured: Mapping[str, float]) -> dict[str, float]:
        """``"perplexity"``, and ``"validation_perplexity"`` where that loss is measured."""
        return {
            f"{prefix}perplexity": perplexity(measured[f"{prefix}loss"])
            for prefix in ("", VALIDATION)
            if f"{prefix}loss" in measured
        }


@no_grad()
def continuation(
    model: Module,
    tokens: list[int],
    count: int,
    *,
    temperature: float = 1.0,
    window: int | None = None,
) -> list[int]:
    """Draw tokens that follow others, one after the other, from the current random generator.

    Args:
        model: a language model: recurrent, ``model(tokens (steps, 1), state)``, where ``window``
            is None; else one that sees so many tokens, ``model(tokens (1, steps))``.
        tokens: what is there already, one or more.
        count: how many to draw.
        temperature: below 1 the likely ones become likelier; positive.
        window: the most tokens the model sees.

    Returns:
        The tokens that follow; each module is back in the mode it was in.

    Raises:
        ArgumentError: if there is no token, or the temperature is not positive.
    """
    if not tokens or temperature <= 0:
        raise ArgumentError(
            "continuation",
            "there is a token to begin with, and temperature is positive",
            tokens=len(tokens),
            temperature=temperature,
        )
    device = next(model.parameters()).device
    drawn: list[int] = []
    state: Any = None
    fresh = list(tokens)
    with in_mode(model, training=False):
        for _ in range(count):
            if window is None:
                outputs, state = model(tensor([[t] for t in fresh], device=device), state)
                logits = outputs[-1, 0]
            else:
                fresh = (tokens + drawn)[-window:]
                logits = model(tensor([fresh], device=device))[0, -1]
            likely = ops.softmax(logits / temperature, 0)
            drawn.append(int(ops.multinomial(likely, 1).item()))
            fresh = drawn[-1:]
    return drawn
