"""Losses of likelihoods, pairs, triplets and margins as modules."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from collections.abc import Callable

from .. import ops
from ..errors import ArgumentError
from ..tensor import Tensor
from .module import Module

__all__ = [
    "CTCLoss",
    "CosineEmbeddingLoss",
    "GaussianNLLLoss",
    "HingeEmbeddingLoss",
    "KLDivLoss",
    "MarginRankingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "PoissonNLLLoss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]

_REDUCTIONS = ("mean", "sum", "none")


def _checked(name: str, reduction: str, allowed: tuple[str, ...] = _REDUCTIONS) -> str:
    if reduction not in allowed:
        raise ArgumentError(
            name, f"reduction is one of {', '.join(allowed)}", reduction=repr(reduction)
        )
    return reduction


class KLDivLoss(Module):
    """The divergence ``target * (log(target) - x)`` of log-probabilities ``x``.

    Args:
        log_target: whether targets are logarithms too.
        reduction: ``"batchmean"``, ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ArgumentError: if ``reduction`` is none of these.
    """

    def __init__(self, *, log_target: bool = False, reduction: str = "mean") -> None:
        super().__init__()
        self.log_target = log_target
        self.reduction = _checked("KLDivLoss", reduction, ("batchmean", *_REDUCTIONS))

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """One element, or the loss of each without reduction."""
        return ops.kl_div(x, target, log_target=self.log_target, reduction=self.reduction)


class PoissonNLLLoss(Module):
    """``exp(x) - target * x``, of a Poisson distribution.

    Args:
        log_input: whether ``x`` holds logarithms of rates.
        full: add Stirling's approximation of ``log(target!)``.
        eps: keeps the logarithm of rates finite.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ArgumentError: if ``reduction`` is none of these.
    """

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        *,
        eps: float = 1e-8,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        self.log_input = log_input
        self.full = full
        self.eps = eps
        self.reduction = _checked("PoissonNLLLoss", reduction)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """One element, or the loss of each without reduction."""
        return ops.poisson_nll_loss(
            x,
            target,
            log_input=self.log_input,
            full=self.full,
            eps=self.eps,
            reduction=self.reduction,
        )


class GaussianNLLLoss(Module):
    """``(log(var) + (x - target) ** 2 / var) / 2``, of a normal distribution.

    Args:
        full: add ``log(2 pi) / 2``.
        eps: smaller variances count as this.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ArgumentError: if ``reduction`` is none of these.
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__()
        self.full = full
        self.eps = eps
        self.reduction = _checked("GaussianNLLLoss", reduction)

    def forward(self, x: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        """One element, or the loss of each without reduction."""
        return ops.gaussian_nll_loss(
            x, target, var, full=self.full, eps=self.eps, reduction=self.reduction
        )


class HingeEmbeddingLoss(Module):
    """``x`` where the target is 1, ``max(0, margin - x)`` where it is -1.

    Args:
        margin: distance from which unlike pairs cost nothing.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ArgumentError: if ``reduction`` is none of these.
    """

    def __init__(self, margin: float = 1.0, *, reduction: str = "mean") -> None:
        super().__init__()
        self.margin = margin
        self.reduction = _checked("HingeEmbeddingLoss", reduction)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """One element, or the loss of each without reduction."""
        return ops.hinge_embedding_loss(x, target, margin=self.margin, reduction=self.reduction)


class MarginRankingLoss(Module):
    """``max(0, margin - target * (input1 - input2))``.

    Args:
        margin: difference from which a right order costs nothing.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ArgumentError: if ``reduction`` is none of these.
    """

    def __init__(self, margin: float = 0.0, *, reduction: str = "mean") -> None:
        super().__init__()
        self.margin = margin
        self.reduction = _checked("MarginRankingLoss", reduction)

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """One element, or the loss of each without reduction."""
        return ops.margin_ranking_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class SoftMarginLoss(Module):
    """``log(1 + exp(-target * x))`` with ``target`` 1 or -1.

    Args:
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ArgumentError: if ``reduction`` is none of these.
    """

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = _checked("SoftMarginLoss", reduction)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """One element, or the loss of each without reduction."""
        return ops.soft_margin_loss(x, target, reduction=self.reduction)


class CosineEmbeddingLoss(Module):
    """``1 - cos`` where the target is 1, ``max(0, cos - margin)`` where it is -1.

    Args:
        margin: cosine up to which unlike pairs cost nothing.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ArgumentError: if ``reduction`` is none of these.
    """

    def __init__(self, margin: float = 0.0, *, reduction: str = "mean") -> None:
        super().__init__()
        self.margin = margin
        self.reduction = _checked("CosineEmbeddingLoss", reduction)

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """One element, or the loss of each without reduction."""
        return ops.cosine_embedding_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class TripletMarginLoss(Module):
    """``max(0, d(anchor, positive) - d(anchor, negative) + margin)``.

    Args:
        margin: above 0.
        p: of the norm that is the distance.
        eps: added to every difference.
        swap: take the distance of positive and negative where it is less.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ArgumentError: if ``reduction`` is none of these.
    """

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        *,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap
        self.reduction = _checked("TripletMarginLoss", reduction)

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """One element, or the loss of each without reduction."""
        return ops.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class MultiMarginLoss(Module):
    """The mean over other classes ``j`` of ``max(0, margin - x[target] + x[j]) ** p``.

    Args:
        p: 1 or 2.
        margin: by how much the right score exceeds the others.
        weight: of each class, or None.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ArgumentError: if ``reduction`` is none of these.
    """

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        *,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        self.p = p
        self.margin = margin
        self.register_buffer("weight", weight)
        self.reduction = _checked("MultiMarginLoss", reduction)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """One element, or the loss of each without reduction."""
        return ops.multi_margin_loss(
            x, target, p=self.p, margin=self.margin, weight=self.weight, reduction=self.reduction
        )


class MultiLabelMarginLoss(Module):
    """The sum over labels and other classes of ``max(0, 1 - x[label] + x[other]) / classes``.

    Args:
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ArgumentError: if ``reduction`` is none of these.
    """

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = _checked("MultiLabelMarginLoss", reduction)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """One element, or the loss of each without reduction."""
        return ops.multilabel_margin_loss(x, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(Module):
    """The mean over classes of binary cross entropies of ``sigmoid(x)``.

    Args:
        weight: of each class, or None.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ArgumentError: if ``reduction`` is none of these.
    """

    def __init__(self, weight: Tensor | None = None, *, reduction: str = "mean") -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.reduction = _checked("MultiLabelSoftMarginLoss", reduction)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """One element, or the loss of each without reduction."""
        return ops.multilabel_soft_margin_loss(
            x, target, weight=self.weight, reduction=self.reduction
        )


class TripletMarginWithDistanceLoss(Module):
    """:class:`TripletMarginLoss` with a distance of one's own.

    Args:
        distance_function: of two tensors, or None for the Euclidean distance.
        margin: above 0.
        swap: take the distance of positive and negative where it is less.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ArgumentError: if ``reduction`` is none of these.
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        self.distance_function = distance_function
        self.margin = margin
        self.swap = swap
        self.reduction = _checked("TripletMarginWithDistanceLoss", reduction)

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """One element, or the loss of each without reduction."""
        return ops.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


class CTCLoss(Module):
    """Minus the logarithm of the probability of all alignments of a target to a sequence.

    Args:
        blank: the class that stands for none.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        zero_infinity: a target that does not fit into its sequence costs 0 instead of infinity.

    Raises:
        ArgumentError: if ``reduction`` is none of these.
    """

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__()
        self.blank = blank
        self.reduction = _checked("CTCLoss", reduction)
        self.zero_infinity = zero_infinity

    def forward(
        self, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor
    ) -> Tensor:
        """One element, or the loss of each sequence without reduction."""
        return ops.ctc_loss(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            blank=self.blank,
            reduction=self.reduction,
            zero_infinity=self.zero_infinity,
        )
