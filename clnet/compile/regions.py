"""The memory plan of a trace: what lives when, what may overwrite what, and where it all lies.

It allocates nothing: the same plan is made for a device that is not here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..device import Launch, Scratch, Storage, Target, size_class
from ..errors import ArgumentError
from ..values.lazy import lazy
from .packing import Place, Tenant, busiest, pack
from .trace import Trace
from .tracer import Action, Step

_LEAST_ALIGNMENT = 256
# What another launch may cost, in operations of each unit (6 us of an H200), and a byte; and how
# much of a plan's time launches may that it has for the sake of its peak.
_LAUNCH_FLOPS, _FLOPS_PER_BYTE, _MOST_SHARE = 2_400_000, 12, 0.01
# What each such change has to lower the peak by, and how many parts a step has at most.
_LEAST_GAIN, _MOST_PARTS = 0.02, 8


@dataclass(frozen=True)
class Lowered:
    """A step with its launches, and what the host does behind them."""

    step: Step
    launches: tuple[Launch, ...]
    host: Callable[[], None] | None = None

    @property
    def scratch_bytes(self) -> int:
        """Scratch memory of its launches; all begin at the same place.

        What has no bytes, of no elements, has a place still: a pointer leads there.
        """
        return max((s.nbytes or s.ALIGNMENT for s in self.scratches), default=0)

    @property
    def scratches(self) -> Iterator[Scratch]:
        """What its launches call scratch memory."""
        return (arg for launch in self.launches for arg in launch.args if type(arg) is Scratch)


def lowered(step: Step, target: Target) -> Lowered:
    """A step and its launches; pure."""
    launches = step.function.lower(target, step.outputs, step.inputs)
    for launch in launches:
        launch.op, launch.module_path = step.function.name, step.module_path
        launch.phase, launch.line = step.phase, step.line
    return Lowered(step, tuple(launches), step.function.on_host(step.outputs, step.inputs))


def lower(trace: Trace, target: Target) -> tuple[Lowered | Action, ...]:
    """The launches of every step; pure.

    Args:
        trace: what is to run.
        target: the device's numbers.

    Returns:
        As many entries as the trace has steps.
    """
    return tuple(
        step if isinstance(step, Action) else lowered(step, target) for step in trace.steps
    )


def with_less_scratch(
    trace: Trace, entries: Sequence[Lowered | Action], target: Target
) -> tuple[Lowered | Action, ...]:
    """The launches, in more parts where scratch memory alone is what makes the peak.

    Winograd's transforms of a batch are as large as all the rest of a network that is asked, those
    of half the batch half as large. A step at the peak is lowered for less and less memory while
    the same kernels compute it in so many more launches as cost next to nothing of the whole.

    Args:
        trace: what is to run.
        entries: its launches, from :func:`lower`.
        target: the device's numbers.

    Returns:
        As many entries; the kernels, and so the results' bits, are the same.
    """
    found, best = list(entries), tuple(entries)
    homes, regions, _ = _lifetimes(trace, found)
    launches = [x for e in found if isinstance(e, Lowered) for x in e.launches]
    cost = sum(max(x.flops, x.bytes * _FLOPS_PER_BYTE) for x in launches)
    left = int(cost * _MOST_SHARE) // (_LAUNCH_FLOPS * target.traits.compute_units)
    outside, alignment = sum(_outside(trace).values()), _alignment(target)
    most, at = busiest(regions, alignment=alignment)
    lowest = outside + most
    parts: dict[int, int] = {}
    while at in homes and left > 0:
        parts[at] = parts.get(at, 1) + 1
        before, less = found[at], _in_parts(entries[at], parts[at], target)
        if less is None or not isinstance(before, Lowered):
            break
        left -= len(less.launches) - len(before.launches)
        found[at] = less
        regions[homes[at]] = Tenant(less.scratch_bytes, at, at)
        most, at = busiest(regions, alignment=alignment)
        if left >= 0 and outside + most <= lowest * (1 - _LEAST_GAIN):
            lowest, best = outside + most, tuple(found)
    return best


def parted(trace: Trace, entries: Sequence[Lowered | Action], target: Target) -> list[int]:
    """The positions of steps that :func:`with_less_scratch` gave more launches.

    Args:
        trace: what runs.
        entries: its launches.
        target: the device's numbers.
    """
    pairs = enumerate(zip(entries, lower(trace, target), strict=True))
    both = ((i, a, b) for i, (a, b) in pairs if isinstance(a, Lowered) and isinstance(b, Lowered))
    return [i for i, a, b in both if len(a.launches) > len(b.launches)]


def _in_parts(entry: Lowered | Action, parts: int, target: Target) -> Lowered | None:
    """A step computed by no other kernels in about so many parts, None if it is not."""
    if not isinstance(entry, Lowered) or parts > _MOST_PARTS:
        return None
    whole = entry.scratch_bytes
    limit = whole // parts + whole // (2 * _MOST_PARTS)  # what is not of an image is there always
    try:
        found = lowered(entry.step, replace(target, workspace_limit=limit))
    except ArgumentError:  # an algorithm that was asked for needs more
        return None
    (kernels, flops), (fewer, same) = (
        ({x.kernel for x in e.launches}, sum(x.flops for x in e.launches)) for e in (entry, found)
    )
    return found if fewer <= kernels and same == flops else None


@dataclass(frozen=True)
class MemoryPlan:
    """Where every value between the first and the last step lies.

    Attributes:
        homes: for each storage made by the steps, and the scratch memory of each step that needs
            some (by position), its region; storages that share one replace each other in place.
        regions: size and lifetime of each region, in bytes and positions of steps.
        places: where each region lies.
        arenas: their bytes.
        num_residences: how many of them, the first ones, hold gradients that leaves keep; before
            those are written, other values lie there. The others hold nothing after the last step.
        outside: bytes, as the pool counts them, of what lies elsewhere, by what it is.
    """

    homes: Mapping[Storage | int, int]
    regions: tuple[Tenant, ...]
    places: tuple[Place, ...]
    arenas: tuple[int, ...]
    num_residences: int
    outside: Mapping[str, int]
    alignment: int

    @property
    def arena_bytes(self) -> int:
        """Bytes of all arenas, as the pool counts them."""
        return sum(map(size_class, self.arenas))

    @property
    def peak_bytes(self) -> int:
        """Device memory in use while it runs: arenas, parameters, state, arguments, results."""
        return self.arena_bytes + sum(self.outside.values())

    @property
    def num_in_place(self) -> int:
        """Values that overwrite one that is not needed any more."""
        return len(self.homes) - len(self.regions)

    @lazy
    def busiest(self) -> tuple[int, int]:
        """The most bytes alive at one step, and that step: no packing needs less."""
        return busiest(self.regions, alignment=self.alignment)

    @lazy
    def workspaces(self) -> Mapping[int, int]:
        """Bytes of scratch memory by the position of the step that needs it."""
        return {
            home: self.regions[region].nbytes
            for home, region in self.homes.items()
            if isinstance(home, int)
        }

    @lazy
    def workspace_bytes(self) -> Mapping[str, int]:
        """What workspaces cost: one for each step, one for all, or none of their own (here)."""
        own = set(self.workspaces)
        values = [
            region
            for number, region in enumerate(self.regions)
            if number not in {self.homes[position] for position in own}
        ]
        largest = max(self.arenas, default=0)
        without = pack(values, alignment=self.alignment, largest=largest).arenas
        return {
            "separate": sum(self.workspaces.values()),
            "shared": max(self.workspaces.values(), default=0),
            "planned": max(sum(self.arenas) - sum(without), 0),
        }


def plan_memory(trace: Trace, entries: Sequence[Lowered | Action], target: Target) -> MemoryPlan:
    """Plan the memory of a trace.

    Args:
        trace: what is to run.
        entries: its launches, from :func:`lower`.
        target: the device's numbers: alignment and largest buffer.

    Returns:
        The plan.
    """
    traits = target.traits
    alignment = _alignment(target)
    homes, regions, residents = _lifetimes(trace, entries)
    packing = pack(
        regions, alignment=alignment, largest=traits.max_allocation_bytes, residents=residents
    )
    return MemoryPlan(homes, tuple(regions), *packing, _outside(trace), alignment)


def _alignment(target: Target) -> int:
    return max(target.traits.base_align_bytes, _LEAST_ALIGNMENT)


def _lifetimes(
    trace: Trace, entries: Sequence[Lowered | Action]
) -> tuple[dict[Storage | int, int], list[Tenant], list[int]]:
    """Which region each value and each scratch memory has; the regions; those of gradients."""
    homes: dict[Storage | int, int] = {}
    regions: list[Tenant] = []
    last_use = _last_uses(trace)
    elsewhere = trace.given | trace.returned | frozenset(trace.constants)
    kept = frozenset(trace.kept)
    residents: list[int] = []
    for position, entry in enumerate(entries):
        if isinstance(entry, Action):
            continue
        for storage in entry.step.made:
            if storage in trace.outside or storage in elsewhere or storage in homes:
                continue
            last = last_use[storage]
            if storage in kept:
                homes[storage] = len(regions)
                residents.append(len(regions))
                regions.append(Tenant(storage.nbytes, position, last))
                continue
            before = _overwritten(entry.step, storage, homes, last_use, position)
            if before is None:
                homes[storage] = len(regions)
                regions.append(Tenant(storage.nbytes, position, last))
            else:
                homes[storage] = region = homes[before]
                regions[region] = regions[region]._replace(last=last)
                last_use[before] = position - 1  # no other output of this step takes it
        if entry.scratch_bytes:
            homes[position] = len(regions)
            regions.append(Tenant(entry.scratch_bytes, position, position))
    return homes, regions, residents


def alive_bytes(trace: Trace) -> int:
    """The most bytes of a trace's own that are alive at one step: what a plan of it will need.

    Passes change it by a few percent, and it is known long before the plan.
    """
    elsewhere, last_use = trace.outside | trace.given, _last_uses(trace)
    made = ((i, s) for i, step in trace.ops for s in step.made if s not in elsewhere)
    return busiest([Tenant(s.nbytes, i, last_use[s]) for i, s in made])[0]


def memory_is_short(trace: Trace) -> bool:
    """Whether the device has less memory than a trace needs."""
    device = trace.device
    limit = device.pool.limit
    room = device.traits.global_memory_bytes if limit is None else limit
    if sum(s.nbytes for s in trace.touched) <= room:  # not even if everything were held
        return False
    entries = with_less_scratch(trace, lower(trace, device.target), device.target)
    return plan_memory(trace, entries, device.target).peak_bytes > room


def _last_uses(trace: Trace) -> dict[Storage, int]:
    last_use = dict(trace.last_use)
    for storage in (*(r.storage for r in trace.results), *trace.kept):
        last_use[storage] = len(trace.steps)
    return last_use


def _overwritten(
    step: Step,
    storage: Storage,
    homes: Mapping[Storage | int, int],
    last_use: Mapping[Storage, int],
    position: int,
) -> Storage | None:
    """An input that an output may replace in its memory.

    It dies there, nobody else looks at it, and the step reads each of its elements only to write
    the output's element at the same place.
    """
    if not step.function.elementwise:
        return None
    output = next(y for y in step.outputs if y.storage is storage)
    layout = (output.shape, output.strides, output.offset, output.dtype.itemsize)
    for x in step.inputs:
        other = x.storage
        if (
            other in homes
            and last_use[other] == position
            and other.nbytes == storage.nbytes
            and all(
                (a.shape, a.strides, a.offset, a.dtype.itemsize) == layout
                for a in step.inputs
                if a.storage is other
            )
        ):
            return other
    return None


def _outside(trace: Trace) -> dict[str, int]:
    elsewhere = trace.outside | trace.given | {*trace.constants} | {*trace.kept}
    results = {r.storage for r in trace.results} - elsewhere  # several may be views of one
    return {
        "parameters and state": _total(trace.outside),
        "arguments": _total(trace.given),
        "constants": _total(trace.constants),
        "results": _total(results),
    }


def _total(storages: Sequence[Storage] | set[Storage] | frozenset[Storage]) -> int:
    return sum(size_class(s.nbytes) for s in storages)
