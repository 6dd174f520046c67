"""From a trace to launches that can be replayed: values get memory, kernels their arguments."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any
from weakref import WeakMethod, WeakValueDictionary

from ..array import Array
from ..device import Device, HostScalar, Launch, Scratch, Storage, Target, are_short, size_class
from ..errors import ArgumentError
from ..ops.machinery.first_use import look
from ..values.changes import WRITES
from .explain import as_graphviz, as_mermaid, as_text, held_at_peak
from .explain_steps import reasons
from .guards import Premises
from .left_gradients import LeftGradients
from .regions import Lowered, MemoryPlan, lower, lowered, parted, plan_memory, with_less_scratch
from .replay import Gate, Replay
from .trace import Trace
from .tracer import Action, Tracer

_NO_TURN = nullcontext()


class Plan(Premises):
    """The launches of one trace, bound to buffers the plan holds.

    Args:
        trace: what to run, rewritten; each replay makes its results in memory that is the caller's.
        tracer: what the plan depends on, and which gradients it leaves.

    Raises:
        LeftOut: if a kernel is wrong that is new to the driver; the device is used without it from
            now on, and a function traced anew can be planned.

    Attributes:
        memory: where every value lies.
        runners: what its steps on the host have to themselves while it runs.
        acts: whether it changes something on the host, as a counter.
        prepared: its different kernels, and what building them took.
        changed_arguments: position and memory of the arguments that a replay changes in place.
    """

    def __init__(self, trace: Trace, tracer: Tracer) -> None:
        self.device = device = trace.device
        self._trace = trace
        self._results = trace.results
        super().__init__(tracer)
        for _, grad in self._grads_before:
            if grad is not None:  # a place that this depends on
                grad.array.storage.moves = grad.array.storage.moves or 0
        target = device.target
        self.entries = with_less_scratch(trace, lower(trace, target), target)
        steps = [entry for entry in self.entries if isinstance(entry, Lowered)]
        self.acts = len(steps) < len(self.entries)
        setup = [lowered(step, target) for step in trace.setup]
        if device.first_uses is not None:
            _look_at_first_uses((*setup, *steps), target)
        self.memory = plan_memory(trace, self.entries, target)
        self._setup = [launch for entry in setup for launch in entry.launches]
        of_steps = (launch for entry in steps for launch in entry.launches)
        self.prepared = device.queue.prepare([*self._setup, *of_steps])
        self._sources = _sources(trace)
        self._seen: list[int] | None = None
        self._seen_at: object = None
        given = [s for s in trace.kept if s.buffer is None and s not in self.memory.homes]
        self._constants = {*trace.constants}
        # How results that only backward reads look at constants, until these are made anew.
        self._windows = WeakValueDictionary[Storage, Storage]()
        self._own = [*trace.constants, *given]
        for storage in self._own:
            storage.materialize()
        self._arenas, scratch = _allocate(self.memory, trace)
        self._apart_from = {*self._arenas, *self._own}
        kept = [s for s in trace.kept if s in self.memory.homes or s in self._own]
        self._gradients = gradients = LeftGradients(tracer, kept, trace.arguments)
        changed = {s for _, step in trace.ops for s in step.mutated}
        program = _program(self.entries, scratch, WeakMethod(self._tell))
        self._replay = _replay(device, program, changes=bool(changed))
        hosted = (entry for entry in steps if entry.host is not None)
        self.runners = frozenset(e.step.function.runner for e in hosted) - {None}
        self._mutated = list(dict.fromkeys((*(changed - gradients.hidden.keys()), *trace.kept)))
        self._arguments = _arguments(trace, changed, gradients.hidden)
        # What it writes of the gradients that it finds, and where this run has it.
        self._found = [i for s, i in gradients.hidden.items() if s in changed]
        self._changed = changed
        self._told, self._written_there = False, list[Storage]()  # of this run
        copied = [(i, a) for i, a in enumerate(trace.arguments) if a.storage in changed]
        self.changed_arguments = [each for each in copied if each[0] not in self._found]

    @property
    def lock(self) -> Any:
        """What is held from :meth:`valid` to the end of :meth:`run`."""
        return self.device.lock

    @property
    def devices(self) -> tuple[Device, ...]:
        """Where it runs."""
        return (self.device,)

    @property
    def num_launches(self) -> int:
        """Kernels of one replay."""
        return len(self._replay.launches)

    @property
    def cells(self) -> list[HostScalar]:
        """Numbers on the host that its kernels read at every replay."""
        args = (arg for launch in self._replay.launches for arg in launch.args)
        return list({id(arg): arg for arg in args if isinstance(arg, HostScalar)}.values())

    @property
    def held_bytes(self) -> int:
        """Memory the plan holds between replays; it may share arenas with other plans."""
        own = (*self._arenas, *self._own, *(a.copy for a in self._arguments if a.copy))
        own = dict.fromkeys(own)
        return sum(size_class(storage.nbytes) for storage in own)

    @property
    def peak_bytes(self) -> int:
        """Device memory in use while it runs, parameters, arguments and results included."""
        return self.memory.peak_bytes

    @property
    def peak_parts(self) -> Mapping[str, int]:
        """What :attr:`peak_bytes` is the sum of: arenas, parameters and state, arguments ..."""
        return {"arenas": self.memory.arena_bytes, **self.memory.outside}

    @property
    def held_at_peak(self) -> Mapping[str, int]:
        """Bytes of the arenas alive at the busiest step, by who made them, the most first."""
        return held_at_peak(self.entries, self.memory)

    def explain(self, form: str = "text") -> str:
        """The plan for a reader: ops in order, their kernels, shapes, places, costs, and reasons.

        Args:
            form: ``"text"``, or a picture in the language of ``"mermaid"`` or ``"graphviz"``.

        Raises:
            ArgumentError: if there is no such form.
        """
        if form == "text":
            notes = reasons(self._trace, parted(self._trace, self.entries, self.device.target))
            return as_text(self.entries, self.memory, self.prepared, notes, self.device.name)
        if form not in {"mermaid", "graphviz"}:
            raise ArgumentError(
                "explain", "a plan is shown as text, mermaid or graphviz", form=form
            )
        return (as_mermaid if form == "mermaid" else as_graphviz)(self.entries)

    def turn(self) -> AbstractContextManager[object]:
        """The context that :meth:`run` needs, entered before the lock: others may wait for it."""
        return turn_of(self.runners) if self.runners else _NO_TURN

    def run(self, arguments: Sequence[Array]) -> list[Array]:
        """Replay on new arguments, under :attr:`lock`: plans share arenas.

        Args:
            arguments: arrays of the shapes and dtypes that were traced, dense.

        Returns:
            The results, in memory of their own.
        """
        made = self._begin(arguments)
        try:
            self._poison()
            self._replay.run()
        except BaseException:
            self._written()
            raise
        return self._results_of(made)

    def stages(self, arguments: Sequence[Array]) -> Generator[Gate, None, list[Array]]:
        """What :meth:`run` does, for a plan that meets others: it stands at every gate.

        Yields:
            The gates.
        """
        made = self._begin(arguments)
        try:
            self._poison()
            yield from self._replay.stages()
        except BaseException:
            self._written()
            raise
        return self._results_of(made)

    def _begin(self, arguments: Sequence[Array]) -> dict[Storage, Storage]:
        """Bring arguments to where launches look for them; gives the memory made for results."""
        mark = WRITES.mark
        if mark is not self._seen_at:
            versions = [s.version for s in self._sources]
            if versions != self._seen:
                for window in [*self._windows.values()]:
                    window.move_away()
                self._windows.clear()
                for launch in self._setup:
                    self.device.queue.launch(launch)
                self._seen = versions
            self._seen_at = mark
        self._told = False
        self._gradients.let_go(arguments)
        self._written_there = [arguments[i].storage for i in self._found]
        for argument, given in zip(self._arguments, arguments, strict=True):
            if isinstance(argument, _InPlace):
                if not argument.take(given):
                    continue
                self._replay.moved()
            else:
                storage = given.storage
                apart = storage not in self._changed and storage.arena not in self._apart_from
                argument.take(given, apart=apart)
            self._replay.rebind(argument.storage)
        return {storage: self._made_anew(storage) for storage in self._trace.returned}

    def _written(self) -> None:
        """Tell what was changed; an exception half-way leaves some of it changed."""
        for storage in (*self._mutated, *self._written_there):
            storage.written()
        self._written_there = []
        self._gradients.written()

    def _tell(self) -> None:
        """Tell what was changed, and leave the gradients."""
        self._told = True
        self._written()
        self._gradients.leave()

    def _results_of(self, made: dict[Storage, Storage]) -> list[Array]:
        if not self._told:
            self._tell()
        for argument in self._arguments:
            argument.let_go()
        passed, found = self._trace.passed, list[Array]()
        seen_by_caller = len(self._results) - self._trace.num_saved
        copies: tuple[dict[Storage, Storage], ...] = {}, {}
        for k, r in enumerate(self._results):
            new = made.get(r.storage)
            if new is None and k >= seen_by_caller and r.storage in self._constants:
                new = self._window(r.storage)
            elif new is None and k not in passed:  # views of one copy see each other's writes
                known = copies[k < seen_by_caller]
                new = known[r.storage] = known.get(r.storage) or self._copied(r.storage)
            found.append(r if new is None else _at(new, r))
        return found

    def _made_anew(self, storage: Storage) -> Storage:
        """Memory that is the caller's, for a result that launches write."""
        new = Storage(self.device, storage.nbytes)
        new.materialize()
        storage.buffer = new.buffer
        self._replay.rebind(storage)
        return new

    def _window(self, constant: Storage) -> Storage:
        """What looks at a constant, which nobody but the plan writes."""
        window = self._windows.get(constant)
        if window is None:
            window = self._windows[constant] = Storage(self.device, constant.nbytes)
            window.look_at(constant)
        return window

    def _poison(self) -> None:
        """Where ``CLNET_POISON`` asks for it, no value of the last replay is left for this one."""
        if self.device.poison is not None:
            for arena in self._arenas:
                self.device.poison(arena.buffer, size_class(arena.nbytes))

    def _copied(self, storage: Storage) -> Storage:
        copy = Storage(self.device, storage.nbytes)
        copy.materialize()
        if storage.nbytes:
            self.device.queue.copy(copy, storage, storage.nbytes)
        return copy


