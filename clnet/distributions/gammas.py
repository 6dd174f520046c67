"""Distributions made of gamma variables: Gamma, Chi2, Beta, Dirichlet, StudentT.

Gamma variables are drawn by one kernel (Marsaglia, Tsang 2000). Gradients of samples flow to rates
and scales, and to the concentration by how a sample moves with it at the same probability.
"""

# ruff: noqa: FBT001 - PyTorch's validate_args

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from .. import ops
from ..autodiff.custom import Function, once_differentiable
from ..errors import ShapeError
from ..inspection import finfo
from ..kernels.pointwise import draw_gamma as draw_gamma_kernel
from ..ops.gamma import gamma_slope
from ..ops.random import drawn_from
from ..tensor import Tensor
from ..values.dtypes import DType, float32
from . import constraint
from .constraint import Constraint
from .distribution import Distribution, broadcast


def draw_gamma(concentration: Tensor, shape: Sequence[int]) -> Tensor:
    """Gamma variables of rate 1.

    Args:
        concentration: broadcasts to ``shape``.
        shape: of the result.
    """
    a = concentration.expand(tuple(shape))
    drawn = drawn_from(draw_gamma_kernel, a)
    return Drawn.apply(a, drawn.clamp(min=finfo(a.dtype).tiny))


class Drawn(Function):
    """Gamma variables as a function of their concentration."""

    @staticmethod
    def forward(ctx: Any, concentration: Tensor, drawn: Tensor) -> Tensor:
        """What was drawn, of the concentration's shape."""
        ctx.save_for_backward(concentration, drawn)
        return drawn.view_as(drawn)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """To the concentration."""
        concentration, drawn = ctx.saved_tensors
        return grad * gamma_slope(concentration, drawn), None


def draw_log_gamma(d: Distribution, concentration: Tensor, shape: Sequence[int]) -> Tensor:
    """Logarithms of gamma variables of rate 1, float32 at least.

    Those of small concentrations are below the smallest float: of 0.01 four of ten in float32. So
    their logarithms are those of variables of ``a + 1`` and of ``u^(1 / a)``.

    Args:
        d: whose uniform numbers are drawn.
        concentration: broadcasts to ``shape``.
        shape: of the result.
    """
    a = concentration.to(float32) if concentration.dtype.itemsize < 4 else concentration
    a = a.expand(tuple(shape))
    fixed = a.detach()
    drawn = drawn_from(draw_gamma_kernel, fixed + 1).log()
    return LogDrawn.apply(a, drawn + d.uniform_numbers(shape, fixed).log() / fixed)


class LogDrawn(Drawn):
    """Logarithms of gamma variables as a function of their concentration."""

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """To the concentration; near 0 the probability is ``x^a / gamma(a + 1)``."""
        a, drawn = ctx.saved_tensors
        x, near_zero = drawn.exp(), ((a + 1).digamma() - drawn) / a
        small = drawn < 0.5 * math.log(finfo(a.dtype).tiny)
        return grad * ops.where(small, near_zero, gamma_slope(a, x) / x), None


def _shares(found: Tensor, dtype: DType) -> Tensor:
    """Inside (0, 1), whose ends have no finite density."""
    limits = finfo(dtype)
    return found.to(dtype).clamp(limits.tiny, 1 - limits.eps / 2)


class Gamma(Distribution):
    """The density ``rate^a x^(a - 1) exp(-rate x) / gamma(a)``.

    Args:
        concentration: ``a``, above 0.
        rate: above 0.
        validate_args: as for :class:`Distribution`.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "concentration": constraint.positive,
        "rate": constraint.positive,
    }
    has_rsample = True
    support = constraint.nonnegative

    def __init__(
        self, concentration: Tensor | float, rate: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.concentration, self.rate = broadcast(self, concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """``a / rate``."""
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        """``(a - 1) / rate``, not below 0."""
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        """``a / rate^2``."""
        return self.concentration / (self.rate * self.rate)

    def draw(self, sample_shape: Sequence[int]) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return draw_gamma(self.concentration, shape) / self.rate

    def log_prob(self, value: Tensor | float) -> Tensor:
        """Of a number, too, as PyTorch's."""
        if not isinstance(value, Tensor):
            value = self.rate.new_tensor(value)
        self._validate_sample(value)
        if self.rate.dtype.differentiable:  # as PyTorch has it; whole numbers would cut fractions
            value = value.to(self.rate.dtype)
        a = self.concentration
        return ops.xlogy(a, self.rate) + ops.xlogy(a - 1, value) - self.rate * value - a.lgamma()

    def cdf(self, value: Tensor) -> Tensor:
        """The regularised incomplete gamma function of ``rate x``."""
        self._validate_sample(value)
        return ops.igamma(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        """``a - log(rate) + lgamma(a) + (1 - a) digamma(a)``."""
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1 - a) * a.digamma()


