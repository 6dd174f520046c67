"""Tuples with names that functions give: each function's has a class of its own, as PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar

from .words import Named

__all__ = ["returned"]


class _Returned:
    """What is printed field by field, and made of all fields or of one sequence of them."""

    __slots__ = ()
    _fields: ClassVar[tuple[str, ...]]
    n_fields = n_unnamed_fields = 0

    def __new__(cls, *fields: Any, **given: Any) -> Any:
        if len(fields) == cls.n_fields:  # as ops make it
            return tuple.__new__(cls, fields)  # pyrefly: ignore[bad-specialization] - as below
        if len(fields) == 1 and not given:  # PyTorch's way
            fields = tuple(fields[0])
        fields += tuple(given[n] for n in cls._fields[len(fields) :] if n in given)
        if len(fields) != len(cls._fields):
            law = f"takes a {len(cls._fields)}-sequence ({len(fields)}-sequence given)"
            raise TypeError(f"{_shown(cls)}() {law}")
        return tuple.__new__(cls, fields)  # pyrefly: ignore[bad-specialization] - a tuple, below

    def __repr__(self: Any) -> str:
        named = ",\n".join(f"{n}={v!r}" for n, v in zip(self._fields, self, strict=True))
        return f"{_shown(type(self))}(\n{named})"


def _shown(cls: type) -> str:
    return f"{Named.library}.return_types.{cls.__name__}"


@cache
def returned(name: str, record: Any) -> Callable[..., Any]:
    """The class of what a function gives, made where it is first asked for.

    Args:
        name: the function's, as ``linalg_qr``.
        record: the ``NamedTuple`` with its fields, two or more, whose instances its are, too.
    """
    body = {
        "__slots__": (),
        "__doc__": f"What ``{name.replace('linalg_', 'linalg.')}`` gives.",
        "__module__": "clnet.compat.return_types",  # where pickles find it
        "n_fields": len(record._fields),
        "n_sequence_fields": len(record._fields),
    }
    return type(name, (_Returned, record), body)
