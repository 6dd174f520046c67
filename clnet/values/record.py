"""``NamedTuple``, as in ``typing``, whose constructor is made with its first object.

``typing`` compiles the annotation of each field and a constructor of each class, 0.1 ms for each of
the 150 that ``import clnet`` declares. A process makes objects of a few.
"""

from __future__ import annotations

import collections
import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple

__all__ = ["NamedTuple"]

_namedtuple: Any = collections.namedtuple
# How an element is read does not depend on whose it is.
_NAMES = [f"element_{place}" for place in range(64)]
_ELEMENTS = vars(_namedtuple("_Elements", _NAMES))  # pyrefly: ignore[bad-class-definition] - named at run time
_READERS = [_ELEMENTS[name] for name in _NAMES]
_NO_FIELDS: tuple[tuple[str, ...], dict[str, Any]] = ((), {})


class _Signature:
    """That of a class's constructor, also before there is one."""

    def __get__(self, instance: Any, owner: Any) -> inspect.Signature:
        kind, none = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
        defaults, annotations = owner._field_defaults, inspect.get_annotations(owner)
        given = {n: defaults.get(n, none) for n in owner._fields}
        return inspect.Signature(
            [
                inspect.Parameter(n, kind, default=default, annotation=annotations.get(n, none))
                for n, default in given.items()
            ]
        )


class _Record(tuple[Any, ...]):
    """What all have; ``collections.namedtuple`` says what it does."""

    __slots__ = ()
    __signature__ = _Signature()
    _fields, _field_defaults = _NO_FIELDS  # annotated here, they were fields to get_type_hints

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        declared: Any = next(c for c in cls.__mro__ if "_fields" in vars(c))
        defaults = declared._field_defaults.values()
        made = _namedtuple(declared.__name__, declared._fields, defaults=defaults)  # pyrefly: ignore[bad-class-definition, invalid-argument, name-mismatch] - named at run time
        declared.__new__ = made.__new__
        return declared.__new__(cls, *args, **kwargs)  # pyrefly: ignore[bad-specialization] - made above

    @classmethod
    def _make(cls, iterable: Iterable[Any]) -> Any:
        return cls(*iterable)

    def _replace(self, **changed: Any) -> Any:
        made = type(self)(*map(changed.pop, self._fields, self))
        if changed:
            raise ValueError(f"Got unexpected field names: {list(changed)!r}")
        return made

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=True))

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)

    def __repr__(self) -> str:
        named = ", ".join(f"{n}={v!r}" for n, v in self._asdict().items())
        return f"{type(self).__name__}({named})"


class _Declaration(type):
    """Makes what names ``NamedTuple`` as its base."""

    def __new__(mcs, name: str, bases: tuple[Any, ...], body: dict[str, Any]) -> Any:
        fields = tuple(body["__annotations__"])
        body["_field_defaults"] = {n: body[n] for n in fields if n in body}
        body["_fields"] = body["__match_args__"] = fields
        body.setdefault("__slots__", ())
        body.update(zip(fields, _READERS, strict=False))
        return type(name, (_Record, *bases[1:]), body)


if not TYPE_CHECKING:
    NamedTuple = type.__new__(_Declaration, "NamedTuple", (), {})
