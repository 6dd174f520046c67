"""Losses: numbers that say how far predictions are from targets."""

from __future__ import annotations

from .. import ops
from ..errors import ArgumentError
from ..tensor import Tensor
from .module import Module

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CrossEntropyLoss",
    "HuberLoss",
    "L1Loss",
    "MSELoss",
    "NLLLoss",
    "SmoothL1Loss",
]


class _Loss(Module):
    """What is done with the losses of the elements, which all losses are asked.

    Args:
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ArgumentError: if ``reduction`` is none of these.
    """

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__()
        if reduction not in ("mean", "sum", "none"):
            raise ArgumentError(
                type(self).__name__,
                "reduction is 'mean', 'sum' or 'none'",
                reduction=repr(reduction),
            )
        self.reduction = reduction


class CrossEntropyLoss(_Loss):
    """Minus the logarithm of the probability that the softmax of ``x`` gives to the target class.

    Args:
        weight: of the classes, ``(classes,)``, or None.
        ignore_index: targets of this number do not count.
        reduction: ``"mean"`` (weighted), ``"sum"`` or ``"none"``.
        label_smoothing: the part of every target that is spread over all classes.
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        *,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(reduction=reduction)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """``()``, or the shape of the targets; ``x`` is ``(n, classes, ...)``."""
        return ops.cross_entropy(
            x,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class NLLLoss(_Loss):
    """Minus the element of ``x``, logarithms of probabilities, of the target class.

    Args:
        weight: of the classes, ``(classes,)``, or None.
        ignore_index: targets of this number do not count.
        reduction: ``"mean"`` (weighted), ``"sum"`` or ``"none"``.
    """

    def __init__(
        self, weight: Tensor | None = None, *, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction=reduction)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """``()``, or the shape of the targets; ``x`` is ``(n, classes, ...)``."""
        return ops.nll_loss(
            x,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )


class MSELoss(_Loss):
    """``(x - target) ** 2``."""

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """``()``, or the shape of ``x`` without reduction."""
        return ops.mse_loss(x, target, reduction=self.reduction)


class L1Loss(_Loss):
    """``|x - target|``."""

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """``()``, or the shape of ``x`` without reduction."""
        return ops.l1_loss(x, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """``d**2 / (2 beta)`` where ``d = |x - target|`` is below ``beta``, else ``d - beta / 2``.

    Args:
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        beta: where the square ends, 0 or more.
    """

    def __init__(self, *, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.beta = beta

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """``()``, or the shape of ``x`` without reduction."""
        return ops.smooth_l1_loss(x, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """``d**2 / 2`` where ``d = |x - target|`` is below ``delta``, else ``delta (d - delta / 2)``.

    Args:
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        delta: where the square ends, above 0.
    """

    def __init__(self, *, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """``()``, or the shape of ``x`` without reduction."""
        return ops.huber_loss(x, target, reduction=self.reduction, delta=self.delta)


class BCELoss(_Loss):
    """``-(target log(x) + (1 - target) log(1 - x))`` of probabilities ``x``.

    Args:
        weight: of the elements, broadcast, or None.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    def __init__(self, weight: Tensor | None = None, *, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.register_buffer("weight", weight)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """``()``, or the shape of ``x`` without reduction."""
        return ops.binary_cross_entropy(x, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """:class:`BCELoss` of ``sigmoid(x)``, stable for large ``|x|``.

    Args:
        weight: of the elements, broadcast, or None.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        pos_weight: of the targets that are 1, broadcast, or None.
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        *,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(reduction=reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """``()``, or the shape of ``x`` without reduction."""
        return ops.binary_cross_entropy_with_logits(
            x, target, weight=self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )
