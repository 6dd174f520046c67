"""Mean, deviation and histogram of every tensor of a model: parameters, gradients, results."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import ops
from ..autodiff.structure import taken_apart
from ..autograd import no_grad
from ..nn import Module
from ..tensor import Tensor
from .callback import Callback
from .steps import Loss

if TYPE_CHECKING:
    from .trainer import Trainer

BINS = 16
_BARS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Statistics:
    """What one tensor's elements are like.

    Attributes:
        shape: the tensor's.
        mean, std, least, most: of its elements; the (population) deviation from the mean.
        counts: elements in each of :data:`BINS` equal intervals from ``least`` to ``most``.
    """

    shape: tuple[int, ...]
    mean: float
    std: float
    least: float
    most: float
    counts: NDArray[np.int64]

    @property
    def edges(self) -> NDArray[Any]:
        """The intervals' ends, one more than there are intervals."""
        return np.linspace(self.least, self.most, len(self.counts) + 1)

    @property
    def sketch(self) -> str:
        """The histogram as a row of bars, the highest for the fullest interval."""
        top = max(int(self.counts.max()), 1)
        return "".join(_BARS[-(-int(n) * (len(_BARS) - 1) // top)] for n in self.counts)


@no_grad()
def statistics_of(x: Tensor) -> Statistics:
    """The statistics of one tensor, computed where it is.

    Args:
        x: any real tensor of one element or more.

    Returns:
        Them; all counts are in the first interval if all elements are equal.
    """
    values = x.detach().float().reshape((-1,))
    mean = values.mean()
    figures = [mean, (values - mean).square().mean().sqrt(), values.amin(), values.amax()]
    mean, std, least, most = map(float, ops.stack(figures).numpy())
    below = np.full(BINS + 1, x.numel())
    below[0] = 0
    if most > least:
        edges = np.linspace(least, most, BINS + 1)[1:-1]
        # Counts below each edge, because scattered sums of so many collisions are slow.
        below[1:-1] = ops.stack([(values < float(edge)).sum() for edge in edges]).numpy()
    return Statistics(x.shape, mean, std, least, most, np.diff(below).astype(np.int64))


def statistics_of_model(
    model: Module, loss_fn: Loss, inputs: Tensor, targets: Tensor
) -> dict[str, Statistics]:
    """Statistics of all tensors of a model for one batch; a copy of it runs, in evaluation mode.

    Args:
        model: whose tensors; it is left as it is.
        loss_fn: ``loss_fn(outputs, targets)``.
        inputs: a batch.
        targets: of the batch.

    Returns:
        For each parameter and buffer ``"NAME"``, for each gradient ``"NAME.grad"``, and for the
        result of each layer without layers below ``"PATH()"``, numbered from its second use on.
    """
    twin = copy.deepcopy(model).eval()
    twin.zero_grad()
    found: dict[str, Statistics] = {}
    for name, module in list(twin.named_modules()):
        if not next(module.children(), None):
            module.register_forward_hook(_entering(found, name))
    loss_fn(twin(inputs), targets).backward()
    tensors: dict[str, Tensor] = dict(twin.named_parameters())
    for name, parameter in twin.named_parameters():
        if parameter.grad is not None:
            tensors[f"{name}.grad"] = parameter.grad
    tensors |= {n: b for n, b in twin.named_buffers() if b.dtype.is_floating_point}
    return {name: statistics_of(x) for name, x in tensors.items()} | found


def statistics_table(statistics: Mapping[str, Statistics]) -> str:
    """The statistics as text, a tensor a line, its histogram as a row of bars."""
    width = max((len(name) for name in statistics), default=6)
    lines = [f"{'tensor':{width}} {'shape':>16} {'mean':>10} {'std':>10} {'min':>10} {'max':>10}"]
    for name, s in statistics.items():
        shape = "x".join(map(str, s.shape)) or "1"
        figures = " ".join(f"{value:10.3g}" for value in (s.mean, s.std, s.least, s.most))
        lines.append(f"{name:{width}} {shape:>16} {figures}  |{s.sketch}|")
    return "\n".join(lines)


class TensorStatistics(Callback):
    """Statistics of every tensor at the end of each epoch, for the epoch's last batch.

    Args:
        shown: print them as a table.

    Attributes:
        epochs: for each epoch what :func:`statistics_of_model` gave.
    """

    def __init__(self, *, shown: bool = False) -> None:
        self.shown = shown
        self.epochs: list[dict[str, Statistics]] = []
        self._batch: tuple[Tensor, Tensor] | None = None

    def around_step(
        self, trainer: Trainer, inputs: Tensor, targets: Tensor
    ) -> AbstractContextManager[None]:
        """Keep the batch."""
        self._batch = inputs, targets
        return nullcontext()

    def end_epoch(self, trainer: Trainer, epoch: Mapping[str, float]) -> None:
        """Compute the statistics, and print them."""
        if self._batch is None:
            return
        self.epochs.append(statistics_of_model(trainer.model, trainer.loss_fn, *self._batch))
        self._batch = None
        if self.shown:
            print(statistics_table(self.epochs[-1]), flush=True)


def _entering(found: dict[str, Statistics], path: str) -> Callable[[Module, Any, Any], None]:
    """A hook that enters the statistics of a layer's result, of several tensors the first's."""

    def enter(module: Module, args: Any, result: Any) -> None:
        made: list[Tensor] = []
        taken_apart(result, made)
        if not made or not made[0].numel():
            return
        name, number = f"{path}()", 1
        while name in found:
            number += 1
            name = f"{path}() {number}"
        found[name] = statistics_of(made[0])

    return enter
