"""Weights computed from others before every call: their length apart, or divided by their norm."""

from __future__ import annotations

from typing import TypeVar

from .. import ops
from ..autodiff.tensor_hook import HookHandle
from ..autograd import no_grad
from ..creation import empty
from ..errors import ArgumentError
from ..tensor import Tensor
from ..values import mode
from ..values.arguments import checked
from .conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .module import Module, Parameter
from .parameter import is_lazy

__all__ = ["remove_spectral_norm", "remove_weight_norm", "spectral_norm", "weight_norm"]

M = TypeVar("M", bound=Module)

_TRANSPOSED = (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)
_HOOKS = "_weight_hooks"


class _Computed:
    """A weight that a hook puts in the place of a parameter; the module has what it is made of."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = dim

    def compute(self, module: Module) -> Tensor:
        """The weight."""
        raise NotImplementedError

    def __call__(self, module: Module, args: tuple[object, ...]) -> None:
        module.__dict__[self.name] = self.compute(module)


class _WeightNorm(_Computed):
    """``g * v / |v|``, the norms taken for each index of ``dim``."""

    def compute(self, module: Module) -> Tensor:
        g, v = (getattr(module, f"{self.name}_{part}") for part in "gv")
        return v * (g / lengths(v, self.dim))


class _SpectralNorm(_Computed):
    """``w / (u @ w @ v)``, with ``u`` and ``v`` turned towards the largest singular value's."""

    def __init__(self, name: str, dim: int, iterations: int, eps: float) -> None:
        super().__init__(name, dim)
        self.iterations = iterations
        self.eps = eps

    def compute(self, module: Module) -> Tensor:
        weight = getattr(module, f"{self.name}_orig")
        u, v = (getattr(module, f"{self.name}_{part}") for part in "uv")
        matrix = as_matrix(weight, self.dim or 0)
        if module.training and not mode.current().recomputing:
            turned(matrix, u, v, self.iterations, self.eps)
        # Copies, so that another call before backward may turn them further.
        return weight / ops.dot(u.clone(), ops.mv(matrix, v.clone()))


def lengths(v: Tensor, dim: int | None) -> Tensor:
    """Norms for each index of an axis, with axes to broadcast to ``v``; None: one for all."""
    if dim is None:
        return ops.norm(v, 2)
    others = tuple(d for d in range(v.ndim) if d != dim % v.ndim)
    return ops.norm(v, 2, others, keepdim=True)


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """A weight with the axis of the outputs in front, and the others as one."""
    front = ops.movedim(weight, dim, 0)
    return ops.reshape(front, (front.shape[0], -1))


@no_grad()
def turned(matrix: Tensor, u: Tensor, v: Tensor, iterations: int, eps: float) -> None:
    """Turn two vectors, in place, towards those of a matrix's largest singular value."""
    for _ in range(iterations):
        v.copy_(ops.normalize(ops.mv(matrix.T, u), dim=0, eps=eps))
        u.copy_(ops.normalize(ops.mv(matrix, v), dim=0, eps=eps))


def outputs_axis(module: Module) -> int:
    """The axis of a layer's weight that counts its outputs."""
    return int(isinstance(module, _TRANSPOSED))


@checked
def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Let a module train a weight's length and direction apart (Salimans & Kingma 2016).

    The parameter ``name`` becomes ``name_g``, the lengths, and ``name_v``; the weight is computed
    of them before every call.

    Args:
        module: a layer with such a parameter.
        name: the parameter's.
        dim: for each index of which there is a length; None: one for all.

    Returns:
        The module.

    Raises:
        ArgumentError: if there is no such parameter, or it has no shape yet.
    """
    rule = _WeightNorm(name, dim)
    weight = _taken(module, name)
    with no_grad():
        length = lengths(weight, dim).clone()
    module.register_parameter(f"{name}_g", Parameter(length))
    module.register_parameter(f"{name}_v", weight)
    return _hung(module, rule)


@checked
def spectral_norm(
    module: M,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> M:
    """Let a module divide a weight by its largest singular value (Miyato et al. 2018).

    The parameter ``name`` becomes ``name_orig``; buffers ``name_u`` and ``name_v`` hold the vectors
    that every call in training turns further.

    Args:
        module: a layer with such a parameter.
        name: the parameter's.
        n_power_iterations: how often a call turns them.
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
    along = outputs_axis(module) if dim is None else dim
    rule = _SpectralNorm(name, along, n_power_iterations, eps)
    weight = _taken(module, name)
    module.register_parameter(f"{name}_orig", weight)
    for part, size in zip("uv", as_matrix(weight.detach(), along).shape, strict=True):
        drawn = empty(size, dtype=weight.dtype, device=weight.device).normal_()
        module.register_buffer(f"{name}_{part}", ops.normalize(drawn, dim=0, eps=eps))
    return _hung(module, rule)


@checked
def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Make the weight that :func:`weight_norm` computes a parameter again.

    Raises:
        ArgumentError: if it is not computed so.
    """
    return _removed("remove_weight_norm", module, name, _WeightNorm, "gv")


@checked
def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Make the weight that :func:`spectral_norm` computes a parameter again.

    Raises:
        ArgumentError: if it is not computed so.
    """
    return _removed("remove_spectral_norm", module, name, _SpectralNorm, ("orig", "u", "v"))


def _taken(module: Module, name: str) -> Parameter:
    """The parameter, taken out of the module."""
    weight = dict(module.named_parameters(recurse=False)).get(name)
    if weight is None:
        raise ArgumentError("weight_norm", "the module has the parameter", name=name)
    if is_lazy(weight):
        law = "the parameter has a shape, which a lazy layer's has after the first forward"
        raise ArgumentError("weight_norm", law, name=name)
    delattr(module, name)
    return weight


def _hung(module: M, rule: _Computed) -> M:
    """The module with the weight computed, now and before every call."""
    handles = module.__dict__.setdefault(_HOOKS, {})
    handles[rule.name] = (rule, module.register_forward_pre_hook(rule))
    with no_grad():
        rule(module, ())
    return module


def _removed(
    caller: str, module: M, name: str, kind: type[_Computed], parts: str | tuple[str, ...]
) -> M:
    rule, handle = module.__dict__.get(_HOOKS, {}).get(name, (None, None))
    if not isinstance(rule, kind) or not isinstance(handle, HookHandle):
        raise ArgumentError(caller, "the weight is computed so", name=name)
    training = module.training
    with no_grad():
        module.training = False
        weight = rule.compute(module).clone()
        module.training = training
    handle.remove()
    del module.__dict__[_HOOKS][name], module.__dict__[name]
    for part in parts:
        delattr(module, f"{name}_{part}")
    module.register_parameter(name, Parameter(weight))
    return module