def _look_at_first_uses(entries: Iterable[Lowered], target: Target) -> None:
    """Compare kernels that are new to the driver with others.

    Raises:
        LeftOut: if one is wrong.
    """
    for entry in entries:
        step = entry.step
        look(step.function, target, step.outputs, step.inputs, entry.launches)


def _replay(device: Device, program: Sequence[Any], *, changes: bool) -> Replay:
    """What runs a program, chained where the host is spared more than others lose by it.

    What changes nothing is asked again and again, often alone on the machine; loaders want a core
    beside a training step, so that is chained where launches cost more than they do.
    """
    launches = [each for each in program if isinstance(each, Launch)]
    short = are_short(launches, device.traits.compute_units)
    return Replay(device, program, chained=short or not changes)


def turn_of(runners: Collection[Any]) -> AbstractContextManager[object]:
    """All of them reserved, in one order, so that no two who want several wait for each other."""
    if not runners:
        return _NO_TURN
    stack = ExitStack()
    try:
        for runner in sorted(runners, key=id):
            stack.enter_context(runner.reserve())  # pyrefly: ignore[missing-attribute] - a Runner
    except BaseException:
        stack.close()
        raise
    return stack


def _at(storage: Storage, array: Array) -> Array:
    """An array that lies in another storage as it lies in its own."""
    return Array(storage, array.shape, array.strides, array.offset, array.dtype)


