"""What is run for a batch: functions of two tensors, made to be compiled.

They hold the model and the optimiser, not the trainer, so that no cycle keeps their memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..autograd import no_grad
from ..nn import Module
from ..nn.parameters import clip_grad_norm_
from ..ops import stack
from ..optim import Optimizer
from ..tensor import Tensor
from .metrics import Metric

Loss = Callable[[Tensor, Tensor], Tensor]
Step = Callable[[Tensor, Tensor], Tensor]


def training_step(
    model: Module,
    loss_fn: Loss,
    optimizer: Optimizer,
    metrics: Sequence[Metric],
    *,
    clip_grad_norm: float | None = None,
) -> Step:
    """A step that updates the model on a batch; gives loss and metrics, ``(1 + len(metrics),)``."""

    def train_step(inputs: Tensor, targets: Tensor) -> Tensor:
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = loss_fn(outputs, targets)
        loss.backward()
        if clip_grad_norm is not None:
            clip_grad_norm_(model.parameters(), clip_grad_norm)
        optimizer.step()
        return _measured(loss, outputs, targets, metrics)

    return train_step


def evaluation_step(model: Module, loss_fn: Loss, metrics: Sequence[Metric]) -> Step:
    """A step that gives loss and metrics of a batch."""

    def evaluate_step(inputs: Tensor, targets: Tensor) -> Tensor:
        with no_grad():
            outputs = model(inputs)
            return _measured(loss_fn(outputs, targets), outputs, targets, metrics)

    return evaluate_step


def _measured(loss: Tensor, outputs: Tensor, targets: Tensor, metrics: Sequence[Metric]) -> Tensor:
    with no_grad():
        outputs = outputs.detach()
        values = [loss.detach(), *(metric(outputs, targets).detach() for metric in metrics)]
        return stack([value.float().reshape(()) for value in values])
