"""Attributes that are computed when they are first asked for, without a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")
V = TypeVar("V")


class lazy(Generic[T, V]):  # noqa: N801 - a decorator, beside functools.cached_property
    """A method's value, computed at the first use and kept in the instance's ``__dict__``.

    ``functools.cached_property`` of Python 3.11 holds a lock of the class while it computes: a
    process forked at that moment by another thread would wait for it forever. Here threads that
    come together may each compute the value; all get the one that was kept first.

    Args:
        make: gives the value; it has no effect beside that.
    """

    def __init__(self, make: Callable[[T], V]) -> None:
        self._make = make
        self._name = ""
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[T, V]: ...
    @overload
    def __get__(self, instance: T, owner: type) -> V: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        return instance.__dict__.setdefault(self._name, self._make(instance))
