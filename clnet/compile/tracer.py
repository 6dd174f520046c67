"""Records what a function would run, on abstract arrays; nothing is executed or compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any
from weakref import ref

from ..array import Array, Uncounted
from ..device import Storage, users_line
from ..errors import TraceError
from ..ops.machinery.function import Function
from ..values import mode
from ..values.lazy import lazy
from ..values.varying import as_known, is_varying
from .answers import truth
from .found_gradients import Source, gradient_form, is_as, overlap


@dataclass(frozen=True)
class Step:
    """One op of a trace.

    Attributes:
        function: the op with its settings.
        inputs, outputs: its arrays; an output may be a view of an input.
        module_path, phase: who asked for it.
        line: the user's line, of a step whose kernels check their data; else "".
    """

    function: Function
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    module_path: str
    phase: str
    line: str = ""

    @lazy
    def reads(self) -> tuple[Storage, ...]:
        """The storages of its inputs, those that it changes included."""
        return tuple(dict.fromkeys([x.storage for x in self.inputs]))

    @lazy
    def storages(self) -> tuple[Storage, ...]:
        """The storages of its inputs and outputs."""
        return tuple(dict.fromkeys([a.storage for a in (*self.inputs, *self.outputs)]))

    @lazy
    def mutated(self) -> tuple[Storage, ...]:
        """The storages it changes in place."""
        return tuple(self.inputs[i].storage for i in self.function.mutates)

    @lazy
    def made(self) -> tuple[Storage, ...]:
        """The storages of outputs that are no views of inputs."""
        return tuple(
            [s for s in dict.fromkeys(y.storage for y in self.outputs) if s not in self.reads]
        )

    @lazy
    def writes(self) -> tuple[Storage, ...]:
        """All storages it writes."""
        return tuple(dict.fromkeys((*self.mutated, *self.made)))


NOTHING = object()
_GRAD = attrgetter("_grad")


@dataclass(frozen=True)
class Action:
    """Something done on the host between launches, at every replay."""

    run: Callable[[], None]


def _look_within(settings: Iterable[Any]) -> None:
    """What an op has among its settings is not read at replays: the plan is for these values."""
    for value in settings:
        if is_varying(value):
            as_known(value)
        elif isinstance(value, tuple | list):
            _look_within(value)


def entry(table: Any, key: Any) -> Any:
    """What a dict has by a key or a list at a place; None if nothing."""
    if isinstance(table, dict):
        return table.get(key)
    return table[key] if key < len(table) else None


def _made_parameters(module: Any) -> set[str]:
    """The names of a module's parameters that have no memory."""
    table = getattr(module, "_parameters", {})  # the library's objects tell changes, too
    arrays = [(k, getattr(p, "array", None)) for k, p in table.items()]
    return {k for k, a in arrays if type(a) is Array and a.storage.buffer is None}


def _is_leaf(x: Any) -> bool:
    return x.node is None


