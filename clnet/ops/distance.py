"""How far or how similar vectors are, and vectors of length 1."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

# Bodies are called with symbols and say so here, once.
# pyrefly: ignore-errors[implicit-any-parameter]

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .. import expr as e
from ..array import Array
from ..device import Launch, Target
from ..errors import ArgumentError, ShapeError
from ..kernels.reduce import differences, distances
from ..values.dtypes import float64
from ..values.plain import shown
from ..values.shapes import broadcast_shapes
from .arithmetic import abs as abs_
from .arithmetic import ceil, clamp
from .index import select_within
from .machinery.autocast import computes_as_one
from .machinery.function import (
    Arrays,
    Face,
    Function,
    Grads,
    Needs,
    Saved,
    apply,
    op,
    require_same_dtype,
)
from .machinery.pointwise import evaluate
from .machinery.promotion import result_type
from .reduce import sum as sum_
from .shape import contiguous, expand, reshape, to_dtype, unsqueeze
from .vector import norm

if TYPE_CHECKING:
    from ..tensor import Tensor

_COMPUTE_MODES = (
    "use_mm_for_euclid_dist_if_necessary",
    "use_mm_for_euclid_dist",
    "donot_use_mm_for_euclid_dist",
)


class Distances(Function):
    """Of each row of the first input ``(..., m, d)`` and each column of the other, ``(..., d, n)``.

    Attributes:
        absolute: differences are added by their absolute values, not by their squares.
    """

    sixteen_bit = False
    repeats = True
    op_name = "cdist"
    saved_inputs = (0, 1)
    saved_outputs = (0,)

    absolute: bool

    def infer(self, a: Array, b: Array) -> tuple[Array, ...]:
        require_same_dtype(self.name, x1=a, x2=b)
        return (Array.abstract((*a.shape[:-1], b.shape[-1]), a.dtype, a.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        return distances(target, *outputs, *inputs, absolute=self.absolute)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """Sums of differences, over distances that are not 0."""
        a, b = saved.inputs[0], saved.inputs[1]
        w = grads[0]
        if not self.absolute:
            w = evaluate("cdist_backward", _over, [w, saved.outputs[0]])
        function = Differences(self.absolute)
        ga = gb = None
        if needs[0]:
            turned = [contiguous(x.transpose(-1, -2)) for x in (a, b, w)]
            ga = apply(function, *turned).transpose(-1, -2)
        if needs[1]:
            gb = apply(function, b, a, contiguous(w))
        return ga, gb

    def decompose(self, a: Tensor, b: Tensor) -> Tensor:
        """As a norm of all differences."""
        apart = unsqueeze(a, -2) - unsqueeze(b.transpose(-1, -2), -3)
        return norm(apart, 1 if self.absolute else 2, -1)


class Differences(Function):
    """``s[k, i] = sum_j w[j, i] (a[k, i] - b[j, k])``: inputs a, b, w; or by the signs of these."""

    sixteen_bit = False
    repeats = True
    op_name = "cdist_backward"

    absolute: bool

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        return differences(target, *outputs, *inputs, absolute=self.absolute)


def _over(g, y):
    return e.where(e.eq(y, 0), 0, g / e.where(e.eq(y, 0), 1, y))


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
    if p not in (1, 2) or not (x1.dtype.is_floating_point and x2.dtype is x1.dtype):
        return _norm(unsqueeze(x1, -2) - unsqueeze(x2, -3), p)
    lead = broadcast_shapes("cdist", x1.shape[:-2], x2.shape[:-2])
    a = contiguous(expand(x1, (*lead, *x1.shape[-2:])))
    b = contiguous(expand(x2, (*lead, *x2.shape[-2:])).transpose(-1, -2))
    return apply(Distances(p == 1), a, b)


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
    rows, columns = np.triu_indices(x.shape[0], 1)
    tensor = type(x.detach())
    if p in (1, 2):
        places = tensor(Array.from_numpy(rows * x.shape[0] + columns, x.device))
        return select_within(reshape(cdist(x, x, p), (-1,)), places)
    first, second = (
        select_within(x, tensor(Array.from_numpy(i, x.device))) for i in (rows, columns)
    )
    return _norm(first - second, p)


def _norm(x: Tensor, p: float) -> Tensor:
    """Of the last axis; of 0 how many elements differ from 0, NaN if one is, as PyTorch's."""
    if p:
        return norm(x, p, -1)
    return sum_(clamp(ceil(abs_(x)), max=1), -1)


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
def normalize(
    x: Tensor, p: float = 2.0, dim: int | Sequence[int] = 1, eps: float = 1e-12
) -> Tensor:
    """``x / max(norm(x, p), eps)`` along an axis, or over several as one vector.

    Args:
        x: any shape, floating.
        p: the norm's.
        dim: the axis, or several.
        eps: the least length.

    Returns:
        ``x``'s shape.

    Raises:
        BoundsError: if there is no such axis.
    """
    return x / clamp(norm(x, p, dim, keepdim=True), min=eps)
