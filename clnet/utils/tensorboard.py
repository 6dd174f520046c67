"""``clnet.utils.tensorboard``: figures of a run for TensorBoard, in PyTorch's names."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

import io
import os
import sys
import time
import wave
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..data.png import png
from ..errors import ArgumentError, ShapeError
from . import tensorboard_summary as summary

__all__ = ["SummaryWriter"]
__path__: list[str] = []  # PyTorch's module of the class is found
writer = sys.modules[__name__]


class SummaryWriter:
    """Writes curves, histograms, texts, images, sounds, points into a folder for TensorBoard.

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
        self._open: Any = EventFileWriter
        self._writer: Any = EventFileWriter(self.log_dir)

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    @property
    def file_writer(self) -> SummaryWriter:
        """What takes whole summaries (:meth:`add_summary`): the writer itself."""
        return self

    def _get_file_writer(self) -> SummaryWriter:
        """PyTorch's name, for trainers."""
        return self

    def add_summary(
        self, summary: Any, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """A summary as TensorBoard has it, as :func:`summary.hparams` gives.

        Args:
            summary: TensorBoard's ``Summary``.
            global_step: where on the curve.
            walltime: seconds since 1970; None: now.
        """
        event = self._events.Event(
            wall_time=time.time() if walltime is None else walltime,
            step=0 if global_step is None else int(global_step),
            summary=summary,
        )
        if self._writer is None:  # as PyTorch's: after close() a new file is begun
            self._writer = self._open(self.log_dir)
        self._writer.add_event(event)

    def _write(self, value: Any, step: int | None, when: float | None) -> None:
        self.add_summary(self._proto.Summary(value=[value]), step, when)

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

        Raises:
            NotImplementedError: if it is no number, as PyTorch's: programs try what may be one.
        """
        value = scalar_value.item() if hasattr(scalar_value, "item") else scalar_value
        try:
            single = float(value)
        except TypeError as error:
            raise NotImplementedError(f"add_scalar: no number: {error}") from error
        number = self._proto.Summary.Value(tag=tag, simple_value=single)
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
        """An image, of bytes or of numbers in [0, 1].

        Args:
            tag: its name.
            img_tensor: ``(3, h, w)`` or ``(1, h, w)``, or as ``dataformats`` says.
            global_step: of the run.
            walltime: seconds since 1970; None: now.
            dataformats: what the axes are: ``"CHW"``, ``"HWC"``, ``"HW"``; with an ``N`` there are
                several, which are shown in rows of up to 8.

        Raises:
            ShapeError: if the tensor has other axes.
        """
        host = _picture(tag, _on_host(img_tensor), dataformats)
        encoded = self._proto.Summary.Image(
            height=host.shape[0],
            width=host.shape[1],
            colorspace=host.shape[2],
            encoded_image_string=png(host),
        )
        self._write(self._proto.Summary.Value(tag=tag, image=encoded), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """:meth:`add_image` of several: ``(n, 3, h, w)``, or as ``dataformats`` says."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: int | None = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """A figure of matplotlib, or a list of some of one size; ``close``: it is closed then."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - optional

        drawn = []
        for each in figure if isinstance(figure, list) else [figure]:
            canvas = FigureCanvasAgg(each)
            canvas.draw()
            drawn.append(np.asarray(canvas.buffer_rgba())[..., :3])
            if close:
                from matplotlib import pyplot as plt  # noqa: PLC0415 - optional

                plt.close(each)
        self.add_image(tag, np.stack(drawn), global_step, walltime, "NHWC")

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: int | None = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """A sound: ``(1, n)`` or ``(n,)`` floats in [-1, 1], ``sample_rate`` of them a second."""
        sound = _on_host(snd_tensor).reshape(-1).clip(-1, 1)
        held = io.BytesIO()
        with wave.open(held, "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(sample_rate)
            file.writeframes((sound * 32767).astype("<i2").tobytes())
        encoded = self._proto.Summary.Audio(
            sample_rate=sample_rate,
            num_channels=1,
            length_frames=sound.size,
            encoded_audio_string=held.getvalue(),
            content_type="audio/wav",
        )
        self._write(self._proto.Summary.Value(tag=tag, audio=encoded), global_step, walltime)

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Precision and recall of a classifier, by the threshold.

        Args:
            tag: the curve's name.
            labels: of each example, 0 or 1.
            predictions: of each example, how likely 1 is.
            global_step: of the run.
            num_thresholds: between 0 and 1; up to 127.
            weights: of each example; None: 1.
            walltime: seconds since 1970; None: now.
        """
        from tensorboard.plugins.pr_curve import metadata  # noqa: PLC0415 - optional
        from tensorboard.util.tensor_util import make_tensor_proto  # noqa: PLC0415 - optional

        thresholds = min(num_thresholds, 127)
        weight = 1.0 if weights is None else _on_host(weights).reshape(-1)
        label, guess = _on_host(labels).reshape(-1), _on_host(predictions).reshape(-1)
        curve = _precision_and_recall(label.astype(np.float64), guess, thresholds, weight)
        value = self._proto.Summary.Value(
            tag=tag,
            metadata=metadata.create_summary_metadata(tag, "", thresholds),
            tensor=make_tensor_proto(curve.astype(np.float32)),
        )
        self._write(value, global_step, walltime)

    def add_embedding(
        self,
        mat: Any,
        metadata: Any = None,
        label_img: Any = None,
        global_step: int | None = None,
        tag: str = "default",
        metadata_header: Any = None,
    ) -> None:
        """Points for the projector.

        Args:
            mat: ``(n, d)``, a point in each row.
            metadata: of each point a label, or with ``metadata_header`` a list of some.
            label_img: of each point an image, ``(n, channels, h, w)`` with h = w.
            global_step: of the run.
            tag: their name.
            metadata_header: the names of the labels.

        Raises:
            ShapeError: if there are not as many labels or images as points.
        """
        points = _on_host(mat)
        for what in (metadata, label_img):
            if what is not None and len(what) != len(points):
                law = "there is a label or an image of each point"
                raise ShapeError("add_embedding", law, points=len(points), given=len(what))
        place = f"{0 if global_step is None else global_step:05d}/{tag.replace('/', '-')}"
        folder = Path(self.log_dir) / place
        folder.mkdir(parents=True, exist_ok=True)
        np.savetxt(folder / "tensors.tsv", points, delimiter="\t")
        lines = [f'  tensor_name: "{tag}:{place[:5]}"', f'  tensor_path: "{place}/tensors.tsv"']
        if metadata is not None:
            rows = [[row] if metadata_header is None else row for row in metadata]
            rows = rows if metadata_header is None else [metadata_header, *rows]
            text = "".join("\t".join(map(str, row)) + "\n" for row in rows)
            (folder / "metadata.tsv").write_text(text)
            lines.append(f'  metadata_path: "{place}/metadata.tsv"')
        if label_img is not None:
            images = _on_host(label_img)
            side = int(np.ceil(len(images) ** 0.5))
            (folder / "sprite.png").write_bytes(png(_picture(tag, images, "NCHW", side)))
            h, w = images.shape[2:]
            lines.append(f'  sprite {{ image_path: "{place}/sprite.png"')
            lines.append(f"    single_image_dim: {w} single_image_dim: {h} }}")
        config = "".join(f"{line}\n" for line in ("embeddings {", *lines, "}"))
        with (Path(self.log_dir) / "projector_config.pbtxt").open("a") as file:
            file.write(config)

    def get_logdir(self) -> str:
        """The folder."""
        return self.log_dir

    def add_graph(self, model: Any, input_to_model: Any = None, *args: Any, **given: Any) -> None:
        """Taken; no graph is written: ``clnet.compile(f).explain()`` shows one."""

    def add_hparams(
        self,
        hparam_dict: Mapping[str, Any],
        metric_dict: Mapping[str, Any],
        hparam_domain_discrete: Mapping[str, Sequence[Any]] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """A run in TensorBoard's table of settings, in a folder of its own below this one.

        Args:
            hparam_dict: settings by name, as :func:`summary.hparams` takes them.
            metric_dict: figures by name, which are written as scalars, too.
            hparam_domain_discrete: by a setting's name all values that it may have.
            run_name: the folder; None: the time.
            global_step: where on the curve.

        Raises:
            ArgumentError: as :func:`summary.hparams`.
        """
        found = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        with SummaryWriter(Path(self.log_dir) / (run_name or str(time.time()))) as run:
            for one in found:
                run.add_summary(one, global_step)
            for tag, value in metric_dict.items():
                run.add_scalar(tag, value, global_step)

    def flush(self) -> None:
        """Write what is waiting."""
        if self._writer is not None:
            self._writer.flush()

    def close(self) -> None:
        """Write what is waiting, and close the file; what is written afterwards begins another."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def _on_host(values: Any) -> np.ndarray:
    found = values.detach().numpy() if hasattr(values, "detach") else values
    return np.asarray(found)


def _picture(tag: str, host: np.ndarray, dataformats: str, columns: int = 8) -> np.ndarray:
    """Bytes ``(h, w, channels)``; of several images, rows of so many, black behind the last."""
    axes = dataformats.upper()
    if "".join(sorted(axes)) not in ("HW", "CHW", "HNW", "CHNW"):
        law = "dataformats names axes: HW, with C or N"
        raise ArgumentError("add_image", law, dataformats=dataformats)
    if host.ndim != len(axes):
        law = "the image has the axes of dataformats"
        raise ShapeError("add_image", law, tag=tag, image=host.shape, dataformats=dataformats)
    host = host if host.dtype == np.uint8 else (host * 255.0).clip(0, 255).astype(np.uint8)
    missing = [axis for axis in "NC" if axis not in axes]
    host = host.reshape(*(1 for _ in missing), *host.shape)
    images = host.transpose(*("".join([*missing, axes]).index(axis) for axis in "NHWC"))
    n, h, w, channels = images.shape
    columns = min(n, columns)
    rows = -(-n // columns)
    placed = np.zeros((rows * columns, h, w, channels), np.uint8)
    placed[:n] = images
    whole = placed.reshape(rows, columns, h, w, channels).transpose(0, 2, 1, 3, 4)
    return np.ascontiguousarray(whole.reshape(rows * h, columns * w, channels))


def _precision_and_recall(
    labels: np.ndarray, guesses: np.ndarray, thresholds: int, weights: Any
) -> np.ndarray:
    """``(6, thresholds)``: true and false positives and negatives, precision, recall."""
    places = np.floor(guesses * (thresholds - 1)).astype(np.int64)

    def above(counted: np.ndarray) -> np.ndarray:
        """How many lie at a threshold or above."""
        return np.bincount(places, counted * weights, thresholds)[::-1].cumsum()[::-1]

    right, wrong = above(labels), above(1 - labels)
    missed, spared = right[0] - right, wrong[0] - wrong
    precision = right / np.maximum(1e-7, right + wrong)
    recall = right / np.maximum(1e-7, right + missed)
    return np.stack((right, wrong, spared, missed, precision, recall))
