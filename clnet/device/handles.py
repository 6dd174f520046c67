"""Kernel objects of pyopencl, and the Python that sets their arguments.

pyopencl writes two functions of Python for each kernel object, and anew when it is told the types
of its arguments, and compiles them; or it looks them up in a database on disk. That takes 0.2 to
0.7 ms an object, as long as some steps of a model's plan, which has hundreds of objects. Here an
object whose types are not told shares one function with all others, and what sets typed arguments
is written once for all that have the same types, in a tenth of the time: it calls what pyopencl's
own would call.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import pyopencl as cl
from pyopencl import invoker

from ..values.process import process_lock

# pyopencl writes a Python module for each handle, under a name that it looks up and then takes: two
# threads, of one device or of two, may take the same. Nothing is waited for while this is held.
_NAMING = process_lock()
_WRITER = "generate_enqueue_and_set_args"
# What pyopencl packs itself, by the letters of ``struct``; it is given the bytes of the rest.
_PACKED = frozenset("cbBhHiIlLfd")
_SETTERS = ("_set_arg_multi", "_set_arg_buf_multi", "_set_arg_buf_pack_multi")


def new_handle(program: Any, name: str) -> Any:
    """A ``pyopencl.Kernel`` with arguments of its own, whose types are not told yet.

    Args:
        program: a ``pyopencl.Program`` that is built.
        name: the kernel.

    Returns:
        It.

    Raises:
        pyopencl.Error: if the program has no such kernel.
    """
    with _sharing():
        return cl.Kernel(program, name)


def tell_types(handle: Any, types: Sequence[Any]) -> None:
    """Tell a handle the types of its arguments, which are then set in a fiftieth of the time.

    Args:
        handle: a ``pyopencl.Kernel``.
        types: for each argument its NumPy scalar type; None for a pointer, ``np.void`` for a
            vector.
    """
    with _sharing():
        handle.set_scalar_arg_dtypes(types)


@contextmanager
def _sharing() -> Iterator[None]:
    """While it lasts, pyopencl asks us for the functions; the name of the kernel is in none."""
    with _NAMING:
        write = getattr(invoker, _WRITER, None)
        if write is None or not all(hasattr(cl.Kernel, each) for each in _SETTERS):
            yield  # another version, which does it in another way
            return

        def shared(name: str, passed: int, taken: int, types: Any, **named: Any) -> Any:
            if types is None:
                return _enqueue, _untyped
            if passed != taken or any(t is not None and np.dtype(t).kind == "c" for t in types):
                return write(name, passed, taken, types, **named)  # which says what is wrong
            return _enqueue, _typed(types)

        setattr(invoker, _WRITER, shared)
        try:
            yield
        finally:
            setattr(invoker, _WRITER, write)


def _enqueue(handle: Any, *args: Any, **named: Any) -> None:
    raise TypeError(f"{handle.function_name}: queues alone enqueue this kernel")


def _untyped(handle: Any, *args: Any) -> None:
    if len(args) != handle.num_args:
        law = f"the kernel takes {handle.num_args} arguments"
        raise TypeError(f"{handle.function_name}: {law}; got {len(args)}")
    handle._set_arg_multi(tuple(chain.from_iterable(enumerate(args))))


@cache
def _typed(types: tuple[Any, ...]) -> Callable[..., None]:
    """What sets arguments of these types; eager ops call it at every launch."""
    names = [f"a{place}" for place in range(len(types))]
    given: dict[str, list[str]] = {setter: [] for setter in _SETTERS}
    plain, raw, packed = given.values()
    for place, (name, kind) in enumerate(zip(names, types, strict=True)):
        letter = "" if kind is None else np.dtype(kind).char
        if not letter:
            plain.append(f"{place}, {name}, ")
        elif letter == "V":
            raw.append(f"{place}, {name}, ")
        elif letter in _PACKED:
            packed.append(f"{place}, b'{letter}', {name}, ")
        else:
            raw.append(f"{place}, pack('{letter}', {name}), ")
    calls = [f" handle.{setter}(({''.join(each)}))" for setter, each in given.items() if each]
    text = f"def set_args({', '.join(['handle', *names])}):\n" + "\n".join(calls or [" pass"])
    scope: dict[str, Any] = {"pack": struct.pack}
    exec(text, scope)
    return scope["set_args"]
