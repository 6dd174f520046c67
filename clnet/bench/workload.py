"""What the contests time: a network, a batch for it, and how it is trained or asked."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from .. import models, nn
from ..errors import ArgumentError
from .precision import FULL, Precision


def _of_classes(functional: Any, scores: Any, classes: Any) -> Any:
    return functional.cross_entropy(scores, classes)


@dataclass(frozen=True)
class Workload:
    """A network with a batch, trained or asked.

    Attributes:
        name: as on the command line.
        title: as in tables; the paper's where it has the network.
        make: builds the network.
        input_shape: of the batch.
        classes: outputs.
        gflop: of a step on the batch, two for each multiplication and addition; of training, of
            the forward pass and of both gradients.
        training: whether a step is forward, backward and update, or forward alone.
        words: whether inputs are numbers of words and the network carries a state.
        sgd: the optimiser's arguments.
        clip: bound on the gradients' norm, or None.
        sensitivity: how much more than usual rounding changes results and gradients.
        drawn: gives inputs, one or several, and targets; None: as ``input_shape`` says.
        loss: from either library's ``nn.functional``, what the network gave, and targets.
        twin: makes PyTorch's network of the module ``torch``; None: by the name.
        precision: what both sides compute in, see :mod:`.precision`.
    """

    name: str
    title: str
    make: Callable[[], nn.Module]
    input_shape: tuple[int, ...]
    classes: int
    gflop: float
    training: bool = True
    words: bool = False
    sgd: dict[str, float] = field(default_factory=dict[str, float])
    clip: float | None = None
    sensitivity: float = 1.0
    drawn: Callable[[], tuple[tuple[np.ndarray, ...], np.ndarray]] | None = None
    loss: Callable[[Any, Any, Any], Any] = _of_classes
    twin: Callable[[Any], Any] | None = None
    precision: Precision = FULL

    def batch(self) -> tuple[np.ndarray | tuple[np.ndarray, ...], np.ndarray]:
        """Inputs and targets, drawn from a fixed seed."""
        if self.drawn is not None:
            return self.drawn()
        rng = np.random.default_rng(0)
        if self.words:
            words = rng.integers(0, self.classes, self.input_shape)
            return words, np.roll(words, -1, axis=0)
        x = rng.standard_normal(self.input_shape, dtype=np.float32)
        return x, rng.integers(0, self.classes, self.input_shape[0])


def with_batch(workload: Workload, batch: int | None) -> Workload:
    """The workload on a batch of another size; None: on its own.

    Args:
        workload: the network, its batch by shape.
        batch: examples.
    """
    axis = 1 if workload.words else 0  # of texts, words come first
    own = workload.input_shape[axis]
    if batch is None or batch == own:
        return workload
    shape = (*workload.input_shape[:axis], batch, *workload.input_shape[axis + 1 :])
    title = f"{workload.title}, batch {batch}"
    return replace(workload, title=title, input_shape=shape, gflop=workload.gflop / own * batch)


def _of_paper(title: str, sgd: dict[str, float], **changes: Any) -> Workload:
    row = next(row for row in models.SHI_NETWORKS if row.name == title)
    fields: dict[str, Any] = {"name": title.lower(), "title": title, "make": row.make}
    fields |= {"input_shape": (row.batch_size, *row.input_shape), "classes": row.classes}
    fields |= {"gflop": row.gflop, "sgd": sgd}
    return Workload(**(fields | changes))


def _asked(batch: int) -> Workload:
    row = next(row for row in models.SHI_NETWORKS if row.name == "ResNet-50")
    return Workload(
        f"resnet-50-infer-{batch}",
        f"ResNet-50 asked, batch {batch}",
        row.make,
        (batch, *row.input_shape),
        row.classes,
        row.gflop / 3 / row.batch_size * batch,
        training=False,
    )


def _larger(title: str, batch: int) -> Workload:
    """One of the paper's networks, trained on a batch that fills a GPU."""
    row = next(w for w in PAPER if w.title == title)
    return replace(with_batch(row, batch), name=f"{row.name}-{batch}")


