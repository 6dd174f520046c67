"""Distributions in the interval from 0 to 1 of one probability."""

# ruff: noqa: FBT001 - PyTorch's validate_args

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import ops
from ..tensor import Tensor
from . import constraint
from .discrete import Binary
from .parameter import Kept, clamp_probs


class ContinuousBernoulli(Binary):
    """The density ``C p^x (1 - p)^(1 - x)`` for ``x`` from 0 to 1 (Loaiza-Ganem, Cunningham 2019).

    Args:
        probs: ``p``, which is not the mean; 0 and 1 are taken by the dtype's least step inside.
        logits: its logit; one of the two.
        lims: between these probabilities, where the formulas divide 0 by 0, their series are taken.
        validate_args: as for :class:`Distribution`.

    Example:
        >>> import clnet
        >>> clnet.distributions.ContinuousBernoulli(probs=0.5).log_prob(clnet.ones(1)).item()
        0.0
    """

    has_rsample = True
    support = constraint.unit_interval
    probs: Any = Kept(lambda given: clamp_probs(given["logits"].sigmoid()))

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(probs, logits, validate_args=validate_args)
        if probs is not None:
            self.probs = clamp_probs(self.probs)
        self._lims = lims

    def _steep(self) -> Tensor:
        """Where the formulas hold."""
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut(self) -> Tensor:
        """The probabilities, without those for which the formulas do not hold."""
        return ops.where(self._steep(), self.probs, self._lims[0])

    def log_normalizer(self) -> Tensor:
        """``log(C)``, which is ``log(2 atanh(1 - 2 p) / (1 - 2 p))``."""
        cut = self._cut()
        low, high = ops.where(cut <= 0.5, cut, 0.0), ops.where(cut >= 0.5, cut, 1.0)
        width = ops.where(cut <= 0.5, (-2 * low).log1p(), (2 * high - 1).log())
        exact = ((-cut).log1p() - cut.log()).abs().log() - width
        square = (self.probs - 0.5) ** 2
        near = math.log(2) + (4 / 3 + 104 / 45 * square) * square
        return ops.where(self._steep(), exact, near)

    @property
    def mean(self) -> Tensor:
        """``p / (2 p - 1) + 1 / (2 atanh(1 - 2 p))``."""
        cut, away = self._cut(), self.probs - 0.5
        exact = cut / (2 * cut - 1) + 1 / ((-cut).log1p() - cut.log())
        return ops.where(self._steep(), exact, 0.5 + (1 / 3 + 16 / 45 * away**2) * away)

    @property
    def variance(self) -> Tensor:
        """``p (p - 1) / (1 - 2 p)^2 + 1 / (2 atanh(1 - 2 p))^2``."""
        cut, square = self._cut(), (self.probs - 0.5) ** 2
        exact = cut * (cut - 1) / (1 - 2 * cut) ** 2 + 1 / ((-cut).log1p() - cut.log()) ** 2
        return ops.where(self._steep(), exact, 1 / 12 - (1 / 15 - 128 / 945 * square) * square)

    def draw(self, sample_shape: Sequence[int]) -> Tensor:
        return self.icdf(self.uniform_numbers(self._extended_shape(sample_shape), self.probs))

    def log_prob(self, value: Tensor) -> Tensor:
        """``x log(p) + (1 - x) log(1 - p) + log(C)``."""
        self._validate_sample(value)
        logits, value = ops.broadcast_tensors(self.logits, value)
        crossed = ops.binary_cross_entropy_with_logits(logits, value, reduction="none")
        return self.log_normalizer() - crossed

    def cdf(self, value: Tensor) -> Tensor:
        """``(p^x (1 - p)^(1 - x) + p - 1) / (2 p - 1)``."""
        self._validate_sample(value)
        cut = self._cut()
        exact = (cut**value * (1 - cut) ** (1 - value) + cut - 1) / (2 * cut - 1)
        inside = ops.where(self._steep(), exact, value)
        return ops.where(value <= 0, 0.0, ops.where(value >= 1, 1.0, inside))

    def icdf(self, value: Tensor) -> Tensor:
        """``log(1 + y (2 p - 1) / (1 - p)) / log(p / (1 - p))``."""
        cut = self._cut()
        less = (-cut).log1p()
        exact = ((-cut + value * (2 * cut - 1)).log1p() - less) / (cut.log() - less)
        return ops.where(self._steep(), exact, value)

    def entropy(self) -> Tensor:
        """``-(log(C) + E[x] log(p) + (1 - E[x]) log(1 - p))``."""
        failed, won = (-self.probs).log1p(), self.probs.log()
        return self.mean * (failed - won) - self.log_normalizer() - failed
