"""Numbers that are others at every call of a compiled function.

While a function is traced such a number stands in the place of Python's own. What is computed of it
is written down, to be computed again at every replay; beside a tensor it is a scalar that kernels
read anew. Where Python must know it, to choose a branch or a size, the answer becomes a condition
of the plan. Who writes this down is ``compile/numbers.py``; afterwards it is what it was.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import update_wrapper
from threading import Lock, local
from types import BuiltinFunctionType, ModuleType
from typing import Any

import numpy as np

__all__ = ["Varying", "VaryingFloat", "VaryingInt", "as_known", "is_varying", "lifted_math"]


class Varying:
    """A number of a trace that is another at every call.

    Args:
        numbers: who writes down what is computed of it, asked and uploaded.
        place: where that has it.
        value: what it is at the trace.
    """

    __slots__ = ("numbers", "place", "value")

    def __init__(self, numbers: Any, place: int, value: Any) -> None:
        self.numbers, self.place, self.value = numbers, place, value

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **given: Any) -> Any:
        if method == "__call__" and not given:
            return computed(ufunc, *inputs)
        return getattr(ufunc, method)(*map(as_known, inputs), **given)

    def __getattr__(self, name: str) -> Any:
        if not hasattr(self.value, name):
            raise AttributeError(name)
        return getattr(as_known(self), name)

    def __divmod__(self, other: Any) -> Any:
        return (self // other, self % other)

    def __rdivmod__(self, other: Any) -> Any:
        return (other // self, other % self)

    def __round__(self, digits: int | None = None) -> Any:
        return computed(round, self, digits)

    def __deepcopy__(self, memo: Any) -> Any:
        return self if self.numbers.active else self.value

    def __copy__(self) -> Any:
        return self if self.numbers.active else self.value

    def __reduce_ex__(self, protocol: Any) -> Any:
        value = as_known(self)
        return type(value), (value,)

    def __format__(self, spec: str) -> str:
        return format(_in_text(self), spec)


class VaryingInt(Varying):
    """A whole number that is another at every call."""

    __slots__ = ()
    __class__: Any = property(lambda self: int)


class VaryingFloat(Varying):
    """A floating number that is another at every call."""

    __slots__ = ()
    __class__: Any = property(lambda self: float)


_NUMBERS = (int, float, complex, np.generic)
_KINDS = frozenset((VaryingInt, VaryingFloat))


def is_varying(value: Any) -> bool:
    """Whether it stands for a number that is another at every call."""
    return type(value) in _KINDS


def as_known(value: Any) -> Any:
    """A number as Python's; of one that varies this is a condition of the plan from now on."""
    if type(value) not in _KINDS:
        return value
    if value.numbers.active:
        value.numbers.look(value)
    return value.value


def _in_text(value: Varying) -> Any:
    """A number in a text: one that a scheduler has just set is printed as it was."""
    late = value.numbers.active and value.numbers.is_late(value)
    return value.value if late else as_known(value)


def computed(function: Callable[..., Any], *args: Any) -> Any:
    """What a function gives for numbers, some of which vary: a number that varies, too.

    Args:
        function: of numbers, and nothing else.
        *args: those; others than plain ones make what varies known.
    """
    numbers = next(x for x in args if type(x) in _KINDS).numbers
    result = function(*[x.value if type(x) in _KINDS else x for x in args])
    if numbers.active and result is not NotImplemented:
        return numbers.note(function, args, result)
    return result


def _of_two(name: str) -> Callable[..., Any]:
    of = getattr(operator, name, None) or getattr(operator, f"{name}_")

    def forward(self: Varying, other: Any) -> Any:
        return computed(of, self, other) if isinstance(other, _NUMBERS) else NotImplemented

    return forward


def _of_two_reflected(name: str) -> Callable[..., Any]:
    of = getattr(operator, name, None) or getattr(operator, f"{name}_")

    def backward(self: Varying, other: Any) -> Any:
        return computed(of, other, self) if isinstance(other, _NUMBERS) else NotImplemented

    return backward


