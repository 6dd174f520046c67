"""Layers that compare vectors."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from .. import ops
from ..tensor import Tensor
from .module import Module
from .op_layer import OpLayer

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class CosineSimilarity(OpLayer):
    """The cosine of the angle between two tensors along an axis.

    Args:
        dim: the axis.
        eps: the least length of a vector.
    """

    op = ops.cosine_similarity
    dim: int = 1
    eps: float = 1e-8
    _shown = ()

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """The broadcast shape without the axis."""
        return ops.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The norm of the difference of vectors along the last axis.

    Args:
        p: the norm's.
        eps: added to each difference.
        keepdim: leave the axis with size 1.
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """The broadcast shape without the last axis."""
        return ops.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
