"""Gradients taken as one vector, also those of parameters of which each rank has a part.

What a rank does by such a norm must be what the others do: clip by one factor, skip one step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from typing import Any, Final

from ..errors import ArgumentError
from ..ops.join import cat
from ..ops.multi_tensor import norm_of_all
from ..tensor import Tensor
from .leaf import make_dense

__all__ = ["NORMS_OF_PARTS", "norm_of_gradients"]

NORMS_OF_PARTS: Final = "norms_of_parts"
"""A divided parameter's attribute: takes the norm of this rank's part, gives those of all parts."""


def norm_of_gradients(name: str, parameters: Iterable[Tensor], p: float) -> Tensor | None:
    """The norm of all gradients as one vector, the same on all ranks that have parts of it.

    Args:
        name: of who asks.
        parameters: those without a gradient do not count; on all ranks alike.
        p: as for :func:`.norm_of_all`.

    Returns:
        ``()``; None if there is no gradient.

    Raises:
        ArgumentError: if ``p`` is 0, which counts tensors, and one lies in parts.
    """
    parameters = list(parameters)
    make_dense(parameters)
    whole: list[Tensor] = []
    parts: dict[Callable[[Tensor], Tensor], list[Tensor]] = {}
    for x in parameters:
        if x.grad is not None:
            attributes: dict[str, Any] = getattr(x, "__dict__", {})
            everyone = attributes.get(NORMS_OF_PARTS)
            (whole if everyone is None else parts.setdefault(everyone, [])).append(x.grad)
    if not parts:
        return norm_of_all(whole, p) if whole else None
    if p == 0:
        raise ArgumentError(name, "norm_type is not 0 where ranks have parts", norm_type=p)
    norms = [everyone(_norm_of_part(own, p)) for everyone, own in parts.items()]
    if whole:
        norms.append(norm_of_all(whole, p).reshape(1))
    return norm_of_all([cat([x.to(norms[0]) for x in norms])], p)


def _norm_of_part(grads: list[Tensor], p: float) -> Tensor:
    """Of a rank that has no elements it is what changes nothing in the norm of all."""
    held = [g for g in grads if g.numel()]
    return norm_of_all(held, p) if held else grads[0].new_full((), 0 if p > 0 else inf)
