"""A trace on several devices: a plan for each, which meet where tensors go from one to another.

A move (``h.to(other)``) is a step of both plans: the first device has the tensor brought to the
host, and goes on; the other gets it from there, and stands until it has been brought. Before it
stands, each device is asked for all that needs no other, so that devices compute side by side
where the function's order lets them. At actions on the host all devices stand: what is behind them
may read what they change.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from typing import Any

from ..array import Array
from ..device import Device, HostScalar, Passage
from ..errors import ArgumentError, TraceError
from ..ops.machinery.function import Arrays, Function
from .guards import Premises
from .plan import Plan, turn_of
from .replay import Gate
from .simplify import without_dead_steps
from .trace import Trace
from .tracer import Action, Step, Tracer

Stages = Generator[Gate, None, list[Array]]


@dataclass(frozen=True, eq=False)
class Pause:
    """An action on the host, when all devices have come to its place.

    Attributes:
        devices: all.
        action: what is done; what is asked of the devices afterwards finds it done.
        ready: whether it can be held.
    """

    devices: tuple[Device, ...]
    action: Callable[[], None]
    ready: bool = True

    def hold(self, gates: Mapping[Device, Gate]) -> None:
        """Act."""
        del gates
        self.action()

    def leave(self) -> None:
        """Nothing is on its way."""


class Crossing:
    """A tensor that goes from one device to another.

    Args:
        target: the device that gets it.

    Attributes:
        devices: who stands until it is there.
    """

    def __init__(self, target: Device) -> None:
        self.devices = (target,)
        self._passage: Passage | None = None

    @property
    def ready(self) -> bool:
        """Whether it was begun."""
        return self._passage is not None

    def begin(self, array: Array) -> None:
        """Have the elements brought, when the first device comes to them."""
        (target,) = self.devices
        begin, storage = array.offset * array.dtype.itemsize, array.storage
        self._passage = Passage(storage, array.nbytes, source_bytes=begin, target=target)

    def hold(self, gates: Mapping[Device, Gate]) -> None:
        """Have them sent on to where they are waited for."""
        array = gates[self.devices[0]].array
        if self._passage is not None and array is not None:
            self._passage.send(array.storage)
        self.leave()

    def leave(self) -> None:
        """What was begun comes to its end; after an error it was perhaps not sent."""
        passage, self._passage = self._passage, None
        if passage is not None:
            passage.end()


class Bring(Function):
    """The first device's step of a move; its input goes to the other."""

    op_name = "bring"
    takes_complex = True
    reports = True

    crossing: Crossing

    def on_host(self, outputs: Arrays, inputs: Arrays) -> Callable[[], None]:
        """Begin to bring the input."""
        return lambda: self.crossing.begin(inputs[0])


class Get(Function):
    """The other device's step of a move; its output comes from the first."""

    op_name = "get"
    takes_complex = True
    reports = True
    waits = True

    crossing: Crossing

    def on_host(self, outputs: Arrays, inputs: Arrays) -> Gate:
        """Stand there with room for the output."""
        return Gate(self.crossing, outputs[0])


Meeting = Pause | Crossing


def devices_of(trace: Trace) -> tuple[Device, ...]:
    """The devices that a trace needs, in the order in which it comes to them."""
    steps = (a for _, step in trace.ops for a in (*step.inputs, *step.outputs))
    arrays = (*trace.arguments, *steps, *trace.results)
    return tuple(dict.fromkeys(a.device for a in arrays)) or (trace.device,)


