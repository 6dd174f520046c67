"""What the user sees of a training: a bar on a terminal, and one line for each epoch anywhere."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np
from tqdm import tqdm

if TYPE_CHECKING:
    from .callback import StepFigures


def on_terminal() -> bool:
    """Whether somebody sees a bar."""
    return sys.stderr.isatty()


class Bar:
    """A progress bar over the batches of a pass; nothing where there is no terminal.

    Args:
        label: what is shown before it.
        total: batches of the pass.
        done: batches done already.
        shown: whether to show it at all.
    """

    def __init__(self, label: str, total: int, *, done: int = 0, shown: bool = True) -> None:
        self._bar = tqdm(
            desc=label,
            total=total,
            initial=done,
            unit="batch",
            leave=False,
            dynamic_ncols=True,
            disable=not (shown and on_terminal()),
        )

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.close()

    def advance(
        self, batches: int, values: Mapping[str, float], examples_per_second: float
    ) -> None:
        """So many batches more, and the figures now."""
        shown = {name: f"{value:.4f}" for name, value in values.items()}
        self._bar.set_postfix({**shown, "examples/s": f"{examples_per_second:,.0f}"}, refresh=False)
        self._bar.update(batches)


def epoch_line(epoch: Mapping[str, float], epochs: int) -> str:
    """One line that tells how an epoch went.

    Args:
        epoch: an entry of :attr:`History.epochs`.
        epochs: how many there will be.
    """
    aside = ("epoch", "lr", "seconds", "examples_per_second")
    figures = [
        f"{name.replace('_', ' ')} {value:.4f}"
        for name, value in epoch.items()
        if name not in aside
    ]
    return (
        f"epoch {epoch['epoch']:.0f}/{epochs}: {', '.join(figures)}, "
        f"{epoch['seconds']:.1f} s, {epoch['examples_per_second']:,.0f} examples/s"
    )


def steps_line(label: str, steps: Sequence[StepFigures], examples_per_second: float) -> str:
    """One line that tells how some steps went: means over them, and the rate of the last.

    Args:
        label: of the epoch.
        steps: one or more.
        examples_per_second: of the epoch so far.
    """
    means = [
        f"{name.replace('_', ' ')} {np.mean([s.values[name] for s in steps]):.4f}"
        for name in steps[-1].values
    ]
    return (
        f"{label}, step {steps[-1].step}: {', '.join(means)}, lr {steps[-1].lr:.3g}, "
        f"{examples_per_second:,.0f} examples/s"
    )