def _cnn(name: str, title: str, side: int, batch: int) -> Workload:
    """The small CNN on grey images; dropout would let losses differ."""
    first, second = 9 * 32 * side**2, 9 * 32 * 64 * (side // 2) ** 2
    products = first + second + 64 * (side // 4) ** 2 * 128 + 128 * 10
    return Workload(
        name,
        title,
        partial(models.CNN, (1, side, side), 10, dropout=0.0),
        (batch, 1, side, side),
        10,
        6 * batch * products / 1e9,
        sgd={"lr": 0.05, "momentum": 0.9},
    )


def _alexnet_s() -> nn.Module:
    return models.alexnet_s(dropout=0.0)  # as Torch had it; so losses can be compared


_HEAVY = {"lr": 0.01, "momentum": 0.9, "weight_decay": 1e-4}
PAPER = (
    _of_paper("FCN-S", {"lr": 0.01}),
    _of_paper("AlexNet-S", {"lr": 0.01}, make=_alexnet_s),
    # Fresh and in training: PyTorch's own two layouts differ by 4.5% in its gradients.
    _of_paper("ResNet-50", _HEAVY, sensitivity=10.0),
    _of_paper("FCN-R", {"lr": 0.05, "momentum": 0.9}),
    _of_paper("AlexNet-R", {"lr": 0.01, "momentum": 0.9}),
    _of_paper("ResNet-56", _HEAVY, sensitivity=3.0),
    _of_paper("LSTM", {"lr": 0.1}, input_shape=(32, 128), words=True, clip=5.0),
)
OTHERS = (
    _cnn("fashion-cnn", "Fashion-MNIST CNN", 28, 64),
    _cnn("digits-cnn", "Digits CNN", 8, 32),
    _asked(1),
    _asked(16),
    _larger("ResNet-50", 64),
    _larger("AlexNet-S", 128),
)
WORKLOADS = {w.name: w for w in (*PAPER, *OTHERS)}


def selected(bench: str, names: Iterable[str], only: str) -> list[str]:
    """The names that contain a text.

    Args:
        bench: the benchmark, for the error.
        names: what there is.
        only: the text, as ``--only`` was given.

    Raises:
        ArgumentError: if it is in none.
    """
    have = list(names)
    found = [name for name in have if only in name]
    if not found:
        raise ArgumentError(bench, "no name contains --only", only=repr(only), have=have)
    return found


def check_counts(bench: str, options: Namespace, *names: str) -> None:
    """Refuse counts below 1.

    Args:
        bench: the benchmark, for the error.
        options: what was asked for; None is no count.
        *names: of the options.

    Raises:
        ArgumentError: if one is 0 or less.
    """
    for name in names:
        value = getattr(options, name)
        if value is not None and value < 1:
            option = f"--{name.replace('_', '-')}"
            raise ArgumentError(bench, f"{option} is 1 or more", **{option: value})


def check_files(bench: str, options: Namespace, *names: str) -> None:
    """Refuse files that nothing can be written to, before anything is timed.

    Args:
        bench: the benchmark, for the error.
        options: what was asked for; None, or an empty text, is no file.
        *names: of the options.

    Raises:
        ArgumentError: if one is a folder, or lies in one that is not there.
    """
    for name in names:
        file = getattr(options, name)
        if file and (Path(file).is_dir() or not Path(file).absolute().parent.is_dir()):
            law = f"--{name} is a file in a folder that is there"
            raise ArgumentError(bench, law, file=file)


def check_seconds(bench: str, seconds: float) -> None:
    """Refuse times that do not end, or do not begin.

    Args:
        bench: the benchmark, for the error.
        seconds: what was asked for.

    Raises:
        ArgumentError: if it is not a finite number above 0.
    """
    if not 0 < seconds < inf:
        law = "--seconds is a number above 0, and finite"
        given: dict[str, Any] = {"--seconds": seconds}
        raise ArgumentError(bench, law, **given)


def chosen(names: str | None) -> list[Workload]:
    """The workloads of a list of names with commas; None: the paper's seven.

    Raises:
        ArgumentError: if there is no such workload.
    """
    if names is None:
        return list(PAPER)
    if names == "all":
        return list(WORKLOADS.values())
    found: list[Workload] = []
    for name in names.lower().split(","):
        if name not in WORKLOADS:
            raise ArgumentError(
                "--net", "there is no such network", found=repr(name), have=", ".join(WORKLOADS)
            )
        found.append(WORKLOADS[name])
    return found
