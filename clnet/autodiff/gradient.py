"""Gradients asked for by name, instead of left in leaves; and those that leaves shall forget."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module as _import_module
from typing import Any

from ..errors import ArgumentError, GradientError
from ..tensor import Tensor
from ..values import mode
from ..values.arguments import checked, require_tensors
from ..values.plain import is_iterable
from .given import held_by, is_edge, listed_roots, root_of
from .walk import root_gradient, run_backward

__all__ = ["forget_gradients", "grad"]


@checked
def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """Gradients of ``outputs`` with respect to ``inputs``, without touching ``.grad``.

    Args:
        outputs: one tensor or several, or edges, whose weighted sum is differentiated.
        inputs: one tensor or several that require gradients, or edges of a graph.
        grad_outputs: the weights, of the outputs' shapes; None stands for 1 (one element only).
        retain_graph: keep what the tape saved; None stands for ``create_graph``.
        create_graph: record the walk, so that the gradients can be differentiated.
        only_inputs: taken: no other leaf gets a gradient.
        allow_unused: give None for an input that no output depends on; None stands for
            ``materialize_grads``.
        is_grads_batched: each weight has a first axis of several weights, and so has each gradient.
        materialize_grads: give 0 for an input that no output depends on; with ``create_graph`` it
            requires a gradient.

    Returns:
        For each input its gradient, of its shape.

    Raises:
        GradientError: if an output requires no gradient, an input is unused, there is none, or one
            is an edge beside ``materialize_grads``.
        ArgumentError: if there is not a weight for each output.
    """
    del only_inputs
    roots = listed_roots(outputs)
    require_tensors("grad", **{f"outputs[{k}]": x for k, x in enumerate(roots) if not is_edge(x)})
    targets = _targets(inputs)
    if grad_outputs is None:
        given: list[Tensor | None] = [None] * len(roots)
    else:
        given = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs)
    if materialize_grads and allow_unused is False:
        law = "materialize_grads goes with allow_unused=True"
        raise ArgumentError("grad", law, allow_unused=allow_unused)
    if materialize_grads and not all(isinstance(t, Tensor) for t in targets):
        law = "materialize_grads goes with tensors: an edge has no shape"
        raise GradientError("grad", law, remedy="Pass allow_unused=True alone")
    if is_grads_batched:
        return _batched(roots, targets, given, create_graph, allow_unused, materialize_grads)
    if len(given) != len(roots):
        raise ArgumentError(
            "grad", "there is a weight for each output", outputs=len(roots), grad_outputs=len(given)
        )
    roots = [root_of(root, weight) for root, weight in zip(roots, given, strict=True)]
    if (tracer := mode.current().tracer) is not None:
        tracer.ask_gradients(targets)
    found = run_backward(
        roots,
        [root_gradient("grad", r, g) for r, g in zip(roots, given, strict=True)],
        targets=targets,
        retain_graph=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph,
    )
    held = held_by(given)
    results = [_own(found[id(t)][1], held) if id(t) in found else None for t in targets]
    if materialize_grads:
        return tuple(
            t.new_zeros(t.shape, requires_grad=create_graph) if r is None else r
            for t, r in zip(targets, results, strict=True)
        )
    unused = [i for i, r in enumerate(results) if r is None]
    if unused and not allow_unused:
        raise GradientError(
            "grad",
            "an input was not used by the outputs",
            unused=unused,
            remedy="Pass allow_unused=True to get None for it",
        )
    return tuple(results)


def _targets(inputs: Any) -> list[Any]:
    """What gradients are asked for: tensors, or results of nodes that stand for edges.

    Raises:
        KindError: if one is neither a tensor nor an edge.
        GradientError: if there is none.
    """
    alone = isinstance(inputs, Tensor) or is_edge(inputs) or not is_iterable(inputs)
    found = [x.target() if is_edge(x) else x for x in ([inputs] if alone else inputs)]
    for x in found:
        if not hasattr(x, "node"):
            require_tensors("grad", inputs=x)
    if not found:
        raise GradientError("grad", "inputs are one tensor or more", inputs=0)
    return found


def _own(gradient: Tensor, held: set[int]) -> Tensor:
    """A gradient that may be written to: one that shares memory is copied.

    Args:
        gradient: as a walk found it.
        held: the ``id`` of storages that somebody holds; this one's is put there.
    """
    if gradient.is_sparse:
        return gradient
    shared = id(gradient.array.storage) in held or gradient.array.repeated
    held.add(id(gradient.array.storage))
    return gradient.clone() if shared else gradient


def _batched(
    roots: list[Tensor],
    targets: list[Tensor],
    weights: Sequence[Tensor | None],
    create_graph: bool,
    allow_unused: bool | None,
    materialize_grads: bool,
) -> tuple[Tensor | None, ...]:
    """The gradients for each of several weights, along a first axis, in one walk."""
    counts = {len(w) for w in weights if w is not None and w.ndim}
    if None in weights or len(counts) != 1 or any(w is not None and not w.ndim for w in weights):
        raise ArgumentError(
            "grad",
            "with is_grads_batched every weight has a first axis, of one length",
            shapes=[None if w is None else tuple(w.shape) for w in weights],
        )
    used: list[bool] = []

    def once(*own: Tensor) -> tuple[Tensor, ...]:
        found = grad(
            roots,
            targets,
            own,
            retain_graph=True,
            create_graph=create_graph,
            allow_unused=allow_unused,
            materialize_grads=materialize_grads,
        )
        used[:] = [g is not None for g in found]
        return tuple(g for g in found if g is not None)

    vmap = _import_module("clnet.autodiff.vmap").vmap  # which a training step does without
    found = iter(vmap(once, randomness="different")(*weights))
    return tuple(next(found) if there else None for there in used)


def forget_gradients(leaves: Iterable[Tensor], *, set_to_none: bool) -> None:
    """Take the gradients of leaves away, or overwrite those that are there with 0."""
    for leaf in leaves:
        if set_to_none:
            leaf.grad = None
        elif (grad := leaf.grad) is not None:
            if grad.requires_grad:
                leaf.grad = grad = grad.detach()
            with mode.using(grad=False):
                grad.zero_()
