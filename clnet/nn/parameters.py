"""Parameters taken together: gradients clipped, one vector of all; ``nn.utils`` in PyTorch."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from math import inf
from typing import Any, TypeVar

from .. import ops
from ..autodiff import stateless as stateless
from ..autodiff.divided import norm_of_gradients
from ..autodiff.leaf import make_dense
from ..autograd import no_grad
from ..creation import zeros
from ..errors import ArgumentError, DtypeError, ShapeError
from ..expr import maximum, minimum
from ..ops.machinery.update import update
from ..ops.multi_tensor import norm_of_all, update_many
from ..tensor import Tensor
from ..values.arguments import checked
from ..values.plain import shown
from ..values.words import MemoryFormat
from . import fusion as fusion
from . import packed as rnn
from . import parametrizations as parametrizations
from . import parametrize as parametrize
from . import prune as prune
from .fusion import fuse_conv_bn_eval as fuse_conv_bn_eval
from .fusion import fuse_conv_bn_weights as fuse_conv_bn_weights
from .fusion import fuse_linear_bn_eval as fuse_linear_bn_eval
from .fusion import fuse_linear_bn_weights as fuse_linear_bn_weights
from .module import Module
from .weight_norm import remove_spectral_norm as remove_spectral_norm
from .weight_norm import remove_weight_norm as remove_weight_norm
from .weight_norm import spectral_norm as spectral_norm
from .weight_norm import weight_norm as weight_norm

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "convert_conv2d_weight_memory_format",
    "convert_conv3d_weight_memory_format",
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
    "get_total_norm",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "skip_init",
    "spectral_norm",
    "stateless",
    "vector_to_parameters",
    "weight_norm",
]

M = TypeVar("M", bound=Module)
_EPS = 1e-6  # PyTorch's
_tensor_or_tensors, _no_grad = Tensor | Iterable[Tensor], no_grad()  # for programs
# Where PyTorch has the functions of this module.
clip_grad = convert_parameters = init = memory_format = sys.modules[__name__]
_named_member_accessor = stateless


@no_grad()
@checked
def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float | str = 2.0,
    error_if_nonfinite: bool = False,
) -> Tensor:
    """Scale all gradients in place so that their norm together is at most ``max_norm``.

    Norm and factor stay on the device: nothing waits for it, unless ``error_if_nonfinite``. Where
    ranks have parts of a parameter (``parallelize_module``) the norm is that of the whole, and all
    of them call this.

    Args:
        parameters: one or several; those without a gradient do not count.
        max_norm: of all gradients taken as one vector.
        norm_type: of the norm; ``inf`` or ``"inf"`` for the largest element, 0 for how many
            gradients are not all 0.
        error_if_nonfinite: raise where the norm is infinite or NaN, which waits for the device.

    Returns:
        The norm before, ``()``.

    Raises:
        ArgumentError: if it is not finite, and that is asked for; if ``norm_type`` is a word that
            is no number, or 0 where ranks have parts.
    """
    name, given = "clip_grad_norm_", _listed(parameters)
    total = norm_of_gradients(name, given, _number(name, norm_type))
    if total is None:
        return zeros(())
    _check_finite(name, total, finite=error_if_nonfinite)
    _clip(_gradients(given), max_norm, total)
    return total


clip_grad_norm = clip_grad_norm_  # its older name


@no_grad()
@checked
def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float | str = 2.0,
    error_if_nonfinite: bool = False,
) -> Tensor:
    """The norm ``()`` of tensors taken as one vector; arguments as :func:`clip_grad_norm_`'s."""
    name, given = "get_total_norm", _listed(tensors)
    p = _number(name, norm_type)
    total = norm_of_all(given, p) if given else zeros(())
    _check_finite(name, total, finite=error_if_nonfinite)
    return total


@no_grad()
@checked
def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor
) -> None:
    """Scale all gradients in place as :func:`clip_grad_norm_` does, by a norm that is known."""
    grads = _gradients(parameters)
    if grads:
        _clip(grads, max_norm, total_norm)


def _number(name: str, norm_type: float | str) -> float:
    try:
        return float(norm_type)
    except ValueError:
        raise ArgumentError(name, "norm_type is a number", norm_type=shown(norm_type)) from None


def _check_finite(name: str, total: Tensor, *, finite: bool) -> None:
    if finite and not abs(float(total)) < inf:
        raise ArgumentError(name, "the norm is finite", norm=float(total))


def _clip(grads: list[Tensor], max_norm: float, total: Tensor) -> None:
    factor = ops.clamp(max_norm / (total + _EPS), max=1.0)
    update_many(_scaled, [[grad] for grad in grads], shared=[factor])


@no_grad()
@checked
def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Hold every element of all gradients between ``-clip_value`` and ``clip_value``, in place."""
    for grad in _gradients(parameters):
        update(_held, [grad], [float(clip_value)])


@checked
def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements in one vector, on the tape."""
    return ops.cat([ops.reshape(p, (-1,)) for p in parameters])


@no_grad()
@checked
def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Overwrite the parameters with the parts of a vector.

    Raises:
        ShapeError: if it is no vector of as many elements as they have together.
    """
    listed = list(parameters)
    wanted = sum(p.numel() for p in listed)
    if vec.shape != (wanted,):
        raise ShapeError(
            "vector_to_parameters",
            "the vector has an element for each of the parameters'",
            vec=vec.shape,
            elements=wanted,
        )
    start = 0
    for p in listed:
        p.copy_(ops.reshape(vec.detach().narrow(0, start, p.numel()), p.shape))
        start += p.numel()


def skip_init(module_cls: Callable[..., M], *args: Any, **kwargs: Any) -> M:
    """A module whose parameters are left as memory has them.

    Args:
        module_cls: its class, which takes ``device``.
        *args: the class's.
        **kwargs: the class's; ``device`` is where the parameters lie, else on the current one.

    Raises:
        DtypeError: if it is no class of modules.
    """
    kind: Any = module_cls  # whose type the checker would narrow
    if not (isinstance(kind, type) and issubclass(kind, Module)):
        raise DtypeError(
            "skip_init", "module_cls is a class of modules", module_cls=shown(module_cls)
        )
    where = kwargs.pop("device", None)
    made = module_cls(*args, device="meta", **kwargs)
    return made.to_empty(device=zeros(0).device if where is None else where)


def convert_conv2d_weight_memory_format(module: M, memory_format: Any) -> M:
    """The module as it is: no result depends on how filters lie, and kernels lay them as they need.

    Args:
        module: any.
        memory_format: one of PyTorch's.

    Raises:
        ArgumentError: if it is no memory format.
    """
    if not isinstance(memory_format, MemoryFormat):
        law = "memory_format is one of PyTorch's, such as channels_last"
        name = "convert_conv2d_weight_memory_format"
        raise ArgumentError(name, law, memory_format=shown(memory_format))
    return module


convert_conv3d_weight_memory_format = convert_conv2d_weight_memory_format


def _listed(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [parameters] if isinstance(parameters, Tensor) else list(parameters)


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    listed = _listed(parameters)
    make_dense(listed)
    return [p.grad for p in listed if p.grad is not None]


def _scaled(g, factor):  # pyrefly: ignore[implicit-any-parameter]
    return (g * factor,)


def _held(g, most):  # pyrefly: ignore[implicit-any-parameter]
    return (minimum(maximum(g, -most), most),)