def _of_one(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self: computed(function, self)


def _known(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self: function(as_known(self))


def _as_text(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self: function(_in_text(self))


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(Varying, f"__{_name}__", _of_two(_name))
    setattr(Varying, f"__r{_name}__", _of_two_reflected(_name))
for _name in ("and", "or", "xor", "lshift", "rshift"):
    setattr(Varying, f"__{_name}__", _of_two(_name))
    setattr(Varying, f"__r{_name}__", _of_two_reflected(_name))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Varying, f"__{_name}__", _of_two(_name))
for _function in (operator.neg, operator.pos, abs, operator.invert, bool):
    setattr(Varying, f"__{_function.__name__}__", _of_one(_function))
for _function in (math.floor, math.ceil, math.trunc):
    setattr(Varying, f"__{_function.__name__}__", _of_one(_function))
for _function in (int, float, complex, operator.index, hash):
    setattr(Varying, f"__{_function.__name__}__", _known(_function))
for _function in (repr, str):
    setattr(Varying, f"__{_function.__name__}__", _as_text(_function))


class _Lifted:
    """A function of numbers that also takes those that vary; it equals the one that it calls.

    Args:
        function: one of Python's ``math``.

    Attributes:
        function: the same.
    """

    __class__: Any = property(lambda self: BuiltinFunctionType)

    def __init__(self, function: Callable[..., Any]) -> None:
        update_wrapper(self, function)
        self.function = function

    def __call__(self, *args: Any, **given: Any) -> Any:
        if not given and not _KINDS.isdisjoint(map(type, args)):
            return computed(self.function, *args)
        return self.function(*args, **given)

    def __eq__(self, other: object) -> bool:
        return other is self or other is self.function

    def __hash__(self) -> int:
        return hash(self.function)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_of_math, (self.function.__name__,))


def _of_math(name: str) -> Callable[..., Any]:
    """What ``math`` itself has by a name."""
    return vars(math)[name]


_LIFTED = {
    name: _Lifted(getattr(math, name))
    for name in (
        *("acos", "asin", "atan", "atan2", "ceil", "copysign", "cos", "cosh", "degrees", "erf"),
        *("exp", "expm1", "fabs", "floor", "fmod", "gamma", "hypot", "isfinite", "isinf", "isnan"),
        *("lgamma", "log", "log10", "log1p", "log2", "pow", "radians", "sin", "sinh", "sqrt"),
        *("tan", "tanh", "trunc"),
    )
}
_BY_FUNCTION = {vars(math)[name]: lifted for name, lifted in _LIFTED.items()}
_LOCK = Lock()
_DEPTH = [0]
_BOUND: dict[tuple[int, str], int] = {}
_HERE = local()


class _Math(ModuleType):
    """``math`` while a function is traced, for the thread that traces; others find Python's."""

    def __getattribute__(self, name: str) -> Any:
        lifted = _LIFTED.get(name)
        if lifted is not None and getattr(_HERE, "lifts", False):
            return lifted
        return super().__getattribute__(name)


@contextmanager
def lifted_math(places: Iterable[tuple[dict[str, Any], str]]) -> Iterator[None]:
    """Have the functions of Python's ``math`` take numbers that vary, of which C would ask.

    The module is what it was to other threads: its functions are looked up by whoever asks. A
    program's own name of one (``from math import sqrt``) is everybody's, so for a while a function
    stands there that equals it.

    Args:
        places: tables of globals and names in them that may be bound to one of these functions.
    """
    with _LOCK:
        _DEPTH[0] += 1
        if _DEPTH[0] == 1:
            math.__class__ = _Math  # pyrefly: ignore[missing-attribute] - all modules have it
        bound = [(space, name) for space, name in places if _lift(space, name)]
    before, _HERE.lifts = getattr(_HERE, "lifts", False), True
    try:
        yield
    finally:
        _HERE.lifts = before
        with _LOCK:
            for space, name in bound:
                _put_back(space, name)
            _DEPTH[0] -= 1
            if not _DEPTH[0]:
                math.__class__ = ModuleType  # pyrefly: ignore[missing-attribute]


def _lift(space: dict[str, Any], name: str) -> bool:
    """Bind a name of ``math``'s function to its double, if it is one; counted, under the lock."""
    found = space.get(name)
    if type(found) is BuiltinFunctionType and found in _BY_FUNCTION:
        found = space[name] = _BY_FUNCTION[found]
    if type(found) is not _Lifted:
        return False
    _BOUND[id(space), name] = _BOUND.get((id(space), name), 0) + 1
    return True


def _put_back(space: dict[str, Any], name: str) -> None:
    """Bind a name to ``math``'s function again, once nobody traces with it; under the lock."""
    _BOUND[id(space), name] -= 1
    if _BOUND[id(space), name]:
        return
    del _BOUND[id(space), name]
    lifted = space.get(name)
    if type(lifted) is _Lifted:  # not what the program put there meanwhile
        space[name] = lifted.function
