"""What the user sees of a training: a bar on a terminal, and one line for each epoch anywhere."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import TracebackType

from tqdm import tqdm


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
            disable=not (shown and sys.stderr.isatty()),
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
