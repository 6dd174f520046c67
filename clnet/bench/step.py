"""A training step eager and compiled: the same losses, then launches, time and the host's share.

Each network trains twice from the same weights on the same batches; the losses of both runs are
compared before anything is timed. The host's share is what of a step's wall time is not spent in
kernels. With ``--again`` a third run, compiled like the second, must give the same bits.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import nn
from ..compile import compile as compiled
from ..compile.passes import PASSES, Pass
from ..device import Device, device
from ..errors import ArgumentError
from ..models import CNN, GPT, LSTMLanguageModel, resnet20, resnet56
from ..nn import functional as F
from ..optim import SGD, Adam
from ..tensor import Tensor, tensor
from ..values import mode
from ..values.generator import Generator
from .timing import seconds
from .workload import check_counts

Batch = tuple[np.ndarray, np.ndarray]

_CLASSES = 10
_WORDS = 64
_LETTERS = 65
_FIRST = 4


@dataclass(frozen=True)
class Case:
    """A network and its batches.

    Attributes:
        make: builds the network.
        batch: of a seed and a size: inputs and targets.
        batch_size: what is timed.
        optimizer: of parameters.
        exact: whether no pass rounds otherwise than eager, so that losses have the same bits.
    """

    make: Callable[[], nn.Module]
    batch: Callable[[np.random.Generator, int], Batch]
    batch_size: int
    optimizer: Callable[[Any], Any]
    exact: bool


def _images(*shape: int) -> Callable[[np.random.Generator, int], Batch]:
    def batch(rng: np.random.Generator, n: int) -> Batch:
        labels = rng.integers(0, _CLASSES, n)
        x = rng.standard_normal((n, *shape)).astype(np.float32)
        x[:, 0, 0, :_CLASSES] += 3 * (labels[:, None] == np.arange(_CLASSES))[:, : shape[2]]
        return x, labels

    return batch


def _text(steps: int) -> Callable[[np.random.Generator, int], Batch]:
    def batch(rng: np.random.Generator, n: int) -> Batch:
        start = rng.integers(0, _LETTERS, (n, 1))
        words = (start + 3 * np.arange(steps + 1)) % _LETTERS
        return words[:, :-1], words[:, 1:]

    return batch


def _sgd(parameters: Any) -> SGD:
    return SGD(parameters, 0.05, momentum=0.9, weight_decay=1e-4)


def _slow_sgd(parameters: Any) -> SGD:
    # At the usual rate the first losses of 56 fresh layers explode, and rounding with them.
    return SGD(parameters, 0.002, momentum=0.9, weight_decay=1e-4)


def _adam(parameters: Any) -> Adam:
    return Adam(parameters, 1e-3)


CASES = {
    "cnn": Case(lambda: CNN((1, 8, 8), _CLASSES), _images(1, 8, 8), 64, _sgd, exact=False),
    "lstm": Case(
        lambda: LSTMLanguageModel(_LETTERS, _WORDS, hidden_size=_WORDS),
        _text(20),
        32,
        _adam,
        exact=True,
    ),
    "gpt": Case(
        lambda: GPT(_LETTERS, 32, n_layer=2, n_head=4, n_embd=64, dropout=0.1),
        _text(32),
        16,
        _adam,
        exact=True,
    ),
    "resnet20": Case(lambda: resnet20(), _images(3, 32, 32), 32, _sgd, exact=False),
    "resnet56": Case(lambda: resnet56(), _images(3, 32, 32), 128, _slow_sgd, exact=False),
}
"""The networks by name."""


class Job:
    """A network in training, its step compiled or not.

    Args:
        case: the network.
        where: the device.
        compile: record the step once and replay it.
        passes: what rewrites the record.
    """

    def __init__(
        self,
        case: Case,
        where: Device,
        *,
        compile: bool,  # noqa: A002 - what it switches
        passes: Sequence[Pass] = PASSES,
    ) -> None:
        self._where = where
        self._generator = Generator().manual_seed(1)
        with mode.using(device=where, generator=self._generator):
            self._model = case.make()
        self._optimizer = case.optimizer(self._model.parameters())
        self.step = compiled(self._step, passes=passes) if compile else self._step

    def __call__(self, x: Tensor, target: Tensor) -> Tensor:
        """One step; the loss."""
        with mode.using(device=self._where, generator=self._generator):
            return self.step(x, target)

    def _step(self, x: Tensor, target: Tensor) -> Tensor:
        self._optimizer.zero_grad()
        found: Any = self._model(x)
        logits = found[0] if isinstance(found, tuple) else found
        rows = logits.reshape(-1, logits.shape[-1])
        loss = F.cross_entropy(rows, target.reshape(-1))
        loss.backward()
        self._optimizer.step()
        return loss.detach()


class _Kernels:
    """Counts kernels and, where the queue takes times, sums them."""

    def __init__(self, *, profiling: bool) -> None:
        self.profiling = profiling
        self.events: list[Any] = []

    def command(self, record: Any) -> None:
        """One command."""
        if record.kind == "kernel":
            self.events.append(record.event)

    @property
    def seconds(self) -> float:
        """Time in kernels."""
        return 1e-9 * sum(e.profile.end - e.profile.start for e in self.events)


def losses(
    case: Case, where: Device, steps: int, batch_size: int, passes: Sequence[Pass] = PASSES
) -> tuple[list[float], ...]:
    """The losses of an eager and of a compiled run.

    Args:
        case: the network.
        where: the device.
        steps: of each run.
        batch_size: of each step.
        passes: of the compiled run.

    Returns:
        The eager run's, and the compiled run's.
    """
    jobs = [Job(case, where, compile=flag, passes=passes) for flag in (False, True)]
    found: tuple[list[float], ...] = ([], [])
    for seed in range(steps):
        x, target = case.batch(np.random.default_rng(seed), batch_size)
        for job, values in zip(jobs, found, strict=True):
            values.append(job(tensor(x, device=where), tensor(target, device=where)).item())
    return found


def same_bits(
    case: Case, where: Device, steps: int, batch_size: int, before: Sequence[float]
) -> None:
    """Train once more, compiled, from the same weights on the same batches.

    Args:
        case: the network.
        where: the device.
        steps: of the run.
        batch_size: of each step.
        before: the losses of the run before.

    Raises:
        ArithmeticError: if a loss has other bits.
    """
    job = Job(case, where, compile=True)
    for seed, wanted in enumerate(before[:steps]):
        x, target = case.batch(np.random.default_rng(seed), batch_size)
        got = job(tensor(x, device=where), tensor(target, device=where)).item()
        if got != wanted:
            raise ArithmeticError(f"loss {seed} was {wanted!r}, and is {got!r} now")


def agreement(case: Case, eager: Sequence[float], replayed: Sequence[float]) -> float:
    """The largest relative difference of two runs' losses.

    Raises:
        ArithmeticError: if it is more than the passes explain.
    """
    a, b = np.array(eager), np.array(replayed)
    apart = np.abs(a - b) / np.maximum(np.abs(a), 1e-3)
    worst = float(apart.max())
    # Blocked convolutions sum in another order, and training doubles a difference at every step.
    close = apart[:_FIRST].max() <= 1e-2 and abs(a.mean() - b.mean()) <= 0.05 * abs(a.mean())
    if worst > 0 and (case.exact or not close):
        raise ArithmeticError(f"losses differ by {worst:.2e}")
    return worst


def measure(case: Case, where: Device) -> dict[str, dict[str, float]]:
    """Launches, milliseconds and the host's share of a step.

    Args:
        case: the network.
        where: the device.

    Returns:
        Figures of the eager and of the compiled step.
    """
    batch = case.batch(np.random.default_rng(0), case.batch_size)
    x, target = (tensor(values, device=where) for values in batch)
    found: dict[str, dict[str, float]] = {}
    for name, flag in (("eager", False), ("compiled", True)):
        job = Job(case, where, compile=flag)
        job(x, target).item()
        wall = min(seconds(lambda job=job: job(x, target), where) for _ in range(5))
        steps = [_observed(job, x, target, where) for _ in range(3)]
        share = max(0.0, 1 - min(kernels.seconds for kernels in steps) / wall)
        count = len(steps[0].events)
        found[name] = {"launches": count, "ms": 1e3 * wall, "host_share": share}
    return found


def _observed(job: Job, x: Tensor, target: Tensor, where: Device) -> _Kernels:
    """The kernels of one step."""
    kernels = _Kernels(profiling=True)
    with where.queue.observe(kernels):
        job(x, target).item()
        where.synchronize()
    return kernels


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table; ``--help`` lists the options."""
    parser = argparse.ArgumentParser(prog="clnet bench step", description=__doc__)
    help_text = f"of {', '.join(CASES)}; all if none"
    parser.add_argument("names", nargs="*", metavar="NETWORK", help=help_text)
    parser.add_argument("--device", help="as in clnet.device()")
    parser.add_argument("--steps", type=int, default=10, help="of the two runs that are compared")
    parser.add_argument("--batch", type=int, default=8, help="of those runs")
    parser.add_argument("--again", action="store_true", help="train twice: the same bits")
    parser.add_argument("--json", action="store_true", help="JSON lines instead of a table")
    options = parser.parse_args(argv)
    check_counts("bench step", options, "steps", "batch")
    if unknown := sorted({*options.names} - {*CASES}):
        law = "networks are named as it has them"
        raise ArgumentError("bench step", law, networks=unknown, have=list(CASES))
    where = device(options.device)
    for name in options.names or CASES:
        case = CASES[name]
        eager, replayed = losses(case, where, options.steps, options.batch)
        worst = agreement(case, eager, replayed)
        if options.again:
            same_bits(case, where, options.steps, options.batch, replayed)
        figures = measure(case, where)
        if options.json:
            line = {"bench": "step", "network": name, "device": where.identity.key}
            line |= {"steps": options.steps, "differ": worst, "losses": replayed}
            print(json.dumps({**line, **figures}))
            continue
        again = "; the same bits again" if options.again else ""
        print(f"{name}: {options.steps} losses differ by {worst:.1e} at most{again}")
        for way, f in figures.items():
            text = f"{f['launches']:6.0f} launches {f['ms']:9.2f} ms"
            print(f"  {way:9}{text}   host {100 * f['host_share']:4.1f}%")


if __name__ == "__main__":
    main()
