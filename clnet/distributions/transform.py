"""Invertible functions of random values, and the logarithms of their slopes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import ops
from ..creation import eye
from ..errors import ShapeError
from ..inspection import finfo
from ..tensor import Tensor
from ..values.shapes import broadcast_shapes
from . import constraint
from .distribution import summed
from .parameter import tril_matrix_to_vec, vec_to_tril_matrix
from .transform_base import Transform, of_axes
from .transform_parts import (
    CatTransform,
    ComposeTransform,
    IndependentTransform,
    ReshapeTransform,
    StackTransform,
)

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]


identity_transform = ComposeTransform([])
"""Which changes nothing."""


_InverseTransform = type(Transform().inv)
"""By which programs know it."""


def _wide(name: str, shape: Sequence[int], *settings: Any) -> tuple[int, ...]:
    """A shape broadcast with those of settings that are tensors."""
    given = (tuple(x.shape) for x in settings if isinstance(x, Tensor))
    return tuple(broadcast_shapes(name, tuple(shape), *given))


def _sign(number: Tensor | float) -> Any:
    return number.sign() if isinstance(number, Tensor) else -1 if number < 0 else 1


class ExpTransform(Transform):
    """``exp(x)``."""

    sign = 1
    codomain = constraint.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """``x``."""
        return x


class AffineTransform(Transform):
    """``loc + scale x``.

    Args:
        loc: a number or tensor.
        scale: a number or tensor, not 0.
        event_dim: axes of one value.
        cache_size: taken as PyTorch does.
    """

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, event_dim: int = 0, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.loc, self.scale = loc, scale
        self.domain = self.codomain = of_axes(constraint.real, event_dim)

    @property
    def sign(self) -> Any:
        """That of ``scale``."""
        return _sign(self.scale)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """``log |scale|``."""
        if isinstance(self.scale, Tensor):
            found = self.scale.abs().log().expand(x.shape)
        else:
            found = ops.full_like(x, math.log(abs(self.scale)))
        return summed(found, self.event_dim)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Broadcast with that of ``loc`` and ``scale``."""
        return _wide("AffineTransform", shape, self.loc, self.scale)

    inverse_shape = forward_shape


def _clipped(p: Tensor) -> Tensor:
    """Probabilities that are neither 0 nor 1, as PyTorch's transform gives and takes them."""
    limits = finfo(p.dtype)
    return p.clamp(limits.tiny, 1 - limits.eps)


def _clipped_sigmoid(x: Tensor) -> Tensor:  # by its name at PyTorch, for packages
    return _clipped(x.sigmoid())


class SigmoidTransform(Transform):
    """``1 / (1 + exp(-x))``, kept away from 0 and 1."""

    sign = 1
    codomain = constraint.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        return _clipped_sigmoid(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return _clipped(y).logit()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """``-softplus(x) - softplus(-x)``."""
        return -ops.softplus(-x) - ops.softplus(x)


class TanhTransform(Transform):
    """``tanh(x)``."""

    sign = 1
    codomain = constraint.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """``2 (log(2) - x - softplus(-2 x))``."""
        return 2.0 * (math.log(2.0) - x - ops.softplus(-2.0 * x))


class SoftplusTransform(Transform):
    """``log(1 + exp(x))``."""

    sign = 1
    codomain = constraint.positive

    def _call(self, x: Tensor) -> Tensor:
        return ops.softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-(-y).expm1()).log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """``-softplus(-x)``."""
        return -ops.softplus(-x)