def split(
    trace: Trace, tracer: Tracer, devices: Sequence[Device]
) -> tuple[list[tuple[Trace, Tracer]], list[Meeting]]:
    """Each device's part of a trace.

    Args:
        trace: as it was recorded.
        tracer: what it depends on, and which gradients it leaves.
        devices: those that it needs.

    Returns:
        For each device its steps, with what their plan depends on; and the meetings, in order.
    """
    trace = without_dead_steps(trace)
    meetings: list[Meeting] = []
    steps: dict[Device, list[Step | Action]] = {device: [] for device in devices}
    for step in trace.steps:
        if isinstance(step, Action):
            meetings.append(pause := Pause(tuple(devices), step.run))
            for of_device in steps.values():
                of_device.append(Action(Gate(pause)))
        elif (ends := _ends(step)) is not None:
            x, y = ends
            meetings.append(crossing := Crossing(y.device))
            steps[x.device].append(replace(step, function=Bring(crossing), outputs=()))
            steps[y.device].append(replace(step, function=Get(crossing), inputs=()))
        else:
            steps[next(iter(step.storages)).device].append(step)
    return [(_part(trace, d, steps[d]), _share(tracer, d)) for d in devices], meetings


def _ends(step: Step) -> tuple[Array, Array] | None:
    """What a move takes from one device, and what that is on the other; None of other steps."""
    if not step.inputs or not step.outputs:
        return None
    x, y = step.inputs[0], step.outputs[0]
    return None if x.device is y.device else (x, y)


def _part(trace: Trace, device: Device, steps: Sequence[Step | Action]) -> Trace:
    def here(arrays: Iterable[Array]) -> tuple[Array, ...]:
        return tuple(a for a in arrays if a.device is device)

    kept = tuple(s for s in trace.kept if s.device is device)
    results = here(trace.results)
    saved = here(trace.results[len(trace.results) - trace.num_saved :])
    arguments = here(trace.arguments)
    return Trace(tuple(steps), arguments, results, kept, device, num_saved=len(saved))


def _share(tracer: Tracer, device: Device) -> Tracer:
    """The gradients that a device's plan leaves; whom the trace depends on, the whole plan asks."""
    share = Tracer()
    left = tracer.grads_after.items()
    share.grads_after = {key: (leaf, g) for key, (leaf, g) in left if leaf.device is device}
    share.hidden = tracer.hidden
    return share


class _Locks:
    """The locks of several devices, always taken in one order; nobody else takes two."""

    def __init__(self, devices: Iterable[Device]) -> None:
        self._locks = [device.lock for device in sorted(devices, key=id)]
        self._held: list[ExitStack] = []

    def __enter__(self) -> None:
        with ExitStack() as stack:
            for lock in self._locks:
                stack.enter_context(lock)
            self._held.append(stack.pop_all())

    def __exit__(self, *raised: object) -> None:
        self._held.pop().close()