class Tracer:
    """What :mod:`clnet.values.mode` holds while a function is traced.

    What lies outside is left as it is, since other threads may be using it: gradients that the
    function writes and versions of what it changes are known here alone.

    Args:
        find: fills ``rebound`` with those of objects that don't tell it themselves.

    Attributes:
        asked: of which tensor of a call the function asked what, beside its form, and the answer.
        flagged: tensors that were asked for a gradient, or no more, by ``id``.
        wanting: tensors from outside that were looked at for whether they want gradients, by
            ``id``, and the answer.
        steps: what was recorded, in order.
        watched: objects whose ``_clnet_version`` the trace depends on, by ``id``.
        grads_before: gradients that were read before they were written, by ``id`` of the leaf.
        grads_after: leaves whose gradient was written, by ``id``.
        ends: called when the function has returned, to record what it left to be done.
        changed: objects that actions on the host change, at every replay.
        rebound: attributes of modules, and of objects that the function found, and entries of dicts
            to which tensors of the trace were assigned: the owner (of an entry the dict), the dict
            that holds it, and what it held before.
        outside: memory from outside that ops read or write, and its count of moves; see
            :class:`.Storage`.
        targets: positions of arguments, and memory from outside, whose gradient the function asked
            for.
        undoing: called if the trace is dropped: what Python did while it was made is taken back.
        place: makes what stands for a gradient that the function finds; None: they are themselves.
        sources: of gradients that are further arguments.
        hidden: where they lie in the trace, in order.
        numbers: those that vary from call to call; None: who traces it lets none.
        twofold: whether the function found the memory of one by another name, too.
        keeps_bits: whether ops are those of eager execution, also where passes know others better.
    """

    def __init__(self, find: Callable[[Tracer], None] | None = None) -> None:
        self._find = find
        self.place: Callable[[Any], Any] | None = None
        self.sources: list[Source] = []
        self.hidden: dict[Storage, int] = {}
        self.twofold = self.keeps_bits = False
        self.numbers: Any = None
        self._given: dict[int, tuple[int, Any, Any]] = {}
        self.asked: list[tuple[int, Callable[[Any], Any], Any]] = []
        self._copied: set[Storage] = set()
        self.flagged: dict[int, Any] = {}
        self.wanting: dict[int, tuple[ref[Any], bool]] = {}
        self.steps: list[Step | Action] = []
        self.watched: dict[int, tuple[Any, int]] = {}
        self.grads_before: dict[int, tuple[Any, Any]] = {}
        self.grads_after: dict[int, tuple[Any, Any]] = {}
        self.ends: list[Callable[[], None]] = [] if find is None else [lambda: find(self)]
        self.changed: list[Any] = []
        self.rebound: dict[tuple[int, Any], tuple[Any, dict[Any, Any], Any]] = {}
        self.outside: dict[Storage, int] = {}
        self.targets: set[Any] = set()
        self.undoing: list[Callable[[], None]] = []
        self._versions: dict[Storage, int] = {}
        self._unseen: dict[Storage, int] = {}
        self._raised: list[Storage] = []
        self._modules: list[tuple[Any, set[str]]] = []

    def truth(self, asked: Array) -> bool | None:
        """Whether a value is true, if that hangs on nothing that replays compute."""
        return truth(self.steps, asked)

    def record(
        self, function: Function, inputs: tuple[Array, ...], outputs: tuple[Array, ...]
    ) -> None:
        """Called by :func:`clnet.ops.machinery.execution.execute` instead of running the op."""
        now = mode.current()
        if self.numbers:
            _look_within(vars(function).values())
        line = "" if function.check is None else users_line()
        self.steps.append(Step(function, inputs, outputs, now.module_path, now.phase, line))
        for x in inputs:
            if x.storage.buffer is not None and x.storage not in self.outside:
                x.storage.moves = self.outside[x.storage] = x.storage.moves or 0
        for position in function.mutates:
            storage = inputs[position].storage
            if type(inputs[position]) is Uncounted:
                self._unseen[storage] = self._unseen.get(storage, 0) + 1
            if storage.buffer is None:
                storage.version += 1
                self._raised.append(storage)
            else:
                self._versions[storage] = self.version(storage) + 1

    def version(self, storage: Storage) -> int:
        """A storage's version as the function sees it, whatever other threads write meanwhile."""
        if storage.buffer is None:  # made by the function
            return storage.version
        return self._versions.setdefault(storage, storage.version)

    def seen_version(self, storage: Storage) -> int:
        """A storage's version as the tape compares it in the function."""
        return self.version(storage) - storage.unseen - self._unseen.get(storage, 0)

    def give(self, place: int, stands: Any, given: Any, *, copied: bool = False) -> None:
        """Tell which tensor stands in the trace for which of a call, or for a copy of that."""
        self._given[id(stands)] = (place, stands, given)
        if copied:
            self._copied.add(stands.array.storage)

    def require_laid(self, x: Any, name: str) -> None:
        """Refuse to say where elements lie that were copied for the plan.

        Raises:
            TraceError: if it is a view of such an argument.
        """
        if x.array.storage in self._copied:
            law = "an argument with mostly gaps between its elements is a copy in the function"
            raise TraceError(name, law, x=x.shape, remedy="Pass x.contiguous()")

    def ask_gradients(self, tensors: Iterable[Any]) -> None:
        """Take note of tensors whose gradients the function asks for by ``autograd.grad``."""
        for x in tensors:
            known = self._given.get(id(x))
            self.targets.add(x.array.storage if known is None else known[0])

    def is_given(self, x: Any) -> bool:
        """Whether a tensor stands for one that the function was called with."""
        return id(x) in self._given

    def given(self, x: Any) -> Any:
        """The tensor of the call for which a tensor stands; itself if for none."""
        return self._given[id(x)][2] if id(x) in self._given else x

    def ask(self, x: Any, question: Callable[[Any], Any]) -> Any:
        """Of a tensor that was given the answer of that one, on which the trace depends.

        Args:
            x: any tensor.
            question: of a tensor; answers are compared, tensors and nodes by identity.
        """
        if id(x) not in self._given:
            return question(x)
        place, _, given = self._given[id(x)]
        with mode.using(tracer=None):
            answer = question(given)
        self.asked.append((place, question, answer))
        return answer

    def see_flags(self, tensors: Iterable[Any]) -> None:
        """Of leaves from outside it counts whether they want gradients, unless it said so itself.

        They are not held: most are views that the function makes on its way.
        """
        for x in tensors:
            storage = getattr(x.array, "storage", None)
            if storage is None or storage.buffer is None or x.node is not None:
                continue
            known = self.wanting.get(id(x))
            if id(x) in self.flagged or (known is not None and known[0]() is x):
                continue
            storage.moves = storage.moves or 0
            self.wanting[id(x)] = (ref(x), x._requires_grad)

    def is_leaf(self, x: Any) -> bool:
        """Whether no recorded op made a tensor, or the one for which it stands.

        One that the function itself wrote to on the tape is none.
        """
        return x.node is None and self.ask(x, _is_leaf)

    def record_action(self, action: Callable[[], None], changes: Any = None) -> None:
        """Called by :func:`clnet.ops.machinery.function.host_action` instead of acting."""
        self.steps.append(Action(action))
        if changes is not None:
            self.changed.append(changes)

    def begin(self, numbers: Any) -> Any:
        """Let numbers vary while the function is traced; gives them."""
        self.numbers, numbers.tracer = numbers, self
        self.undoing.append(numbers.release)
        return numbers

    def watch(self, versioned: Any) -> None:
        """Make the trace invalid once ``_clnet_version`` changes (of modules, optimisers)."""
        if id(versioned) not in self.watched:
            if getattr(type(versioned), "_clnet_tells_changes", False):
                self._modules.append((versioned, _made_parameters(versioned)))
            seen = self.numbers.seen(versioned) if self.numbers else versioned
            self.watched[id(versioned)] = (seen, seen._clnet_version)

    def grad_read(self, leaf: Any, value: Any) -> Any:
        """A leaf's gradient is read: unless the trace wrote it, the trace depends on it.

        Args:
            leaf: the tensor.
            value: its gradient outside.

        Returns:
            Its gradient as the function sees it.
        """
        key = id(leaf)
        if key in self.grads_after:
            return self.grads_after[key][1]
        if key in self.grads_before:
            return self.grads_before[key][1]
        source = leaf
        if key in self._given:
            source, _, given = self._given[key]
            value = given._grad
        found = self._found(source, value)
        if found is None:
            found = value if source is leaf else self.ask(leaf, _GRAD)
        return self.grads_before.setdefault(key, (leaf, found))[1]

    def _found(self, source: Any, value: Any) -> Any:
        """What stands for a gradient that is a further argument; None of another."""
        form = gradient_form(value)
        if self.place is None or form is None:
            return None
        known = [(x, made) for _, made, x in self._given.values()]
        for x, made in known:
            if made.array.storage in self.hidden and is_as(x.array, value.array):
                self.sources.append(Source(source, form, self.hidden[made.array.storage]))
                return made if x is value else made.detach()
        if any(overlap(x.array, value.array) for x, _ in known):
            return None
        made = self.place(value)
        self.sources.append(Source(source, form, len(self.hidden)))
        self.hidden[made.array.storage] = len(self.hidden)
        return made

    def grads_found(self) -> list[tuple[Any, Any]]:
        """Leaves and gradients that calls must find as they are: None, or of an unusual form."""
        found = self.grads_before.values()
        return [(x, g) for x, g in found if g is None or g.array.storage not in self.hidden]

    def grad_written(self, leaf: Any, value: Any) -> None:
        """A leaf's gradient is written: every replay leaves it so."""
        self.grads_after[id(leaf)] = (leaf, value)

    def rebind(self, owner: Any, table: dict[str, Any], name: str, value: Any) -> None:
        """An attribute becomes a tensor of the trace, which only the function may see."""
        self.rebound.setdefault((id(owner), name), (owner, table, table.get(name, NOTHING)))
        table[name] = value

    def rebind_new(self, owner: Any, table: dict[str, Any], name: str, value: Any) -> None:
        """As :meth:`rebind` of an entry that holds None, and is gone if the trace is dropped."""

        def undo() -> None:
            self.rebound.pop((id(owner), name), None)
            table.pop(name, None)

        self.undoing.append(undo)
        self.rebind(owner, table, name, value)

    def rebind_entry(self, table: Any, key: Any, before: Mapping[Any, Any]) -> None:
        """An entry of a dict or list has become another tensor; what it was ``before`` has."""
        self.rebound.setdefault((id(table), key), (table, table, before.get(key, NOTHING)))

    def refuse_parameters(self) -> None:
        """Refuse parameters that modules were given in their call; these are without again.

        Modules that the function makes, such as replicas, have theirs before.

        Raises:
            TraceError: if it did.
        """
        left = False
        for module, known in self._modules:
            for name in _made_parameters(module) - known:
                left = True
                del module._parameters[name]
        if left:
            law = "the function gives a module a parameter; later calls do not"
            hint = "Call the module once before it is compiled"
            raise TraceError("compile", law, remedy=hint)

    def take_back(self) -> None:
        """Drop the trace."""
        for undo in reversed(self.undoing):
            undo()
        self.undoing.clear()

    def keep_cleared(self) -> None:
        """Let attributes that are no tensors at the end be so; the next call is another one."""
        found = [(k, entry(table, k[1])) for k, (_, table, _) in self.rebound.items()]
        for key in [k for k, value in found if not hasattr(value, "detach")]:
            owner, table, before = self.rebound.pop(key)
            if before is not None and owner is not table:
                owner._clnet_tell_of(key[1])

    def restore(self) -> None:
        """Give attributes back what they held; without effect the second time."""
        if self._find is not None:
            self._find(self)
            self._find = None  # a dropped plan is freed without the collector: no circles
            self.ends.clear()
        for (_, name), (_, table, before) in self.rebound.items():
            if before is NOTHING and isinstance(table, dict):
                table.pop(name, None)
            elif before is NOTHING:  # a new entry of a list, which gets a tensor after each replay
                table[name] = None
            else:
                table[name] = before
        self.rebound.clear()
        found = [x for _, made, x in self._given.values() if made.array.storage in self.hidden]
        self.twofold = any(x.array.storage in self.outside for x in found)
        self._given.clear()  # a plan holds no call's tensors
        self.place = None

    def forget_leaves(self, given: set[Storage]) -> None:
        """Leave out gradients of leaves that the function made itself, at every call anew.

        Nobody outside sees ``x.clone().requires_grad_()``: a plan that waited for its gradient to
        be as it was, None, would never be valid again, and would compute and keep it for nobody.

        Args:
            given: storages that stand for the function's arguments.
        """
        made = set(given)
        for step in self.steps:
            if isinstance(step, Step):
                seen = {x.storage for x in step.inputs}  # views, and what is written in place
                made.update(y.storage for y in step.outputs if y.storage not in seen)
        for table in (self.grads_before, self.grads_after):
            for key in [k for k, (leaf, _) in table.items() if leaf.array.storage in made]:
                del table[key]

    def undo(self) -> None:
        """Give storages without memory their versions back: nothing has run yet."""
        for storage in self._raised:
            storage.version -= 1
