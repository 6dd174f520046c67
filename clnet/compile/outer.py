"""What a function finds outside by name: a compiled one is traced anew when that is another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Set
from contextvars import ContextVar
from functools import partial
from inspect import getattr_static
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from ..device import Storage
from ..tensor import Tensor
from ..values.programs import NAMES, is_plain
from ..values.settings import environment
from ..values.varying import is_varying
from .drawn import GENERATORS, generators, put_back
from .fingerprint import CONTAINERS, MANY_PARTS, MOST_PARTS, PLAIN, fingerprint, told_safely
from .numbers import Slot, is_number
from .reachable import (
    MISSING,
    MOST_OBJECTS,
    Code,
    Objects,
    attribute,
    content,
    default_of,
    global_of,
    home,
    is_ours,
    present,
    table_of,
    wrapped_in,
)
from .settled import Settled
from .slots import UNSEEN, differing, masked, masked_content, numbers_in, slot_of
from .tracer import NOTHING, Tracer

__all__ = ["Outer"]

_VALUES = (*PLAIN, float, complex, tuple, frozenset, *CONTAINERS)


class Outer:
    """The globals and variables of enclosing functions that a function and its helpers name.

    Numbers, texts, and containers of these are compared by value, tensors (also as attributes of
    objects within objects, if the function uses them) and other objects by identity, functions by
    their code. Which attributes of objects, classes and Python modules count,
    :mod:`clnet.values.programs` says; all of an object only if it is found by name. What the
    function changes itself while it is traced is left out: that happens at the trace alone.

    Args:
        function: what is traced: a function, method, module, partial or callable object.
        args: what it is called with; of objects among these the attributes matter, too.

    Attributes:
        counted: what the function reads and changes itself; :meth:`leave_changed` finds it.
        names: those in the code of the function and its helpers.
        types: whether that asks which type a number has.
        optimizers, schedulers: those that were found.
        reach: what tells the objects that were found, and the places of numbers, from others.
    """

    def __init__(self, function: Any, args: Iterable[Any] = ()) -> None:
        self.counted: list[str] = []
        self._places: list[partial[Any]] = []
        self._added: dict[tuple[int, str], partial[Any]] = {}
        code, found = _reached(function, args, self._places)
        looks = code.looks or found.hooked
        self._reads, self.names = code.reads, code.names
        self._written, self._looks = code.writes, looks
        self._asked = code.reads | code.texts  # names of attributes, if new ones make a difference
        NAMES.names |= code.names
        if looks:
            NAMES.look_at(type(layer) for layer in found.layers)
        self._places += [place for place in code.places if _matters(place())]
        changed = [*found.ours.values()] if code.writes & (code.reads | code.texts) else []
        self._layers = {id(layer) for layer in (*found.layers, *changed)}
        self._owners = [(owner, held) for owner, held, _ in found.owners]
        self._places += _held_by(found, code, changed, looks=looks)
        self._places += (_context(variable) for variable in found.contexts)
        self._places += _surroundings(code)
        self.optimizers, self.schedulers = found.optimizers, [*found.schedulers.values()]
        self.reach = frozenset((*_identities(found), *_slots(self._places, code.writes)))
        self.types, self._overlooked = code.types, found.looked >= MOST_OBJECTS
        self._restored = [(place, _copied(place())) for place in self._places]
        drawn = (v for place in self._places if isinstance(v := place(), GENERATORS))
        self._random = [put_back(each) for each in drawn]
        named, kinds = self._reads & code.names, {type(owner) for owner, _ in self._owners}
        asked = {kind: named | _methods(kind, code.names) for kind in kinds}
        for owner, _ in self._owners:
            if hasattr(owner, "__dict__"):
                self._places.append(partial(present, owner, asked[type(owner)]))
        every = (*(o for o, _ in self._owners), *found.layers, *changed)
        self._tables = [(o, dict(vars(o))) for o in every if hasattr(o, "__dict__")]
        self._seen = list[partial[Any]]()
        self._settled: Settled | None = None
        self._told_of = list[tuple[partial[Any], Any]]()  # of modules, whose versions are compared

    @property
    def unseen(self) -> str:
        """What of all that is found is not compared; empty if nothing."""
        large = [place for place in self._places if _is_large(place())]
        named = [
            f"entries of {_name(place)}, which has more than {MANY_PARTS:,}" for place in large
        ]
        if self._overlooked:
            named.append(f"objects beyond the first {MOST_OBJECTS:,}")
        return ", ".join(named)

    @property
    def _clnet_version(self) -> list[Any]:
        """What is there now, which :class:`.Guards` compares."""
        try:
            return [fingerprint(place()) for place in self._seen or self._places]
        except RecursionError:  # a list that lies in itself: which one it is
            return [told_safely(place()) for place in self._seen or self._places]

    def differs(self, version: list[Any]) -> bool:
        """Whether what is there now is not as it was in a version."""
        places, settled = self._seen or self._places, self._settled
        if settled is not None and not settled.is_of(places, version):
            settled = None
        if settled is not None and settled.holds():
            return False
        if self._clnet_version != version:
            return True
        self._settled = Settled(places, version, settled)
        return False

    def slots(self, names: Container[tuple[int, Any]], *, unread: bool) -> list[Slot]:
        """Where numbers lie that are found by name and change, as code or earlier calls tell.

        Args:
            names: of slots that were seen to change.
            unread: leave those out that code may read otherwise than to change them.
        """
        found: dict[tuple[int, Any], Slot] = {}
        for place in () if unread and self._looks else self._places:
            if unread and _name(place) in self._reads:
                continue
            slot, value = slot_of(place), place()
            for each in numbers_in(value, slot):
                if each.name in names or each.key in self._written:
                    found.setdefault(each.name, each)
        return list(found.values())

    def bound(self) -> list[tuple[dict[str, Any], str]]:
        """Tables of globals that code names, and the names."""
        slots = (slot_of(place) for place in self._places if place.func is global_of)
        return [(slot.table, slot.key) for slot in slots if slot is not None]

    def mask(self, names: Set[tuple[int, Any]]) -> None:
        """Compare no numbers in slots of these names from now on."""
        if names:
            self._seen = [masked(place, names) for place in self._places]

    def changed_slots(self, before: list[Any]) -> Iterator[tuple[Slot, Any]]:
        """Where numbers lie that are others than in an earlier version, and what they were."""
        every = [*zip(self._places, before, self._clnet_version, strict=True)]
        every += [(place, old, told_safely(place())) for place, old in self._told_of]
        for place, old, new in every:
            if old != new:
                whole = place.args[0] if place.func is masked_content else place
                yield from differing(old, new, slot_of(whole), whole())

    def tables(self) -> list[Any]:
        """Dicts, lists and slots outside in which the function may leave numbers."""
        found: list[Any] = [vars(owner) for owner, _ in self._tables]
        found += [v for place in self._places if type(v := place()) in (dict, list, deque)]
        found += [slot for place in self._places if (slot := slot_of(place)) is not None]
        return found + [table for each in self.optimizers for table in each._clnet_tables()]

    def held(self) -> list[Any]:
        """What is there now, lists and dicts as copies, for :meth:`take_back`."""
        return [_copied(place()) for place in self._places]

    def rebind(self, tracer: Tracer) -> None:
        """Tell which attributes of objects became tensors of the trace, as modules do themselves.

        Later calls leave tensors there, too. An attribute that was not there is a place from now
        on: the function may ask whether it is.
        """
        for owner, before in self._owners:
            table: dict[str, Any] = getattr(owner, "__dict__", {})
            for name, value in table.items():
                known = value is before.get(name) or (id(owner), name) in tracer.rebound
                if type(value) is Tensor and not known:
                    tracer.rebound[id(owner), name] = (owner, table, before.get(name, NOTHING))
                    if name not in before:
                        self._added[id(owner), name] = partial(attribute, owner, name)
        for owner, before in self._tables:
            for name in (vars(owner).keys() - before.keys()) & self._asked:
                self._added[id(owner), name] = partial(attribute, owner, name)

    def watch_below(self, tracer: Tracer) -> None:
        """Let the trace depend on modules that nobody calls: lists of layers may get others.

        They are all that lie below those that are called, or found by name.
        """
        found = (*(place() for place in self._places), *(v for v, _ in tracer.watched.values()))
        for value in found:
            if getattr(type(value), "_clnet_tells_changes", False):
                for module in value.modules():
                    tracer.watch(module)

    def take_back(self, before: list[Any]) -> bool:
        """Whether the function left tensors of the trace outside; what was there is again.

        Later calls would not bring others there.
        """
        left = False
        for place, old in zip(self._places, before, strict=True):
            value = place()
            if not _are_left(value, old):
                continue
            left = True
            if isinstance(value, list):
                value[:] = old if isinstance(old, list) else []
            elif isinstance(value, dict):
                value.clear()
                value.update(old if isinstance(old, dict) else {})
            if type(value) is not type(old) or not isinstance(value, list | dict):
                _write(place, old)
        for owner, held in self._tables:
            table: dict[str, Any] = owner.__dict__
            names = [n for n, v in table.items() if v is not held.get(n) and _are_left(v, None)]
            for name in names:
                left = True
                if name in held:
                    object.__setattr__(owner, name, held[name])
                else:
                    object.__delattr__(owner, name)
        return left

    def undo(self) -> None:
        """Take back what tracing counted and appended: the function runs once more."""
        for place, old in self._restored:
            value = place()
            if (
                isinstance(value, Tensor)
                or isinstance(old, Tensor)
                or told_safely(value) == told_safely(old)
            ):
                continue
            if isinstance(value, list | deque) and isinstance(old, list | deque):
                value.clear()
                value.extend(old)
            elif isinstance(value, dict | set) and isinstance(old, dict | set):
                value.clear()
                value.update(old)
            elif old is not MISSING:
                _write(place, old)
        for stand in self._random:
            stand()

    def differing(self, version: list[Any]) -> list[str]:
        """The names of what is other than in a version."""
        pairs = zip(self._places, version, self._clnet_version, strict=True)
        return [_name(place) for place, old, new in pairs if old != new]

    def settle(self) -> None:
        """Forget what was there before: the trace is made, and :meth:`undo` is not asked for.

        Else a plan would hold values that are no longer anybody's, such as the last step's answer.
        """
        self._restored.clear()
        self._random.clear()
        self._tables.clear()

    def leave_changed(
        self,
        before: list[Any],
        changed: Iterable[Any],
        used: Container[Storage],
        called: Container[int],
        fresh: Container[tuple[int, Any]] = (),
    ) -> list[Any]:
        """Forget what differs from an earlier version; gives what is left of that.

        A counter that the function also reads stays: the next call is another.

        Args:
            before: the version.
            changed: objects that the plan itself changes, whose attributes are forgotten, too.
            used: memory that the trace reads or writes; an attribute whose tensor lies elsewhere
                (``self.loss = step(x)``) may be another at every call, and so may a list of such
                that no code names.
            called: the ``id`` of modules that were called, whose version tells of numbers.
            fresh: names of slots of numbers that it changed and that did not vary, read or not:
                they shall vary at the next call, which is traced anew.
        """
        owners = {id(value) for value in changed}

        def matters(place: partial[Any]) -> bool:
            value = place()
            if place.func is not attribute:
                return True
            inside = [value] if isinstance(value, Tensor) else []
            if _name(place) not in self.names:
                inside = [*_tensors(value)]
            unused = bool(inside) and all(x.array.storage not in used for x in inside)
            owner = id(place.args[0])
            if owner in self._layers and owner in called and type(value) not in CONTAINERS:
                return False
            return id(place.args[0]) not in owners and not unused

        seen = self._seen or self._places
        triples = zip(self._places, before, self._clnet_version, seen, strict=True)
        kept: list[tuple[partial[Any], Any]] = []
        for place, old, new, told in triples:
            if told is UNSEEN:
                continue
            counted = old != new and (
                place.func is present
                or _name(place) in self._reads
                or any(slot.name in fresh for slot in numbers_in(place(), slot_of(place)))
            )
            if isinstance(place(), GENERATORS):
                # Others draw in between; who draws itself is traced anew.
                if old == new:
                    continue
                old, counted = object(), True
            if place.func is attribute and is_number(place()) and id(place.args[0]) in called:
                self._told_of.append((place, old))
            if matters(place) and (old == new or counted):
                kept.append((told, old))
                self.counted += [_name(place)] * (counted and place.func is not present)
        self._places = [*[place for place, _ in kept], *self._added.values()]
        self._seen = []
        self._owners.clear()
        return [*[old for _, old in kept], *[fingerprint(MISSING) for _ in self._added]]


def _reached(
    function: Any, args: Iterable[Any], places: list[partial[Any]]
) -> tuple[Code, Objects]:
    """The code and the objects that a function reaches by name; ``places`` gets what it is of."""
    code, found = Code(), Objects()
    for each in _functions(function, places):
        # What clnet's own keep from call to call, their doors above all, is no state.
        code.follow(each, "" if is_ours(home(each)) else home(each))
    for value in (function, *args, *(place() for place in places)):
        found.add(value)
    seen, looked = None, 0
    # What is called names more in its turn.
    while seen != (seen := (len(code.functions), found.looked)):
        for place in code.places[looked:]:
            found.add(place())
        looked = len(code.places)
        for each in [*found.methods(code.names)]:
            code.follow(each)
        for _, _, value in [*found.settings(code.names)]:
            found.add(value)
    return code, found


def _identities(found: Objects) -> Iterator[int]:
    """Of the objects in which a function may leave something."""
    yield from found.ours
    yield from found.schedulers
    for each in (*(owner for owner, *_ in found.owners), *found.layers, *found.optimizers):
        yield id(each)


def _slots(places: Iterable[partial[Any]], written: Set[str]) -> Iterator[object]:
    """What tells variables in which a function may leave something from others, and containers."""
    for place in places:
        slot, value = slot_of(place), place()
        if slot is not None and (slot.key in written or is_number(value) or is_varying(value)):
            yield slot.name
        elif type(value) in CONTAINERS:
            yield id(value)


def _is_large(value: Any) -> bool:
    return type(value) in CONTAINERS and type(value) is not np.ndarray and len(value) > MANY_PARTS


def _methods(kind: type, names: set[str]) -> set[str]:
    """Names of a class's functions, which attributes of an object would hide."""
    held = {name for base in reversed(kind.__mro__) for name in vars(base).keys() & names}
    return {name for name in held if isinstance(getattr_static(kind, name), FunctionType)}


