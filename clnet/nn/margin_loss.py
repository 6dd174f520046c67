"""Losses of likelihoods, pairs, triplets and margins as modules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY

from .. import ops
from ..ops.ctc import Lengths
from ..tensor import Tensor
from .loss import Loss, check_reduction
from .op_layer import OpLayer

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


class _PairLoss(Loss):
    """A loss of pairs, whose target is 1 or -1."""

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """``()``, or the loss of each pair without reduction."""
        return type(self).op(input1, input2, target, **self._settings())


class _TripletLoss(Loss):
    """A loss of triplets."""

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """``()``, or the loss of each triplet without reduction."""
        return type(self).op(anchor, positive, negative, **self._settings())


class KLDivLoss(Loss):
    """The divergence ``target * (log(target) - x)`` of log-probabilities ``x``.

    Args:
        log_target: whether targets are logarithms too.
        reduction: ``"batchmean"``, ``"mean"``, ``"sum"`` or ``"none"``.
    """

    op = ops.kl_div
    _: KW_ONLY
    log_target: bool = False
    _reductions = ("batchmean", "mean", "sum", "none")


class PoissonNLLLoss(Loss):
    """``exp(x) - target * x``, of a Poisson distribution.

    Args:
        log_input: whether ``x`` holds logarithms of rates.
        full: add Stirling's approximation of ``log(target!)``.
        eps: keeps the logarithm of rates finite.
    """

    op = ops.poisson_nll_loss
    log_input: bool = True
    full: bool = False
    _: KW_ONLY
    eps: float = 1e-8


class GaussianNLLLoss(Loss):
    """``(log(var) + (x - target) ** 2 / var) / 2``, of a normal distribution.

    Args:
        full: add ``log(2 pi) / 2``.
        eps: smaller variances count as this.
    """

    op = ops.gaussian_nll_loss
    _: KW_ONLY
    full: bool = False
    eps: float = 1e-6

    def forward(self, x: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        """``()``, or the loss of each element without reduction."""
        return ops.gaussian_nll_loss(x, target, var, **self._settings())


class HingeEmbeddingLoss(Loss):
    """``x`` where the target is 1, ``max(0, margin - x)`` where it is -1.

    Args:
        margin: distance from which unlike pairs cost nothing.
    """

    op = ops.hinge_embedding_loss
    margin: float = 1.0


class MarginRankingLoss(_PairLoss):
    """``max(0, margin - target * (input1 - input2))``.

    Args:
        margin: difference from which a right order costs nothing.
    """

    op = ops.margin_ranking_loss
    margin: float = 0.0


class SoftMarginLoss(Loss):
    """``log(1 + exp(-target * x))`` with ``target`` 1 or -1."""

    op = ops.soft_margin_loss


class CosineEmbeddingLoss(_PairLoss):
    """``1 - cos`` where the target is 1, ``max(0, cos - margin)`` where it is -1.

    Args:
        margin: cosine up to which unlike pairs cost nothing.
    """

    op = ops.cosine_embedding_loss
    margin: float = 0.0


class TripletMarginLoss(_TripletLoss):
    """``max(0, d(anchor, positive) - d(anchor, negative) + margin)``.

    Args:
        margin: above 0.
        p: of the norm that is the distance.
        eps: added to every difference.
        swap: take the distance of positive and negative where it is less.
    """

    op = ops.triplet_margin_loss
    margin: float = 1.0
    p: float = 2.0
    eps: float = 1e-6
    swap: bool = False


class MultiMarginLoss(Loss):
    """The mean over other classes ``j`` of ``max(0, margin - x[target] + x[j]) ** p``.

    Args:
        p: 1 or 2.
        margin: by how much the right score exceeds the others.
        weight: of each class, or None.
    """

    op = ops.multi_margin_loss
    p: int = 1
    margin: float = 1.0
    weight: Tensor | None = None


class MultiLabelMarginLoss(Loss):
    """The sum over labels and other classes of ``max(0, 1 - x[label] + x[other]) / classes``."""

    op = ops.multilabel_margin_loss


class MultiLabelSoftMarginLoss(Loss):
    """The mean over classes of binary cross entropies of ``sigmoid(x)``.

    Args:
        weight: of each class, or None.
    """

    op = ops.multilabel_soft_margin_loss
    weight: Tensor | None = None


class TripletMarginWithDistanceLoss(_TripletLoss):
    """:class:`TripletMarginLoss` with a distance of one's own.

    Args:
        distance_function: of two tensors, or None for the Euclidean distance.
        margin: above 0.
        swap: take the distance of positive and negative where it is less.
    """

    op = ops.triplet_margin_with_distance_loss
    _: KW_ONLY
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None
    margin: float = 1.0
    swap: bool = False


class CTCLoss(OpLayer):
    """Minus the logarithm of the probability of all alignments of a target to a sequence.

    Args:
        blank: the class that stands for none.
        zero_infinity: a target that does not fit into its sequence costs 0 instead of infinity.
    """

    op = ops.ctc_loss
    blank: int = 0
    reduction: str = "mean"
    zero_infinity: bool = False
    _shown = ()

    def _check_settings(self) -> None:
        check_reduction(self, "mean", "sum", "none")

    def forward(
        self, log_probs: Tensor, targets: Tensor, input_lengths: Lengths, target_lengths: Lengths
    ) -> Tensor:
        """``()``, or the loss of each sequence without reduction."""
        settings = self._settings()
        return ops.ctc_loss(log_probs, targets, input_lengths, target_lengths, **settings)
