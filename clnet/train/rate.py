"""A learning rate to begin with, from a short training in which it rises."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compile import compile as compiled
from ..data import DataLoader
from ..errors import ArgumentError
from ..nn import Module
from ..nn.module_mode import in_mode
from ..optim import Optimizer
from ..tensor import tensor
from ..values import mode
from .host_state import on_host
from .steps import Loss, training_step

_SMOOTH = 0.9  # of the mean so far, in the mean that moves along
_DIVERGED = 4.0  # times the lowest mean loss
_FEWEST = 8  # steps that a slope can be read from


@dataclass(frozen=True)
class RateSearch:
    """What :func:`find_learning_rate` saw.

    Attributes:
        rates: learning rates, rising by a constant factor.
        losses: of the step at each.
    """

    rates: NDArray[np.float64]
    losses: NDArray[np.float64]

    @property
    def smoothed(self) -> NDArray[np.float64]:
        """The losses, each the mean of those around it; fewer count at the ends."""
        reach = self._reach
        sums = np.concatenate([[0.0], np.cumsum(self.losses)])
        places = np.arange(len(self.losses))
        first = np.maximum(places - reach, 0)
        last = np.minimum(places + reach + 1, len(places))
        return (sums[last] - sums[first]) / (last - first)

    @property
    def suggestion(self) -> float:
        """The rate around which the loss falls fastest, by the factor of its fall."""
        height = np.log(np.maximum(self.smoothed, np.finfo(np.float64).tiny))
        reach, lowest = self._reach, int(np.argmin(height))
        centres = np.arange(reach, max(lowest, reach + 1))
        ends = np.minimum(centres + reach, len(height) - 1)
        falls = height[centres - reach] - height[ends]
        return float(self.rates[centres[int(np.argmax(falls))]])

    @property
    def _reach(self) -> int:
        """How many neighbours on each side show a course, and not the batches' differences."""
        return max(1, len(self.losses) // 16)


def find_learning_rate(
    model: Module,
    loss_fn: Loss,
    optimizer: Optimizer,
    loader: DataLoader,
    *,
    lowest: float = 1e-6,
    highest: float = 10.0,
    steps: int = 100,
) -> RateSearch:
    """Train while the rate rises by a constant factor, until the loss diverges (Smith 2017).

    Model, optimiser, loader and random generator are put back to where they were.

    Args:
        model: what is trained.
        loss_fn: ``loss_fn(outputs, targets)``, the mean over the batch.
        optimizer: of the model's parameters.
        loader: gives batches ``(inputs, targets)``; passes over it follow one another.
        lowest: the first rate.
        highest: the last.
        steps: from one to the other.

    Returns:
        The rates and losses, and a suggestion.

    Raises:
        ArgumentError: if the rates do not rise, there are fewer than 8 steps, or the loss diverges
            before the eighth.
    """
    if not 0 < lowest < highest or steps < _FEWEST:
        raise ArgumentError(
            "find_learning_rate",
            f"rates rise from above 0, in {_FEWEST} steps or more",
            lowest=lowest,
            highest=highest,
            steps=steps,
        )
    rates: Any = np.geomspace(lowest, highest, steps)
    with _put_back(model, optimizer, loader), closing(_endless(loader)) as batches:
        seen = _losses(model, loss_fn, optimizer, zip(rates, batches, strict=False))
        losses = list(_until_diverged(seen))
    if len(losses) < _FEWEST:
        raise ArgumentError(
            "find_learning_rate", "the loss diverges at once", lowest=lowest, steps=len(losses),
            remedy="Begin lower",
        )  # fmt: skip
    return RateSearch(rates[: len(losses)], np.array(losses))


@contextmanager
def _put_back(model: Module, optimizer: Optimizer, loader: DataLoader) -> Iterator[None]:
    """Train in the body; everything that changes is put back to where it was."""
    before = on_host([model.state_dict(), optimizer.state_dict()])
    generator = mode.current().generator
    random_state, place = generator.stands(), loader.state_dict()
    try:
        with in_mode(model, training=True):
            yield
    finally:
        model.load_state_dict(before[0])
        optimizer.load_state_dict(before[1])
        generator.set_state(random_state)
        loader.load_state_dict(place)
        for parameter in model.parameters():
            parameter.grad = None


def _losses(
    model: Module, loss_fn: Loss, optimizer: Optimizer, batches: Iterable[tuple[float, Any]]
) -> Iterator[float]:
    """The loss of a step on each batch, at the rate that comes with it."""
    # Every group's rate keeps its relation to the first's.
    shares = [float(g["lr"]) for g in optimizer.param_groups]
    shares = [share / (shares[0] or 1.0) for share in shares]
    step = compiled(training_step(model, loss_fn, optimizer, ()))
    device = next(model.parameters()).device
    for rate, batch in batches:
        for group, share in zip(optimizer.param_groups, shares, strict=True):
            group["lr"] = float(rate) * share
        yield float(step(*(tensor(part, device=device) for part in batch)).numpy()[0])


def _until_diverged(losses: Iterable[float]) -> Iterator[float]:
    """The losses up to the first that is no number, or lifts the mean far above its lowest."""
    lowest, mean = inf, 0.0
    for i, loss in enumerate(losses):
        mean = _SMOOTH * mean + (1 - _SMOOTH) * loss
        current = mean / (1 - _SMOOTH ** (i + 1))  # as if it did not begin with 0
        if not isfinite(loss) or current > _DIVERGED * lowest:
            return
        lowest = min(lowest, current)
        yield loss


def _endless(loader: DataLoader) -> Generator[Any]:
    while True:
        yield from loader