def _context(variable: ContextVar[Any]) -> partial[Any]:
    """The place of what a variable of the context is now."""
    return partial(_state, variable.name, partial(variable.get, MISSING))


def _surroundings(code: Code) -> Iterator[partial[Any]]:
    """What is asked for by functions of Python's and NumPy's: the environment, random numbers."""
    if code.names & {"environ", "getenv"}:
        yield partial(_state, "environ", environment)
    for each in generators((place() for place in code.places), code.names):
        yield partial(_state, "random", partial(_itself, each))


def _held_by(
    found: Objects, code: Code, changed: Iterable[Any], *, looks: bool
) -> Iterator[partial[Any]]:
    """The attributes of objects that a function may read.

    Args:
        found: the objects.
        code: of the function and its helpers.
        changed: modules of the library's classes to which code may assign.
        looks: whether code may read attributes that it does not name.
    """
    names = code.names
    for space, name, value in found.settings(names):
        computed = hasattr(type(value), "__get__") and not isinstance(value, FunctionType)
        if not computed and _matters(value):
            yield partial(attribute, space, name)
    counts = (*_VALUES, *GENERATORS)
    layers = [(layer, names | code.texts) for layer in found.layers]
    layers += [(layer, code.writes) for layer in changed]
    for layer, asked in layers:
        for name in asked & vars(layer).keys():
            if type(vars(layer)[name]) in counts:
                yield partial(attribute, layer, name)
    for owner, held, depth in found.owners:
        hidden = not depth and (looks or not is_plain(type(owner)))
        plain = [name for name, v in held.items() if type(v) in _VALUES] if hidden else []
        own = [n for n in held if n in names and not isinstance(held[n], ModuleType)]
        tensors = [name for name, v in held.items() if isinstance(v, Tensor)]
        for name in dict.fromkeys((*plain[:MOST_PARTS], *own, *tensors)):
            yield partial(attribute, owner, name)
    for layer, name in found.kept:
        if name in names:
            yield partial(attribute, layer, name)
    for each in found.partials:
        yield partial(attribute, each, "args")
        yield partial(attribute, each, "keywords")


