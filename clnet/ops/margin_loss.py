"""Losses of pairs, triplets and margins, in PyTorch's names; composed of ops."""

# Bodies are called with symbols and say so here, once.
# pyrefly: ignore-errors[implicit-any-parameter]

from __future__ import annotations

from collections.abc import Callable
from math import nan
from typing import TYPE_CHECKING, Any

from .. import expr as e
from ..errors import ArgumentError, DataBoundsError, ShapeError
from ..kernels.reduce import Bad
from ..values.dtypes import int64
from .arithmetic import eq, logical_and, lt, minimum, sqrt, where
from .check import of_value, require_classes, require_elements
from .create import positions
from .index import gather_within, require_index
from .loss import element_losses, known_reduction, reduced
from .machinery.autocast import computes_as_one
from .machinery.function import Face, op
from .machinery.pointwise import Result, evaluate
from .reduce import one_hot
from .shape import expand, reshape, to_dtype, unsqueeze
from .vector import norm

if TYPE_CHECKING:
    from ..tensor import Tensor

_EPS = 1e-12  # of squared lengths, in cosines


def _hinge(z):
    return e.where(z >= 0, z, e.where(z < 0, 0, nan))  # slopes as clamp's: 1 at 0, 0 at NaN


@op(Face.FUNCTIONAL)
def hinge_embedding_loss(
    x: Tensor, target: Tensor, *, margin: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """``x`` where the target is 1, ``max(0, margin - x)`` where it is -1.

    Args:
        x: distances.
        target: 1 or -1, broadcast.
        margin: distance from which unlike pairs cost nothing.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Returns:
        One element, or the broadcast shape.

    Raises:
        ArgumentError: if ``reduction`` is none of these.
        ShapeError: if the shapes do not broadcast.
    """
    name = "hinge_embedding_loss"
    target = to_dtype(target, x.dtype) if x.dtype.is_floating_point else target
    return element_losses(
        name, _hinge_embedding, [x, target], [margin], reduction, _hinge_embedding_gradient
    )


def _hinge_embedding(x, target, margin):
    far = e.where(e.eq(target, 1), 0, _hinge(margin - x))
    return far + e.where(e.eq(target, -1), 0, x)


def _hinge_embedding_gradient(g, y, x, target, margin):
    # A NaN is beyond the margin, as PyTorch's clamp has it.
    far = e.where(e.logical_and(e.ne(target, 1), margin - x >= 0), -1, 0)
    return g * (far + e.where(e.eq(target, -1), 0, 1)), e.as_number(0)


@op(Face.FUNCTIONAL)
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    *,
    margin: float = 0.0,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, margin - target * (input1 - input2))``; 1 ranks ``input1`` higher, -1 lower.

    Args:
        input1: scores.
        input2: scores, broadcast.
        target: 1 or -1, broadcast.
        margin: difference from which a right order costs nothing.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Returns:
        One element, or the broadcast shape.

    Raises:
        ArgumentError: if ``reduction`` is none of these.
        ShapeError: if the shapes do not broadcast.
    """
    operands = [input1, input2, target]
    return element_losses(
        "margin_ranking_loss",
        _margin_ranking,
        operands,
        [margin],
        reduction,
        _margin_ranking_gradient,
    )


def _margin_ranking(x, other, target, margin):
    return _hinge(margin - target * (x - other))


def _margin_ranking_gradient(g, y, x, other, target, margin):
    loses = margin - target * (x - other) >= 0
    slope = e.where(loses, g * target, 0)
    return -slope, slope, e.where(loses, -(g * (x - other)), 0)


@op(Face.FUNCTIONAL)
def soft_margin_loss(x: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """``log(1 + exp(-target * x))`` with ``target`` 1 or -1, broadcast.

    Raises:
        ArgumentError: if ``reduction`` is no reduction.
        ShapeError: if the shapes do not broadcast.
    """
    target = to_dtype(target, x.dtype) if x.dtype.is_floating_point else target
    return element_losses("soft_margin_loss", _soft_margin, [x, target], [], reduction)


def _soft_margin(x, target):
    return e.softplus(-target * x)


@op(Face.FUNCTIONAL)
@computes_as_one
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    *,
    margin: float = 0.0,
    reduction: str = "mean",
) -> Tensor:
    """``1 - cos`` where the target is 1, ``max(0, cos - margin)`` where it is -1.

    Args:
        input1: ``(n, d)`` or ``(d,)``.
        input2: of the same shape.
        target: 1 or -1, ``(n,)`` or ``()``.
        margin: cosine up to which unlike pairs cost nothing.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Returns:
        One element, or ``target``'s shape.

    Raises:
        ArgumentError: if ``reduction`` is none of these.
        ShapeError: if the shapes do not fit.
    """
    name = "cosine_embedding_loss"
    shapes: dict[str, Any] = {"input1": input1.shape, "input2": input2.shape}
    axes = {input1.ndim, input2.ndim, target.ndim + 1}
    if len(axes) > 1 or not axes <= {1, 2}:
        raise ShapeError(name, "inputs have one axis more than the target", **shapes,
                         target=target.shape)  # fmt: skip
    lengths = sqrt(((input1 * input1).sum(-1) + _EPS) * ((input2 * input2).sum(-1) + _EPS))
    cosine = (input1 * input2).sum(-1) / lengths
    operands = [cosine, to_dtype(target, cosine.dtype)]
    return element_losses(name, _cosine_embedding, operands, [margin], reduction)


def _cosine_embedding(cosine, target, margin):
    like = e.where(e.eq(target, 1), 1 - cosine, 0)
    return like + e.where(e.eq(target, -1), _hinge(cosine - margin), 0)


@op(Face.FUNCTIONAL)
@computes_as_one
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
    *,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, d(anchor, positive) - d(anchor, negative) + margin)``.

    Args:
        anchor: ``(n, d)`` or ``(d,)``.
        positive: broadcasts with it; to be near.
        negative: broadcasts with it; to be far.
        margin: above 0.
        p: of the norm that is the distance.
        eps: added to every difference.
        swap: take the distance of positive and negative where it is less (Balntas et al. 2016).
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Returns:
        One element, or the shape without the last axis.

    Raises:
        ArgumentError: if ``reduction`` is none of these, or ``margin`` is not above 0.
        ShapeError: if the shapes do not broadcast.
    """
    if not anchor.ndim == positive.ndim == negative.ndim:
        law = "anchor, positive and negative have as many axes"
        shapes = [t.shape for t in (anchor, positive, negative)]
        raise ShapeError("triplet_margin_loss", law, shapes=shapes)

    def distance(x: Tensor, y: Tensor) -> Tensor:
        return norm(x - y + eps, p, -1)

    return _triplets(
        "triplet_margin_loss", (anchor, positive, negative), distance, margin, swap, reduction
    )


