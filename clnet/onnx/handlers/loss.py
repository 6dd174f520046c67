"""Losses."""

from __future__ import annotations

from ... import ops
from ...nn import functional
from ...tensor import Tensor
from ...values.dtypes import int64
from ..registry import handler

NOTHING_IGNORED = -100


@handler("NegativeLogLikelihoodLoss", since=12)
def nll_loss(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Minus the target's logarithm, weighted by class."""
    n, c = x.shape[:2]
    rows = ops.movedim(x.reshape((n, c, -1)), 1, -1).reshape((-1, c))
    classes = target.to(int64).reshape(-1)
    y = functional.nll_loss(
        rows,
        classes,
        weight=weight,
        ignore_index=NOTHING_IGNORED if ignore_index is None else ignore_index,
        reduction=reduction,
    )
    return y.reshape(target.shape) if reduction == "none" else y


@handler("SoftmaxCrossEntropyLoss", since=12)
def softmax_cross_entropy(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> tuple[Tensor, Tensor]:
    """The loss of scores, and the logarithms of their softmax."""
    logs = ops.log_softmax(x, 1)
    return (
        nll_loss(logs, target, weight, ignore_index=ignore_index, reduction=reduction),
        logs,
    )