def _functions(function: Any, places: list[partial[Any]]) -> Iterator[FunctionType]:
    """The Python functions that are called; objects they are bound to are places themselves."""
    if not isinstance(function, FunctionType | MethodType):  # as objects, compiled functions
        inside = wrapped_in(function)
        function = function if inside is MISSING else inside
    if isinstance(function, partial):
        function = function.func
    if isinstance(function, MethodType):
        places.append(partial(attribute, function, "__self__"))
        function = function.__func__
    elif not isinstance(function, FunctionType):  # a module, or an object that is called
        kind: Any = type(function)
        function = getattr(kind, "forward", None) or getattr(kind, "__call__", None)  # noqa: B004
    if isinstance(function, FunctionType):
        yield function


def _name(place: partial[Any]) -> str:
    """By which name a place's value is found."""
    return place.args[0] if isinstance(place.args[0], str) else place.args[1]


def _state(name: str, source: Callable[[], Any]) -> Any:
    """What stands outside all objects."""
    del name
    return source()


def _itself(value: Any) -> Any:
    return value


def _copied(value: Any) -> Any:
    return value.copy() if type(value) in (list, dict, set, deque) else value


def _are_left(value: Any, before: Any) -> bool:
    """Whether there are tensors without memory, those of a trace, that were not there before."""
    found = {id(x) for x in _traced(value)}
    return bool(found) and bool(found - {id(x) for x in _traced(before)})


