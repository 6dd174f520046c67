"""What programs keep beside tensors, in pickles: NumPy's arrays and numbers, arguments, paths.

As with all of a pickle, nothing is run: a value is made of what was looked at first.
"""

from __future__ import annotations

import re
import sys
from abc import ABCMeta
from argparse import Namespace
from math import prod
from pathlib import Path, PurePath
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

from ..errors import CheckpointError
from .unpickle import Global

_KIND = re.compile(r"[biufc]\d{1,2}|[USV]\d{1,4}")
"""Names of NumPy's dtypes whose elements are plain bytes, and no objects."""
HOLDERS = (Namespace, SimpleNamespace)
"""Classes whose attributes are all that they are."""
_STATE = ("__getstate__", "__setstate__")


def _refused(law: str) -> CheckpointError:
    return CheckpointError("load", f"the pickle is damaged: {law}")


def _dtype(name: Any, *_: Any) -> np.dtype[Any]:
    """Another object of the dtype, whose bytes may be turned afterwards."""
    if not (isinstance(name, str) and _KIND.fullmatch(name)):
        raise _refused("an array's dtype is one of numbers or texts")
    return np.dtype(name, copy=True)


def _empty(kind: Any, *_: Any) -> np.ndarray:
    """What becomes the array once its contents are read."""
    if kind is not np.ndarray:
        raise _refused("an array is one of NumPy's own class")
    return np.ndarray(0, np.int8)


def _scalar(dtype: Any, data: Any) -> Any:
    """A number of NumPy's."""
    good = isinstance(dtype, np.dtype) and isinstance(data, bytes) and len(data) == dtype.itemsize
    if not good:
        raise _refused("a number has the bytes of its dtype")
    return np.frombuffer(data, dtype)[0]


def _path(*parts: Any) -> PurePath:
    """A path, of the system that reads it."""
    if not all(isinstance(part, str) for part in parts):
        raise _refused("a path's parts are texts")
    return Path(*parts)


BESIDE: dict[str, Global] = {
    "numpy.ndarray": Global(None, np.ndarray),
    "numpy.dtype": Global(_dtype),
    **{
        f"numpy.{core}.multiarray.{name}": Global(call)
        for core in ("core", "_core")
        for name, call in (("_reconstruct", _empty), ("scalar", _scalar))
    },
    **{f"pathlib.{kind}": Global(_path) for kind in ("Path", "PosixPath", "WindowsPath")},
    "argparse.Namespace": Global(lambda: Namespace()),
    "types.SimpleNamespace": Global(lambda: SimpleNamespace()),
}
"""What such pickles name, and what makes it."""


def is_plain_class(kind: type) -> bool:
    """Whether objects of a class are their attributes, and may be made of these alone.

    Those of a class that is copied, made or ended in a way of its own are more.
    """
    return _is_simple_class(kind) and not any(_alters(kind, name) for name in _STATE)


def is_stateful_class(kind: type) -> bool:
    """Whether objects of a class say themselves what is kept of them, and take it back.

    Both are functions of the program, not of Python's library, whose classes do more by them.
    """
    top = kind.__module__.partition(".")[0]
    python = top in sys.stdlib_module_names and top != "__main__"
    own = all(isinstance(getattr(kind, name, None), FunctionType) for name in _STATE)
    return own and not python and _is_simple_class(kind)


def _is_simple_class(kind: type) -> bool:
    """Whether objects of a class are made as any other object, and copied by their state."""
    own = ("__reduce__", "__reduce_ex__", "__getnewargs__", "__getnewargs_ex__")
    simple = kind.__new__ is object.__new__ and kind.__module__ != "builtins"
    simple = simple and kind.__dictoffset__ != 0 and type(kind) in (type, ABCMeta)
    slots = any(vars(base).get("__slots__") for base in kind.__mro__)
    altered = any(_alters(kind, name) for name in own)
    return simple and not (altered or slots or hasattr(kind, "__del__"))


def _alters(kind: type, name: str) -> bool:
    return getattr(kind, name, None) is not getattr(object, name, None)


def set_state(value: Any, state: Any) -> None:
    """Set what a pickle says of an array, a dtype or a namespace.

    Args:
        value: which was made before.
        state: what it is to hold.

    Raises:
        CheckpointError: if it does not fit.
    """
    if isinstance(value, HOLDERS):
        if type(state) is not dict or not all(type(name) is str for name in state):
            raise _refused("arguments have names")
        vars(value).update(state)
    elif isinstance(value, np.dtype):
        # But for the order of bytes it is what it was made as: NumPy believes sizes and flags, and
        # would take whole numbers for addresses of objects.
        _, *own = value.__reduce__()[2]
        good = type(state) is tuple and len(state) == 1 + len(own) and state[1] in ("<", ">", "|")
        if not good or [*state[2:]] != own[1:]:
            raise _refused("a dtype says how its bytes lie, and no more")
        value.__setstate__(state)  # pyrefly: ignore[missing-attribute] - NumPy has it
    elif isinstance(value, np.ndarray):
        _fill(value, state)


def _fill(array: np.ndarray, state: Any) -> None:
    _, shape, dtype, fortran, data = state
    sizes = type(shape) is tuple and all(type(n) is int and n >= 0 for n in shape)
    good = sizes and isinstance(dtype, np.dtype) and not dtype.hasobject and dtype.itemsize > 0
    if not (good and isinstance(data, bytes) and len(data) == prod(shape) * dtype.itemsize):
        raise _refused("an array has the bytes of its shape and dtype")
    array.__setstate__((1, shape, dtype, bool(fortran), data))  # pyrefly: ignore[bad-argument-type] - it wants Python's
