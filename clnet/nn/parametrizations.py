"""Weights computed whenever they are read: orthogonal, lengths apart, or of a singular value of 1.

``nn.utils.parametrizations`` in PyTorch, with its names in the state. ``nn.utils.weight_norm`` and
``spectral_norm`` compute them once before each call instead.
"""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar

from .. import ops
from ..autograd import no_grad
from ..creation import empty, eye
from ..errors import ArgumentError
from ..tensor import Tensor
from ..values import mode
from .module import Module
from .parametrize import is_parametrized, register_parametrization
from .weight_norm import as_matrix, lengths, outputs_axis, turned

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

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


class _Orthogonal(Module):
    """A matrix with orthonormal columns, or rows if it is wide, of a square or tall one.

    Attributes:
        base: what is multiplied from the left, ``Q`` of the first weight; without trivialization
            there is none.
    """

    base: Tensor | None

    def __init__(self, kind: str, *, based: bool) -> None:
        super().__init__()
        self.kind, self.based = kind, based
        self.register_buffer("base", None)

    def forward(self, weight: Tensor) -> Tensor:
        """The orthonormal matrix of any one of its shape."""
        wide = weight.shape[-2] < weight.shape[-1]
        x = weight.mT if wide else weight
        n, k = x.shape[-2:]
        if self.kind == "householder":
            below = ops.tril(x, -1)
            tau = 2.0 / (1.0 + (below * below).sum(-2))
            found = (
                ops.householder_product(below, tau)
                * x.diagonal(dim1=-2, dim2=-1).sign()[..., None, :]
            )
        else:
            low = ops.pad(ops.tril(x), (0, n - k))
            found = self._turned(low - low.mT)[..., :k]
        if self.base is not None:
            found = self.base @ found
        return found.mT if wide else found

    def _turned(self, skew: Tensor) -> Tensor:
        """A rotation: the exponential, or Cayley's transform."""
        if self.kind == "matrix_exp":
            return ops.matrix_exp(skew)
        one = eye(skew.shape[-1], dtype=skew.dtype, device=skew.device).expand(skew.shape)
        return ops.solve(one - 0.5 * skew, one + 0.5 * skew)

    def right_inverse(self, weight: Tensor) -> Tensor:
        """What gives the matrix nearest at hand: with a base its ``Q``, else reflections'."""
        wide = weight.shape[-2] < weight.shape[-1]
        x = weight.mT if wide else weight
        n, k = x.shape[-2:]
        if not self.based:
            if self.kind != "householder":
                raise NotImplementedError  # the weight itself is trained, as in PyTorch
            packed, tau = ops.geqrf(x)
            signs = packed.diagonal(dim1=-2, dim2=-1).sign() * ops.where(tau == 0, -1.0, 1.0)
            packed = ops.tril(packed, -1) + ops.pad(ops.diag_embed(signs), (0, 0, 0, n - k))
            return packed.mT if wide else packed
        if k < n:
            more = empty(*x.shape[:-1], n - k, dtype=x.dtype, device=x.device).normal_()
            x = ops.cat([x, more], -1)
        q, r = ops.qr(x)
        self.base = q * r.diagonal(dim1=-2, dim2=-1).sign()[..., None, :]
        minus = -eye(weight.shape[-2], weight.shape[-1], dtype=weight.dtype, device=weight.device)
        return minus.expand(weight.shape).clone()


def orthogonal(
    module: M,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> M:
    """Keep a weight's columns orthonormal, or its rows if it is wide.

    Args:
        module: whose weight it is.
        name: the weight's.
        orthogonal_map: ``"matrix_exp"``, ``"cayley"`` or ``"householder"``; the first for square
            weights, the last for others if None.
        use_trivialization: let the map start at the first weight's ``Q``, kept as ``base``.

    Returns:
        The module.

    Raises:
        ArgumentError: if there is no such weight, it has fewer than two axes, or no such map.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor) or weight.ndim < 2:
        raise ArgumentError("orthogonal", "it is a weight of two axes or more", name=name)
    square = weight.shape[-2] == weight.shape[-1]
    kind = orthogonal_map or ("matrix_exp" if square else "householder")
    if kind not in ("matrix_exp", "cayley", "householder"):
        maps = "'matrix_exp', 'cayley' or 'householder'"
        raise ArgumentError("orthogonal", f"orthogonal_map is {maps}", orthogonal_map=repr(kind))
    made = _Orthogonal(kind, based=use_trivialization)
    return register_parametrization(module, name, made, unsafe=True)


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Let a module train a weight's lengths and direction apart (Salimans & Kingma 2016).

    The lengths become ``module.parametrizations.weight.original0``, the directions ``original1``. A
    state with ``weight_g`` and ``weight_v``, as :func:`~clnet.nn.utils.weight_norm` has them, is
    taken, too.

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
    register_parametrization(module, name, _WeightNorm(along), unsafe=True)
    module.register_load_state_dict_pre_hook(partial(_renamed, name))
    return module


def _renamed(name: str, module: Module, state: dict[str, Any], prefix: str, *others: Any) -> None:
    """Give what a state has of a norm computed before each call the names of this one."""
    older = [f"{prefix}{name}_{part}" for part in "gv"]
    if is_parametrized(module, name) and all(key in state for key in older):
        for i, key in enumerate(older):
            state[f"{prefix}parametrizations.{name}.original{i}"] = state.pop(key)


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
