"""Which rule is for which function, and what rules share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ..machinery.function import Function, results_of
from ..shape import contiguous, expand, reshape

Flags = tuple[bool, ...]
"""For each input, whether it has the batch's axis."""
Rule = Callable[[Any, Flags, "Sequence[Any]", int], "Sequence[Any] | None"]

_RULES: dict[type[Function], Rule] = {}


def rule(*functions: type[Function]) -> Callable[[Rule], Rule]:
    """Declare the rule of some functions."""

    def declare(own: Rule) -> Rule:
        _RULES.update(dict.fromkeys(functions, own))
        return own

    return declare


def rule_for(function: type[Function]) -> Rule | None:
    """The rule of a class of functions, or None."""
    return _RULES.get(function)


def with_batch(x: Any, batched: bool, size: int) -> Any:  # noqa: FBT001
    """An input with the batch's axis first, repeated along it if it had none."""
    return x if batched else expand(reshape(x, (1, *x.shape)), (size, *x.shape))


def all_with_batch(flags: Flags, inputs: Sequence[Any], size: int) -> list[Any]:
    """All inputs with the batch's axis first."""
    return [with_batch(x, f, size) for x, f in zip(inputs, flags, strict=True)]


def lined_up(flags: Flags, inputs: Sequence[Any]) -> list[Any]:
    """Inputs that broadcast as those of one element do: axes of 1 stand behind the batch's."""
    ndims = [x.ndim - f for x, f in zip(inputs, flags, strict=True)]
    most, found = max(ndims), []
    for x, f, ndim in zip(inputs, flags, ndims, strict=True):
        between = (1,) * (most - ndim)
        found.append(reshape(x, (x.shape[0], *between, *x.shape[1:])) if f and between else x)
    return found


def folded(x: Any, axis: int = 0) -> Any:
    """The batch's axis joined with another, of the shape without the batch; dense."""
    if axis:
        order = (*range(1, axis + 1), 0, *range(axis + 1, x.ndim))
        x = x.permute(order)
    shape = (*x.shape[:axis], x.shape[axis] * x.shape[axis + 1], *x.shape[axis + 2 :])
    return contiguous(reshape(x, shape))


def unfolded(y: Any, size: int, axis: int = 0) -> Any:
    """What :func:`folded` joined apart again, the batch's axis first."""
    rest = y.shape[axis] // size if size else 0
    y = reshape(y, (*y.shape[:axis], size, rest, *y.shape[axis + 1 :]))
    return y.permute((axis, *range(axis), *range(axis + 1, y.ndim))) if axis else y


def of_folded(
    function: Function, flags: Flags, inputs: Sequence[Any], size: int
) -> Sequence[Any] | None:
    """The function of all elements, which lie one behind the other along the first axis."""
    if not size or any(x.ndim < 1 + f for x, f in zip(inputs, flags, strict=True)):
        return None
    given = [folded(with_batch(x, f, size)) for x, f in zip(inputs, flags, strict=True)]
    return [unfolded(y, size) for y in results_of(function, *given)]


def moved(dims: Sequence[int]) -> tuple[int, ...]:
    """Axes behind the batch's."""
    return tuple(d + 1 for d in dims)


def count(shape: Sequence[int]) -> int:
    """Elements of a shape."""
    return prod(shape)
