"""Losses: numbers that say how far predictions are from targets."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import ClassVar

from .. import ops
from ..errors import ArgumentError
from ..ops.loss import OLD_MEAN
from ..tensor import Tensor
from .module import Module
from .op_layer import OpLayer

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CrossEntropyLoss",
    "HuberLoss",
    "L1Loss",
    "MSELoss",
    "NLLLoss",
    "NLLLoss2d",
    "SmoothL1Loss",
]


def check_reduction(layer: OpLayer, *known: str) -> None:
    """Refuse a loss's way to reduce that is none of those known."""
    if layer.reduction not in (*known, OLD_MEAN):
        *others, last = map(repr, known)
        law = f"reduction is {', '.join(others)} or {last}"
        raise ArgumentError(type(layer).__name__, law, reduction=repr(layer.reduction))


class Loss(OpLayer):
    """A loss of each element of ``x``, and what is done with them.

    Args:
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ArgumentError: if ``reduction`` is none of these.
    """

    _: KW_ONLY
    reduction: str = "mean"
    _reductions: ClassVar[tuple[str, ...]] = ("mean", "sum", "none")
    _shown = ()

    def _check_settings(self) -> None:
        check_reduction(self, *self._reductions)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """``()``, or the loss of each element without reduction."""
        return type(self).op(x, target, **self._settings())


class _Loss(Module):  # PyTorch's name, for programs
    """What losses that programs write inherit in PyTorch: a way to reduce.

    Args:
        size_average: PyTorch's older setting; False: the sum.
        reduce: the same; False: no reduction.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``, if the others are not given.
    """

    def __init__(
        self,
        size_average: bool | None = None,  # noqa: FBT001 - PyTorch's
        reduce: bool | None = None,  # noqa: FBT001
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        old = size_average is not None or reduce is not None
        named = "none" if reduce is False else "sum" if size_average is False else "mean"
        self.reduction = named if old else reduction


class _WeightedLoss(_Loss):  # as above
    """The same with a weight for each class, a buffer.

    Args:
        weight: ``(classes,)`` or None.
        size_average: as above.
        reduce: as above.
        reduction: as above.
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,  # noqa: FBT001 - PyTorch's
        reduce: bool | None = None,  # noqa: FBT001
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class CrossEntropyLoss(Loss):
    """Minus the logarithm of the probability that the softmax of ``x`` gives to the target class.

    ``x`` is ``(n, classes, ...)``.

    Args:
        weight: of the classes, ``(classes,)``, or None.
        ignore_index: targets of this number do not count.
        reduction: ``"mean"`` (weighted), ``"sum"`` or ``"none"``.
        label_smoothing: the part of every target that is spread over all classes.
    """

    op = ops.cross_entropy
    weight: Tensor | None = None
    _: KW_ONLY
    ignore_index: int = -100
    label_smoothing: float = 0.0


class NLLLoss(Loss):
    """Minus the element of ``x``, logarithms of probabilities, of the target class.

    ``x`` is ``(n, classes, ...)``.

    Args:
        weight: of the classes, ``(classes,)``, or None.
        ignore_index: targets of this number do not count.
        reduction: ``"mean"`` (weighted), ``"sum"`` or ``"none"``.
    """

    op = ops.nll_loss
    weight: Tensor | None = None
    _: KW_ONLY
    ignore_index: int = -100


class MSELoss(Loss):
    """``(x - target) ** 2``."""

    op = ops.mse_loss


class L1Loss(Loss):
    """``|x - target|``."""

    op = ops.l1_loss


class SmoothL1Loss(Loss):
    """``d**2 / (2 beta)`` where ``d = |x - target|`` is below ``beta``, else ``d - beta / 2``.

    Args:
        beta: where the square ends, 0 or more.
    """

    op = ops.smooth_l1_loss
    _: KW_ONLY
    beta: float = 1.0


class HuberLoss(Loss):
    """``d**2 / 2`` where ``d = |x - target|`` is below ``delta``, else ``delta (d - delta / 2)``.

    Args:
        delta: where the square ends, above 0.
    """

    op = ops.huber_loss
    _: KW_ONLY
    delta: float = 1.0


class BCELoss(Loss):
    """``-(target log(x) + (1 - target) log(1 - x))`` of probabilities ``x``.

    Args:
        weight: of the elements, broadcast, or None.
    """

    op = ops.binary_cross_entropy
    weight: Tensor | None = None


class BCEWithLogitsLoss(Loss):
    """:class:`BCELoss` of ``sigmoid(x)``, stable for large ``|x|``.

    Args:
        weight: of the elements, broadcast, or None.
        pos_weight: of the targets that are 1, broadcast, or None.
    """

    op = ops.binary_cross_entropy_with_logits
    weight: Tensor | None = None
    _: KW_ONLY
    pos_weight: Tensor | None = None


NLLLoss2d = NLLLoss  # its name for images
