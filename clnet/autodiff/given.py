"""What users hand to backward and leave in ``grad``, checked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..errors import ArgumentError, GradientError
from ..values import mode
from ..values.arguments import is_tensor, require_tensors
from ..values.plain import is_iterable


def is_edge(x: Any) -> bool:
    """Whether something is the place of a graph where a gradient goes, and no tensor."""
    return hasattr(x, "target")


def listed_roots(tensors: Any) -> list[Any]:
    """Where a walk back shall begin: one tensor or edge of a graph, or several."""
    alone = hasattr(tensors, "requires_grad") or is_edge(tensors) or not is_iterable(tensors)
    return [tensors] if alone else list(tensors)


def root_of(x: Any, gradient: Any) -> Any:
    """A tensor, or what stands for that of an edge."""
    return x.root(gradient) if is_edge(x) else x


def held_by(gradients: Iterable[Any]) -> set[int]:
    """The ``id`` of the storages of gradients; None and sparse ones are nobody's."""
    return {id(g.array.storage) for g in gradients if g is not None and not g.is_sparse}


def listed_inputs(inputs: Any) -> tuple[Any, ...] | None:
    """The tensors that ``backward(inputs=...)`` names, one or several; None: all leaves.

    Edges of a graph stand for what made their tensors, which get no gradient themselves.

    Raises:
        ArgumentError: if there are none among them.
        GradientError: if one requires no gradient.
    """
    if inputs is None:
        return None
    several = is_iterable(inputs) and not hasattr(inputs, "requires_grad")
    listed: tuple[Any, ...] = tuple(inputs) if several and not is_edge(inputs) else (inputs,)
    listed = tuple(x.target() if is_edge(x) else x for x in listed)
    named = {f"inputs[{k}]": x for k, x in enumerate(listed) if not hasattr(x, "node")}
    require_tensors("backward", **named)
    if not listed:
        raise ArgumentError("backward", "inputs are one tensor or more", remedy="Leave inputs out")
    without = [k for k, x in enumerate(listed) if not x.requires_grad]
    if without:
        hint = "Leave these out, or call requires_grad_() on them before"
        raise GradientError("backward", "inputs require gradients", without=without, remedy=hint)
    return listed


def require_gradient(tensor: Any, value: Any) -> None:
    """Check what becomes a tensor's ``grad``: None, or a tensor like it.

    Raises:
        GradientError: if shape, dtype or device are others, or it is the tensor itself.
    """
    if value is None:
        return
    if is_tensor(value) and not value.is_sparse and not tensor.is_sparse and value is not tensor:
        own, its = tensor.array, value.array
        like = own.shape == its.shape and own.dtype is its.dtype
        if like and own.storage.device is its.storage.device:
            return
    require_tensors("grad", grad=value)
    if value is tensor:
        law = "a tensor is not its own gradient"
        raise GradientError("grad", law, shape=tensor.shape, remedy="Give it a clone()")
    own, its = ((x.shape, x.dtype, x.device) for x in (tensor, value))
    if own != its:
        law = "a gradient has its tensor's shape, dtype and device"
        raise GradientError("grad", law, tensor=own, gradient=its)


def checked_flag(tensor: Any, requires_grad: bool) -> bool:  # noqa: FBT001 - PyTorch's
    """Whether a tensor is a leaf that requires a gradient, once it was asked for one or for none.

    Raises:
        GradientError: if it is not a leaf, or not floating, or ``inference_mode`` made it.
    """
    tensor.array.require_alone()
    if tensor.node is not None and not requires_grad:
        law = "only a leaf stops requiring gradients"
        raise GradientError("requires_grad_", law, remedy="Use detach()")
    if requires_grad and not tensor.dtype.differentiable:
        law = "only floating and complex tensors have gradients"
        hint = "Convert it with .float() before"
        raise GradientError("requires_grad_", law, dtype=tensor.dtype, remedy=hint)
    if requires_grad and tensor.array.storage.inference and not mode.current().inference:
        law = "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed"
        raise GradientError(
            "requires_grad_", law, shape=tensor.shape, remedy="Take a clone() of it"
        )
    return bool(requires_grad) and tensor.node is None