def _sources(trace: Trace) -> list[Storage]:
    """What lies outside and the setup reads: it is done again when somebody changed that."""
    read = (x.storage for step in trace.setup for x in step.inputs)
    return [s for s in dict.fromkeys(read) if s not in trace.constants]


class _Argument:
    """Where the launches look for an argument: in what the caller gave, or in a copy.

    Args:
        place: the argument as it was traced.
        changed: whether a launch overwrites it.
        kept: whether a leaf keeps it as its gradient; it has memory of its own then.
    """

    def __init__(self, place: Array, *, changed: bool, kept: bool) -> None:
        self.storage = place.storage
        self.copy: Storage | None = place.storage if kept else None
        self._nbytes = place.nbytes
        self._changed = changed or kept

    def take(self, given: Array, *, apart: bool) -> None:
        """Look at what the caller gives now.

        What a launch changes is not looked at where the caller has it, but in a copy.

        Args:
            given: the argument.
            apart: whether it lies where no launch writes.
        """
        if given.offset or given.storage.begin or self._changed or not apart:
            if self.copy is None:
                self.copy = Storage(self.storage.device, self.storage.nbytes)
                self.copy.materialize()
            self.storage.buffer = self.copy.buffer
            if self._nbytes:
                self.storage.device.queue.copy(
                    self.copy,
                    given.storage,
                    self._nbytes,
                    source_bytes=given.offset * given.dtype.itemsize,
                )
        else:
            self.storage.buffer = given.storage.buffer

    def let_go(self) -> None:
        """A copy is the plan's; the memory of others is theirs."""


