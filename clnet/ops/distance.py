"""How far or how similar vectors are, and vectors of length 1."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..array import Array
from ..errors import ArgumentError, ShapeError
from ..values.dtypes import float64
from ..values.plain import shown
from ..values.shapes import broadcast_shapes
from .arithmetic import clamp
from .index import select_within
from .machinery.autocast import computes_as_one
from .machinery.function import Face, op
from .machinery.pointwise import result_type
from .shape import expand, to_dtype, unsqueeze
from .vector import norm

if TYPE_CHECKING:
    from ..tensor import Tensor

_COMPUTE_MODES = (
    "use_mm_for_euclid_dist_if_necessary",
    "use_mm_for_euclid_dist",
    "donot_use_mm_for_euclid_dist",
)


@op(Face.FUNCTION | Face.FUNCTIONAL)
@computes_as_one
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """``x1 . x2 / (max(|x1|, eps) * max(|x2|, eps))`` along an axis.

    Args:
        x1: any shape; floating, if ``x2`` is not.
        x2: broadcasts with it.
        dim: the axis of the broadcast shape.
        eps: the least length.

    Returns:
        The broadcast shape without the axis.

    Raises:
        ArgumentError: if ``eps`` is below 0.
        ShapeError: if the shapes do not broadcast.
        BoundsError: if there is no such axis.
    """
    if not eps >= 0:
        raise ArgumentError("cosine_similarity", "eps is 0 or more", eps=eps)
    shape = broadcast_shapes("cosine_similarity", x1.shape, x2.shape)
    a, b = (
        x / clamp(norm(x, 2, dim, keepdim=True), min=eps)
        for x in (expand(to_dtype(x, result_type(x1, x2)), shape) for x in (x1, x2))
    )
    return (a * b).sum(dim)


@op(Face.FUNCTION | Face.FUNCTIONAL)
@computes_as_one
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


@op(Face.FUNCTION)
@computes_as_one
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = None) -> Tensor:
    """The ``p``-norm of the difference of each vector of ``x1`` and each of ``x2``.

    Args:
        x1: ``(..., m, d)``, floating.
        x2: ``(..., n, d)``; the leading axes broadcast.
        p: the norm's, 0 or more.
        compute_mode: as PyTorch's; differences are never made of products here, whose rounding
            hides small distances.

    Returns:
        ``(..., m, n)``; where a distance is 0, so is its gradient.

    Raises:
        ArgumentError: if ``p`` is negative, or there is no such mode.
        ShapeError: if an operand is no matrix, or the sizes differ.
    """
    p = _exponent("cdist", p, x1)
    if compute_mode not in (None, *_COMPUTE_MODES):
        law = f"compute_mode is one of {', '.join(_COMPUTE_MODES)}"
        raise ArgumentError("cdist", law, compute_mode=shown(compute_mode))
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1]:
        raise ShapeError("cdist", "x1 is (..., m, d), x2 (..., n, d)", x1=x1.shape, x2=x2.shape)
    return norm(unsqueeze(x1, -2) - unsqueeze(x2, -3), p, -1)


@op(Face.FUNCTION | Face.FUNCTIONAL)
@computes_as_one
def pdist(x: Tensor, p: float = 2.0) -> Tensor:
    """The ``p``-norm of the difference of each two rows, ``(0, 1), (0, 2), ..., (n - 2, n - 1)``.

    Args:
        x: ``(n, d)``, floating.
        p: the norm's, 0 or more.

    Returns:
        ``(n (n - 1) / 2,)``; where a distance is 0, so is its gradient.

    Raises:
        ArgumentError: if ``p`` is negative.
        ShapeError: if ``x`` is no matrix.
    """
    p = _exponent("pdist", p, x)
    if x.ndim != 2:
        raise ShapeError("pdist", "x is (n, d)", x=x.shape)
    first, second = (
        select_within(x, type(x.detach())(Array.from_numpy(rows, x.device)))
        for rows in np.triu_indices(x.shape[0], 1)
    )
    return norm(first - second, p, -1)


def _exponent(name: str, p: float, x: Tensor) -> float:
    """``p`` as the elements' arithmetic has it: beyond its range infinite, or 0."""
    if not p >= 0:
        raise ArgumentError(name, "p is 0 or more", p=p)
    if x.dtype is float64:
        return p
    with np.errstate(over="ignore", under="ignore"):
        return float(np.float32(p))


@op(Face.FUNCTIONAL)
@computes_as_one
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