class Chi2(Gamma):
    """The sum of squares of normally distributed numbers.

    Args:
        df: how many, degrees of freedom.
        validate_args: as for :class:`Distribution`.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"df": constraint.positive}

    def __init__(self, df: Tensor | float, validate_args: bool | None = None) -> None:
        (df,) = broadcast(self, df)
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)
        if self._checks():
            self._check("df", df, constraint.positive)

    @property
    def df(self) -> Tensor:
        """Degrees of freedom."""
        return self.concentration * 2


class Beta(Distribution):
    """The density ``x^(a - 1) (1 - x)^(b - 1) / B(a, b)``.

    Args:
        concentration1: ``a``, above 0.
        concentration0: ``b``, above 0.
        validate_args: as for :class:`Distribution`.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "concentration1": constraint.positive,
        "concentration0": constraint.positive,
    }
    has_rsample = True
    support = constraint.unit_interval

    def __init__(
        self,
        concentration1: Tensor | float,
        concentration0: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self.concentration1, self.concentration0 = broadcast(self, concentration1, concentration0)
        super().__init__(self.concentration1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """``a / (a + b)``."""
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        """``(a - 1) / (a + b - 2)``, in [0, 1]: that of :class:`Dirichlet`."""
        both = ops.stack([self.concentration1, self.concentration0], -1)
        return _highest(both)[..., 0]

    @property
    def variance(self) -> Tensor:
        """``a b / ((a + b)^2 (a + b + 1))``."""
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total * total * (total + 1))

    def draw(self, sample_shape: Sequence[int]) -> Tensor:
        shape = self._extended_shape(sample_shape)
        x = draw_log_gamma(self, self.concentration1, shape)
        y = draw_log_gamma(self, self.concentration0, shape)
        return _shares(ops.sigmoid(x - y), self.concentration1.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        a, b = self.concentration1, self.concentration0
        inside = ops.xlogy(a - 1, value) + ops.xlogy(b - 1, 1 - value)
        return inside - a.lgamma() - b.lgamma() + (a + b).lgamma()

    def entropy(self) -> Tensor:
        """``log B - (a - 1) psi(a) - (b - 1) psi(b) + (a + b - 2) psi(a + b)``."""
        a, b = self.concentration1, self.concentration0
        log_beta = a.lgamma() + b.lgamma() - (a + b).lgamma()
        one = (a - 1) * a.digamma() + (b - 1) * b.digamma()
        return log_beta - one + (a + b - 2) * (a + b).digamma()


class Dirichlet(Distribution):
    """Shares that sum to 1: gamma variables divided by their sum.

    Args:
        concentration: ``(*batch, k)``, above 0.
        validate_args: as for :class:`Distribution`.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "concentration": constraint.independent(constraint.positive, 1)
    }
    has_rsample = True
    support = constraint.simplex

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.ndim == 0:
            law = "the concentration has an axis of shares"
            raise ShapeError("Dirichlet", law, concentration=concentration.shape)
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The concentration divided by its sum."""
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def mode(self) -> Tensor:
        """In proportion to what exceeds 1; the first share alone where nothing does, as PyTorch."""
        return _highest(self.concentration)

    @property
    def variance(self) -> Tensor:
        """``m (1 - m) / (sum + 1)`` of the mean ``m``."""
        total = self.concentration.sum(-1, keepdim=True)
        return self.mean * (1 - self.mean) / (total + 1)

    def draw(self, sample_shape: Sequence[int]) -> Tensor:
        x = draw_log_gamma(self, self.concentration, self._extended_shape(sample_shape))
        return _shares(ops.softmax(x, dim=-1), self.concentration.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        a = self.concentration
        inside = ops.xlogy(a - 1, value).sum(-1)
        return inside + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    def entropy(self) -> Tensor:
        a, k = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        inside = a.lgamma().sum(-1) - total.lgamma() - (k - total) * total.digamma()
        return inside - ((a - 1) * a.digamma()).sum(-1)


def _highest(concentration: Tensor) -> Tensor:
    """Where the density of :class:`Dirichlet` is highest."""
    above = (concentration - 1).clamp(min=0)
    first = above.argmax(-1, keepdim=True)  # all are 0 there, as in PyTorch
    corner = ops.zeros_like(above).scatter(-1, first, 1.0)
    none = concentration.amax(-1, keepdim=True) < 1
    return ops.where(none, corner, above / above.sum(-1, keepdim=True))


class StudentT(Distribution):
    """``loc + scale z / sqrt(chi2 / df)``.

    Args:
        df: degrees of freedom, above 0.
        loc: the middle.
        scale: above 0.
        validate_args: as for :class:`Distribution`.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "df": constraint.positive,
        "loc": constraint.real,
        "scale": constraint.positive,
    }
    has_rsample = True
    support = constraint.real

    def __init__(
        self,
        df: Tensor | float,
        loc: Tensor | float = 0.0,
        scale: Tensor | float = 1.0,
        validate_args: bool | None = None,
    ) -> None:
        self.df, self.loc, self.scale = broadcast(self, df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """``loc``, where ``df`` is above 1."""
        return ops.where(self.df > 1, self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        """``loc``."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """``scale^2 df / (df - 2)``; infinite up to ``df`` of 2, NaN up to 1."""
        apart = ops.where(self.df > 2, self.df, 3.0)
        found = self.scale * self.scale * apart / (apart - 2)
        return ops.where(self.df > 2, found, ops.where(self.df > 1, math.inf, self.df * math.nan))

    def draw(self, sample_shape: Sequence[int]) -> Tensor:
        shape = self._extended_shape(sample_shape)
        z = self.normal_numbers(shape, self.loc)
        chi2 = 2 * draw_gamma(0.5 * self.df, shape)
        return self.loc + self.scale * z * (self.df / chi2).sqrt()

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        y = (value - self.loc) / self.scale
        norm = self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi)
        norm = norm + (0.5 * self.df).lgamma() - (0.5 * (self.df + 1)).lgamma()
        return -0.5 * (self.df + 1) * (y * y / self.df).log1p() - norm

    def entropy(self) -> Tensor:
        half = 0.5 * self.df
        log_beta = math.lgamma(0.5) + half.lgamma() - (half + 0.5).lgamma()
        inside = (half + 0.5) * ((half + 0.5).digamma() - half.digamma())
        return self.scale.log() + inside + 0.5 * self.df.log() + log_beta
