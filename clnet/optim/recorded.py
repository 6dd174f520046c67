"""Steps of optimisers that gradients go through: ``differentiable=True``, for meta learning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from ..ops.machinery.pointwise import evaluate
from ..ops.machinery.update import Body, symbolic
from ..tensor import Tensor


@cache
def _part(body: Body, k: int, operands: int, places: tuple[int, ...]) -> Callable[..., Any]:
    """The ``k``-th value of an update: of operands, scalars that are tensors, the other scalars."""

    def part(*symbols: Any) -> Any:
        own, given = symbols[:operands], symbols[operands : operands + len(places)]
        scalars = list(symbols[operands + len(places) :])
        for place, symbol in zip(places, given, strict=True):
            scalars.insert(place, symbol)
        return body(*own, *scalars)[k]

    return part


def update_on_tape(
    body: Body,
    groups: Sequence[Sequence[Tensor]],
    scalars: Sequence[float | Tensor],
) -> None:
    """Overwrite a group's first tensors, on the tape, with what ``body`` makes of all of it.

    So the new values are functions of the old ones, of the gradient and of settings that are
    tensors. It is a launch for each value, and copies of the old ones, which the walk back reads.

    Args:
        body: called with symbols of a group's tensors and of the scalars.
        groups: tensors of one shape each.
        scalars: numbers, or tensors without axes.

    Raises:
        GradientError: if a tensor that is overwritten is a leaf that requires a gradient.
    """
    places = tuple(k for k, s in enumerate(scalars) if isinstance(s, Tensor))
    given = [scalars[k] for k in places]
    numbers = [s for s in scalars if not isinstance(s, Tensor)]
    name = body.__name__.strip("_")
    for own in groups:
        count = len(symbolic(body, len(own), len(scalars)))
        before = [*(x.clone() for x in own[:count]), *own[count:], *given]
        made = [
            evaluate(name, _part(body, k, len(own), places), before, numbers) for k in range(count)
        ]
        for x, y in zip(own, made, strict=False):
            x.copy_(y)
