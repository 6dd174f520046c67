"""Distributions of matrices: Wishart's of covariances, and LKJ's of correlations' factors.

Samples: M. S. Bartlett (1933) for Wishart's; D. Lewandowski, D. Kurowicka, H. Joe, "Generating
random correlation matrices based on vines and extended onion method" (2009), section 3.
"""

# ruff: noqa: FBT001 - PyTorch's validate_args

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from .. import ops
from ..creation import arange, zeros
from ..errors import ArgumentError
from ..tensor import Tensor, full
from . import constraint
from .constraint import Constraint
from .distribution import Distribution, broadcast
from .gammas import Beta, Gamma


def _diagonal(x: Tensor) -> Tensor:
    return x.diagonal(dim1=-2, dim2=-1)


class Wishart(Distribution):
    """Sums of ``df`` outer products of normally distributed vectors.

    Args:
        df: degrees of freedom, above ``k - 1``; a tensor or a number.
        covariance_matrix: ``L L^T``, ``(*batch, k, k)``.
        precision_matrix: its inverse.
        scale_tril: ``L``, lower triangular; one of the three.
        validate_args: as for :class:`Distribution`.

    Raises:
        ArgumentError: if not one of the three is given, or ``df`` is too small.
    """

    has_rsample = True
    support = constraint.positive_definite

    def __init__(
        self,
        df: Tensor | float,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        given = [m for m in (covariance_matrix, precision_matrix, scale_tril) if m is not None]
        if len(given) != 1 or given[0].ndim < 2:
            law = "it takes one matrix of covariance_matrix, precision_matrix and scale_tril"
            raise ArgumentError("Wishart", law, given=len(given))
        matrix, k = given[0], given[0].shape[-1]
        count = df if isinstance(df, Tensor) else full((), float(df), device=matrix.device)
        count = count.to(matrix.dtype)
        batch = broadcast(self, count, matrix[..., 0, 0])[0].shape
        self.df = count.expand(batch)
        if self._readable() and bool((self.df <= k - 1).any()):
            hint = "Give more degrees of freedom"
            raise ArgumentError("Wishart", f"df is above {k - 1}", size=k, remedy=hint)
        matrix = matrix.expand((*batch, k, k))
        if precision_matrix is not None:
            matrix = ops.inv(matrix)
        # Both halves are read, so that both get a gradient.
        root = matrix if scale_tril is not None else ops.cholesky((matrix + matrix.mT) / 2)
        self.scale_tril = self._unbroadcasted_scale_tril = root
        super().__init__(batch, (k, k), validate_args=validate_args)

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "scale_tril": constraint.lower_cholesky,
        "df": constraint.greater_than(0),
    }

    @property
    def covariance_matrix(self) -> Tensor:
        """``L L^T``."""
        return self.scale_tril @ self.scale_tril.mT

    @property
    def precision_matrix(self) -> Tensor:
        """Its inverse."""
        return ops.inv(self.covariance_matrix)

    @property
    def mean(self) -> Tensor:
        """``df L L^T``."""
        return self.df[..., None, None] * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        """``(df - k - 1) L L^T``; NaN where that factor is not above 0."""
        factor = self.df - self.event_shape[-1] - 1
        return factor.masked_fill(factor <= 0, math.nan)[..., None, None] * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        """``df (v_ij^2 + v_ii v_jj)`` of ``v = L L^T``."""
        v = self.covariance_matrix
        diagonal = _diagonal(v)
        both = diagonal[..., :, None] * diagonal[..., None, :]
        return self.df[..., None, None] * (v * v + both)

    def half_log_det(self) -> Tensor:
        """``log |L|``."""
        return _diagonal(self.scale_tril).log().sum(-1)

    def degrees(self) -> Tensor:
        """``df - i`` of each row, ``(*batch, k)``."""
        k = self.event_shape[-1]
        return self.df[..., None] - arange(k, dtype=self.df.dtype, device=self.df.device)

    def draw(self, sample_shape: Sequence[int]) -> Tensor:
        """As :meth:`Distribution.draw`."""
        shape = self._extended_shape(sample_shape)
        squares = Gamma(0.5 * self.degrees(), full((), 0.5, device=self.df.device)).rsample(
            sample_shape
        )
        below = self.normal_numbers(shape, self.df).tril(-1)
        root = self.scale_tril @ (below + ops.diag_embed(squares.sqrt()))
        return root @ root.mT

    def log_prob(self, value: Tensor) -> Tensor:
        """``(df - k - 1) log|X| / 2 - tr(V^-1 X) / 2`` and what makes it a density."""
        self._validate_sample(value)
        k, df = self.event_shape[-1], self.df
        root, scale = broadcast(self, ops.cholesky(value), self.scale_tril.tril())
        z = ops.solve_triangular(scale, root, upper=False)
        constant = df * (0.5 * k * math.log(2) + self.half_log_det()) + log_gammas(0.5 * df, k)
        inner = (df - k - 1) * _diagonal(root).log().sum(-1)
        return inner - 0.5 * (z * z).sum((-2, -1)) - constant

    def entropy(self) -> Tensor:
        """``(k + 1) (k log(2) / 2 + log|L|)`` and functions of ``df``."""
        k, df = self.event_shape[-1], self.df
        slopes = (0.5 * self.degrees()).digamma().sum(-1)
        return (
            (k + 1) * (0.5 * k * math.log(2) + self.half_log_det())
            + log_gammas(0.5 * df, k)
            - 0.5 * (df - k - 1) * slopes
            + 0.5 * df * k
        )


