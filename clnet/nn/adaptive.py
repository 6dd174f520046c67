"""A softmax of very many classes in clusters, rare ones with fewer features."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import ops
from ..errors import ArgumentError, DataBoundsError, DtypeError, ShapeError
from ..tensor import Tensor
from ..values.dtypes import DType, Kind
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class AdaptiveResult(NamedTuple):
    """What :class:`AdaptiveLogSoftmaxWithLoss` gives.

    Attributes:
        output: ``(n,)``, the logarithm of the probability of each target.
        loss: minus their mean.
    """

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Classes in clusters by how frequent they are (Grave et al. 2017).

    The head tells the most frequent classes, and the clusters of the others, apart. A cluster is
    computed for the rows alone whose target lies in it, which the host asks for.

    Args:
        in_features: of the rows.
        n_classes: how many; the most frequent come first.
        cutoffs: where clusters begin, ascending.
        div_value: by which each cluster's features are fewer than those of the one before.
        head_bias: whether the head has a bias.
        device: where the parameters are; None: the current device.
        dtype: of the parameters.

    Attributes:
        head: the :class:`Linear` of the first cluster and of the clusters behind it.
        tail: for each of those, two without a bias.

    Raises:
        ArgumentError: if ``cutoffs`` do not ascend between 0 and ``n_classes``.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.cutoffs = [*cutoffs, n_classes]
        steps = zip([0, *self.cutoffs], self.cutoffs, strict=False)
        if len(self.cutoffs) < 2 or any(low >= high for low, high in steps):
            raise ArgumentError(
                "AdaptiveLogSoftmaxWithLoss",
                "cutoffs ascend, above 0 and below n_classes",
                cutoffs=list(cutoffs),
                n_classes=n_classes,
            )
        like: dict[str, Any] = {"device": device, "dtype": dtype}
        self.in_features = in_features
        self.n_classes = n_classes
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, **like)
        self.tail = ModuleList()
        for k, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:], strict=False), 1):
            inner = int(in_features // div_value**k)
            first = Linear(in_features, inner, bias=False, **like)
            self.tail.append(Sequential(first, Linear(inner, high - low, bias=False, **like)))

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        for layer in self.modules():
            if isinstance(layer, Linear):
                layer.reset_parameters()

    def forward(
        self,
        input: Tensor,  # noqa: A002 - PyTorch's
        target: Tensor,
    ) -> AdaptiveResult:
        """The logarithms of the targets' probabilities, and the loss.

        Args:
            input: ``(n, in_features)``, or one row.
            target: ``(n,)``, classes; or one.

        Raises:
            ShapeError: if there is no target for each row.
            DtypeError: if targets are no whole numbers.
            DataBoundsError: if a target is no class.
        """
        name = type(self).__name__
        if target.dtype.kind is not Kind.INTEGER:
            raise DtypeError(name, "target holds classes, whole numbers", target=target.dtype)
        if target.ndim > 1 or input.ndim != target.ndim + 1 or input.shape[:-1] != target.shape:
            raise ShapeError(
                name, "there is a target for each row", input=input.shape, target=target.shape
            )
        rows, classes = input.reshape(-1, input.shape[-1]), target.reshape(-1)
        inner, told, seen = classes, ops.zeros_like(rows[:, 0]), 0
        for k, (low, high) in enumerate(zip([0, *self.cutoffs], self.cutoffs, strict=False)):
            chosen = ((classes >= low) & (classes < high)).nonzero().squeeze(1)
            seen += chosen.shape[0]
            if k and chosen.shape[0]:
                inner = inner.index_fill(0, chosen, self.shortlist_size + k - 1)
                scores = ops.log_softmax(self.tail[k - 1](rows.index_select(0, chosen)), 1)
                place = (classes.index_select(0, chosen) - low).unsqueeze(1)
                told = told.index_copy(0, chosen, scores.gather(1, place.long()).squeeze(1))
        if seen != classes.shape[0]:
            raise DataBoundsError(
                name,
                f"targets lie in [0, n_classes), here {self.n_classes}",
                least=classes.min().item(),
                most=classes.max().item(),
            )
        scores = ops.log_softmax(self.head(rows), 1)
        told = told + scores.gather(1, inner.long().unsqueeze(1)).squeeze(1)
        return AdaptiveResult(told.reshape(target.shape), (-told).mean())

    def log_prob(self, input: Tensor) -> Tensor:  # noqa: A002 - PyTorch's
        """The logarithms of all classes' probabilities, ``(n, n_classes)``."""
        head = ops.log_softmax(self.head(input), 1)
        parts = [head[:, : self.shortlist_size]]
        for k, cluster in enumerate(self.tail):
            whole = head[:, self.shortlist_size + k].unsqueeze(1)
            parts.append(ops.log_softmax(cluster(input), 1) + whole)
        return ops.cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:  # noqa: A002 - PyTorch's
        """The most probable class of each row, ``(n,)``, as the head sees it where it is its."""
        first = self.head(input).argmax(1)
        return ops.where(first < self.shortlist_size, first, self.log_prob(input).argmax(1))