@op(Face.FUNCTIONAL)
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """:func:`triplet_margin_loss` with a distance of one's own; None: the Euclidean.

    Raises:
        ArgumentError: if ``reduction`` is no reduction, or ``margin`` is not above 0.
        ShapeError: if the shapes do not broadcast.
    """
    if distance_function is None:
        return triplet_margin_loss(
            anchor, positive, negative, margin, swap=swap, reduction=reduction
        )
    return _triplets(
        "triplet_margin_with_distance_loss",
        (anchor, positive, negative),
        distance_function,
        margin,
        swap,
        reduction,
    )


def _triplets(
    name: str,
    triplet: tuple[Tensor, Tensor, Tensor],
    distance: Callable[[Tensor, Tensor], Tensor],
    margin: float,
    swap: bool,  # noqa: FBT001
    reduction: str,
) -> Tensor:
    if margin <= 0:
        raise ArgumentError(name, "margin is above 0", margin=margin)
    reduction = known_reduction(name, reduction)
    anchor, positive, negative = triplet
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = minimum(far, distance(positive, negative))
    return element_losses(name, _exceeding, [near, far], [margin], reduction)


def _exceeding(near, far, margin):
    return _hinge(near - far + margin)


@op(Face.FUNCTIONAL)
def multi_margin_loss(
    x: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
) -> Tensor:
    """The mean over other classes ``j`` of ``max(0, margin - x[target] + x[j]) ** p``.

    Args:
        x: scores, ``(n, c)``, or ``(c,)`` and ``()`` of one row.
        target: classes, ``(n,)``; of one row ``()`` or ``(1,)``.
        p: 1 or 2.
        margin: by how much the right score exceeds the others.
        weight: of each class, ``(c,)``, or None.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Returns:
        One element, or ``target``'s shape.

    Raises:
        ArgumentError: if ``reduction`` is none of these, or ``p`` is neither.
        DtypeError: if the classes are not whole numbers.
        ShapeError: if the shapes do not fit.
    """
    name = "multi_margin_loss"
    reduction = known_reduction(name, reduction)
    if p not in (1, 2):
        raise ArgumentError(name, "p is 1 or 2", p=p)
    if x.ndim > 2 or target.shape not in ([x.shape[:-1]] if x.ndim == 2 else [(), (1,)]):
        raise ShapeError(name, "the target has x's shape without the classes", x=x.shape,
                         target=target.shape)  # fmt: skip
    if x.ndim < 2:
        x = reshape(x, (*target.shape, x.numel()))
    require_classes(name, target, x.shape[-1])
    classes = unsqueeze(to_dtype(target, int64), -1)
    others = one_hot(classes, x.shape[-1], x.ndim - 1)
    body, gradient = _MARGINS[p]
    right = gather_within(x, -1, classes)
    operands = [x, right, others]
    losses = evaluate(name, body, operands, [margin], result=Result.floating, gradient=gradient)
    if weight is not None:
        rows = expand(reshape(weight, (1,) * (x.ndim - 1) + weight.shape), x.shape)
        losses = losses * gather_within(rows, -1, classes)
    return reduced(losses.sum(-1) / x.shape[-1], reduction)


