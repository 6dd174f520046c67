"""The course of a training for TensorBoard; the only module that knows its package."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ArgumentError
from .callback import Callback
from .statistics import Statistics, TensorStatistics

if TYPE_CHECKING:
    from .trainer import Trainer

_ASIDE = ("epoch", "seconds")


class TensorBoard(Callback):
    """Writes a run's figures, and the histograms of its tensors where they are computed.

    Args:
        folder: of the run; made if need be.
        statistics: a callback of the same trainer, listed before this one, whose histograms are
            written too.

    Raises:
        ArgumentError: if TensorBoard's package is not installed.
    """

    def __init__(
        self, folder: str | os.PathLike[str], statistics: TensorStatistics | None = None
    ) -> None:
        try:
            from tensorboard.compat.proto import (  # noqa: PLC0415 - optional
                event_pb2,
                summary_pb2,
            )
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
        self.folder.mkdir(parents=True, exist_ok=True)
        self._events: Any = event_pb2
        self._proto: Any = summary_pb2
        self._writer: Any = EventFileWriter(str(self.folder))

    def end_epoch(self, trainer: Trainer, epoch: Mapping[str, float]) -> None:
        """Write the epoch's figures."""
        step = int(epoch["epoch"])
        values = [
            self._proto.Summary.Value(tag=_tag(name), simple_value=value)
            for name, value in epoch.items()
            if name not in _ASIDE
        ]
        if self.statistics is not None and self.statistics.epochs:
            values += [
                self._proto.Summary.Value(tag=name, histo=self._histogram(s))
                for name, s in self.statistics.epochs[-1].items()
            ]
        summary = self._proto.Summary(value=values)
        now = time.time()
        self._writer.add_event(self._events.Event(wall_time=now, step=step, summary=summary))
        self._writer.flush()

    def close(self) -> None:
        """End the file; what was written is in it already."""
        self._writer.close()

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
    return f"validation/{name[11:]}" if name.startswith("validation_") else f"training/{name}"
