"""What is run for a batch: functions of two tensors, made to be compiled.

They hold the model and the optimiser, not the trainer, so that no cycle keeps their memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from ..autograd import no_grad
from ..errors import ArgumentError
from ..nn import Module
from ..nn.parameters import clip_grad_norm_
from ..ops import stack
from ..ops.machinery.autocast import Autocast
from ..optim import Optimizer
from ..optim.grad_scaler import GradScaler
from ..ranks.operations import ReduceOp, all_reduce
from ..ranks.world import Group
from ..tensor import Tensor
from ..values import mode
from ..values.dtypes import bfloat16, float16
from .metrics import Metric

Loss = Callable[[Tensor, Tensor], Tensor]
Step = Callable[[Tensor, Tensor], Tensor]


PRECISIONS = {"fp32": None, "bf16": bfloat16, "fp16": float16}
"""What products compute in, by what ``--precision`` calls it; None: in their operands' dtype."""


def mixed(precision: str) -> AbstractContextManager[Any]:
    """The context of a precision; products of ``"fp32"`` compute in their operands' dtype.

    Raises:
        ArgumentError: if it is none.
    """
    if precision not in PRECISIONS:
        raise ArgumentError(
            "precision", f"it is one of {', '.join(PRECISIONS)}", precision=repr(precision)
        )
    dtype = PRECISIONS[precision]
    return mode.using() if dtype is None else mode.using(autocast=Autocast(dtype, {}))


def training_step(
    model: Module,
    loss_fn: Loss,
    optimizer: Optimizer,
    metrics: Sequence[Metric],
    *,
    clip_grad_norm: float | None = None,
    precision: str = "fp32",
    scaler: GradScaler | None = None,
    ranks: Group | None = None,
) -> Step:
    """A step that updates the model on a batch; gives loss and metrics, ``(1 + len(metrics),)``.

    With ``ranks`` those are means over their parts of the batch.
    """
    scaling = GradScaler(enabled=False) if scaler is None else scaler

    def train_step(inputs: Tensor, targets: Tensor) -> Tensor:
        optimizer.zero_grad()
        with mixed(precision):
            outputs = model(inputs)
            loss = loss_fn(outputs, targets)
        scaling.scale(loss).backward()
        if clip_grad_norm is not None:
            scaling.unscale_(optimizer)
            clip_grad_norm_(model.parameters(), clip_grad_norm)
        scaling.step(optimizer)
        scaling.update()
        values = _measured(loss, outputs, targets, metrics)
        if ranks is not None:
            all_reduce(values, ReduceOp.AVG, group=ranks)
        return values

    return train_step


def evaluation_step(
    model: Module, loss_fn: Loss, metrics: Sequence[Metric], *, precision: str = "fp32"
) -> Step:
    """A step that gives loss and metrics of a batch."""

    def evaluate_step(inputs: Tensor, targets: Tensor) -> Tensor:
        with no_grad(), mixed(precision):
            outputs = model(inputs)
            return _measured(loss_fn(outputs, targets), outputs, targets, metrics)

    return evaluate_step


def _measured(loss: Tensor, outputs: Tensor, targets: Tensor, metrics: Sequence[Metric]) -> Tensor:
    with no_grad():
        outputs = outputs.detach()
        values = [loss.detach(), *(metric(outputs, targets).detach() for metric in metrics)]
        return stack([value.float().reshape(()) for value in values])