class SpanningPlan(Premises):
    """The plans of one trace's devices, and where they meet.

    Args:
        parts: a plan for each device.
        meetings: in the order of the trace.
        trace: the whole, as it was recorded.
        tracer: what it depends on.

    Attributes:
        parts: the plans.
        acts: as of a :class:`.Plan`.
        lock: the same: the locks of all devices.
    """

    def __init__(
        self, parts: Sequence[Plan], meetings: Sequence[Meeting], trace: Trace, tracer: Tracer
    ) -> None:
        super().__init__(tracer)
        self.parts = tuple(parts)
        self.acts = any(part.acts for part in parts)
        self.lock: Any = _Locks(part.device for part in parts)
        self._meetings = {meeting: k for k, meeting in enumerate(meetings)}
        self._arguments = _positions(trace.arguments)
        self._results = _positions(trace.results)

    @property
    def changed_arguments(self) -> list[tuple[int, Array]]:
        """As of a :class:`.Plan`."""
        return [
            (self._arguments[part.device][i], array)
            for part in self.parts
            for i, array in part.changed_arguments
        ]

    @property
    def devices(self) -> tuple[Device, ...]:
        """As of a :class:`.Plan`."""
        return tuple(part.device for part in self.parts)

    @property
    def num_launches(self) -> int:
        """Kernels of one replay."""
        return sum(part.num_launches for part in self.parts)

    @property
    def num_moves(self) -> int:
        """Tensors that go from one device to another in a replay."""
        return sum(isinstance(meeting, Crossing) for meeting in self._meetings)

    @property
    def cells(self) -> list[HostScalar]:
        """As of a :class:`.Plan`."""
        return list({id(cell): cell for part in self.parts for cell in part.cells}.values())

    @property
    def held_bytes(self) -> int:
        """Memory held between replays, on all devices together."""
        return sum(part.held_bytes for part in self.parts)

    @property
    def peak_bytes(self) -> int:
        """Memory in use while it runs, on all devices together."""
        return sum(part.peak_bytes for part in self.parts)

    @property
    def peak_parts(self) -> Mapping[str, int]:
        """As of a :class:`.Plan`, of all devices together."""
        return _added(part.peak_parts for part in self.parts)

    @property
    def held_at_peak(self) -> Mapping[str, int]:
        """As of a :class:`.Plan`, of all devices together, each at its own busiest step."""
        return _added(part.held_at_peak for part in self.parts)

    def explain(self, form: str = "text") -> str:
        """The devices' plans, one after another.

        Raises:
            ArgumentError: if a picture is asked for.
        """
        if form != "text":
            law = "a plan of several devices is shown as text"
            raise ArgumentError("explain", law, form=form, devices=len(self.parts))
        return "\n\n".join(f"on {p.device.name}\n{p.explain()}" for p in self.parts)

    def turn(self) -> AbstractContextManager[object]:
        """As of a :class:`.Plan`."""
        return turn_of(frozenset[Any]().union(*(part.runners for part in self.parts)))

    def run(self, arguments: Sequence[Array]) -> list[Array]:
        """Replay on new arguments, under :attr:`lock`.

        Args:
            arguments: arrays of the devices, shapes and dtypes that were traced, dense.

        Returns:
            The results, each on its device.
        """
        going: dict[Device, Stages] = {}
        try:
            for part in self.parts:
                given = [arguments[i] for i in self._arguments[part.device]]
                going[part.device] = part.stages(given)
            done = _hold(self._meetings, going)
        finally:  # after an error, those that still stand at a gate come to their end, too
            for stages in going.values():
                stages.close()
            for meeting in self._meetings:
                meeting.leave()
        results: dict[int, Array] = {}
        for device, arrays in done.items():
            results.update(zip(self._results[device], arrays, strict=True))
        return [results[i] for i in range(len(results))]


def _added(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found = Counter[str]()
    for part in parts:
        found.update(part)
    return dict(found.most_common())


def _hold(
    meetings: Mapping[Meeting, int], going: Mapping[Device, Stages]
) -> dict[Device, list[Array]]:
    """All meetings, and the results of those who have come to their end.

    Of the meetings that can be held the first is. The order is not that of the trace: a device
    waits late, behind actions for one, which need not wait with it.
    """
    done: dict[Device, list[Array]] = {}
    gates: dict[Device, Gate] = {}

    def go_on(device: Device) -> None:
        gates.pop(device, None)
        try:
            gates[device] = next(going[device])
        except StopIteration as end:
            done[device] = end.value

    def all_are_there(meeting: Meeting) -> bool:
        standing = all(d in gates and gates[d].meeting is meeting for d in meeting.devices)
        return standing and meeting.ready

    for device in going:
        go_on(device)
    while gates:
        ready = [gate.meeting for gate in gates.values() if all_are_there(gate.meeting)]
        if not ready:
            raise TraceError(
                "compile",
                "after the passes devices wait for what no device brings",
                remedy="Leave steps whose function reports where they are",
            )
        meeting = min(ready, key=meetings.__getitem__)
        meeting.hold(gates)
        for device in meeting.devices:
            go_on(device)
    return done


def _positions(arrays: Sequence[Array]) -> Mapping[Device, list[int]]:
    """For each device, which of the arrays are its own; none of any other."""
    found: dict[Device, list[int]] = defaultdict(list)
    for i, array in enumerate(arrays):
        found[array.device].append(i)
    return found
