"""``x.data``: a tensor's elements without the tape, and a tensor given other memory."""

from __future__ import annotations

from typing import Any

from ..array import Array
from ..errors import DtypeError, TraceError
from ..values import mode
from ..values.arguments import shown
from ..values.changes import PLACES

__all__ = ["give_data", "place_anew", "take_data"]

_ELSEWHERE = 1 << 32  # more than tensors that leave a storage: what is laid anew never comes back


def take_data(x: Any) -> Any:
    """The same elements, off the tape, which takes no note of what is written through them.

    So backward computes with what is there then, as PyTorch's does, where a write through
    ``x.detach()`` is an error.
    """
    made = x.detach()
    if isinstance(getattr(made, "array", None), Array):
        made.array = made.array.uncounted()
    return made


def give_data(x: Any, value: Any) -> None:
    """Let ``x`` be the elements of ``value``, in the memory that these have.

    Who else looks at what ``x`` was keeps that: ``backup = x.data; x.data = other; x.data =
    backup``. A compiled function that found ``x`` in its old memory is traced anew; so that this
    is rare, the elements are copied there instead where ``value`` has memory of its own and nobody
    looks at the old: only who writes into ``value`` later can tell. Inside a compiled function they
    are always copied.

    Args:
        x: a tensor; that it requires a gradient stays as it is.
        value: of any shape, dtype and device; inside a compiled function of those of ``x``.

    Raises:
        DtypeError: if ``value`` is no tensor, or holds no floating numbers where ``x`` requires a
            gradient.
        TraceError: if it has another form, inside a compiled function.
    """
    if not isinstance(getattr(value, "array", None), Array):
        law = "what is assigned is a tensor with elements"
        raise DtypeError("data", law, value=shown(value))
    if x.requires_grad and not value.dtype.differentiable:
        law = "a tensor that requires a gradient holds floating numbers"
        raise DtypeError("data", law, dtype=value.dtype)
    value = value.detach()
    old, new = x.array, value.array
    if old.storage is new.storage and _place(old) == _place(new):  # after x.data += y
        x.version = new.storage.version  # whose history, if it has one, is not that of x
        return
    same = _form(old) == _form(new)
    if mode.current().tracer is not None:
        if not same:
            law = "inside a function that clnet.compile traces x.data becomes what has its form"
            raise TraceError("data", law, x=x.shape, value=value.shape, dtype=value.dtype)
        x.data.copy_(value)
    elif same and old.storage.moves is not None and _is_apart(old, new):
        x.data.copy_(value)
    else:
        place_anew(x, Array(new.storage, new.shape, new.strides, new.offset, new.dtype))
        new.register()
        x.source, x.version = None, new.storage.version


def place_anew(x: Any, array: Array, *, name: str = "data") -> None:
    """Let a tensor's elements be those of an array, and plans that found them know.

    Args:
        x: the tensor.
        array: in the same memory or another.
        name: of who asks, for an error.

    Raises:
        TraceError: if a function that is traced has the tensor from outside: later calls would find
            it as it is then.
    """
    tracer, old = mode.current().tracer, x.array
    if tracer is not None and (old.storage.buffer is not None or tracer.is_given(x)):
        law = "a tensor from outside the traced function keeps its shape and memory"
        raise TraceError(name, law, x=x.shape, remedy="Change it outside, or a clone() of it")
    within = old.storage is array.storage
    _count_moves(old, _ELSEWHERE if within else 1)
    x.array = array
    if not within:
        _count_moves(array, -1)


def _place(x: Array) -> tuple[Any, ...]:
    return x.offset, x.shape, x.strides, x.dtype


def _form(x: Array) -> tuple[Any, ...]:
    return x.shape, x.dtype, x.device


def _is_apart(old: Array, new: Array) -> bool:
    """Whether nothing else is known to look at the one, and the other is no part of more."""
    return not old.storage.aliases and new.nbytes == new.storage.nbytes


def _count_moves(x: Array, by: int) -> None:
    """Let plans know of a tensor that leaves a storage (1) or comes to it (-1)."""
    if x.storage.moves is not None:
        x.storage.moves += by
        PLACES.tell()
