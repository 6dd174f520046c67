"""Losses of likelihoods, in PyTorch's names; composed of ops."""

# Bodies are called with symbols and say so here, once.
# pyrefly: ignore-errors[implicit-any-parameter]

from __future__ import annotations

from math import log as number_log
from math import pi
from typing import TYPE_CHECKING

from .. import expr as e
from ..errors import ArgumentError, ShapeError
from ..kernels.reduce import Bad
from .arithmetic import clamp, eq, where
from .check import of_value, require_elements
from .create import full_like
from .loss import cross_entropy, element_losses
from .machinery.function import Face, op
from .matmul import linear
from .shape import reshape, unsqueeze

if TYPE_CHECKING:
    from ..tensor import Tensor

_HALF_LOG_TAU = 0.5 * number_log(2 * pi)


@op(Face.FUNCTIONAL)
def kl_div(
    x: Tensor, target: Tensor, *, reduction: str = "mean", log_target: bool = False
) -> Tensor:
    """``target * (log(target) - x)``: the divergence of ``exp(x)`` from ``target``.

    Args:
        x: log-probabilities.
        target: probabilities, broadcast; or their logarithms.
        reduction: ``"batchmean"`` (the sum over the first axis' size), ``"mean"``, ``"sum"`` or
            ``"none"``.
        log_target: whether ``target`` holds logarithms.

    Returns:
        One element, or the broadcast shape.

    Raises:
        ArgumentError: if ``reduction`` is none of these.
        ShapeError: if the shapes do not broadcast.
    """
    body, gradient = (_kl_of_logs, None) if log_target else (_kl, _kl_gradient)
    if reduction != "batchmean":
        return element_losses("kl_div", body, [x, target], [], reduction, gradient)
    total = element_losses("kl_div", body, [x, target], [], "sum", gradient)
    return total / (x.shape[0] if x.ndim else 1)


def _kl(x, target):
    safe = e.where(target > 0, target, 1)
    return e.where(e.eq(target, 0), 0, target * e.log(e.where(target < 0, target, safe))) - (
        target * x
    )


def _kl_gradient(g, y, x, target):
    zero = e.eq(target, 0)
    slope = e.where(zero, 0, e.log(e.where(zero, 1, target)) + 1)
    return -(g * target), g * (slope - x)


def _kl_of_logs(x, target):
    return e.exp(target) * (target - x)


