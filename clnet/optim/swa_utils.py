"""Averages of a model's weights over its training (Izmailov et al. 2018), and their schedule."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..autograd import no_grad
from ..errors import ArgumentError
from ..nn import Module
from ..nn.norm import Normalization
from ..ops import where
from ..tensor import Tensor, tensor
from ..values import mode
from .optimizer import Optimizer
from .scheduler import LRScheduler, for_each_group

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

Average = Callable[[Tensor, Tensor, Tensor], Tensor]


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """An average of which the newest values are ``1 - decay``.

    Raises:
        ArgumentError: if ``decay`` lies outside [0, 1].
    """
    if not 0 <= decay <= 1:
        raise ArgumentError("get_ema_avg_fn", "decay lies in [0, 1]", decay=decay)
    return lambda average, value, count: decay * average + (1 - decay) * value


def get_swa_avg_fn() -> Average:
    """An average of which all values are equal parts."""
    return lambda average, value, count: average + (value - average) / (count + 1)


def _each(function: Average) -> Callable[[list[Tensor], list[Tensor], Tensor], None]:
    def update(averages: list[Tensor], values: list[Tensor], count: Tensor) -> None:
        with no_grad():
            for average, value in zip(averages, values, strict=True):
                average.copy_(function(average, value, count))

    return update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., None]:
    """As :func:`get_ema_avg_fn`, of lists, in place."""
    return _each(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> Callable[..., None]:
    """As :func:`get_swa_avg_fn`, of lists, in place."""
    return _each(get_swa_avg_fn())


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of the model's.

    Args:
        model: what is averaged.
        device: where the copy is; None: where the model is.
        avg_fn: gives the new average of the old one, the value and the count so far; None: equal
            parts.
        multi_avg_fn: the same of lists, in place.
        use_buffers: whether buffers are averaged, too, whole numbers cut off; else they are copied.

    Attributes:
        module: the copy.
        n_averaged: how many values each average is of, int64.
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: Callable[..., None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the copy gives."""
        return self.module(*args, **kwargs)

    @no_grad()
    def update_parameters(self, model: Module) -> None:
        """Take the model's parameters into the averages; the first time they are copied."""
        averages, values = list(self.module.parameters()), list(model.parameters())
        buffers = (list(self.module.buffers()), list(model.buffers()))
        if self.use_buffers:
            averages, values = averages + buffers[0], values + buffers[1]
        pairs = list(zip(averages, values, strict=True))
        traced = mode.current().tracer is not None  # the first time is told by the device then
        if not traced and self.n_averaged.item() == 0:
            for average, value in pairs:
                average.copy_(value)
        else:
            update = self.multi_avg_fn or _each(self.avg_fn or get_swa_avg_fn())
            alike: dict[Any, list[tuple[Tensor, Tensor]]] = {}
            for average, value in pairs:  # a function of lists gets those of one kind
                own = alike.setdefault((average.device, average.dtype), [])
                own.append((average, value.detach().to(average.device)))
            for (device, _), group in alike.items():
                count = self.n_averaged.to(device)
                update([a for a, _ in group], [v for _, v in group], count)
                for average, value in group if traced else ():
                    average.copy_(where(count == 0, value, average))
        if not self.use_buffers:
            for own, value in zip(*buffers, strict=True):
                own.copy_(value)
        self.n_averaged.add_(1)


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Let batch norms take their statistics of a whole data set anew.

    Args:
        loader: gives batches, or lists and tuples with a batch in front.
        model: run in training on each of them.
        device: where batches go; None: they stay.
    """
    norms = [m for m in model.modules() if isinstance(m, Normalization) and m.track_running_stats]
    if not norms:
        return
    momenta, was_training = [m.momentum for m in norms], model.training
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    model.train()
    try:
        for batch in loader:
            x = batch[0] if isinstance(batch, list | tuple) else batch
            model(x if device is None else x.to(device))
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        model.train(was_training)


class SWALR(LRScheduler):
    """From the rate that it finds to one that stays.

    Each step goes on from the rate as it stands: another scheduler may have set it since this one
    was made, as in PyTorch's tutorial, where averaging begins late.

    Args:
        optimizer: whose rates are set.
        swa_lr: the rate that stays, one for all groups or one for each.
        anneal_epochs: steps until then.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        last_epoch: where the count begins, less 1; the way begins there, too, as PyTorch's.

    Raises:
        ArgumentError: if a setting is no good, or there is not a rate for each group.
    """

    _carries = True

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | Sequence[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        if anneal_strategy not in ("cos", "linear") or anneal_epochs < 0:
            raise ArgumentError(
                "SWALR",
                "anneal_strategy is cos or linear, anneal_epochs 0 or more",
                anneal_strategy=repr(anneal_strategy),
                anneal_epochs=anneal_epochs,
            )
        self.swa_lrs = for_each_group("SWALR", optimizer.param_groups, swa_lr)
        self.anneal_epochs = anneal_epochs
        self.anneal_strategy = anneal_strategy
        self._begun = last_epoch + 1
        super().__init__(optimizer, last_epoch)

    def rate(self, base_lr: float, steps: int, group: int) -> float:
        """As far from the base rate as steps have gone."""
        part = self._part(steps)
        return self.swa_lrs[group] * part + base_lr * (1 - part)

    def carried(self, found: float, before: float, rate: float, group: int) -> float:
        """On the way that leads through the rate that was found."""
        part, last = self._part(self.last_epoch - 1), self.swa_lrs[group]
        base = last if part == 1 else (found - part * last) / (1 - part)
        return self.rate(base, self.last_epoch, group)

    def _part(self, steps: int) -> float:
        """The part of the way that lies behind."""
        gone = max(steps - self._begun, 0)
        t = min(1.0, gone / self.anneal_epochs) if self.anneal_epochs else 1.0
        return t if self.anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2
