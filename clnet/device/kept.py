"""Launches of an op that comes again, without the memory and the numbers that each time differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

from ..values.record import NamedTuple
from .launch import HostScalar, Launch, Scratch, Storage, abstract_error

if TYPE_CHECKING:
    from .device import Device
    from .program import CompiledKernel

_BUFFER, _BEGIN = attrgetter("buffer"), attrgetter("begin")
NOTHING = type(None)
"""What has no memory has instead of a buffer; asked for by type, since buffers compare slowly."""


class _Kept(NamedTuple):
    """A launch without its memory.

    Attributes:
        launch: with None for memory and for numbers that are given each time.
        storages: the places of storages among its arguments, and which of the op's each is.
        scratch: the places of scratch memory, and which of the op's it is.
        numbers: the places of numbers, and which of the op's each is.
    """

    launch: Launch
    storages: tuple[tuple[int, int], ...]
    scratch: tuple[tuple[int, int], ...]
    numbers: tuple[tuple[int, int], ...]


class Enqueue(NamedTuple):
    """A kept launch as the queue enqueues it once its kernel has run, while nobody looks on.

    Attributes:
        launch: with None for what differs.
        kernel: compiled.
        set_args, handle: of the kernel.
        args, global_size, local_size: the launch's.
        storages: for each pointer to a storage its place, which of the op's it is, and the bytes of
            an element.
        scratch, numbers: as of what is kept.
        pick: gives the arguments in order, of what :meth:`KeptLaunches.together` gives and of
            ``args`` behind it.
    """

    launch: Launch
    kernel: CompiledKernel
    set_args: Callable[..., None]
    handle: Any
    args: tuple[Any, ...]
    global_size: tuple[int, ...]
    local_size: tuple[int, ...]
    storages: tuple[tuple[int, int, int], ...]
    scratch: tuple[tuple[int, int], ...]
    numbers: tuple[tuple[int, int], ...]
    pick: Callable[[Sequence[Any]], tuple[Any, ...]]

    def values(
        self,
        storages: Sequence[Storage],
        lent: Sequence[Scratch],
        numbers: Sequence[Any],
        lend: Callable[[Scratch], Storage],
    ) -> list[Any]:
        """The arguments of storages that may begin anywhere, as ``values_of`` gives them.

        Raises:
            DeviceError: if a storage has no memory.
        """
        values = list(self.args)
        for place, number, item in self.storages:
            memory = storages[number]
            values[place] = buffer = memory.buffer
            if buffer is None:
                raise abstract_error()
            if memory.begin:
                values[place + 1] += memory.begin // item
        for place, number in self.scratch:
            values[place] = lend(lent[number]).buffer
        for place, number in self.numbers:
            value = numbers[number]
            values[place] = value.value if type(value) is HostScalar else value
        return values


def picking(
    size: int, args: Sequence[Any], given: Sequence[tuple[int, int]]
) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """What puts arguments in order, in C alone.

    Args:
        size: how many values stand before those of ``args``.
        args: of a launch.
        given: the places of arguments that are among the values before, and which each is.
    """
    places = list(range(size, size + len(args)))
    for place, number in given:
        places[place] = number
    return itemgetter(*places)  # of several: behind a pointer stands its offset


class KeptLaunches:
    """All launches of an op, for any memory that lies as that of the first time.

    Args:
        parts: in order.
        scratch: bytes of each of the op's scratch memories.
        sizes: how many storages and numbers the op has.

    Attributes:
        parts, scratch: the same.
        checks: whether one of them checks its data.
        enqueues: the same as the queue enqueues them; None until every kernel has run.
    """

    __slots__ = ("_sizes", "checks", "enqueues", "parts", "scratch")

    def __init__(
        self, parts: Sequence[_Kept], scratch: Sequence[int], sizes: tuple[int, int]
    ) -> None:
        self.parts, self.scratch, self._sizes = tuple(parts), tuple(scratch), sizes
        self.checks = any(part.launch.check is not None for part in parts)
        self.enqueues: tuple[Enqueue, ...] | None = None

    @staticmethod
    def of(
        launches: Sequence[Launch], storages: Sequence[Storage], cells: Sequence[HostScalar]
    ) -> KeptLaunches | None:
        """What is kept of launches; None if one names memory that is not the op's.

        Args:
            launches: of an op.
            storages: those of its outputs and inputs.
            cells: stand among the arguments for the numbers that are given each time.
        """
        places: dict[Any, int] = {}
        places.update((storage, k) for k, storage in enumerate(storages))
        given = {cell: k for k, cell in enumerate(cells)}
        lent: dict[Scratch, int] = {}
        kept: list[_Kept] = []
        for launch in launches:
            args: list[Any] = list(launch.args)
            own, scratch, numbers = (list[tuple[int, int]]() for _ in range(3))
            for place, arg in enumerate(launch.args):
                if isinstance(arg, Storage):
                    if arg not in places:
                        return None
                    own.append((place, places[arg]))
                elif isinstance(arg, Scratch):
                    scratch.append((place, lent.setdefault(arg, len(lent))))
                elif isinstance(arg, HostScalar) and arg in given:
                    numbers.append((place, given[arg]))
                else:
                    continue
                args[place] = None
            places_of = map(tuple, (own, scratch, numbers))
            kept.append(_Kept(launch.with_args(tuple(args)), *places_of))
        sizes = len(storages), len(cells)
        return KeptLaunches(kept, [memory.nbytes for memory in lent], sizes)

    def lent(self, device: Device) -> list[Scratch]:
        """Scratch memory of one time's own."""
        made: list[Scratch] = []
        for nbytes in self.scratch:
            memory = Scratch(device)
            memory.nbytes = nbytes
            made.append(memory)
        return made

    def together(
        self,
        storages: Sequence[Storage],
        numbers: Sequence[Any],
        lend: Callable[[Scratch], Storage],
    ) -> list[Any] | None:
        """What differs from time to time, for each launch to pick from.

        Args:
            storages: of what the op makes, and of its inputs.
            numbers: those that are given each time.
            lend: where scratch memory comes from.

        Returns:
            Buffers and numbers; None where a storage is a region, or has no memory, or an op has
            several scratch memories: its arguments are found one by one.
        """
        found = list(map(_BUFFER, storages))
        if any(map(_BEGIN, storages)) or NOTHING in map(type, found) or len(self.scratch) > 1:
            return None
        if self.scratch:
            found.append(lend(self.lent(storages[0].device)[0]).buffer)
        if numbers:
            found += [n.value if type(n) is HostScalar else n for n in numbers]
        return found

    def launches(self, device: Device, storages: Sequence[Storage], numbers: Any) -> list[Launch]:
        """The launches for these storages and numbers, in the order of the first time's."""
        lent = self.lent(device)
        made: list[Launch] = []
        for launch, own, scratch, given in self.parts:
            args = list(launch.args)
            for place, number in own:
                args[place] = storages[number]
            for place, number in scratch:
                args[place] = lent[number]
            for place, number in given:
                args[place] = numbers[number]
            made.append(launch.with_args(tuple(args)))
        return made

    def compiled(self, kernels: Any) -> None:
        """Know the kernels from now on, if all have run.

        Args:
            kernels: the compiled ones, by what they are rendered from.
        """
        found: list[Enqueue] = []
        for launch, own, scratch, given in self.parts:
            kernel = kernels.get(launch.kernel)
            if kernel is None or not kernel.launched:
                return
            items = dict(kernel.signature.pointers)
            pointers = tuple([(place, number, items[place]) for place, number in own])
            sizes = launch.global_size, launch.local_size
            how = kernel.set_args, kernel.handle, launch.args, *sizes
            storages, numbers = self._sizes
            behind = storages + len(self.scratch)
            places = [(place, number) for place, number, _ in pointers]
            places += [(place, storages + number) for place, number in scratch]
            places += [(place, behind + number) for place, number in given]
            pick = picking(behind + numbers, launch.args, places)
            found.append(Enqueue(launch, kernel, *how, pointers, scratch, given, pick))
        self.enqueues = tuple(found)
