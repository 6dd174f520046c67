"""Weights computed whenever they are read: lengths apart, or divided by the largest singular value.

``nn.utils.parametrizations`` in PyTorch, with its names in the state. ``nn.utils.weight_norm`` and
``spectral_norm`` compute them once before each call instead.
"""

from __future__ import annotations

from typing import TypeVar

from .. import ops
from ..autograd import no_grad
from ..creation import empty
from ..errors import ArgumentError
from ..tensor import Tensor
from ..values import mode
from .module import Module
from .parametrize import register_parametrization
from .weight_norm import as_matrix, lengths, outputs_axis, turned

__all__ = ["spectral_norm", "weight_norm"]

M = TypeVar("M", bound=Module)

_FIRST_ITERATIONS = 15  # PyTorch's


class _WeightNorm(Module):
    """``g * v / |v|``; the originals are ``g``, then ``v``."""

    def __init__(self, dim: int | None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, length: Tensor, direction: Tensor) -> Tensor:
        """The weight."""
        return direction * (length / lengths(direction, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Its lengths, and itself."""
        return lengths(weight, self.dim), weight


class _SpectralNorm(Module):
    """``w / (u @ w @ v)``, with ``u`` and ``v`` turned towards the largest singular value's."""

    def __init__(self, weight: Tensor, iterations: int, dim: int, eps: float) -> None:
        super().__init__()
        self.dim, self.iterations, self.eps = dim, iterations, eps
        if weight.ndim < 2:
            return
        matrix = as_matrix(weight, dim)
        for name, size in zip(("_u", "_v"), matrix.shape, strict=True):
            drawn = empty(size, dtype=weight.dtype, device=weight.device).normal_()
            self.register_buffer(name, ops.normalize(drawn, dim=0, eps=eps))
        self._turn(matrix, _FIRST_ITERATIONS)

    def forward(self, weight: Tensor) -> Tensor:
        """The weight divided; a vector by its length."""
        if weight.ndim < 2:
            return ops.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training and not mode.current().recomputing:
            self._turn(matrix, self.iterations)
        # Copies, so that another reading before backward may turn them further.
        return weight / ops.dot(self._u.clone(), ops.mv(matrix, self._v.clone()))

    def right_inverse(self, weight: Tensor) -> Tensor:
        """Itself: it is divided when it is read."""
        return weight

    def _turn(self, matrix: Tensor, iterations: int) -> None:
        turned(matrix.T, self._v, self._u, iterations, self.eps)  # u first, as PyTorch does here


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Let a module train a weight's lengths and direction apart (Salimans & Kingma 2016).

    The lengths become ``module.parametrizations.weight.original0``, the directions ``original1``.

    Args:
        module: a layer with such a parameter.
        name: the parameter's.
        dim: for each index of which there is a length; None or -1: one for all.

    Returns:
        The module.

    Raises:
        ArgumentError: if there is no such parameter.

    Example:
        >>> import clnet
        >>> from clnet import nn
        >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
        >>> layer.parametrizations.weight.original0.shape
        (2, 1)
    """
    along = None if dim == -1 else dim
    return register_parametrization(module, name, _WeightNorm(along), unsafe=True)


@no_grad()
def spectral_norm(
    module: M,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> M:
    """Let a module divide a weight by its largest singular value (Miyato et al. 2018).

    Reading it in training turns two vectors further, buffers of ``module.parametrizations.weight``;
    under :func:`~clnet.nn.parametrize.cached` that is once.

    Args:
        module: a layer with such a parameter.
        name: the parameter's.
        n_power_iterations: how often a reading turns them.
        eps: the least length in their normalisation.
        dim: the axis of the outputs; None: 1 of transposed convolutions, else 0.

    Returns:
        The module.

    Raises:
        ArgumentError: if there is no such parameter, or ``n_power_iterations`` is not positive.
    """
    if n_power_iterations < 1:
        law = "n_power_iterations is 1 or more"
        raise ArgumentError("spectral_norm", law, n_power_iterations=n_power_iterations)
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ArgumentError("spectral_norm", "the module has the parameter", name=name)
    along = outputs_axis(module) if dim is None else dim
    rule = _SpectralNorm(weight.detach(), n_power_iterations, along, eps)
    return register_parametrization(module, name, rule)
