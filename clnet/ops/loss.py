"""Losses, in PyTorch's names: each gives the mean, the sum, or the loss of every element."""

# Bodies are called with symbols and say so here, once.
# pyrefly: ignore-errors[implicit-any-parameter]

from __future__ import annotations

import builtins
import math
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .. import expr as e
from ..array import Array
from ..device import Check, Launch, Target
from ..errors import ArgumentError, DtypeError, ShapeError
from ..kernels.reduce import Bad
from ..kernels.softmax import Settings, cross_entropy_grad
from ..kernels.softmax import cross_entropy as launch_cross_entropy
from ..values.dtypes import Kind, from_name, int64
from ..values.shapes import Shape, broadcast_shapes
from .arithmetic import ne
from .check import of_index, of_value, require_elements
from .join import stack
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
    require_floating,
    require_same_dtype,
)
from .machinery.pointwise import Result, evaluate
from .reduce import one_hot
from .shape import contiguous, reshape, to_dtype, unsqueeze
from .softmax import log_softmax
from .stacking import broadcast_tensors

if TYPE_CHECKING:
    from ..tensor import Tensor

OLD_MEAN = "elementwise_mean"  # PyTorch 0.4.1's word
_REDUCTIONS = ("none", "sum", "mean")
# PyTorch broadcasts these, and warns.
_DISTANCES = {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"}


class CrossEntropy(Function):
    """Loss of ``x`` against classes: inputs ``x``, targets and, where they are, class weights.

    Its outputs are the loss, then what the gradient needs: the largest scores with the logarithms
    of the sums of exponentials less them (unless ``x`` are log-probabilities), and the targets'
    total weight (for the mean).
    """

    sixteen_bit = False
    repeats = True

    settings: Settings
    check: Check | None = None

    differentiable = (0,)

    @property
    def name(self) -> str:
        return "cross_entropy" if self.settings.normalize else "nll_loss"

    def infer(self, x: Array, targets: Array, *weight: Array) -> tuple[Array, ...]:
        """The loss and what is saved."""
        require_floating(self.name, x)
        require_same_dtype(self.name, x=x, **({"weight": weight[0]} if weight else {}))
        if targets.dtype is not int64:
            raise DtypeError(self.name, "targets are classes, int64", target=targets.dtype)
        axis = builtins.min(1, x.ndim - 1)
        if x.ndim == 0 or targets.shape != (*x.shape[:axis], *x.shape[axis + 1 :]):
            raise ShapeError(
                self.name,
                "the target has x's shape without the classes",
                x=x.shape,
                target=targets.shape,
            )
        if weight and weight[0].shape != (x.shape[axis],):
            raise ShapeError(
                self.name, "weight has one element a class", x=x.shape, weight=weight[0].shape
            )
        kept: list[Shape] = [(2, *targets.shape)] if self.settings.normalize else []
        if self.settings.reduction == "mean":
            kept.append(())
        loss = Array.abstract(
            targets.shape if self.settings.reduction == "none" else (), x.dtype, x.device
        )
        wide = from_name(x.dtype.compute)
        return loss, *(Array.abstract(shape, wide, x.device) for shape in kept)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """The losses, then their reduction."""
        x, targets, *weight = inputs
        out, *kept = outputs
        lse, total = self._kept(kept)
        return launch_cross_entropy(
            target,
            out,
            lse,
            total,
            x,
            targets,
            weight[0] if weight else None,
            settings=self.settings,
            check=self.check,
        )

    def saves(self, needs: tuple[bool, ...]) -> tuple[Sequence[int], Sequence[int]]:
        """The inputs, and all outputs but the loss."""
        count = 1 + self.settings.normalize + (self.settings.reduction == "mean")
        return range(len(needs)), range(1, count)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """One fused launch, which reads the gradient of the loss on the device."""
        inputs = [saved.inputs[i] for i in range(len(needs))]
        kept = [saved.outputs[k] for k in sorted(saved.outputs)]
        function = CrossEntropyBackward(self.settings)
        gx = apply(function, contiguous(grads[0]), *inputs, *kept)
        return (gx, *[None] * (len(needs) - 1))

    def decompose(self, x: Tensor, targets: Tensor, *weight: Tensor) -> tuple[Any, ...]:
        """In sums over a mask of the targets' classes."""
        axis = builtins.min(1, x.ndim - 1)
        log_p = log_softmax(x, axis) if self.settings.normalize else x
        classes = x.shape[axis]
        along = tuple(classes if i == axis else 1 for i in range(x.ndim))
        hot = to_dtype(one_hot(unsqueeze(targets, axis), classes, axis), x.dtype)
        smoothing = self.settings.label_smoothing
        share = hot * (1 - smoothing) + smoothing / classes if smoothing else hot
        if weight:
            share = share * reshape(weight[0], along)
            hot = hot * reshape(weight[0], along)
        counts = to_dtype(ne(targets, self.settings.ignore_index), x.dtype)
        losses = -(share * log_p).sum(axis) * counts
        top = x.detach().amax(axis, keepdim=True)
        lse = stack([reshape(top, targets.shape), (x - top).logsumexp(axis)])
        total = (hot.sum(axis) * counts).sum()
        kept = ((lse,) if self.settings.normalize else ()) + (
            (total,) if self.settings.reduction == "mean" else ()
        )
        if self.settings.reduction == "none":
            return losses, *kept
        loss = losses.sum()
        return (loss / total if self.settings.reduction == "mean" else loss), *kept

    def _kept(self, kept: Sequence[Any]) -> tuple[Any, Any]:
        lse = kept[0] if self.settings.normalize else None
        return lse, kept[-1] if self.settings.reduction == "mean" else None


class CrossEntropyBackward(Function):
    """The gradient of :class:`CrossEntropy`: inputs gy, its inputs, its outputs but the loss."""

    sixteen_bit = False
    repeats = True
    elementwise = True

    settings: Settings

    @property
    def name(self) -> str:
        return "cross_entropy_backward" if self.settings.normalize else "nll_loss_backward"

    def infer(self, gy: Array, x: Array, *rest: Array) -> tuple[Array, ...]:
        """``x``'s shape."""
        return (Array.abstract(x.shape, x.dtype, x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        gy, x, targets, *rest = inputs
        total = rest.pop() if self.settings.reduction == "mean" else None
        lse = rest.pop() if self.settings.normalize else None
        weight = rest.pop() if rest else None
        return cross_entropy_grad(
            target, outputs[0], gy, lse, total, x, targets, weight, settings=self.settings
        )


@op(Face.FUNCTIONAL)
@computes_as_one
def cross_entropy(
    x: Tensor,
    target: Tensor,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """``-log(softmax(x)[target])``: the loss of class scores.

    Args:
        x: scores, ``(n, c, ...)`` or ``(c,)``.
        target: classes, integers of ``x``'s shape without ``c``; or probabilities of ``x``'s shape.
        weight: of each class, ``(c,)``, or None.
        ignore_index: a class that counts nothing.
        reduction: ``"mean"`` (over the weights of the targets), ``"sum"`` or ``"none"``.
        label_smoothing: share of each target that is spread evenly over all classes.

    Returns:
        One element, or ``target``'s shape. A class outside ``[0, c)`` gives NaN, and an error at
        the next synchronisation.

    Raises:
        ArgumentError: if ``reduction`` or ``label_smoothing`` is none of these.
        DtypeError: if ``x`` is not floating.
        ShapeError: if the shapes do not fit.
        DataBoundsError: at the next synchronisation, if a target is no class.
    """
    if not 0 <= label_smoothing <= 1:
        raise ArgumentError(
            "cross_entropy", "label_smoothing lies in [0, 1]", label_smoothing=label_smoothing
        )
    reduction = known_reduction("cross_entropy", reduction)
    if target.dtype.is_floating_point:
        return _soft_cross_entropy(x, target, weight, reduction, label_smoothing)
    settings = Settings(reduction, ignore_index, float(label_smoothing), normalize=True)
    return _against_classes(x, target, weight, settings)


@op(Face.FUNCTIONAL)
def nll_loss(
    x: Tensor,
    target: Tensor,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """``-x[target]``: the loss of log-probabilities; otherwise as :func:`cross_entropy`."""
    reduction = known_reduction("nll_loss", reduction)
    settings = Settings(reduction, ignore_index, 0.0, normalize=False)
    return _against_classes(x, target, weight, settings)


def _against_classes(
    x: Tensor, target: Tensor, weight: Tensor | None, settings: Settings
) -> Tensor:
    if target.dtype.kind is Kind.INTEGER:
        target = to_dtype(target, int64)
    operands = [contiguous(t) for t in (x, target, weight) if t is not None]
    name = "cross_entropy" if settings.normalize else "nll_loss"
    function = CrossEntropy(settings, of_index(name, "target", size="classes"))
    outputs = apply(function, *operands)
    return outputs[0] if isinstance(outputs, tuple) else outputs


def _soft_cross_entropy(
    x: Tensor, target: Tensor, weight: Tensor | None, reduction: str, label_smoothing: float
) -> Tensor:
    if x.shape != target.shape:
        raise ShapeError(
            "cross_entropy", "probabilities have x's shape", x=x.shape, target=target.shape
        )
    axis = builtins.min(1, x.ndim - 1)
    if label_smoothing:
        target = target * (1 - label_smoothing) + label_smoothing / x.shape[axis]
    products = target * log_softmax(x, axis)
    if weight is not None:
        along = tuple(-1 if i == axis else 1 for i in range(x.ndim))
        products = products * reshape(weight, along)
    losses = -products.sum(axis)
    if reduction == "mean":
        # Of nothing NaN, as PyTorch's: of no examples, and of examples without classes.
        return losses.sum() / losses.numel() if x.numel() else losses.sum() * math.nan
    return losses if reduction == "none" else losses.sum()


def known_reduction(name: str, reduction: str) -> str:
    """One of PyTorch's names of reductions, also of the oldest, with a warning.

    Raises:
        ArgumentError: if it is none.
    """
    if reduction == OLD_MEAN:
        text = f"reduction={OLD_MEAN!r} is deprecated, please use reduction='mean' instead."
        warnings.warn(text, UserWarning, stacklevel=4)
        return "mean"
    if reduction not in _REDUCTIONS:
        raise ArgumentError(name, "reduction is none, sum or mean", reduction=repr(reduction))
    return reduction


def _elementwise(
    name: str,
    body: Callable[..., Any],
    operands: Sequence[Any],
    reduction: str,
    options: Sequence[float] = (),
    weight: Tensor | None = None,
    gradient: Callable[..., Any] | None = None,
) -> Tensor:
    """The loss of every element, weighted, then its reduction; of ``_DISTANCES`` also broadcast."""
    reduction = known_reduction(name, reduction)
    x, target, *others = operands
    if x.shape != target.shape:
        shapes = {"x": x.shape, "target": target.shape}
        if name not in _DISTANCES:
            raise ShapeError(name, "x and target have one shape", **shapes)
        operands = [*broadcast_tensors(x, target), *others]
        text = f"{name}: x {x.shape} and target {target.shape} differ in shape and are broadcast"
        warnings.warn(f"{text}, which is seldom meant", UserWarning, stacklevel=4)
    losses = evaluate(name, body, operands, options, result=Result.floating, gradient=gradient)
    if weight is not None:
        losses = losses * weight
    if name not in _DISTANCES and losses.shape != x.shape:
        law = "weights are broadcast to the shape of x, and not beyond"
        raise ShapeError(name, law, x=x.shape, weighted=losses.shape)
    return reduced(losses, reduction)


def element_losses(
    name: str,
    body: Callable[..., Any],
    operands: list[Any],
    options: list[float],
    reduction: str,
    gradient: Callable[..., Any] | None = None,
) -> Tensor:
    """The loss of every element of the operands' common shape, then its reduction."""
    reduction = known_reduction(name, reduction)
    broadcast_shapes(name, *(x.shape for x in operands))
    losses = evaluate(name, body, operands, options, result=Result.floating, gradient=gradient)
    return reduced(losses, reduction)


def reduced(losses: Tensor, reduction: str) -> Tensor:
    """The losses of the elements, their mean or their sum."""
    if reduction == "none":
        return losses
    return losses.mean() if reduction == "mean" else losses.sum()


@op(Face.FUNCTIONAL)
def mse_loss(
    x: Tensor, target: Tensor, *, reduction: str = "mean", weight: Tensor | None = None
) -> Tensor:
    """``(x - target) ** 2``.

    Args:
        x: any shape.
        target: of ``x``'s shape; another is broadcast with a warning.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        weight: of ``x``'s shape, a factor of each loss; the mean is by the sum of them.

    Returns:
        One element, or the operands' shape.

    Raises:
        ArgumentError: if ``reduction`` is none of these.
        ShapeError: if the shapes do not broadcast.
    """
    if weight is not None:
        each = _elementwise("mse_loss", _mse_loss, [x, target], "none")
        return _weighted("mse_loss", each, x, weight, reduction)
    return _elementwise("mse_loss", _mse_loss, [x, target], reduction)


def _mse_loss(x, target):
    return (x - target) * (x - target)


@op(Face.FUNCTIONAL)
def l1_loss(
    x: Tensor, target: Tensor, *, reduction: str = "mean", weight: Tensor | None = None
) -> Tensor:
    """``|x - target|``; otherwise as :func:`mse_loss`."""
    if weight is not None:
        each = _elementwise("l1_loss", _l1_loss, [x, target], "none")
        return _weighted("l1_loss", each, x, weight, reduction)
    return _elementwise("l1_loss", _l1_loss, [x, target], reduction)


def _weighted(name: str, each: Tensor, x: Tensor, weight: Tensor, reduction: str) -> Tensor:
    """Losses times weights; their mean is by the sum of the weights."""
    if weight.shape != x.shape:
        raise ShapeError(name, "weight has the shape of x", x=x.shape, weight=weight.shape)
    reduction = known_reduction(name, reduction)
    found = each * weight
    return found.sum() / weight.sum() if reduction == "mean" else reduced(found, reduction)


def _l1_loss(x, target):
    return builtins.abs(x - target)


@op(Face.FUNCTIONAL)
def smooth_l1_loss(
    x: Tensor, target: Tensor, *, reduction: str = "mean", beta: float = 1.0
) -> Tensor:
    """``d ** 2 / (2 beta)`` where ``d = |x - target| < beta``, else ``d - beta / 2``.

    Args:
        x: any shape.
        target: of ``x``'s shape; another is broadcast with a warning.
        reduction: as :func:`mse_loss`'s.
        beta: where the parabola ends; 0 gives :func:`l1_loss`.

    Returns:
        One element, or the operands' shape.

    Raises:
        ArgumentError: if ``beta`` is negative.
        ShapeError: if the shapes do not broadcast.
    """
    if not beta >= 0:
        raise ArgumentError("smooth_l1_loss", "beta is 0 or more", beta=beta)
    if beta == 0:
        return l1_loss(x, target, reduction=reduction)
    return _elementwise(
        "smooth_l1_loss",
        _smooth_l1_loss,
        [x, target],
        reduction,
        [beta],
        gradient=_smooth_l1_gradient,
    )


def _smooth_l1_loss(x, target, beta):
    d = builtins.abs(x - target)
    return e.where(d < beta, 0.5 * d * d / beta, d - 0.5 * beta)


def _smooth_l1_gradient(g, y, x, target, beta):
    d = x - target
    slope = g * e.where(d <= -beta, -1, e.where(d >= beta, 1, d / beta))
    return slope, -slope


@op(Face.FUNCTIONAL)
def huber_loss(
    x: Tensor,
    target: Tensor,
    *,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """``d ** 2 / 2`` where ``d = |x - target| < delta``, else ``delta (d - delta / 2)``.

    Args:
        x: any shape.
        target: of ``x``'s shape; another is broadcast with a warning.
        reduction: as :func:`mse_loss`'s.
        delta: where the parabola ends.
        weight: of ``x``'s shape, a factor of each loss; the mean is by their number.

    Returns:
        One element, or the operands' shape.

    Raises:
        ArgumentError: if ``delta`` is not above 0.
        ShapeError: if the shapes do not broadcast.
    """
    if not delta > 0:
        raise ArgumentError("huber_loss", "delta is above 0", delta=delta)
    if weight is not None:
        each = huber_loss(x, target, reduction="none", delta=delta)
        how = "sum" if reduction == "mean" else reduction
        found = _weighted("huber_loss", each, x, weight, how)
        return found / each.numel() if reduction == "mean" else found
    return _elementwise(
        "huber_loss", _huber_loss, [x, target], reduction, [delta], gradient=_huber_gradient
    )


def _huber_loss(x, target, delta):
    d = builtins.abs(x - target)
    return e.where(d < delta, 0.5 * d * d, delta * (d - 0.5 * delta))


def _huber_gradient(g, y, x, target, delta):
    d = x - target
    slope = g * e.where(d <= -delta, -delta, e.where(d >= delta, delta, d))
    return slope, -slope


@op(Face.FUNCTIONAL)
@computes_as_one
def binary_cross_entropy(
    x: Tensor, target: Tensor, *, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """``-(target log x + (1 - target) log(1 - x))``, the logarithms at least -100.

    Args:
        x: probabilities.
        target: probabilities, of ``x``'s shape.
        weight: of each element, broadcast, or None.
        reduction: as :func:`mse_loss`'s.

    Returns:
        One element, or ``x``'s shape.

    Raises:
        ShapeError: if the shapes differ.
        DataDomainError: at the next synchronisation, if an element lies outside [0, 1].
    """
    loss = _elementwise(
        "binary_cross_entropy",
        _binary_cross_entropy,
        [x, target],
        reduction,
        weight=weight,
        gradient=_binary_cross_entropy_gradient,
    )
    # Where x lies outside, its loss is NaN, and so is any mean or sum of it.
    gate = None if reduction == "none" else loss
    for operand, name, seen in ((x, "x", gate), (target, "target", None)):
        check = of_value("binary_cross_entropy", name, "it lies in [0, 1]")
        require_elements(operand, check, Bad.OUTSIDE, 0, 1, gate=seen)
    return loss


def _binary_cross_entropy(x, target):
    hit, miss = e.log(x), e.log1p(-x)
    hit, miss = e.where(hit < -100, -100.0, hit), e.where(miss < -100, -100.0, miss)
    return (target - 1) * miss - target * hit


def _binary_cross_entropy_gradient(g, y, x, target):
    # The logarithms are held, their slopes are not: at 0 and 1 a wrong answer is still corrected.
    spread = x * (1 - x)
    slope = g * ((x - target) / e.where(spread < 1e-12, 1e-12, spread))
    return slope, g * (e.log1p(-x) - e.log(x))


@op(Face.FUNCTIONAL)
@computes_as_one
def binary_cross_entropy_with_logits(
    x: Tensor,
    target: Tensor,
    *,
    weight: Tensor | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """:func:`binary_cross_entropy` of ``sigmoid(x)``, stable for large ``|x|``.

    Args:
        x: scores.
        target: probabilities, of ``x``'s shape.
        weight: of each element, broadcast, or None.
        reduction: as :func:`mse_loss`'s.
        pos_weight: factor of the targets' part, broadcast, or None.

    Returns:
        One element, or ``x``'s shape.

    Raises:
        ShapeError: if the shapes differ.
    """
    factor = 1.0 if pos_weight is None else pos_weight
    operands = [x, target, factor]
    return _elementwise(
        "binary_cross_entropy_with_logits",
        _binary_cross_entropy_with_logits,
        operands,
        reduction,
        weight=weight,
        gradient=_binary_cross_entropy_with_logits_gradient,
    )


def _binary_cross_entropy_with_logits(x, target, pos_weight):
    return (1 - target) * x + (1 + (pos_weight - 1) * target) * e.softplus(-x)


def _binary_cross_entropy_with_logits_gradient(g, y, x, target, pos_weight):
    # A sure and right answer, of either sign, has the small slope it should have, not 1 - 1.
    miss, hit = e.softplus(x), e.softplus(-x)
    slope = (1 - target) * e.sigmoid(x) - pos_weight * target * e.sigmoid(-x)
    return g * slope, g * (pos_weight * hit - miss), g * (target * hit)
