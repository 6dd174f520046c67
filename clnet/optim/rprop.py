"""Resilient backpropagation: steps whose size follows the signs of the gradients alone."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

from .. import expr as e
from ..errors import ArgumentError
from ..ops.machinery.update import Body
from ..tensor import Tensor
from .declared import DeclaredOptimizer
from .optimizer import Group, ParamsT
from .state_form import filled_like


class Rprop(DeclaredOptimizer):
    """``p -= s * sign(g)``, a step size for each element (Riedmiller, Braun 1993), as PyTorch's.

    ``s`` grows while the gradient keeps its sign. Where the sign changes, ``s`` shrinks and the
    element stays where it is for a step. Made for gradients of the whole data set, not of batches.

    Args:
        params: parameters or groups.
        lr: the first step size, 0 or more.
        etas: factors by which a step size shrinks, in (0, 1), and grows, above 1.
        step_sizes: the smallest and the largest.
        maximize: go along the gradient instead of against it.
        differentiable: steps are on the tape: gradients go through them to old values, gradients
            and a rate that is a tensor.

    Raises:
        ArgumentError: if a setting is out of range.
    """

    params: ParamsT
    lr: Tensor | float = 1e-2
    etas: tuple[float, float] = (0.5, 1.2)
    step_sizes: tuple[float, float] = (1e-6, 50)
    _: KW_ONLY
    maximize: bool = False
    differentiable: bool = False
    rates = ("lr",)

    def check(self, group: Group) -> None:
        """The rate is 0 or more, the factors lie on both sides of 1."""
        super().check(group)
        shrink, grow = group["etas"]
        if not 0 < shrink < 1 < grow:
            raise ArgumentError("Rprop", "0 < etas[0] < 1 < etas[1]", etas=group["etas"])

    def state_names(self, group: Group) -> tuple[str, ...]:
        """The last gradient, 0 where its sign had changed, and the step sizes."""
        return ("prev", "step_size")

    def settings(self, group: Group, num_steps: int) -> dict[str, float]:
        """The two factors, the two bounds."""
        shrink, grow = group["etas"]
        least, most = group["step_sizes"]
        return {"shrink": shrink, "grow": grow, "least": least, "most": most}

    def body(self, group: Group) -> Body:
        return _rprop

    def _first_state(self, p: Tensor, group: Group) -> dict[str, Any]:
        """Step sizes begin with the learning rate, also where the state is made later."""
        state = super()._first_state(p, group)
        return {**state, "step_size": filled_like(p, float(group["lr"]))}


def _rprop(
    p: Any, before: Any, size: Any, g: Any, shrink: Any, grow: Any, least: Any, most: Any
) -> tuple[Any, ...]:
    agreement = g * before
    factor = e.where(agreement > 0, grow, e.where(agreement < 0, shrink, 1))
    size = e.minimum(e.maximum(size * factor, least), most)
    g = e.where(agreement < 0, 0, g)
    return (p - e.sign(g) * size, g, size)
