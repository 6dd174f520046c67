"""Random choices whose probabilities are tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ArgumentError, ShapeError
from ..expr import log, log1p, maximum, where
from ..kernels.reduce import Bad
from ..values.dtypes import float32, float64, from_name
from ..values.generator import Generator
from .check import of_value, require_elements
from .create import zeros_like
from .machinery.function import Face, op, require_floating
from .machinery.pointwise import evaluate
from .random import coins, random_like, uniform_, uniform_numbers
from .reduce import argmax
from .scan import cumsum
from .scatter import scatter
from .search import searchsorted
from .shape import narrow, to_dtype
from .softmax import softmax
from .sort import topk

if TYPE_CHECKING:
    from ..tensor import Tensor

_LEAST_TIME = 2.0**-25
"""Stands for a uniform number of 0, which means less than ``2**-24``."""


@op()
def bernoulli(x: Tensor, p: float | None = None, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability that an element gives, else 0.

    Args:
        x: the probabilities, in ``[0, 1]``; with ``p`` only their shape and dtype count.
        p: one probability for all.
        generator: where the random numbers come from; None: the mode's generator.

    Returns:
        The shape and dtype of ``x``, off the tape.

    Raises:
        DtypeError: if ``x`` is not floating.
        ArgumentError: if ``p`` lies outside ``[0, 1]``.
        DataDomainError: at the next synchronisation, if a probability does.
    """
    if p is not None:
        return x.new_empty(x.shape).bernoulli_(p, generator=generator)
    return to_dtype(coins("bernoulli", x, x.shape, generator), x.dtype)


@op()
def multinomial(
    x: Tensor,
    num_samples: int,
    replacement: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Categories drawn with the probabilities that weights give.

    Every category runs a race of exponential times, faster the larger its weight; the first ones
    are drawn. With replacement a random number for each sample is looked up among the running sums
    of the weights, in float64 where the device has it.

    Args:
        x: ``(categories,)`` or ``(rows, categories)``: weights, 0 or more, of any sum above 0.
        num_samples: how many to draw from each row.
        replacement: whether a category may be drawn again. If not, those of weight 0 come last.
        generator: where the random numbers come from; None: the mode's generator.

    Returns:
        ``(num_samples,)`` or ``(rows, num_samples)``, int64.

    Raises:
        ShapeError: if ``x`` has other axes, or no category.
        DtypeError: if it is not floating.
        ArgumentError: if there are not as many categories to draw.
        DataDomainError: at the next synchronisation, if a weight is negative or not finite, or
            those of a row are all 0.
    """
    require_floating("multinomial", x.array)
    if x.ndim not in (1, 2) or x.shape[-1] == 0:
        raise ShapeError("multinomial", "x is (categories,) or (rows, categories)", x=x.shape)
    if num_samples < 1 or (num_samples > x.shape[-1] and not replacement):
        raise ArgumentError(
            "multinomial",
            "without replacement there are num_samples categories, 1 or more",
            num_samples=num_samples,
            x=x.shape,
        )
    weights = x.detach()
    law = "weights are finite, and 0 or more"
    most = np.finfo(x.dtype.compute).max
    require_elements(weights, of_value("multinomial", "x", law), Bad.OUTSIDE, 0, float(most))
    law = "the sum of a row's weights is above 0"
    if replacement:
        wide = float64 if x.device.traits.float64 else float32
        sums = cumsum(to_dtype(weights, wide), -1)
        total = narrow(sums, -1, x.shape[-1] - 1, 1)
        require_elements(total, of_value("multinomial", "sum", law), Bad.NOT_ABOVE, 0)
        drawn = uniform_(sums.new_empty(*x.shape[:-1], num_samples), generator=generator)
        # A number below 1 times the sum is rounded to less than the sum.
        return searchsorted(sums, drawn * total, right=True)
    sums = to_dtype(weights, from_name(x.dtype.compute)).sum(-1)
    require_elements(sums, of_value("multinomial", "sum", law), Bad.NOT_ABOVE, 0)
    times = uniform_numbers(x, x.shape, generator)
    return topk(evaluate("multinomial", _speed, [weights, times]), num_samples).indices


def _speed(weight: Any, u: Any) -> Any:
    return where(weight > 0, weight / maximum(-log1p(-u), _LEAST_TIME), 0.0)


@op(Face.FUNCTIONAL)
def gumbel_softmax(
    logits: Tensor,
    tau: float = 1.0,
    hard: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
    eps: float = 1e-10,
    dim: int = -1,
) -> Tensor:
    """Softmax of ``(logits + noise) / tau``: a draw of one class that has a gradient.

    Args:
        logits: any shape, floating.
        tau: small: nearly one class; large: nearly all alike.
        hard: give one class alone, with the gradient of the soft draw.
        eps: taken as PyTorch does, and not used.
        dim: the axis of the classes.

    Returns:
        The shape of ``logits``.

    Raises:
        ArgumentError: if ``tau`` is not above 0.
        BoundsError: if there is no such axis.
        DtypeError: if ``logits`` is not floating.
    """
    if tau <= 0:
        raise ArgumentError("gumbel_softmax", "tau is above 0", tau=tau)
    require_floating("gumbel_softmax", logits.array)
    draw = random_like(logits, low=_LEAST_TIME, high=1.0)
    noisy = evaluate("gumbel_softmax", _noisy, [logits, draw], [tau], promoted=[logits])
    soft = softmax(noisy, dim)
    if not hard:
        return soft
    chosen = argmax(soft.detach(), dim, keepdim=True)
    one = scatter(zeros_like(soft.detach()), dim, chosen, 1.0)
    return one - soft.detach() + soft


def _noisy(x: Any, u: Any, tau: Any) -> Any:
    """With noise of Gumbel's distribution, by inversion."""
    return (x - log(-log(u))) / tau
