"""``clnet.utils.tensorboard``: figures of a run for TensorBoard, in PyTorch's names."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..data.png import png
from ..errors import ArgumentError

__all__ = ["SummaryWriter"]
__path__: list[str] = []  # PyTorch's module of the class is found
writer = sys.modules[__name__]


class SummaryWriter:
    """Writes scalars, histograms, texts and images into a folder that TensorBoard reads.

    Args:
        log_dir: the folder; None: ``runs`` and a name of the time.
        comment: added to that name.
        purge_step: taken; nothing is purged.
        max_queue: taken.
        flush_secs: taken.
        filename_suffix: taken.

    Raises:
        ArgumentError: if TensorBoard's package is not installed.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
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
                "SummaryWriter",
                "TensorBoard's package is needed to write for it",
                error=error,
                remedy="pip install 'clnet[tensorboard]'",
            ) from error
        folder = log_dir or Path("runs") / (time.strftime("%b%d_%H-%M-%S") + comment)
        self.log_dir = str(folder)
        Path(folder).mkdir(parents=True, exist_ok=True)
        self._events: Any = event_pb2
        self._proto: Any = summary_pb2
        self._writer: Any = EventFileWriter(self.log_dir)

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _write(self, value: Any, step: int | None, when: float | None) -> None:
        event = self._events.Event(
            wall_time=time.time() if when is None else when,
            step=0 if step is None else int(step),
            summary=self._proto.Summary(value=[value]),
        )
        self._writer.add_event(event)

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """One number of a curve.

        Args:
            tag: the curve's name.
            scalar_value: a number, or a tensor or an array of one element.
            global_step: where on the curve.
            walltime: seconds since 1970; None: now.
            new_style: taken.
            double_precision: taken.
        """
        value = scalar_value.item() if hasattr(scalar_value, "item") else scalar_value
        number = self._proto.Summary.Value(tag=tag, simple_value=float(value))
        self._write(number, global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """One number of each of several curves, named ``main_tag/tag``."""
        for tag, value in tag_scalar_dict.items():
            self.add_scalar(f"{main_tag}/{tag}", value, global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = 64,
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """How often numbers lie in each of some intervals.

        Args:
            tag: the histogram's name.
            values: a tensor or an array.
            global_step: of the run.
            bins: how many intervals; PyTorch's ``"tensorflow"`` and the like: 64.
            walltime: seconds since 1970; None: now.
            max_bins: taken.
        """
        host = _on_host(values).reshape(-1).astype(np.float64)
        counts, edges = np.histogram(host, bins if isinstance(bins, int) else 64)
        proto = self._proto.HistogramProto(
            min=float(host.min(initial=0)),
            max=float(host.max(initial=0)),
            num=host.size,
            sum=float(host.sum()),
            sum_squares=float((host * host).sum()),
            bucket_limit=edges[1:].tolist(),
            bucket=counts.tolist(),
        )
        self._write(self._proto.Summary.Value(tag=tag, histo=proto), global_step, walltime)

    def add_text(
        self,
        tag: str,
        text_string: str,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """A text."""
        from tensorboard.plugins.text.summary import text_pb  # noqa: PLC0415 - optional

        (value,) = text_pb(tag, text_string).value
        self._write(value, global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """An image, of whole numbers or of floats in [0, 1].

        Args:
            tag: its name.
            img_tensor: ``(3, h, w)`` or ``(1, h, w)``, or as ``dataformats`` says.
            global_step: of the run.
            walltime: seconds since 1970; None: now.
            dataformats: what the axes are: ``"CHW"``, ``"HWC"`` or ``"HW"``.
        """
        host = _on_host(img_tensor)
        if host.dtype.kind == "f":
            host = (host * 255).clip(0, 255)
        if dataformats == "CHW":
            host = host.transpose(1, 2, 0)
        host = host.astype(np.uint8)
        encoded = self._proto.Summary.Image(
            height=host.shape[0],
            width=host.shape[1],
            colorspace=1 if host.ndim == 2 else host.shape[2],
            encoded_image_string=png(host),
        )
        self._write(self._proto.Summary.Value(tag=tag, image=encoded), global_step, walltime)

    def add_graph(self, model: Any, input_to_model: Any = None, *args: Any, **given: Any) -> None:
        """Taken; no graph is written: ``clnet.compile(f).explain()`` shows one."""

    def add_hparams(self, hparam_dict: Mapping[str, Any], metric_dict: Mapping[str, Any]) -> None:
        """The metrics as scalars, and the settings as a text."""
        rows = "\n".join(f"    {k} = {v}" for k, v in hparam_dict.items())
        self.add_text("hparams", rows)
        for tag, value in metric_dict.items():
            self.add_scalar(tag, value)

    def flush(self) -> None:
        """Write what is waiting."""
        self._writer.flush()

    def close(self) -> None:
        """Write what is waiting, and close the file."""
        self._writer.close()


def _on_host(values: Any) -> np.ndarray:
    found = values.detach().numpy() if hasattr(values, "detach") else values
    return np.asarray(found)
