"""Kernel objects of pyopencl, which share the Python that sets their arguments.

pyopencl writes two functions of Python for each kernel object, and anew when it is told the types
of its arguments, and compiles them; or it looks them up in a database on disk. That takes 0.16 ms
and more an object, as long as some steps of a model's plan, which has hundreds of objects. They
depend on the number and the types of arguments alone: so they are made once for all that have the
same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyopencl as cl
from pyopencl import invoker

from ..values.process import process_lock

# pyopencl writes a Python module for each handle, under a name that it looks up and then takes: two
# threads, of one device or of two, may take the same. Nothing is waited for while this is held.
_NAMING = process_lock()
_WRITER = "generate_enqueue_and_set_args"
_written: dict[Any, Any] = {}


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
        if write is None:  # another version, which does it in another way
            yield
            return

        def shared(name: str, *given: Any, devs: Any = None, **named: Any) -> Any:
            key = (given, *sorted(named.items()))
            found = _written.get(key)
            if found is None:
                found = _written[key] = write(name, *given, devs=devs, **named)
            return found

        setattr(invoker, _WRITER, shared)
        try:
            yield
        finally:
            setattr(invoker, _WRITER, write)
