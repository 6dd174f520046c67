"""``autograd.Variable`` and ``autograd.backward``: PyTorch's older ways to the tape."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError
from ..tensor import Tensor
from ..values import mode
from ..values.arguments import require_tensors
from ..values.plain import is_sequence, shown
from .given import held_by, is_edge, listed_inputs, listed_roots, root_of
from .walk import root_gradient, walk_back

__all__ = ["Variable", "backward", "is_checkpoint_valid", "set_multithreading_enabled"]


class _VariableClass(type):
    def __call__(
        cls, data: Tensor, requires_grad: bool = False, volatile: bool | None = None
    ) -> Tensor:
        require_tensors("Variable", data=data)
        if not isinstance(volatile, bool | None):
            raise ArgumentError("Variable", "volatile is a bool or None", volatile=volatile)
        if not isinstance(requires_grad, int | np.bool_):
            law = "requires_grad is a bool"
            raise ArgumentError("Variable", law, requires_grad=shown(requires_grad))
        if volatile and requires_grad:
            law = "a variable that wants a gradient is not volatile"
            raise ArgumentError("Variable", law, requires_grad=requires_grad, volatile=volatile)
        return data.detach().requires_grad_() if requires_grad else data

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=_VariableClass):
    """A tensor; with ``requires_grad`` a leaf that shares its elements.

    Args:
        data: a tensor.
        requires_grad: whether gradients flow to it.
        volatile: taken, as PyTorch takes it, without ``requires_grad``.

    Raises:
        ArgumentError: if both are asked for, or ``data`` is no tensor.
    """


class set_multithreading_enabled:  # noqa: N801 - PyTorch's name
    """Taken, also for a ``with`` block: a walk back goes in the thread that asks for it.

    Args:
        mode: PyTorch's: whether other threads may take part.
    """

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool | np.bool_):
            raise ArgumentError("set_multithreading_enabled", "mode is a bool", mode=shown(mode))
        self.mode = mode

    def __enter__(self) -> None:
        """Nothing changes."""

    def __exit__(self, *raised: object) -> None:
        """Nothing changed."""


class _Engine:
    """What walks back, as programs ask it."""

    def queue_callback(self, callback: Callable[[], None]) -> None:
        """Call something when the ``backward`` under way is done.

        Raises:
            RuntimeError: if none is.
        """
        after = mode.current().after_backward
        if after is None:
            raise RuntimeError("Final callbacks can only be installed during backward pass.")
        after.append(callback)


Variable._execution_engine = _Engine()


def is_checkpoint_valid() -> bool:
    """Whether what is recomputed gives its gradients: always, here."""
    return True


def backward(
    tensors: Any,
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradients of several tensors to ``grad`` of the leaves.

    Args:
        tensors: one or several, or edges of a graph.
        grad_tensors: the gradient that arrives at each; None: 1.
        retain_graph: as ``Tensor.backward``.
        create_graph: as there.
        inputs: the tensors whose ``grad`` is added to; None: all leaves.

    Raises:
        GradientError: as ``Tensor.backward``.
        ArgumentError: if there is not a gradient, or None, for each tensor.
    """
    roots = listed_roots(tensors)
    for root in roots:
        if not is_edge(root):
            require_tensors("backward", tensors=root)
    grads: Any = grad_tensors
    if grads is None or isinstance(grads, Tensor):
        grads = [grads] * len(roots)
    if not is_sequence(grads) or len(grads) != len(roots):
        law = "grad_tensors are a gradient or None for each tensor"
        raise ArgumentError("backward", law, tensors=len(roots), grad_tensors=shown(grads))
    given = [grad for grad in grads if grad is not None]
    require_tensors("backward", **{f"grad_tensors[{k}]": grad for k, grad in enumerate(given)})
    roots = [root_of(root, grad) for root, grad in zip(roots, grads, strict=True)]
    walk_back(
        roots,
        [root_gradient("backward", root, grad) for root, grad in zip(roots, grads, strict=True)],
        listed_inputs(inputs),
        held_by(given),
        retain_graph=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph,
    )
