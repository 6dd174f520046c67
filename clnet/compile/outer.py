"""What a function finds outside by name: a compiled one is traced anew when that is another."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dis import get_instructions
from functools import partial
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from ..device import Storage
from ..tensor import Tensor
from .tracer import NOTHING, Tracer

__all__ = ["Outer"]

_PLAIN = (int, bool, str, bytes, type(None))
_SKIPPED = (ModuleType, FunctionType, MethodType, type)
_MOST_PARTS = 64
_MOST_FUNCTIONS = 16
_MOST_DEPTH = 3
_MISSING = object()


class _Same:
    """An object that equals itself alone, which tensors do not."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


class Outer:
    """The globals and variables of enclosing functions that a function and its helpers name.

    Numbers, texts, and containers and attributes of these are compared by value, tensors (also as
    attributes of objects within objects, if the function uses them) and other objects by identity;
    functions, classes and modules not at all. What the function changes itself while it is traced
    is left out: that happens at the trace alone.

    Args:
        function: what is traced: a function, method, module, partial or callable object.
        args: what it is called with; of objects among these the attributes matter, too.
    """

    def __init__(self, function: Any, args: Iterable[Any] = ()) -> None:
        self._places: list[partial[Any]] = []
        pending, known = list(_functions(function, self._places)), set[CodeType]()
        while pending and len(known) < _MOST_FUNCTIONS:
            each = pending.pop()
            if each.__code__ in known:
                continue
            known.add(each.__code__)
            for place in _named(each):
                value = place()
                value = getattr(value, "__wrapped__", value)  # of one that is compiled, too
                if isinstance(value, FunctionType) and value.__module__ == each.__module__:
                    pending.append(value)
                elif not isinstance(value, (*_SKIPPED, BuiltinFunctionType)):
                    self._places.append(place)
        self._owners: list[tuple[Any, dict[str, Any]]] = []
        self._added: list[partial[Any]] = []
        for value in (function, *args, *(place() for place in self._places)):
            self._places += [partial(_attribute, value, n) for n in _attributes(_table(value))]
            self._own(value)
        for owner, held in self._owners:
            tensors = (name for name, v in held.items() if isinstance(v, Tensor))
            self._places += [partial(_attribute, owner, name) for name in tensors]

    def _own(self, value: Any, depth: int = 0) -> None:
        """Know an object, and those that it holds, by the tensors that are their attributes."""
        held = _table(value)
        if held is None or len(self._owners) >= _MOST_PARTS:
            return
        if not any(value is owner for owner, _ in self._owners):
            self._owners.append((value, dict(held)))
            for part in held.values() if depth < _MOST_DEPTH else ():
                self._own(part, depth + 1)

    @property
    def _clnet_version(self) -> list[Any]:
        """What is there now, which :class:`.Guards` compares."""
        return [_told(place()) for place in self._places]

    def held(self) -> list[Any]:
        """What is there now, lists and dicts as copies, for :meth:`take_back`."""
        return [_copied(place()) for place in self._places]

    def rebind(self, tracer: Tracer) -> None:
        """Tell which attributes of objects became tensors of the trace, as modules do themselves.

        Later calls leave tensors there, too. An attribute that was not there is a place from now
        on: the function may ask whether it is.
        """
        for owner, before in self._owners:
            table: dict[str, Any] = owner.__dict__
            for name, value in table.items():
                known = value is before.get(name) or (id(owner), name) in tracer.rebound
                if type(value) is Tensor and not known:
                    tracer.rebound[id(owner), name] = (owner, table, before.get(name, NOTHING))
                    if name not in before:
                        self._added.append(partial(_attribute, owner, name))

    def take_back(self, before: list[Any]) -> bool:
        """Whether the function left tensors of the trace outside; what was there is again.

        Later calls would not bring others there.
        """
        left = False
        for place, old in zip(self._places, before, strict=True):
            value = place()
            if not _is_traced(value):
                continue
            left = True
            if isinstance(value, list):
                value[:] = old if isinstance(old, list) else []
            elif isinstance(value, dict):
                value.clear()
                value.update(old if isinstance(old, dict) else {})
            if type(value) is not type(old) or isinstance(value, Tensor):
                _write(place, old)
        return left

    def leave_changed(
        self, before: list[Any], changed: Iterable[Any], used: Container[Storage]
    ) -> list[Any]:
        """Forget what differs from an earlier version; gives what is left of that.

        Args:
            before: the version.
            changed: objects that the plan itself changes, whose attributes are forgotten, too.
            used: memory that the trace reads or writes; an attribute whose tensor lies elsewhere
                (``self.loss = step(x)``) may be another at every call.
        """
        owners = {id(value) for value in changed}

        def matters(place: partial[Any]) -> bool:
            value = place()
            if place.func is not _attribute:
                return True
            unused = isinstance(value, Tensor) and value.array.storage not in used
            return id(place.args[0]) not in owners and not unused

        pairs = zip(self._places, before, self._clnet_version, strict=True)
        kept = [(place, old) for place, old, new in pairs if old == new and matters(place)]
        self._places = [*[place for place, _ in kept], *self._added]
        self._owners.clear()
        return [*[old for _, old in kept], *[_told(_MISSING) for _ in self._added]]


