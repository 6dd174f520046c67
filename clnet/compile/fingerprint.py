"""What tells a value from others: what is compared at each call of a compiled function.

Two values with equal fingerprints are the same to a trace. Containers are told by their parts, so
that :mod:`.slots` finds which number in them is another: ``(type, [fingerprint, ...])`` of lists,
``(type, [(key, fingerprint), ...])`` of dicts, ``(type, value)`` of plain values. What is found by
name, and which of it counts, :mod:`.outer` says.
"""

from __future__ import annotations

from array import array
from collections import ChainMap, UserDict, deque
from collections.abc import Iterable, Iterator
from operator import is_, length_hint
from types import FunctionType, GeneratorType, MappingProxyType, MethodType, ModuleType
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np

from ..tensor import Tensor
from ..values.programs import is_programs
from .drawn import GENERATORS, stands
from .reachable import content

__all__ = ["CONTAINERS", "MANY_PARTS", "MOST_PARTS", "PLAIN", "fingerprint", "told_safely"]

PLAIN = (int, bool, str, bytes, type(None))
"""Types of values that are told by what they are, not by which object they are."""

CONTAINERS = (list, dict, set, deque, np.ndarray)
"""Types of values that others may change where they lie."""

# Each call pays for what it compares. Up to so many parts have fingerprints of their own; ...
MOST_PARTS = 64
# ... up to so many are compared by a loop of Python's own; a longer list is told by its length.
MANY_PARTS = 2**17
_ONE_KIND = ({int}, {str})  # whose values Python compares itself, each by its own kind
_MOST_BYTES = 2**18  # of an array of NumPy's that is compared by its numbers
_DEPTH = 3  # of iterators and tuples that an iterator holds


class _Same:
    """An object that equals itself alone, which tensors do not."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


class _Parts:
    """What lies in a long container: containers in it are told, of others which they are.

    Plain values are compared.
    """

    __slots__ = ("inside", "kinds", "values")

    def __init__(self, *values: Iterable[Any]) -> None:
        self.values = [part for each in values for part in each]
        self.kinds = {*map(type, self.values)}
        self.inside: list[Any] = []
        if not self.kinds.isdisjoint(CONTAINERS):
            self.inside = [fingerprint(part) for part in self.values if type(part) in CONTAINERS]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Parts) or self.kinds != other.kinds:
            return False
        if len(self.values) != len(other.values) or self.inside != other.inside:
            return False
        if self.kinds in _ONE_KIND:
            return self.values == other.values
        if all(map(is_, self.values, other.values)):
            return True
        pairs = [(x, y) for x, y in zip(self.values, other.values, strict=True) if x is not y]
        plain = self.kinds <= {*PLAIN, float}
        return plain and all(type(x) is type(y) and x == y for x, y in pairs)

    __hash__: Any = None


def fingerprint(value: Any, around: tuple[Any, ...] = ()) -> Any:
    """What tells a value from others.

    Args:
        value: numbers, texts and containers are told by what they are, tensors by their memory and
            layout, functions by their code, iterators by how far they are, others by identity.
        around: functions whose fingerprint this is part of; one that names itself is known there.

    Returns:
        An object to compare by ``==``; it keeps what is told by identity alive.
    """
    kind: Any = type(value)
    if kind in PLAIN:
        return (kind, value)
    if kind is float or kind is complex or isinstance(value, np.generic):
        return (kind, repr(value))  # NaN is as another, and -0.0 not as 0.0
    if isinstance(value, Tensor):
        return _of_tensor(value)
    if isinstance(value, ModuleType):
        return None
    if kind in (bytearray, array):
        return (kind, bytes(value))
    if kind in (MappingProxyType, UserDict, ChainMap):
        value, kind = dict(value), dict
    if kind in (list, tuple, deque):
        return (kind, _of_sequence(value))
    if issubclass(kind, dict) and len(value) <= MANY_PARTS:
        return (kind, _of_dict(value))
    if isinstance(value, Iterator):
        return (_Same(value), _position(value))
    if kind in (set, frozenset) and len(value) <= MANY_PARTS:
        return (kind, frozenset(value))
    if kind is np.ndarray and value.nbytes <= _MOST_BYTES and not value.dtype.hasobject:
        return (value.dtype, value.shape, value.tobytes())
    if isinstance(value, GENERATORS):
        return (_Same(value), stands(value))
    if kind is MethodType:
        return (_Same(value.__self__), fingerprint(value.__func__))
    if kind is FunctionType and is_programs(value):
        return _of_function(value, around)
    return _Same(value)


def told_safely(value: Any) -> Any:
    """The same; a container that lies in itself is told by which one it is."""
    try:
        return fingerprint(value)
    except RecursionError:
        return _Same(value)


def _of_tensor(x: Tensor) -> tuple[Any, ...]:
    """Which tensor, and how it lies: after ``x.t_()`` it is the same, otherwise laid out."""
    if type(x) is not Tensor:
        return (_Same(x), x.requires_grad, None)
    laid, plain = x.array, x.node is None and not x.requires_grad
    # Which tensor looks there matters for gradients alone.
    seen: Any = laid.storage if plain else x
    where = plain and (laid.offset, laid.dtype)
    return (_Same(seen), x.requires_grad, laid.shape, laid.strides, where)


def _of_sequence(value: Any) -> Any:
    if len(value) <= MOST_PARTS:
        return [fingerprint(v) for v in value]
    return _Parts(value) if len(value) <= MANY_PARTS else (len(value), _Same(value))


def _of_dict(value: dict[Any, Any]) -> Any:
    if len(value) <= MOST_PARTS:
        return [(fingerprint(k), fingerprint(v)) for k, v in value.items()]
    return _Parts(value.keys(), value.values())


def _of_function(function: Any, around: tuple[Any, ...]) -> tuple[Any, ...]:
    """Its code and the plain values and functions that it holds: made anew it is as it was."""
    held: list[Any] = [content(cell, "") for cell in function.__closure__ or ()]
    held += (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    if hasattr(function, "__wrapped__"):
        held.append(function.__wrapped__)
    known = (*PLAIN, float, FunctionType)
    inside = (*around, function)
    told = [fingerprint(v, inside) for v in held if type(v) in known and v not in around]
    return (_Same(function.__code__), told)


def _position(iterator: Any, depth: int = _DEPTH) -> Any:
    """How far an iterator of Python is, which comparing must not move; None of others.

    A generator's place in its code is not enough: in a loop it is the same at each turn.
    """
    if isinstance(iterator, GeneratorType):
        frame = iterator.gi_frame
        held = () if frame is None else (frame.f_lasti, *frame.f_locals.values())
        return [_held(v, depth) for v in held]
    if type(iterator).__name__ == "count":
        return repr(iterator)
    left = length_hint(iterator, -1)
    if left >= 0 or not depth or type(iterator).__module__ not in ("builtins", "itertools"):
        return left
    with catch_warnings():
        simplefilter("ignore")  # itertools are not to be copied from Python 3.14 on
        try:
            return [_held(v, depth) for v in iterator.__reduce__()[1:]]
        except (AttributeError, TypeError, ValueError):
            return left


def _held(value: Any, depth: int) -> Any:
    """What an iterator holds: others by their places, numbers by value."""
    if isinstance(value, Iterator):
        return _position(value, depth - 1)
    if isinstance(value, tuple) and depth:
        return [_held(v, depth - 1) for v in value]
    return (type(value), value) if type(value) in PLAIN else _Same(value)
