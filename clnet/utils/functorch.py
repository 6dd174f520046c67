"""``functorch`` and ``torch._functorch``: transforms by their older names.

``vmap`` calls a function for each element of a batch, so no tensor carries an axis unseen.
"""

from __future__ import annotations

import copy
import sys
from types import ModuleType
from typing import Any

from ..autodiff.axes import AXES, refusing
from ..autodiff.stateless import functional_call
from ..errors import ArgumentError
from ..func import grad as grad
from ..func import grad_and_value as grad_and_value
from ..func import hessian as hessian
from ..func import jacfwd as jacfwd
from ..func import jacrev as jacrev
from ..func import jvp as jvp
from ..func import stack_module_state
from ..func import vjp as vjp
from ..func import vmap as vmap
from ..nn import Module
from ..tensor import Tensor
from .pytree import broadcast_flat, tree_flatten, tree_unflatten

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "combine_state_for_ensemble",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "make_functional",
    "make_functional_with_buffers",
    "vjp",
    "vmap",
]


class FunctionalModuleWithBuffers(Module):
    """A module called with its parameters and buffers before its arguments.

    Args:
        stateless_model: a module, whose own tensors do not count.
        param_names: in the order in which parameters are given.
        buffer_names: in the order in which buffers are given.
    """

    def __init__(
        self,
        stateless_model: Module,
        param_names: tuple[str, ...],
        buffer_names: tuple[str, ...] = (),
    ) -> None:
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names = param_names
        self.buffer_names = buffer_names

    def forward(self, params: Any, buffers: Any, *args: Any, **kwargs: Any) -> Any:
        """What the module gives with these tensors."""
        given = dict(zip(self.param_names, params, strict=True))
        given.update(zip(self.buffer_names, buffers, strict=True))
        return functional_call(self.stateless_model, given, args, kwargs)


class FunctionalModule(FunctionalModuleWithBuffers):
    """A module without buffers, called with its parameters before its arguments."""

    def forward(self, params: Any, *args: Any, **kwargs: Any) -> Any:
        """What the module gives with these parameters."""
        return super().forward(params, (), *args, **kwargs)


def make_functional_with_buffers(
    model: Module,
    disable_autograd_tracking: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
) -> Any:
    """A function of parameters, buffers and arguments, and the tensors that the module has.

    Args:
        model: a module.
        disable_autograd_tracking: give parameters that require no gradients.

    Returns:
        The function, copies of the parameters, copies of the buffers.
    """
    alone = copy.deepcopy(model)
    params = tuple(
        p.detach().clone().requires_grad_(p.requires_grad and not disable_autograd_tracking)
        for p in model.parameters()
    )
    buffers = tuple(b.detach().clone() for b in model.buffers())
    names = tuple(n for n, _ in model.named_parameters())
    others = tuple(n for n, _ in model.named_buffers())
    return FunctionalModuleWithBuffers(alone, names, others), params, buffers


def make_functional(
    model: Module,
    disable_autograd_tracking: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
) -> Any:
    """As :func:`make_functional_with_buffers`, of a module without buffers.

    Returns:
        The function, copies of the parameters.

    Raises:
        ArgumentError: if the module has buffers.
    """
    if [*model.buffers()]:
        raise ArgumentError(
            "make_functional",
            "the module has no buffers",
            buffers=[n for n, _ in model.named_buffers()],
            remedy="Use make_functional_with_buffers",
        )
    made, params, _ = make_functional_with_buffers(model, disable_autograd_tracking)
    return FunctionalModule(made.stateless_model, made.param_names), params


def combine_state_for_ensemble(models: Any) -> Any:
    """One function for modules of one kind, and their tensors stacked, for :func:`vmap`."""
    params, buffers = stack_module_state(models)
    made, _, _ = make_functional_with_buffers(models[0])
    return made, (*params.values(),), (*buffers.values(),)


def _name_of(function: Any) -> str:
    return getattr(function, "__name__", repr(function))


def _part(name: str, **members: Any) -> ModuleType:
    made = ModuleType(name, "Of transforms.")
    made.__dict__.update(members)
    return made


_mapping = _part(
    "torch._functorch.vmap",
    vmap=vmap,
    _broadcast_to_and_flatten=broadcast_flat,
    _get_name=_name_of,
    _maybe_remove_batch_dim=refusing("_maybe_remove_batch_dim"),
    Tensor=Tensor,
    tree_flatten=tree_flatten,
    tree_unflatten=tree_unflatten,
    **AXES,
)
_functional = _part(
    "torch._functorch.make_functional",
    FunctionalModule=FunctionalModule,
    FunctionalModuleWithBuffers=FunctionalModuleWithBuffers,
    combine_state_for_ensemble=combine_state_for_ensemble,
    make_functional=make_functional,
    make_functional_with_buffers=make_functional_with_buffers,
)
# Modules and functions have one name there: what torch._functorch.vmap means is the module.
private = _part("torch._functorch", vmap=_mapping, make_functional=_functional)
private.__dict__["config"] = _part("torch._functorch.config")  # kept, and without effect
private.__dict__["public"] = sys.modules[__name__]  # which programs call functorch
