"""How far or how similar vectors are, and vectors of length 1."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from typing import TYPE_CHECKING

from ..shapes import broadcast_shapes
from .arithmetic import clamp
from .function import Face, op
from .shape import expand
from .vector import norm

if TYPE_CHECKING:
    from ..tensor import Tensor


@op(Face.FUNCTION | Face.FUNCTIONAL)
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """``x1 . x2 / (max(|x1|, eps) * max(|x2|, eps))`` along an axis.

    Args:
        x1: any shape, floating.
        x2: broadcasts with it.
        dim: the axis of the broadcast shape.
        eps: the least length.

    Returns:
        The broadcast shape without the axis.

    Raises:
        ShapeError: if the shapes do not broadcast.
        BoundsError: if there is no such axis.
    """
    shape = broadcast_shapes("cosine_similarity", x1.shape, x2.shape)
    a, b = (
        x / clamp(norm(x, 2, dim, keepdim=True), min=eps)
        for x in (expand(x1, shape), expand(x2, shape))
    )
    return (a * b).sum(dim)


@op(Face.FUNCTION | Face.FUNCTIONAL)
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """``norm(x1 - x2 + eps, p)`` along the last axis.

    Args:
        x1: ``(..., d)``, floating.
        x2: broadcasts with it.
        p: the norm's.
        eps: added to each difference, so that equal vectors have a gradient.
        keepdim: leave the axis with size 1.

    Returns:
        The broadcast shape without the axis.

    Raises:
        ShapeError: if the shapes do not broadcast.
    """
    return norm(x1 - x2 + eps, p, -1, keepdim=keepdim)


@op(Face.FUNCTIONAL)
def normalize(x: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """``x / max(norm(x, p), eps)`` along an axis.

    Args:
        x: any shape, floating.
        p: the norm's.
        dim: the axis.
        eps: the least length.

    Returns:
        ``x``'s shape.

    Raises:
        BoundsError: if there is no such axis.
    """
    return x / clamp(norm(x, p, dim, keepdim=True), min=eps)
