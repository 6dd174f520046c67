"""Gradients asked for by name, instead of left in leaves; and those that leaves shall forget."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..errors import ArgumentError, GradientError
from ..tensor import Tensor
from ..values import mode
from ..values.arguments import checked
from .tape import root_gradient, run_backward

__all__ = ["forget_gradients", "grad"]


@checked
def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    *,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Tensor | None, ...]:
    """Gradients of ``outputs`` with respect to ``inputs``, without touching ``.grad``.

    Args:
        outputs: one tensor or several, whose weighted sum is differentiated.
        inputs: one tensor or several that require gradients.
        grad_outputs: the weights, of the outputs' shapes; None stands for 1 (one element only).
        retain_graph: keep what the tape saved; None stands for ``create_graph``.
        create_graph: record the walk, so that the gradients can be differentiated.
        allow_unused: give None for an input that no output depends on.

    Returns:
        For each input its gradient, of its shape.

    Raises:
        GradientError: if an output requires no gradient, or an input is unused.
    """
    roots = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    targets = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    given = (
        [grad_outputs]
        if isinstance(grad_outputs, Tensor) or grad_outputs is None
        else list(grad_outputs)
    )
    if len(given) == 1 and len(roots) > 1:
        given = given * len(roots)
    if len(given) != len(roots):
        raise ArgumentError(
            "grad", "there is a weight for each output", outputs=len(roots), grad_outputs=len(given)
        )
    found = run_backward(
        roots,
        [root_gradient("grad", r, g) for r, g in zip(roots, given, strict=True)],
        targets=targets,
        retain_graph=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph,
    )
    results = tuple(found[id(t)][1] if id(t) in found else None for t in targets)
    if not allow_unused and any(r is None for r in results):
        raise GradientError(
            "grad",
            "an input was not used by the outputs",
            unused=[i for i, r in enumerate(results) if r is None],
            remedy="Pass allow_unused=True to get None for it",
        )
    return results


def forget_gradients(leaves: Iterable[Tensor], *, set_to_none: bool) -> None:
    """Take the gradients of leaves away, or overwrite those that are there with 0."""
    for leaf in leaves:
        if set_to_none:
            leaf.grad = None
        elif leaf.grad is not None:
            leaf.grad = leaf.grad.detach()
            with mode.using(grad=False):
                leaf.grad.zero_()
