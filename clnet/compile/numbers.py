"""Numbers that a compiled function finds and that are others at every call: counters, rates.

While the function is traced each is a :class:`.Varying`. What Python computes of them is a list of
steps here, done again before every replay: what goes into arithmetic with tensors is a scalar that
kernels read then, what a branch was chosen by is asked again, and what the function leaves in
objects is put there. So a counter that the function counts up causes no trace.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from types import CellType, FunctionType, ModuleType
from typing import Any

from ..device import HostScalar
from ..errors import TraceError
from ..values import mode
from ..values.plain import LEAST, MOST
from ..values.record import NamedTuple
from ..values.varying import Varying, VaryingFloat, VaryingInt, as_known, is_varying

__all__ = ["Numbers", "Slot", "is_number"]

_MOST_DEPTH = 4
_FAILS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class Slot(NamedTuple):
    """Where a number lies.

    Attributes:
        table: a dict or list, or what holds the variable of an enclosing function.
        key: by which it is found there.
        owner: the module whose attributes the table holds; it tells other plans of changes.
    """

    table: Any
    key: Any
    owner: Any = None

    @property
    def name(self) -> tuple[int, Any]:
        """Tells it from others."""
        return (id(self.table), self.key)

    def read(self) -> Any:
        """What lies there.

        Raises:
            LookupError, ValueError: if nothing does.
        """
        table = self.table
        return table.cell_contents if type(table) is CellType else table[self.key]

    @property
    def value(self) -> Any:
        """What lies there; None if nothing does."""
        try:
            return self.read()
        except (LookupError, ValueError):
            return None

    def write(self, value: Any) -> None:
        """Put a value there."""
        if type(self.table) is CellType:
            self.table.cell_contents = value
        else:
            self.table[self.key] = value


class _Step(NamedTuple):
    """A number that varies: found in slots that all hold it, or computed of others.

    Attributes:
        kind: its type.
        slots: where it is found; the position of an argument in the place of them.
        function: what computes it.
        args: the places of those that it is computed of, and constants.
        late: whether a host action of the replay sets it, or one of those.
    """

    kind: type
    slots: Any = ()
    function: Callable[..., Any] | None = None
    args: tuple[tuple[bool, Any], ...] = ()
    late: bool = False

    def computed(self, values: Sequence[Any]) -> Any:
        """What the function gives for these numbers, by place."""
        function: Any = self.function
        return function(*[values[x] if mine else x for mine, x in self.args])


class Numbers:
    """The numbers of one trace that vary.

    Args:
        loose: positions of such among the numbers that are arguments.
        stiff: whether those alone vary that the function never reads.

    Attributes:
        loose, stiff: the same.
        tracer: of the function, while it is traced.
        looked: places whose value the plan depends on.
    """

    def __init__(self, loose: Collection[int] = (), *, stiff: bool = False) -> None:
        self.loose, self.stiff, self._position = loose, stiff, 0
        self.tracer: Any = None
        self.looked: set[int] = set()
        self._steps: list[_Step] = []
        self._values: list[Any] = []
        self._known: dict[Any, Varying] = {}
        self._answers: dict[int, bool] = {}
        self._cells: dict[int, HostScalar] = {}
        self._slots: dict[tuple[int, Any], tuple[Slot, Any]] = {}
        self._lengths: dict[int, int] = {}
        self._writes: list[tuple[Slot, int | None, Any]] = []
        self._late: list[int] = []  # places of those that are computed of late ones

    def __bool__(self) -> bool:
        return bool(self._steps)

    @property
    def active(self) -> bool:
        """Whether the function is being traced, here and not in another thread."""
        return self.tracer is not None and mode.current().tracer is self.tracer

    # Before and while the function is traced.

    def vary(self, slots: Sequence[Slot]) -> None:
        """Let the number that lies in all of these slots vary; they hold what stands for it."""
        value = slots[0].read()
        made = self._add(_Step(type(value), tuple(slots)), value)
        for slot in slots:
            self._slots[slot.name] = (slot, value)
            slot.write(made)

    def vary_read(self, slot: Slot, read: Callable[[], Any]) -> None:
        """Let the number in a slot vary that ``read`` finds at later calls."""
        if is_number(slot.value):
            self._read(slot, read, slot.value)

    def next_argument(self, value: Any) -> Any:
        """What stands for the next number among the arguments of the call."""
        position = self._position
        self._position += 1
        if position not in self.loose:
            return value
        return self._add(_Step(type(value), position), value)

    def has(self, slot: Slot) -> bool:
        """Whether what lies there varies."""
        return slot.name in self._slots

    @property
    def names(self) -> frozenset[tuple[int, Any]]:
        """The names of the slots whose numbers vary."""
        return frozenset(self._slots)

    def seen(self, versioned: Any) -> Any:
        """What tells whether an object has changed, but for numbers that vary."""
        if not self._slots or not hasattr(versioned, "_clnet_version_but"):
            return versioned
        kind = _SeenModule if getattr(type(versioned), "_clnet_tells_changes", False) else _Seen
        return kind(versioned, self.names)

    def note(self, function: Callable[..., Any], args: tuple[Any, ...], result: Any) -> Any:
        """What was computed: a number that varies, too, or an answer that must stay the same."""
        if not all(is_varying(x) or is_number(x) or x is None or type(x) is bool for x in args):
            return self._known_all(args, result)
        own: list[tuple[bool, Any]] = []
        for x in args:
            if is_varying(x) and x.numbers is self:
                own.append((True, x.place))
            else:
                own.append((False, x.value if is_varying(x) else x))
        key = (function, *[(mine, type(x), repr(x)) for mine, x in own])
        answer = isinstance(result, bool) or type(result).__name__ == "bool_"
        late = any(mine and self._steps[x].late for mine, x in own)
        if late and answer:
            self._refuse_late()
        if not answer and not isinstance(result, int | float):
            return self._known_all(args, result)
        made = self._known.get(key)
        if made is None:
            made = self._add(_Step(type(result), (), function, tuple(own), late), result)
            self._known[key] = made
            self._late += [made.place] * late
        if answer:
            self._answers[made.place] = bool(result)
            return bool(result)
        return made

    def look(self, number: Varying) -> None:
        """Python must know a number: the plan is for this value.

        Raises:
            TraceError: if it is known only when the plan has begun.
        """
        if self.is_late(number):
            self._refuse_late()
        self.looked.add(number.place)

    def is_late(self, number: Varying) -> bool:
        """Whether a host action of the replay sets a number."""
        return self._steps[number.place].late

    def _refuse_late(self) -> None:
        law = "a number that a scheduler has just set chooses a branch or a size"
        hint = "Read it before the scheduler's step, or step the scheduler outside"
        raise TraceError("compile", law, remedy=hint)

    def set_later(self, found: Iterable[tuple[Slot, Callable[[], Any]]]) -> None:
        """A host action that was just recorded sets numbers: who reads them gets those of then.

        Args:
            found: where each lies now, and what reads it when the action was done.
        """
        places: list[int] = []
        for slot, read in found:
            value = slot.value.value if is_varying(slot.value) else slot.value
            if not is_number(value):
                continue
            places.append(self._read(slot, read, value, late=True))
        self.tracer.record_action(lambda: self._catch_up(places))

    def _read(self, slot: Slot, read: Callable[[], Any], value: Any, *, late: bool = False) -> int:
        """Let the number in a slot, whose value is this, vary; gives its place."""
        made = self._add(_Step(type(value), (slot,), read, (), late), value)
        self._slots.setdefault(slot.name, (slot, value))
        slot.write(made)
        return made.place

    def _catch_up(self, places: Sequence[int]) -> None:
        """Compute late numbers as they are now, and those that follow from late ones."""
        for place in (*places, *self._late):
            self._values[place] = value = self._steps[place].computed(self._values)
            if place in self._cells:
                self._cells[place].value = float(value)

    def cell(self, number: Varying) -> HostScalar | None:
        """What kernels read of a number; None of one that ops refuse."""
        if not _fits(number.value):
            return None
        cell = self._cells.get(number.place)
        if cell is None:
            cell = self._cells[number.place] = HostScalar(float(number.value))
        return cell

    def put(self, slot: Slot, value: Any) -> Callable[[], None]:
        """What puts a number in its place at every replay; the place holds its value now."""
        place = value.place if is_varying(value) else None

        def act() -> None:
            slot.write(value if place is None else self._values[place])

        slot.write(value.value if is_varying(value) else value)
        return act

    def begin(self, tables: Iterable[Any]) -> None:
        """The function is about to be called: remember how long lists are.

        Args:
            tables: as :meth:`leave` gets them.
        """
        pending = [(table, _MOST_DEPTH) for table in tables if not isinstance(table, Slot)]
        seen: set[int] = set()
        while pending:
            table, depth = pending.pop()
            if id(table) in seen or not depth:
                continue
            seen.add(id(table))
            if not isinstance(table, dict):
                self._lengths[id(table)] = len(table)
            parts = table.values() if isinstance(table, dict) else table
            inside = (_table_in(v) for v in parts)
            pending += [(v, depth - 1) for v in inside if v is not None]

    def leave(self, tables: Iterable[Any]) -> None:
        """The function has returned: note what it left in slots, which hold plain numbers again.

        Args:
            tables: dicts, lists and the like in which it may have left some.
        """
        for slot, before in self._slots.values():
            try:
                now = slot.read()
            except (LookupError, ValueError):  # deleted, which later calls do not
                continue
            if hasattr(now, "array"):  # a tensor, which is assigned after each replay
                continue
            mine = is_varying(now) and now.numbers is self
            if not mine or slot.name not in self._names_of(now.place):
                self._writes.append((slot, now.place, None) if mine else (slot, None, now))
            slot.write(before)
        seen: set[int] = set()
        for table in tables:
            for slot in self._left_in(table, seen, _MOST_DEPTH):
                now = slot.read()
                slot.write(self.filled(now))
                if is_varying(now) and now.numbers is not self:
                    continue  # its place is among another trace's
                if isinstance(slot.table, list | deque) and self._grown(slot.table):
                    self._look_within(now)  # a replay appends nothing
                elif type(now) is tuple:
                    self._writes.append((slot, None, now))
                else:
                    self._writes.append((slot, now.place, None))
        if self._writes:
            self.tracer.record_action(self.write)

    def _look_within(self, value: Any) -> None:
        """Python must know a number, or those in a tuple."""
        for part in value if type(value) is tuple else (value,):
            self._look_within(part) if type(part) is tuple else as_known(part)

    def _grown(self, table: Any) -> bool:
        """Whether a list has another length than before the function was called."""
        return self._lengths.get(id(table)) != len(table)

    def _names_of(self, place: int) -> set[tuple[int, Any]]:
        """The names of the slots in which a number was found."""
        slots = self._steps[place].slots
        return set() if isinstance(slots, int) else {slot.name for slot in slots}

    def _left_in(self, table: Any, seen: set[int], depth: int) -> Iterator[Slot]:
        """Slots of a table, and of those in it, that hold numbers that vary."""
        if isinstance(table, Slot):
            if self._varies(table.value):
                yield table
            return
        if id(table) in seen or not depth:
            return
        seen.add(id(table))
        items = [*table.items()] if isinstance(table, dict) else [*enumerate(table)]
        for key, value in items:
            inside = _table_in(value)
            if self._varies(value):
                yield Slot(table, key)
            elif inside is not None:
                yield from self._left_in(inside, seen, depth - 1)

    def _varies(self, value: Any) -> bool:
        """Whether it is a number that varies, or a tuple with such."""
        return is_varying(value) or (type(value) is tuple and self.are_in(value))

    def end(self) -> None:
        """The trace is made; what stood for numbers is what it was."""
        self.tracer = None
        self._known.clear()  # a dropped plan is freed without the collector: no circles

    def release(self) -> None:
        """Drop the trace: slots hold what they held."""
        for slot, before in self._slots.values():
            slot.write(before)

    # At every call.

    def hold(self, given: Sequence[Any] = ()) -> bool:
        """Whether conditions hold; if so kernels read the numbers as they are now.

        Args:
            given: numbers that are arguments of the call.
        """
        found = self._now(given)
        if found is None:
            return False
        for place, answer in self._answers.items():
            if bool(found[place]) is not answer:
                return False
        if not all(_alike(found[place], self._values[place]) for place in self.looked):
            return False
        if not all(_fits(found[place]) for place in self._cells):
            return False
        for place, cell in self._cells.items():
            cell.value = float(found[place])
        self._values = found
        return True

    def outdated(self) -> bool:
        """Whether a number has another value than the one that the plan is for."""
        if not self.looked:
            return False
        found = self._now(None)
        return found is None or not all(_alike(found[k], self._values[k]) for k in self.looked)

    def differing(self) -> list[str]:
        """Names of numbers outside that the plan had to know, and that are others now."""
        found = self._now(None) if self.looked else None
        if found is None:
            return []
        others = [k for k in self.looked if not _alike(found[k], self._values[k])]
        steps = self._origins(others)
        return [str(step.slots[0].key) for step in steps if not isinstance(step.slots, int)]

    def write(self) -> None:
        """Put what the function leaves where it does, when all else was done."""
        for slot, place, value in self._writes:
            slot.write(self.filled(value) if place is None else self._values[place])
            if slot.owner is not None:
                slot.owner._clnet_tell_of(slot.key)

    def are_in(self, value: Any) -> bool:
        """Whether a result has numbers that vary."""
        if type(value) in (tuple, list, dict):
            return any(map(self.are_in, value.values() if type(value) is dict else value))
        parts = getattr(value, "parts", None)  # of an object that is copied for every call
        return is_varying(value) or (type(parts) is dict and self.are_in(parts))

    def filled(self, value: Any) -> Any:
        """A result with the numbers of this call in the place of those that vary."""
        if is_varying(value):
            return self._values[value.place] if value.numbers is self else value.value
        if type(value) in (tuple, list):
            return type(value)(map(self.filled, value))
        if type(value) is dict:
            return {k: self.filled(v) for k, v in value.items()}
        for name, part in getattr(value, "__dict__", {}).items():
            if is_varying(part):
                object.__setattr__(value, name, self.filled(part))
        return value

    def known(self) -> tuple[set[int], list[str]]:
        """Which arguments Python had to know, and the names of what it knew and changes itself."""
        arguments, names = set[int](), list[str]()
        written = {slot.name for slot, _, _ in self._writes}
        for step in self._origins(self.looked):
            if isinstance(step.slots, int):
                arguments.add(step.slots)
            else:
                names += [str(slot.key) for slot in step.slots if slot.name in written]
        return arguments, names

    def _origins(self, places: Iterable[int]) -> Iterator[_Step]:
        """The steps of arguments and of what was found, of which numbers are computed."""
        pending, seen = [*places], set[int]()
        while pending:
            place = pending.pop()
            if place not in seen:
                seen.add(place)
                step = self._steps[place]
                if step.slots != ():
                    yield step
                pending += [x for mine, x in step.args if mine]

    def _add(self, step: _Step, value: Any) -> Varying:
        self._steps.append(step)
        self._values.append(value)
        kind = VaryingInt if isinstance(value, int) else VaryingFloat
        return kind(self, len(self._steps) - 1, value)

    def _known_all(self, args: tuple[Any, ...], result: Any) -> Any:
        """A result that cannot vary: Python must know what it was computed of."""
        for x in args:
            if is_varying(x) and x.numbers is self:
                self.look(x)
        return result

    def _now(self, given: Sequence[Any] | None) -> list[Any] | None:
        """The numbers as they are now; None if some are none, or none of their kind.

        Args:
            given: those among the arguments; None: as they were last.
        """
        found: list[Any] = []
        try:
            for place, (kind, slots, function, args, late) in enumerate(self._steps):
                if late:
                    found.append(self._values[place])
                    continue
                if function is not None:
                    value = function(*[found[x] if mine else x for mine, x in args])
                elif type(slots) is int:
                    value = self._values[place] if given is None else given[slots]
                else:
                    value = slots[0].read() if len(slots) == 1 else _common(slots)
                if type(value) is not kind:
                    return None
                found.append(value)
        except _FAILS:
            return None
        return found


class _Seen:
    """An object as a plan sees it: numbers that vary are no change of it.

    Args:
        whole: the object.
        names: of slots.
    """

    def __init__(self, whole: Any, names: frozenset[tuple[int, Any]]) -> None:
        self.whole, self._names = whole, names

    @property
    def _clnet_version(self) -> Any:
        return self.whole._clnet_version_but(self._names)


class _SeenModule(_Seen):
    """The same of a module."""

    _clnet_tells_changes = True

    def modules(self) -> Any:
        """It and those in it."""
        return self.whole.modules()


def _common(slots: Sequence[Slot]) -> Any:
    """What lies in all of some slots; None if they differ."""
    first, *others = [slot.read() for slot in slots]
    return first if all(value == first for value in others) else None


def is_number(value: Any) -> bool:
    """Whether it is a number of Python's that may vary; truths do not."""
    return type(value) is float or type(value) is int


def _table_in(value: Any) -> Any:
    """A container, or the attributes of a plain object: in which numbers may have been left."""
    if isinstance(value, dict | list | deque):
        return value
    kind: Any = type(value)
    if isinstance(value, type | ModuleType | FunctionType) or hasattr(kind, "_clnet_version"):
        return None
    ours = kind.__module__.partition(".")[0] == "clnet"
    held = None if ours else getattr(value, "__dict__", None)
    return held if type(held) is dict else None


def _fits(value: Any) -> bool:
    """Whether ops take a number: a whole one has at most 64 bits."""
    return type(value) is not int or LEAST <= value <= MOST


def _alike(value: Any, other: Any) -> bool:
    """Whether two numbers are one to the last bit, the sign of a zero included."""
    return (
        value is other
        or (value == other and repr(value) == repr(other))
        or (value != value and other != other)
    )