def _positive(z):
    return e.where(z > 0, z, 0)  # its gradient at 0 is 0, and NaN counts nothing, as PyTorch's


def _margins(x, right, is_target, margin):
    return e.where(is_target, 0, _positive(margin - right + x))


def _square_margins(x, right, is_target, margin):
    z = _positive(margin - right + x)
    return e.where(is_target, 0, z * z)


def _margins_gradient(g, y, x, right, is_target, margin):
    exceeds = e.logical_and(e.logical_not(is_target), margin - right + x > 0)
    slope = e.where(exceeds, g, 0)
    return slope, -slope, e.as_number(0)


def _square_margins_gradient(g, y, x, right, is_target, margin):
    z = margin - right + x
    exceeds = e.logical_and(e.logical_not(is_target), z > 0)
    slope = e.where(exceeds, 2 * g * z, 0)
    return slope, -slope, e.as_number(0)


_MARGINS = {1: (_margins, _margins_gradient), 2: (_square_margins, _square_margins_gradient)}


@op(Face.FUNCTIONAL)
def multilabel_margin_loss(x: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """The sum over labels ``i`` and other classes ``j`` of ``max(0, 1 - x[i] + x[j]) / c``.

    Args:
        x: scores, ``(n, c)``, or ``(c,)`` and ``()`` of one row.
        target: of ``x``'s shape, int64: each row's labels, -1 behind the last.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Returns:
        One element, or ``x``'s shape without the last axis.

    Raises:
        ArgumentError: if ``reduction`` is none of these.
        ShapeError: if the shapes differ, or there are more axes.
        DtypeError: if the labels are not whole numbers.
    """
    name = "multilabel_margin_loss"
    reduction = known_reduction(name, reduction)
    if x.ndim > 2 or target.shape != x.shape:
        raise ShapeError(name, "x has up to two axes, and the target its shape", x=x.shape,
                         target=target.shape)  # fmt: skip
    require_index(name, target)
    if not x.ndim:
        x, target = unsqueeze(x, 0), unsqueeze(target, 0)
    classes = x.shape[-1]
    law = f"labels lie in [0, {classes}), or are -1"
    require_elements(
        target, of_value(name, "target", law, DataBoundsError), Bad.OUTSIDE, -1, classes - 1
    )
    place = positions(type(x), classes, x.device)
    counts = lt(place, where(lt(target, 0), place, classes).amin(-1, keepdim=True))
    labels = where(counts, target, 0)
    named = logical_and(eq(unsqueeze(target, -1), place), unsqueeze(counts, -1))
    named = named.any(-2, keepdim=True)
    pairs = logical_and(unsqueeze(counts, -1), eq(named, 0))
    scores = [unsqueeze(gather_within(x, -1, labels), -1), unsqueeze(x, -2), pairs]
    losses = evaluate(name, _label_margin, scores, result=Result.floating)
    return reduced(losses.sum((-2, -1)) / classes, reduction)


def _label_margin(label, other, counts):
    return e.where(counts, _positive(1 - label + other), 0)


@op(Face.FUNCTIONAL)
def multilabel_soft_margin_loss(
    x: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean"
) -> Tensor:
    """The mean over the classes of binary cross entropies of ``sigmoid(x)``.

    Args:
        x: scores, ``(..., c)``.
        target: probabilities of the classes, of ``x``'s shape.
        weight: of each class, ``(c,)``, or None.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Returns:
        One element, or ``x``'s shape without the last axis.

    Raises:
        ArgumentError: if ``reduction`` is none of these.
        ShapeError: if the shapes differ.
    """
    name = "multilabel_soft_margin_loss"
    if x.shape != target.shape:
        raise ShapeError(name, "x and target have one shape", x=x.shape, target=target.shape)
    losses = element_losses(name, _logistic, [x, target], [], "none")
    reduction = known_reduction(name, reduction)
    return reduced((losses if weight is None else losses * weight).mean(-1), reduction)


def _logistic(x, target):
    return target * e.softplus(-x) + (1 - target) * e.softplus(x)