def _functions(function: Any, places: list[partial[Any]]) -> Iterator[FunctionType]:
    """The Python functions that are called; objects they are bound to are places themselves."""
    function = getattr(function, "__wrapped__", function)
    if isinstance(function, partial):
        function = function.func
    if isinstance(function, MethodType):
        places.append(partial(_attribute, function, "__self__"))
        function = function.__func__
    elif not isinstance(function, FunctionType):  # a module, or an object that is called
        kind: Any = type(function)
        function = getattr(kind, "forward", None) or getattr(kind, "__call__", None)  # noqa: B004
    if isinstance(function, FunctionType):
        yield function


def _named(function: FunctionType) -> Iterator[partial[Any]]:
    """What gives each value that a function's code names and does not hold."""
    names, codes = dict[str, None](), [function.__code__]
    while codes:
        code = codes.pop()
        loads = (i for i in get_instructions(code) if i.opname == "LOAD_GLOBAL")
        names.update((i.argval, None) for i in loads)  # co_names has attributes', too
        codes += [c for c in code.co_consts if isinstance(c, CodeType)]
    space = function.__globals__
    yield from (partial(_global, name, space) for name in names if name in space)
    yield from (partial(_content, cell) for cell in function.__closure__ or ())


def _global(name: str, space: dict[str, Any]) -> Any:
    return space.get(name, _MISSING)


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return _MISSING


def _copied(value: Any) -> Any:
    return value.copy() if type(value) in (list, dict) else value


def _is_traced(value: Any) -> bool:
    """Whether it is a tensor without memory yet, or a list, tuple or dict with one."""
    if isinstance(value, Tensor):
        array = getattr(value, "array", None) if type(value) is Tensor else None
        return array is not None and array.storage.buffer is None
    parts: Any = value.values() if type(value) is dict else value
    return (
        type(value) in (list, tuple, dict)
        and any(type(v) is Tensor for v in parts)
        and any(_is_traced(v) for v in parts if type(v) is Tensor)
    )


def _write(place: partial[Any], value: Any) -> None:
    """Put a value back where a place reads it."""
    owner, *name = place.args
    if place.func is _content:
        owner.cell_contents = value
    elif place.func is _attribute:
        setattr(owner, name[0], value)
    else:
        name[0][owner] = value


def _told(value: Any) -> Any:
    """What tells a value from others."""
    kind: Any = type(value)
    if kind in _PLAIN:
        return (kind, value)
    if kind is float or kind is complex:
        return (kind, repr(value))  # NaN is as another, and -0.0 not as 0.0
    if isinstance(value, Tensor):
        return (_Same(value), value.requires_grad)
    if isinstance(value, _SKIPPED):
        return None
    if kind in (list, tuple) and len(value) <= _MOST_PARTS:
        return (kind, [_told(v) for v in value])
    if kind is dict and len(value) <= _MOST_PARTS:
        return (kind, [(_told(k), _told(v)) for k, v in value.items()])
    return _Same(value)


def _table(value: Any) -> dict[str, Any] | None:
    """What an object's attributes lie in; None for one whose changes count otherwise."""
    held: Any = getattr(value, "__dict__", None)
    counts = hasattr(type(value), "_clnet_version") or hasattr(value, "__wrapped__")
    if type(held) is not dict or counts or isinstance(value, (Tensor, *_SKIPPED)):
        return None
    return held


def _attributes(held: dict[str, Any] | None) -> list[str]:
    """The names of attributes that are numbers, texts and containers of these."""
    plain = (*_PLAIN, float, complex, list, tuple, dict)
    return [name for name, v in (held or {}).items() if type(v) in plain][:_MOST_PARTS]


def _attribute(value: Any, name: str) -> Any:
    return getattr(value, name, _MISSING)
