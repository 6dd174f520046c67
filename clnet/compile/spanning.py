"""A trace on several devices: a plan for each, which meet where tensors go from one to another.

A move (``h.to(other)``) is a step of both plans: the first device brings the tensor, the other
gets it. Each device is asked for all up to its next meeting before the host waits for one, so that
devices compute side by side where the function's order lets them. Actions on the host are meetings
of all devices: what is behind them may read what they change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from typing import Any

from ..array import Array
from ..device import Device, HostScalar, Landing, transfer
from ..errors import ArgumentError, TraceError
from ..ops.machinery.function import Arrays, Function
from .plan import Plan, turn_of
from .replay import Gate
from .simplify import without_dead_steps
from .trace import Trace
from .tracer import Action, Step, Tracer

Stages = Generator[Gate, None, list[Array]]


@dataclass(frozen=True, eq=False)
class Meeting:
    """What happens between devices, or on the host, when all of them have come to its place.

    Attributes:
        devices: who comes: of a move, the device that brings the tensor and the one that gets it.
        action: of an action on the host; None: a move.
    """

    devices: tuple[Device, ...]
    action: Callable[[], None] | None = None

    def hold(self, gates: Mapping[Device, Gate], landing: Landing) -> None:
        """Act, or copy; what is asked of the devices afterwards finds it done."""
        if self.action is not None:
            self.action()
            return
        source, target = (gates[device].array for device in self.devices)
        if source is not None and target is not None and source.size:
            transfer(
                target.storage,
                source.storage,
                source.nbytes,
                source_bytes=source.offset * source.dtype.itemsize,
                pinned=not source.device.traits.unified_memory,
                landing=landing,
            )


class Bring(Function):
    """The first device's step of a move; its input goes to the other."""

    op_name = "bring"
    takes_complex = True
    reports = True

    meeting: Meeting

    def on_host(self, outputs: Arrays, inputs: Arrays) -> Gate:
        """Stand there with the input."""
        return Gate(self.meeting, inputs[0])


class Get(Function):
    """The other device's step of a move; its output comes from the first."""

    op_name = "get"
    takes_complex = True
    reports = True

    meeting: Meeting

    def on_host(self, outputs: Arrays, inputs: Arrays) -> Gate:
        """Stand there with room for the output."""
        return Gate(self.meeting, outputs[0])


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
            meetings.append(meeting := Meeting(tuple(devices), step.run))
            for of_device in steps.values():
                of_device.append(Action(Gate(meeting)))
        elif (ends := _ends(step)) is not None:
            x, y = ends
            meetings.append(meeting := Meeting((x.device, y.device)))
            steps[x.device].append(replace(step, function=Bring(meeting), outputs=()))
            steps[y.device].append(replace(step, function=Get(meeting), inputs=()))
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
    return Trace(tuple(steps), here(trace.arguments), here(trace.results), kept, device)


def _share(tracer: Tracer, device: Device) -> Tracer:
    """The gradients that a device's plan leaves; whom the trace depends on, the whole plan asks."""
    share = Tracer()
    left = tracer.grads_after.items()
    share.grads_after = {key: (leaf, g) for key, (leaf, g) in left if leaf.device is device}
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


class SpanningPlan:
    """The plans of one trace's devices, and where they meet.

    Args:
        parts: a plan for each device.
        meetings: in the order of the trace.
        trace: the whole, as it was recorded.
        tracer: what it depends on.

    Attributes:
        parts: the plans.
        lock: as of a :class:`.Plan`: the locks of all devices.
    """

    def __init__(
        self, parts: Sequence[Plan], meetings: Sequence[Meeting], trace: Trace, tracer: Tracer
    ) -> None:
        self.parts = tuple(parts)
        self.lock: Any = _Locks(part.device for part in parts)
        self._meetings = tuple(meetings)
        self._arguments = _positions(trace.arguments)
        self._results = _positions(trace.results)
        self._guards = list(tracer.watched.values())
        self._grads_before = list(tracer.grads_before.values())
        # Those that all share may be held by one who waits for a lock that is held here.
        self._landings = {part.device: part.device.queue.new_landing() for part in parts}

    @property
    def changed_arguments(self) -> list[tuple[int, Array]]:
        """As of a :class:`.Plan`."""
        return [
            (self._arguments[part.device][i], array)
            for part in self.parts
            for i, array in part.changed_arguments
        ]

    @property
    def num_launches(self) -> int:
        """Kernels of one replay."""
        return sum(part.num_launches for part in self.parts)

    @property
    def num_moves(self) -> int:
        """Tensors that go from one device to another in a replay."""
        return sum(meeting.action is None for meeting in self._meetings)

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

    def explain(self, form: str = "text") -> str:
        """The devices' plans, one after another.

        Raises:
            ArgumentError: if a picture is asked for.
        """
        if form != "text":
            law = "a plan of several devices is shown as text"
            raise ArgumentError("explain", law, form=form, devices=len(self.parts))
        return "\n\n".join(f"on {p.device.name}\n{p.explain()}" for p in self.parts)

    def valid(self) -> bool:
        """As of a :class:`.Plan`."""
        return not self.outdated() and self.gradients_unchanged()

    def gradients_unchanged(self) -> bool:
        """As of a :class:`.Plan`."""
        return all(leaf.grad is g for leaf, g in self._grads_before)

    def outdated(self) -> bool:
        """As of a :class:`.Plan`."""
        return any(o.version != version for o, version in self._guards)

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
            done = _hold(self._meetings, going, self._landings)
        finally:  # after an error, those that still stand at a gate come to their end, too
            for stages in going.values():
                stages.close()
        results: dict[int, Array] = {}
        for device, arrays in done.items():
            results.update(zip(self._results[device], arrays, strict=True))
        return [results[i] for i in range(len(results))]


def _hold(
    meetings: Sequence[Meeting], going: Mapping[Device, Stages], landings: Mapping[Device, Landing]
) -> dict[Device, list[Array]]:
    """All meetings in order, and the results of those who have come to their end."""
    done: dict[Device, list[Array]] = {}
    gates: dict[Device, Gate] = {}

    def go_on(device: Device) -> None:
        try:
            gates[device] = next(going[device])
        except StopIteration as end:
            done[device] = end.value

    for device in going:
        go_on(device)
    for meeting in meetings:
        if any(d in done or gates[d].meeting is not meeting for d in meeting.devices):
            raise TraceError(
                "compile",
                "passes leave the order of moves between devices and of actions on the host",
                remedy="Leave steps whose function reports where they are",
            )
        meeting.hold(gates, landings[meeting.devices[-1]])
        for device in meeting.devices:
            go_on(device)
    return done


def _positions(arrays: Sequence[Array]) -> Mapping[Device, list[int]]:
    """For each device, which of the arrays are its own; none of any other."""
    found: dict[Device, list[int]] = defaultdict(list)
    for i, array in enumerate(arrays):
        found[array.device].append(i)
    return found
