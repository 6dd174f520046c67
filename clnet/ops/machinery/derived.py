"""Results that were computed aside, put on the tape with a rule for their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...array import Array
from .function import Function, Grads, Needs, Saved, apply

Rule = Callable[..., Sequence[Any]]
"""``rule(inputs, results, gradients, *settings)`` gives the inputs' gradients, in public ops."""


class Derived(Function):
    """Views of the last inputs, as results of the first ``count`` ones.

    Factorizations are computed by several ops of which none has a gradient of its own; the whole
    has one in terms of the results, which may be differentiated again.
    """

    takes_complex = True
    views = True

    op_name: str
    count: int
    rule: Rule
    partial: bool = False
    settings: tuple[Any, ...] = ()

    def infer(self, *inputs: Array) -> tuple[Array, ...]:
        """A view of each result."""
        return tuple(x.view(x.shape, x.strides) for x in inputs[self.count :])

    def saves(self, needs: tuple[bool, ...]) -> tuple[Sequence[int], Sequence[int]]:
        """Everything."""
        return range(self.count), range(len(needs) - self.count)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """What the rule gives; unless it is told, results that nothing arrives at have zeros."""
        inputs = [saved.inputs[k] for k in range(self.count)]
        results = [saved.outputs[k] for k in range(len(grads))]
        arrived = [
            y.detach().new_zeros(y.shape) if g is None and not self.partial else g
            for g, y in zip(grads, results, strict=True)
        ]
        found = self.rule(inputs, results, arrived, *self.settings)
        return (*found, *(None for _ in grads))


def derived(
    name: str,
    rule: Rule,
    inputs: Sequence[Any],
    results: Sequence[Any],
    *,
    partial: bool = False,
    settings: tuple[Any, ...] = (),
) -> Any:
    """Results as functions of tensors.

    Args:
        name: the public op.
        rule: what their gradients are.
        inputs: the tensors.
        results: computed without a tape.
        partial: the rule is given None for a result that no gradient arrives at.
        settings: what else the rule is given. A rule that is one object for all calls, and not made
            at each, lets walks back be kept; see :mod:`clnet.autodiff.kept_walk`.

    Returns:
        The results on the tape: one, or a tuple.
    """
    function = Derived(name, len(inputs), rule, partial, settings)
    return apply(function, *inputs, *(y.detach() for y in results))