def _tensors(value: Any, depth: int = 3) -> Iterator[Tensor]:
    """Tensors in containers within each other, or the one that it is."""
    if type(value) is Tensor:
        yield value
    elif depth and isinstance(value, list | tuple | deque | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _tensors(part, depth - 1)


def _traced(value: Any, depth: int = 3) -> Iterator[Tensor]:
    """Tensors without memory, also in containers and plain objects within each other."""
    if isinstance(value, Tensor):
        array = getattr(value, "array", None) if type(value) is Tensor else None
        if array is not None and array.storage.buffer is None:
            yield value
    elif depth and isinstance(value, list | tuple | deque | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _traced(part, depth - 1)
    elif depth and not hasattr(type(value), "_clnet_version"):
        for part in list((table_of(value) or {}).values()):
            yield from _traced(part, depth - 1)


def _write(place: partial[Any], value: Any) -> None:
    """Put a value back where a place reads it."""
    owner, *name = place.args
    if place.func is content:
        owner.cell_contents = value
    elif place.func is attribute:
        setattr(owner, name[0], value)
    elif place.func not in (_state, masked_content, default_of):
        name[0][owner] = value


def _matters(value: Any) -> bool:
    """Whether what is found by name is compared; what a compiled one holds is read instead."""
    inside = not isinstance(value, FunctionType) and wrapped_in(value) is not MISSING
    return not inside and not isinstance(value, ModuleType | type)