class PowerTransform(Transform):
    """``x^exponent`` of positive numbers.

    Args:
        exponent: a number or tensor.
        cache_size: taken as PyTorch does.
    """

    domain = constraint.positive
    codomain = constraint.positive

    def __init__(self, exponent: Tensor | float, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent

    @property
    def sign(self) -> Any:
        """That of the exponent."""
        return _sign(self.exponent)

    def _call(self, x: Tensor) -> Tensor:
        return x**self.exponent

    def _inverse(self, y: Tensor) -> Tensor:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """``log |exponent y / x|``."""
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Broadcast with that of the exponent."""
        return _wide("PowerTransform", shape, self.exponent)

    inverse_shape = forward_shape


class AbsTransform(Transform):
    """``|x|``, which has no inverse: the one that is not negative stands for it."""

    bijective = False
    codomain = constraint.nonnegative

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class StickBreakingTransform(Transform):
    """``k`` numbers to ``k + 1`` shares that sum to 1."""

    domain = constraint.real_vector
    codomain = constraint.simplex

    def _offset(self, x: Tensor) -> Tensor:
        left = ops.ones_like(x).cumsum(-1)
        return x.shape[-1] + 1 - left

    def _call(self, x: Tensor) -> Tensor:
        z = (x - self._offset(x).log()).sigmoid()
        rest = (1 - z).cumprod(-1)
        one = ops.ones_like(z[..., :1])
        return ops.cat((z, one), -1) * ops.cat((one, rest), -1)

    def _inverse(self, y: Tensor) -> Tensor:
        cropped = y[..., :-1]
        rest = (1 - cropped.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        return cropped.log() - rest.log() + self._offset(cropped).log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The logarithm of the volume."""
        x = x - self._offset(x).log()
        return (-x - ops.softplus(-x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """One more share than numbers."""
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """One number fewer than shares."""
        return (*shape[:-1], shape[-1] - 1)


class SoftmaxTransform(Transform):
    """Shares in proportion to ``exp(x)``; the logarithms stand for the inverse."""

    bijective = False
    domain = constraint.real_vector
    codomain = constraint.simplex

    def _call(self, x: Tensor) -> Tensor:
        return ops.softmax(x, -1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()


class CorrCholeskyTransform(Transform):
    """``n (n - 1) / 2`` numbers as a Cholesky factor of correlations of ``n`` variables.

    Their ``tanh`` are shares of what a row of length 1 has left, one after another.
    """

    domain = constraint.real_vector
    codomain = constraint.corr_cholesky

    @property
    def event_dim(self) -> int:
        """1: that of what it takes."""
        return 1

    def _call(self, x: Tensor) -> Tensor:
        eps = finfo(x.dtype).eps
        share = vec_to_tril_matrix(x.tanh().clamp(-1 + eps, 1 - eps), -1)
        left = (1 - share * share).sqrt().cumprod(-1)
        return (share + eye(share.shape[-1], dtype=x.dtype, device=x.device)) * _shifted(left)

    def _inverse(self, y: Tensor) -> Tensor:
        left = tril_matrix_to_vec(_shifted(1 - (y * y).cumsum(-1)), -1)
        return (tril_matrix_to_vec(y, -1) / left.sqrt()).atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Of what rows have left, and of ``tanh``."""
        left = tril_matrix_to_vec(1 - (y * y).cumsum(-1), -2)
        slopes = 2.0 * (math.log(2.0) - x - ops.softplus(-2.0 * x))
        return 0.5 * left.log().sum(-1) + slopes.sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """``(..., n, n)``.

        Raises:
            ShapeError: if there is no such ``n``.
        """
        n = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != shape[-1]:
            law = "there are as many numbers as below a diagonal"
            raise ShapeError("CorrCholeskyTransform", law, shape=tuple(shape))
        return (*shape[:-1], n, n)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """``(..., n (n - 1) / 2)``.

        Raises:
            ShapeError: if matrices are not square.
        """
        if len(shape) < 2 or shape[-2] != shape[-1]:
            raise ShapeError("CorrCholeskyTransform", "matrices are square", shape=tuple(shape))
        return (*shape[:-2], shape[-1] * (shape[-1] - 1) // 2)


def _shifted(x: Tensor) -> Tensor:
    """Each element the one before it in its row, the first 1."""
    return ops.cat([ops.ones_like(x[..., :1]), x[..., :-1]], -1)


class LowerCholeskyTransform(Transform):
    """The lower triangle of matrices, with ``exp`` of the diagonal."""

    bijective = False
    domain = constraint.independent(constraint.real, 2)
    codomain = constraint.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """The product of :class:`LowerCholeskyTransform`'s triangle with its transpose."""

    bijective = False
    domain = constraint.independent(constraint.real, 2)
    codomain = constraint.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(ops.cholesky(y))


class CumulativeDistributionTransform(Transform):
    """The probability of values up to ``x`` of a distribution.

    Args:
        distribution: has ``cdf``, ``icdf`` and ``log_prob``.
        cache_size: taken as PyTorch does.
    """

    sign = 1
    codomain = constraint.unit_interval

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The density's logarithm."""
        return self.distribution.log_prob(x)