class _InPlace:
    """A gradient that the call found: launches read and write it where it lies.

    Args:
        place: the argument as it was traced.
    """

    copy: Storage | None = None

    def __init__(self, place: Array) -> None:
        self.storage = place.storage

    def take(self, given: Array) -> bool:
        """Look at what the leaf has now; whether that lies elsewhere."""
        place = self.storage
        buffer, begin = place.buffer, place.begin
        place.look_at(given.storage, given.offset * given.dtype.itemsize)
        return place.buffer is not buffer or place.begin != begin

    def let_go(self) -> None:
        """Hold it no longer than the leaf does."""
        self.storage.arena = None


def _arguments(
    trace: Trace, changed: Collection[Storage], hidden: Collection[Storage]
) -> list[_Argument | _InPlace]:
    """Where the launches look for each argument; for hidden ones where the call has them."""
    return [
        _InPlace(a)
        if a.storage in hidden
        else _Argument(a, changed=a.storage in changed, kept=a.storage in trace.kept)
        for a in trace.arguments
    ]


def _allocate(memory: MemoryPlan, trace: Trace) -> tuple[list[Storage], dict[int, Storage]]:
    """Give the storages of a plan their regions.

    Returns:
        The arenas, and the scratch memory of the steps that need some, by position.
    """
    own = memory.arenas[: memory.num_residences]
    arenas = [Storage(trace.device, nbytes) for nbytes in own]
    for arena in arenas:
        arena.materialize()
    arenas += trace.device.arenas.lend(memory.arenas[memory.num_residences :])
    first_of: dict[int, Storage] = {}
    scratch: dict[int, Storage] = {}
    for home, region in memory.homes.items():
        if isinstance(home, int):
            storage = scratch[home] = Storage(trace.device, memory.regions[region].nbytes)
        else:
            storage = home
        if region in first_of:
            storage.share(first_of[region])
        else:
            place = memory.places[region]
            storage.lie_in(arenas[place.arena], place.offset)
            first_of[region] = storage
    return arenas, scratch


def _program(
    entries: Sequence[Lowered | Action],
    scratch: Mapping[int, Storage],
    tell: WeakMethod[Callable[[], None]],
) -> list[Launch | Action]:
    """What is run, with the plan's own memory in the place of the queue's workspace.

    Args:
        entries: in order.
        scratch: memory of steps, by position.
        tell: has nothing to wait for, so that it comes before the last wait: behind that the device
            stands until it is given what is left. The plan is not held by what it holds.
    """

    def tell_early() -> None:
        if (method := tell()) is not None:
            method()

    program: list[Launch | Action] = []
    waits = (i for i, e in enumerate(entries) if isinstance(e, Lowered) and e.step.function.waits)
    last = max(waits, default=-1)
    for position, entry in enumerate(entries):
        if position == last:
            program.append(Action(tell_early))
        if isinstance(entry, Action):
            program.append(entry)
            continue
        for launch in entry.launches:
            launch.args = tuple(
                scratch[position] if type(arg) is Scratch else arg for arg in launch.args
            )
            program.append(launch)
        if entry.host is not None:
            program.append(Action(entry.host))
    return program
