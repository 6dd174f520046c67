"""The course of a training for TensorBoard; the only module that knows its package."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.png import png, sheet
from ..errors import ArgumentError
from ..tensor import Tensor
from .callback import Callback, StepFigures
from .history import VALIDATION
from .statistics import Statistics, TensorStatistics

if TYPE_CHECKING:
    from .trainer import Trainer

_ASIDE = ("epoch", "seconds")
_SECONDS_BETWEEN_WRITES = 1.0
_COLOURS = (1, 3)  # channels of what is shown as an image


class TensorBoard(Callback):
    """Writes a run while it goes on, for TensorBoard to show.

    Under ``step/`` are loss, metrics, learning rate and speed of every step, written about once a
    second; under ``training/`` and ``validation/`` the figures of every epoch; under
    ``tensors/`` histograms, where they are computed; and the first images, as the network gets
    them.

    Args:
        folder: of the run; made if need be.
        statistics: a callback of the same trainer, listed before this one, whose histograms are
            written too.
        images: how many inputs of the first batch are shown, if they are ``(n, channels, h, w)``
            with 1 or 3 channels.
        texts: what is written at the beginning, by title, such as the settings.

    Raises:
        ArgumentError: if TensorBoard's package is not installed.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        statistics: TensorStatistics | None = None,
        *,
        images: int = 0,
        texts: Mapping[str, str] | None = None,
    ) -> None:
        try:
            from tensorboard.compat.proto import (  # noqa: PLC0415 - optional
                event_pb2,
                summary_pb2,
            )
            from tensorboard.plugins.text.summary import text_pb  # noqa: PLC0415 - optional
            from tensorboard.summary.writer.event_file_writer import (  # noqa: PLC0415 - optional
                EventFileWriter,
            )
        except ImportError as error:
            raise ArgumentError(
                "TensorBoard",
                "its package is needed to write for it",
                error=error,
                remedy="pip install 'clnet[tensorboard]'",
            ) from error
        self.folder = Path(folder)
        self.statistics = statistics
        self.images = images
        self.folder.mkdir(parents=True, exist_ok=True)
        self._events: Any = event_pb2
        self._proto: Any = summary_pb2
        self._writer: Any = EventFileWriter(str(self.folder))
        self._written = 0.0  # when, as time.perf_counter has it
        self._last = (0, time.perf_counter())  # a step, and when its figures came
        for title, text in (texts or {}).items():
            # Four blanks: Markdown that keeps columns where they are.
            block = "\n".join(f"    {line}" for line in text.splitlines())
            self._write(text_pb(title, block).value, 0)
        self._flush()

    def around_step(
        self, trainer: Trainer, inputs: Tensor, targets: Tensor
    ) -> AbstractContextManager[None]:
        """Write the first images."""
        if self.images > 0 and inputs.ndim == 4 and inputs.shape[1] in _COLOURS:
            shown = sheet(inputs[: self.images].float().numpy())
            h, w, channels = shown.shape
            image = self._proto.Summary.Image(
                height=h, width=w, colorspace=channels, encoded_image_string=png(shown)
            )
            self._write([self._proto.Summary.Value(tag="inputs", image=image)], trainer.num_steps)
        self.images = 0
        return nullcontext()

    def read_steps(self, trainer: Trainer, steps: Sequence[StepFigures]) -> None:
        """Write the figures of these steps."""
        for each in steps:
            named = {**each.values, "learning rate": each.lr}
            self._write([self._scalar(f"step/{name}", v) for name, v in named.items()], each.step)
        now = time.perf_counter()
        before, then = self._last
        if 0 < before < steps[-1].step:
            speed = (steps[-1].step - before) / (now - then)
            self._write([self._scalar("step/steps per second", speed)], steps[-1].step)
        self._last = steps[-1].step, now
        if now - self._written >= _SECONDS_BETWEEN_WRITES:
            self._flush()

    def end_epoch(self, trainer: Trainer, epoch: Mapping[str, float]) -> None:
        """Write the epoch's figures."""
        step = int(epoch["epoch"])
        values = [self._scalar(_tag(name), v) for name, v in epoch.items() if name not in _ASIDE]
        if self.statistics is not None and self.statistics.epochs:
            values += [
                self._proto.Summary.Value(tag=f"tensors/{name}", histo=self._histogram(s))
                for name, s in self.statistics.epochs[-1].items()
            ]
        self._write(values, step)
        self._flush()

    def close(self) -> None:
        """End the file; what was written is in it already."""
        self._writer.close()

    def _scalar(self, tag: str, value: float) -> Any:
        return self._proto.Summary.Value(tag=tag, simple_value=value)

    def _write(self, values: Sequence[Any], step: int) -> None:
        summary = self._proto.Summary(value=values)
        now = time.time()
        self._writer.add_event(self._events.Event(wall_time=now, step=step, summary=summary))

    def _flush(self) -> None:
        self._writer.flush()
        self._written = time.perf_counter()

    def _histogram(self, s: Statistics) -> Any:
        count = int(s.counts.sum())
        limits = s.edges[1:] if s.most > s.least else np.full(1, s.most)
        return self._proto.HistogramProto(
            min=s.least,
            max=s.most,
            num=count,
            sum=s.mean * count,
            sum_squares=(s.std**2 + s.mean**2) * count,
            bucket_limit=limits,
            bucket=s.counts[: len(limits)],
        )


def _tag(name: str) -> str:
    """The chart a figure goes to: those of training and validation share a group."""
    of_validation = name.startswith(VALIDATION)
    return f"{'validation' if of_validation else 'training'}/{name.removeprefix(VALIDATION)}"
