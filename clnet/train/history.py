"""What a training measured, and sums over the epoch under way; plain numbers on the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

VALIDATION = "validation_"
"""What names of measures begin with that were taken of validation examples."""


@dataclass
class History:
    """What was measured so far.

    Attributes:
        epochs: for each finished epoch its number, means over the training examples (``"loss"``,
            the metrics' names), the same for validation (``"validation_loss"`` ...), the learning
            rate, ``"seconds"`` and ``"examples_per_second"`` of its training part.
        losses: the loss of every step.
        rates: the learning rate of every step, of the optimiser's first group.
    """

    epochs: list[dict[str, float]] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)

    def state_dict(self) -> dict[str, Any]:
        """The same, for a checkpoint."""
        return {
            "epochs": [dict(e) for e in self.epochs],
            "losses": np.array(self.losses),
            "rates": np.array(self.rates),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what :meth:`state_dict` gave."""
        self.epochs = [dict(e) for e in state["epochs"]]
        self.losses = state["losses"].tolist()
        # Files of older versions have none.
        unknown = np.full(len(self.losses), np.nan)
        self.rates = state.get("rates", unknown).tolist()


class Means:
    """Means over examples, from means over batches, summed in double precision batch by batch.

    The sums depend on the batches and their order alone, not on when they were read.

    Args:
        names: of what is averaged.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.sums = [0.0] * len(self.names)
        self.examples = 0

    def add(self, values: NDArray[Any], examples: int) -> None:
        """A batch's means, ``(len(names),)``."""
        self.sums = [s + float(v) * examples for s, v in zip(self.sums, values, strict=True)]
        self.examples += examples

    def values(self, prefix: str = "") -> dict[str, float]:
        """The means so far; NaN before the first batch."""
        count = self.examples or float("nan")
        return {prefix + n: s / count for n, s in zip(self.names, self.sums, strict=True)}

    def state_dict(self) -> dict[str, Any]:
        """Sums and counts, for a checkpoint."""
        return {"names": list(self.names), "sums": list(self.sums), "examples": self.examples}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what :meth:`state_dict` gave."""
        self.sums, self.examples = list(state["sums"]), int(state["examples"])