@op(Face.FUNCTIONAL)
def poisson_nll_loss(
    x: Tensor,
    target: Tensor,
    *,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """``exp(x) - target * x``: the loss of a Poisson distribution's logarithmic rate.

    Args:
        x: logarithms of rates, or rates.
        target: counts, broadcast.
        log_input: whether ``x`` holds logarithms; else the loss is ``x - target * log(x + eps)``.
        full: add Stirling's approximation of ``log(target!)`` where ``target > 1``.
        eps: keeps the logarithm finite.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Returns:
        One element, or the broadcast shape.

    Raises:
        ArgumentError: if ``reduction`` is none of these.
        ShapeError: if the shapes do not broadcast.
    """
    bodies = {
        (True, False): _poisson_log,
        (True, True): _poisson_log_full,
        (False, False): _poisson,
        (False, True): _poisson_full,
    }
    body = bodies[bool(log_input), bool(full)]
    return element_losses("poisson_nll_loss", body, [x, target], [eps], reduction)


def _poisson_log(x, target, eps):
    return e.exp(x) - target * x


def _poisson(x, target, eps):
    return x - target * e.log(x + eps)


def _poisson_log_full(x, target, eps):
    return _poisson_log(x, target, eps) + _stirling(target)


def _poisson_full(x, target, eps):
    return _poisson(x, target, eps) + _stirling(target)


def _stirling(target):
    n = e.where(target > 1, target, 1)
    return e.where(target > 1, n * e.log(n) - n + 0.5 * e.log(2 * pi * n), 0)


@op(Face.FUNCTIONAL)
def gaussian_nll_loss(
    x: Tensor,
    target: Tensor,
    var: Tensor | float,
    *,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """``(log(var) + (x - target) ** 2 / var) / 2``: the loss of a normal distribution.

    Args:
        x: expectations.
        target: samples, of ``x``'s shape or broadcast.
        var: variances, 0 or more: of ``x``'s shape, with one axis of size 1 in it or without the
            last, or a number.
        full: add ``log(2 pi) / 2``.
        eps: smaller variances count as this; the gradient passes as if they did not.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Returns:
        One element, or the broadcast shape.

    Raises:
        ArgumentError: if ``reduction`` is none of these, ``eps`` is not above 0, or the variance is
            a number below 0.
        ShapeError: if the shapes do not fit.
        DataDomainError: at the next synchronisation, if a variance is below 0.
    """
    name = "gaussian_nll_loss"
    if eps <= 0:
        raise ArgumentError(name, "eps is above 0", eps=eps)
    if isinstance(var, int | float):
        if var < 0:
            raise ArgumentError(name, "variances are 0 or more", var=var)
        var = full_like(x, var)
    else:
        require_elements(var, of_value(name, "var", "variances are 0 or more"), Bad.BELOW, 0)
    if var.shape != x.shape:
        if var.shape == x.shape[:-1]:
            var = unsqueeze(var, -1)
        elif not _is_shared(var.shape, x.shape):
            raise ShapeError(name, "there is a variance for each element, or for each along one "
                             "axis", x=x.shape, var=var.shape)  # fmt: skip
    least = clamp(var.detach(), min=eps)
    held = where(eq(least, var.detach()), var, var + (least - var.detach()))  # infinite ones stay
    return element_losses(
        name, _gaussian_full if full else _gaussian, [x, target, held], [], reduction
    )


def _is_shared(var: tuple[int, ...], x: tuple[int, ...]) -> bool:
    """Whether the shapes are alike, but for one axis on which there is one variance."""
    if len(var) != len(x):
        return False
    return [v for v, n in zip(var, x, strict=True) if v != n] == [1]


def _gaussian(x, target, var):
    return 0.5 * (e.log(var) + (x - target) * (x - target) / var)


def _gaussian_full(x, target, var):
    return _gaussian(x, target, var) + _HALF_LOG_TAU


@op(Face.FUNCTIONAL)
def linear_cross_entropy(
    x: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
) -> Tensor:
    """The :func:`cross_entropy` of scores that are a linear function of ``x``.

    Args:
        x: ``(n, k)`` or ``(k,)``, floating.
        linear_weight: ``(c, ..., k)``, same dtype: scores are ``(n, c, ...)``.
        target: as :func:`cross_entropy` takes it.
        linear_bias: ``(c, ...)`` or None.
        weight: of each class, ``(c,)``, or None.
        reduction: ``"mean"`` (over the weights of the targets), ``"sum"`` or ``"none"``.
        ignore_index: a class that counts nothing; None: -100.
        label_smoothing: share of each target that is spread evenly over all classes.

    Returns:
        One element, or ``target``'s shape without probabilities.

    Raises:
        ArgumentError: if ``ignore_index`` is given beside probabilities.
        ShapeError: if the shapes do not fit.
    """
    name, (*outer, inner) = "linear_cross_entropy", linear_weight.shape or (0,)
    if x.ndim not in (1, 2) or len(outer) < 1 or (x.ndim == 1 and len(outer) > 1):
        law = "x is (n, k), or (k,) beside a weight (c, k)"
        raise ShapeError(name, law, x=x.shape, linear_weight=linear_weight.shape)
    if inner != x.shape[-1] or (linear_bias is not None and linear_bias.shape != tuple(outer)):
        raise ShapeError(
            name,
            "weights are (c, ..., k), biases (c, ...)",
            x=x.shape,
            linear_weight=linear_weight.shape,
            linear_bias=None if linear_bias is None else linear_bias.shape,
        )
    bias = None if linear_bias is None else reshape(linear_bias, (linear_bias.numel(),))
    scores = linear(x, reshape(linear_weight, (-1, inner)), bias)
    scores = reshape(scores, (*x.shape[:-1], *outer))
    if target.shape == scores.shape and ignore_index is not None:
        raise ArgumentError(name, "probabilities ignore no class", ignore_index=ignore_index)
    return cross_entropy(
        scores,
        target,
        weight=weight,
        ignore_index=-100 if ignore_index is None else ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )
