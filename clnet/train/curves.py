"""The course of a training as a picture; the only module of the loop that knows matplotlib."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ArgumentError
from .callback import Callback
from .history import VALIDATION

if TYPE_CHECKING:
    from .trainer import Trainer


def save_curves(
    path: str | os.PathLike[str],
    epochs: Sequence[Mapping[str, float]],
    names: Sequence[str] = ("loss",),
    *,
    losses: Sequence[float] = (),
    rates: Sequence[float] = (),
) -> None:
    """Draw what was measured over the epochs, training and validation together.

    Args:
        path: the picture; its suffix chooses the format.
        epochs: entries of :attr:`History.epochs`.
        names: of the measures, each in a picture of its own; the learning rate has one too.
        losses: of every step (:attr:`History.losses`), drawn behind those of the epochs.
        rates: learning rates of every step; without them those that the epochs ended with.

    Raises:
        ArgumentError: if matplotlib is not installed, or has no such format.
    """
    _require_drawing(path)
    from matplotlib.figure import Figure  # noqa: PLC0415 - optional
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 - optional

    figure = Figure(figsize=(5 * (len(names) + 1), 4), layout="constrained")
    axes: Any = figure.subplots(1, len(names) + 1, squeeze=False)[0]
    numbers = [epoch["epoch"] for epoch in epochs]
    if "loss" in names and len(losses):
        axes[list(names).index("loss")].plot(
            _places(losses, numbers), losses, color="0.75", linewidth=0.7, label="each step"
        )
    for axis, name in zip(axes, names, strict=False):
        for label, key in (("training", name), ("validation", VALIDATION + name)):
            if epochs and key in epochs[-1]:
                axis.plot(numbers, [e.get(key, float("nan")) for e in epochs], ".-", label=label)
        axis.set_title(name.replace("_", " "))
        if axis.lines:
            axis.legend()
    if len(rates):
        axes[-1].plot(_places(rates, numbers), rates)
    else:
        axes[-1].plot(numbers, [epoch["lr"] for epoch in epochs], ".-")
    axes[-1].set(title="learning rate", ylim=(0, None))
    for axis in axes:
        axis.set_xlabel("epoch")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.grid(alpha=0.3)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        figure.savefig(path)
    except (ValueError, OSError) as error:
        raise ArgumentError(
            "save_curves", "the picture cannot be written", path=str(path), error=error
        ) from error


def _require_drawing(path: str | os.PathLike[str]) -> None:
    """Refuse a picture that nothing here can draw.

    Raises:
        ArgumentError: if matplotlib is not installed, or has no such format.
    """
    try:
        from matplotlib.backend_bases import FigureCanvasBase  # noqa: PLC0415 - optional
    except ImportError as error:
        raise ArgumentError(
            "save_curves",
            "drawing needs matplotlib",
            error=error,
            remedy="pip install 'clnet[plot]'",
        ) from error
    suffix = Path(path).suffix[1:].lower()
    known = sorted(FigureCanvasBase.get_supported_filetypes())
    if suffix and suffix not in known:  # without one it is .png
        raise ArgumentError(
            "save_curves",
            "the picture cannot be written: no such format",
            path=str(path),
            formats=", ".join(known),
        )


class Curves(Callback):
    """Draws loss and metrics to a file after every epoch.

    Args:
        path: the picture.

    Raises:
        ArgumentError: as :func:`save_curves`, before the first epoch is spent.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        _require_drawing(path)
        self.path = Path(path)

    def end_epoch(self, trainer: Trainer, epoch: Mapping[str, float]) -> None:
        """Draw the picture anew."""
        history = trainer.history
        save_curves(
            self.path,
            history.epochs,
            trainer.measures,
            losses=history.losses,
            rates=history.rates,
        )


def _places(steps: Sequence[float], epochs: Sequence[float]) -> NDArray[np.float64]:
    """Where steps stand on the axis of epochs: the last step of epoch 1 at 1."""
    return np.arange(1, len(steps) + 1) * (epochs[-1] if epochs else 1) / len(steps)