def log_gammas(a: Tensor, p: int) -> Tensor:
    """The log of the gamma function of ``p`` axes."""
    halves = 0.5 * arange(p, dtype=a.dtype, device=a.device)
    return (a[..., None] - halves).lgamma().sum(-1) + p * (p - 1) / 4 * math.log(math.pi)


class LKJCholesky(Distribution):
    """Lower factors of random correlation matrices, of density ``|L L^T|^(concentration - 1)``.

    Args:
        dim: how many variables, 2 or more.
        concentration: above 0; 1: all matrices alike.
        validate_args: as for :class:`Distribution`.

    Raises:
        ArgumentError: if there are fewer variables.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"concentration": constraint.positive}
    support = constraint.corr_cholesky

    def __init__(
        self, dim: int, concentration: Tensor | float = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ArgumentError("LKJCholesky", "there are two variables or more", dim=dim)
        self.dim = dim
        given = concentration
        self.concentration = given if isinstance(given, Tensor) else full((), float(given))
        dtype, device = self.concentration.dtype, self.concentration.device
        rows = 0.5 * arange(dim - 1, dtype=dtype, device=device)
        rows = ops.cat([zeros(1, dtype=dtype, device=device), rows])
        marginal = self.concentration + 0.5 * (dim - 2)
        self._beta = Beta(rows + 0.5, marginal[..., None] - rows)
        super().__init__(self.concentration.shape, (dim, dim), validate_args=validate_args)

    def draw(self, sample_shape: Sequence[int]) -> Tensor:
        """As :meth:`Distribution.draw`."""
        length = self._beta.sample(sample_shape)[..., None]
        turned = self.normal_numbers(self._extended_shape(sample_shape), self.concentration).tril(
            -1
        )
        size = (turned * turned).sum(-1, keepdim=True)
        below = length.sqrt() * turned / size.masked_fill(size == 0, 1.0).sqrt()
        rest = (1 - (below * below).sum(-1)).clamp(min=_TINY)
        return below + ops.diag_embed(rest.sqrt())

    def log_prob(self, value: Tensor) -> Tensor:
        """The sum over rows of ``(dim - i + 2 (concentration - 1)) log L_ii``, normalised."""
        self._validate_sample(value)
        dim, alpha = self.dim, self.concentration
        order = arange(2, dim + 1, dtype=alpha.dtype, device=alpha.device)
        order = 2 * (alpha - 1)[..., None] + dim - order
        inner = (order * _diagonal(value)[..., 1:].log()).sum(-1)
        most = alpha + 0.5 * (dim - 1)
        normal = log_gammas(most - 0.5, dim - 1) - (dim - 1) * most.lgamma()
        return inner - normal - 0.5 * (dim - 1) * math.log(math.pi)


_TINY = 1.1754943508222875e-38
"""The least normal number of float32: a diagonal is above 0."""
