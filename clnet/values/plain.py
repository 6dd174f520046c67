"""Single values: which are numbers, sequences or tensors, and how errors show them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from ..errors import DtypeError, KindError, RangeError
from .containers import again
from .varying import VaryingFloat, VaryingInt

__all__ = [
    "LEAST",
    "MOST",
    "NO",
    "integer",
    "integers",
    "is_iterable",
    "is_operand",
    "is_sequence",
    "is_tensor",
    "named",
    "number",
    "number_or_no",
    "require_tensors",
    "shown",
    "whole_or_no",
]

LEAST, MOST = -(2**63), 2**63 - 1
_MOST_UNSIGNED = 2**64 - 1
_LONGEST = 80
_NUMBERS = frozenset({bool, int, float, VaryingInt, VaryingFloat})
NO = object()
"""What an alternative gives for a value that it does not take."""


def shown(value: object) -> str:
    """A value as errors print it: its type where it is long, or waits for a device."""
    if isinstance(value, (bool, int, float, str, bytes, type(None), np.generic)):
        text = repr(value) if not isinstance(value, int) or abs(value) < 10**40 else "a huge int"
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    if is_tensor(value):
        return f"a tensor of shape {value.shape}"  # pyrefly: ignore[missing-attribute] - it is one
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    if isinstance(value, tuple | list) and len(value) <= 8:
        inside = ", ".join(map(shown, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    return f"{type(value).__name__}"


def is_operand(value: Any) -> bool:
    """Whether an op takes it as it is: a tensor, what is NumPy's, a cell of the host's."""
    host = isinstance(value, np.ndarray) and value.shape and value.dtype.kind in "biufc"
    large = type(value) is int and value > MOST  # the op knows what it is beside
    own = isinstance(value, np.bool_)  # what may be subtracted, and Python's may not
    return bool(host) or large or own or is_tensor(value) or hasattr(value, "value")


def is_tensor(value: object) -> bool:
    """Whether ops apply to it."""
    return hasattr(type(value), "__apply_function__")


def require_tensors(op: str, **values: Any) -> None:
    """Check that arguments are tensors.

    Raises:
        DtypeError: if one is not.
    """
    for name, value in values.items():
        if not is_tensor(value):
            hint = "Make one with clnet.tensor(...)"
            raise KindError(op, f"{name} is a tensor", **{name: shown(value)}, remedy=hint)


def integer(op: str, name: str, value: Any) -> int:
    """A whole number of at most 64 bits, whoever's type it is.

    Raises:
        DtypeError: if it is none.
        RangeError: if it has more bits.
    """
    found = whole_or_no(value)
    if found is NO:
        raise KindError(op, f"{name} is a whole number", **{name: shown(value)})
    if not LEAST <= found <= MOST:
        raise RangeError(op, f"{name} has at most 64 bits", **{name: shown(found)})
    return found


def named(op: str, name: str, values: Any) -> dict[str, Any]:
    """Values by name, given as a mapping or as pairs.

    Raises:
        DtypeError: if they are given otherwise.
    """
    try:
        return dict(values)
    except (TypeError, ValueError):
        law = f"{name} is a mapping, or pairs of a name and a value"
        raise KindError(op, law, **{name: shown(values)}) from None


def number(op: str, name: str, value: Any) -> bool | int | float:
    """A number of Python, NumPy or a tensor without axes, as Python's.

    A whole one that only unsigned numbers of 64 bits hold is a float: no dtype here counts so far.

    Raises:
        DtypeError: if it is none.
        RangeError: if it is whole and has more than 64 bits.
    """
    found = number_or_no(value)
    if found is NO:
        raise KindError(op, f"{name} is a number", **{name: shown(value)})
    if type(found) is int and not LEAST <= found <= MOST:
        if MOST < found <= _MOST_UNSIGNED:
            return float(found)
        raise RangeError(
            op, f"{name} has at most 64 bits", **{name: shown(found)}, remedy="Give it as a float"
        )
    return found


def integers(op: str, name: str, values: Any) -> tuple[int, ...]:
    """Several whole numbers.

    Raises:
        DtypeError: if it is not a sequence of them.
    """
    if isinstance(values, tuple):
        for v in values:
            if type(v) is not int or not LEAST <= v <= MOST:
                break
        else:
            return values
    if not is_sequence(values):
        raise KindError(op, f"{name} is a sequence of whole numbers", **{name: shown(values)})
    return tuple(integer(op, name, v) for v in values)


def whole_or_no(value: Any) -> Any:
    """A whole number as Python's; ``NO`` for what is none."""
    if isinstance(value, Integral):
        return NO if isinstance(value, bool) else int(value)
    kind = getattr(value, "dtype", None)
    if kind is not None and getattr(value, "shape", None) == ():
        whole = kind.kind in "iu" if isinstance(kind, np.dtype) else not kind.is_floating_point
        return int(value) if whole else NO
    return NO


def number_or_no(value: Any) -> Any:
    """A number as Python's; ``NO`` for what is none."""
    kind = type(value)
    if kind in _NUMBERS:
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    if is_tensor(value):
        return value.item() if value.shape == () else NO
    if isinstance(value, np.ndarray) and value.shape == () and value.dtype.kind in "fiub":
        return value.item()
    return NO


def is_iterable(value: Any) -> bool:
    """Whether it can be gone through; NumPy's arrays without axes only call themselves so."""
    return isinstance(value, Iterable) and getattr(value, "shape", None) != ()


def is_sequence(value: Any) -> bool:
    """Whether it holds values in order, and is no text."""
    if isinstance(value, np.ndarray):
        return value.ndim == 1
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def written(op: str, result: Any, out: Any) -> Any:
    """``out`` with the elements of a result, in its shape.

    Numbers in a row fill what has as many elements, whatever its shape, as PyTorch's do.
    """
    if isinstance(result, tuple | list):
        if not is_sequence(out) or len(out) != len(result):
            law = f"out is a sequence of {len(result)} tensors"
            raise DtypeError(op, law, out=shown(out))
        for r, o in zip(result, out, strict=True):
            written(op, r, o)
        return again(result, out) if hasattr(result, "_fields") else out
    require_tensors(op, out=out)
    if result.dtype.kind > out.dtype.kind and op not in _OF_ANY:
        law = "the result does not fit the dtype of out"
        raise DtypeError(op, law, out=out.dtype, result=result.dtype)
    if op in _ROWS and out.numel() == result.numel():
        result = result.reshape(out.shape)
    if out.shape != result.shape:
        if out.numel():
            shapes = (
                f"out of shape {tuple(out.shape)} takes that of the result, {tuple(result.shape)}"
            )
            hint = "give one of that shape, or without elements"
            warnings.warn(f"{op}: {shapes}; {hint}", UserWarning, stacklevel=4)
        out.resize_(result.shape)
    return out.copy_(result)


_OF_ANY = frozenset({"bernoulli"})  # 0 and 1, whatever holds them
_ROWS = frozenset({"arange", "range", "linspace", "logspace"})


def made_for(op: str, out: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Arguments of an op whose result goes to ``out``: what is made of nothing is of its dtype.

    Raises:
        DtypeError: if another is asked for.
    """
    if out is None or op not in _MADE:
        return given
    dtype, found = given.get("dtype"), getattr(out, "dtype", None)
    if dtype not in (None, found):
        raise DtypeError(op, "dtype is that of out", dtype=dtype, out=found)
    return {**given, "dtype": found}


_MADE = _ROWS | set("empty zeros ones full eye rand randn randint randperm".split())
