"""What a trace can say of a value that nobody has computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..array import Array
from ..expr import Input, Scalar, ge, gt, le, lt
from ..kernels.pointwise import uniform
from ..ops.create import MakeInto
from ..ops.machinery.pointwise import Pointwise
from ..ops.random import Random
from ..values.varying import is_varying

__all__ = ["truth"]

_NUMBERS = Input(0), Scalar(0)
_LESS = (lt(*_NUMBERS),), (le(*_NUMBERS),)
_GREATER = (ge(*_NUMBERS),), (gt(*_NUMBERS),)


def truth(steps: Sequence[Any], asked: Array) -> bool | None:
    """Whether a value is true whatever is drawn: a uniform number beside one outside its range.

    Networks leave layers out so (``rand([]) < layerdrop``, Fan, Grave and Joulin, "Reducing
    Transformer Depth on Demand", 2019), most of them with a probability of 0.

    Args:
        steps: of the trace so far.
        asked: the value, an array of one element.

    Returns:
        The answer; None if it hangs on what is drawn, or is not known.
    """
    made = _written(steps, asked)
    if not isinstance(made, tuple) or not isinstance(made[0].function, Pointwise):
        return None
    step, before = made
    exprs, scalars = step.function.exprs, step.function.scalars
    if exprs not in (*_LESS, *_GREATER) or is_varying(scalars[0]):
        return None
    drawn = _written(steps[:before], step.inputs[0])
    bounds = None if drawn is None else _bounds(drawn[0].function)
    if bounds is None or not isinstance(scalars[0], int | float):
        return None
    (low, high), number = bounds, scalars[0]
    # The bound itself is not drawn, but rounding may lead there where it is not 1.
    if number < low or (number == low and exprs in (_LESS[0], _GREATER[0])):
        return exprs in _GREATER
    return exprs in _LESS if number > high else None


def _written(steps: Sequence[Any], asked: Array) -> tuple[Any, int] | None:
    """The last step that writes where an array lies, if it writes all of that, and its place."""
    for i in range(len(steps) - 1, -1, -1):
        step = steps[i]
        if asked.storage in getattr(step, "writes", ()):
            every = step.outputs or step.inputs
            whole = len(every) == 1 and every[0].size == asked.size == 1
            return (step, i) if whole and every[0].offset == asked.offset else None
    return None


def _bounds(function: Any) -> tuple[float, float] | None:
    """Between which numbers lies what a function draws; None if that is not known."""
    if isinstance(function, MakeInto):
        function = function.function
    if not isinstance(function, Random) or function.draw is not uniform:
        return None
    settings: dict[str, Any] = dict(function.settings)
    found = settings["low"], settings["high"]
    return None if any(map(is_varying, found)) else found
