"""Arguments of a compiled function: the tensors among them, and what tells calls apart.

Tensors may lie in tuples, lists and dicts. Of tensors their form and class matter, and which are
one, of all else the value and its type, since 1, 1.0 and True are equal and yet give other dtypes,
and 0.0 and -0.0 other signs.

A tensor that is not dense is given to the plan as the memory from its first element to its last, in
which the function sees it with its own strides: so it is told the truth about them, copies and
views are what they are without compiling, and nothing is copied before the call. Where much lies
between the elements they are copied, and the function may not ask how they lie.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Container
from typing import Any

import numpy as np

from ..array import Array
from ..errors import TraceError
from ..ops import contiguous
from ..tensor import Tensor
from ..values.containers import again
from .drawn import GENERATORS

_DICTS = (dict, OrderedDict)
_TWICE = object()
_PLAIN = (bool, int, str, type(None))
VARYING = (float, int)
"""The types of numbers that may vary from call to call."""
_NUMBERS = (float, complex, np.floating, np.complexfloating)
# An argument's memory is given as it is up to so many places for each element, or so many in all.
_MOST_GAPS, _FEW = 4, 2**14


def looked_at(
    args: tuple[Any, ...], kwargs: dict[str, Any], loose: Container[int] = ()
) -> tuple[list[Tensor], list[Tensor], tuple[Any, ...], list[Any]]:
    """What a call's arguments are, found in one pass over them.

    Kernels that ran since the last call have left nothing of this code in the processor's caches,
    so each further pass would cost more than it seems.

    Args:
        args: those of a call.
        kwargs: the same by name.
        loose: which of the numbers among them may be others for one plan, counted from 0.

    Returns:
        The tensors in them, in the order of :func:`placed`; the same with arrays that a plan can
        read, which almost always are they themselves; the guards, which are equal for calls that
        one plan serves; and the numbers.

    Raises:
        TraceError: if an argument cannot be compared.
    """
    given: list[Tensor] = []
    numbers: list[Any] = []
    guards: list[Any] = [len(args), *kwargs] if kwargs else []
    try:
        for value in (*args, *kwargs.values()) if kwargs else args:
            guards.append(_told(value, given, numbers, loose))  # noqa: PERF401 - how many tells which is refused
    except TypeError:
        place = len(guards) - (1 + len(kwargs) if kwargs else 0)
        refused = (*args, *kwargs.values())[place]
        array = isinstance(refused, np.ndarray)
        raise TraceError(
            "compile",
            "arguments are tensors, hashable values, and tuples, lists and dicts of these",
            argument=(*range(len(args)), *kwargs)[place],
            type=type(refused).__name__,
            remedy="Pass clnet.tensor(x)" if array else "Pass its tensors one by one",
        ) from None
    if len(given) > 1 and len({*map(id, given)}) < len(given):
        first = {id(x): place for place, x in reversed([*enumerate(given)])}
        guards.append((_TWICE, *[first[id(x)] for x in given]))
        given = list({id(x): x for x in given}.values())
    dense = [x if x.array.contiguous else given_flat(x) for x in given]
    return given, dense, tuple(guards), numbers


def given_flat(x: Tensor) -> Tensor:
    """What a plan is given of an argument; see above."""
    if x.array.contiguous or (span := _span(x.array)) is None:
        return contiguous(x.detach())
    return Tensor(x.array.view((span,), (1,)))


def given_place(x: Tensor) -> Tensor:
    """Where what a plan changes of an argument is put."""
    return x if x.array.contiguous or is_copied(x) else given_flat(x)


def is_copied(x: Tensor) -> bool:
    """Whether a plan is given a copy of an argument."""
    return not x.array.contiguous and _span(x.array) is None


def seen(x: Tensor) -> tuple[Array, Array]:
    """Memory that stands for what a plan is given of an argument, and the argument in it."""
    span = None if x.array.contiguous else _span(x.array)
    shape = x.array.shape if span is None else (span,)
    memory = Array.abstract(shape, x.dtype, x.device)
    return memory, memory if span is None else memory.view(x.array.shape, x.array.strides)


def _span(x: Array) -> int | None:
    """Elements of the memory from the first to the last; None where most are not the array's."""
    if 0 in x.shape:
        return None
    span = 1 + sum((n - 1) * step for n, step in zip(x.shape, x.strides, strict=True))
    return span if span <= max(_MOST_GAPS * x.size, _FEW) else None


def placed(
    value: Any,
    place: Callable[[Tensor], Tensor],
    vary: Callable[[Any], Any] | None = None,
    known: dict[int, Any] | None = None,
) -> Any:
    """An argument with other tensors in the place of its own; containers are made anew.

    Args:
        value: the argument.
        place: gives what stands for a tensor.
        vary: gives what stands for a number; None: it stays.
        known: what stands for lists and dicts that came before, by ``id``: one that is given twice
            is one.
    """
    if isinstance(value, Tensor):
        return place(value)
    if isinstance(value, tuple | list):
        made = again(value, [placed(v, place, vary, known) for v in value])
    elif type(value) in _DICTS:
        made = type(value)((k, placed(v, place, vary, known)) for k, v in value.items())
    else:
        return vary(value) if vary is not None and type(value) in VARYING else value
    return made if known is None or isinstance(value, tuple) else known.setdefault(id(value), made)


def contents(value: Any) -> list[Any]:
    """All that lies in an argument, in order, and where containers begin: to see a change."""
    if isinstance(value, tuple | list):
        found = [v for part in value for v in contents(part)]
    elif type(value) in _DICTS:
        found = [v for key, part in value.items() for v in (key, *contents(part))]
    else:
        return [value]
    return [(type(value), len(value)), *found]


def same_contents(before: list[Any], after: list[Any]) -> bool:
    """Whether two of :func:`contents` have the same objects in the same containers."""
    return len(before) == len(after) and all(
        a is b or (type(a) is type(b) is tuple and a == b)
        for a, b in zip(before, after, strict=True)
    )


def _told(value: Any, tensors: list[Tensor], numbers: list[Any], loose: Container[int]) -> Any:
    if isinstance(value, Tensor):
        tensors.append(value)
        array = value.array
        form = (array.storage.device, array.shape, array.dtype, value.requires_grad, type(value))
        if value.__dict__:
            form += tuple((k, v if type(v) in _PLAIN else id(v)) for k, v in vars(value).items())
        return form if array.contiguous else (*form, array.strides)
    kind: Any = type(value)
    if kind in VARYING:
        numbers.append(value)
        if len(numbers) - 1 in loose:
            return kind
    if isinstance(value, _NUMBERS):
        return (kind, repr(value))  # which tells -0.0 from 0.0, and one NaN is as another
    if isinstance(value, tuple | list):
        return (kind, *[_told(v, tensors, numbers, loose) for v in value])
    if kind in _DICTS:
        return (kind, *[(k, _told(v, tensors, numbers, loose)) for k, v in value.items()])
    if isinstance(value, GENERATORS):
        return (kind, object())  # its next number is another: no call is as the one before
    hash(value)
    return (kind, value)
