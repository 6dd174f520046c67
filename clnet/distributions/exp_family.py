"""Families of exponentials, whose entropy follows from their normalizer."""

from __future__ import annotations

from typing import Any

from ..autodiff.gradient import grad
from ..tensor import Tensor
from .distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """``exp(<t(x), n> - A(n) + k(x))``; what a program's own inherits.

    A subclass says ``n``, ``A`` and the mean of ``k``.
    Arguments as :class:`Distribution`. clnet's own distributions have formulas, and are none.
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError(f"{type(self).__name__}._natural_params")

    def _log_normalizer(self, *natural_params: Tensor) -> Any:
        raise NotImplementedError(f"{type(self).__name__}._log_normalizer")

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__}._mean_carrier_measure")

    def entropy(self) -> Tensor:
        """``A(n) - <n, dA / dn> - E[k(x)]``, of the batch's shape."""
        given = [p.detach().requires_grad_() for p in self._natural_params]
        normalizer = self._log_normalizer(*given)
        slopes = grad(normalizer.sum(), given, create_graph=True)
        found = normalizer - self._mean_carrier_measure
        for natural, slope in zip(given, slopes, strict=True):
            found = found - (natural * slope).reshape((*self.batch_shape, -1)).sum(-1)
        return found
