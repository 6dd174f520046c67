"""Launches of an op that comes again, without the memory and the numbers that each time differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..values.record import NamedTuple
from .launch import HostScalar, Launch, Scratch, Storage

if TYPE_CHECKING:
    from .device import Device
    from .program import CompiledKernel


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


class KeptLaunches:
    """All launches of an op, for any memory that lies as that of the first time.

    Args:
        parts: in order.
        scratch: bytes of each of the op's scratch memories.

    Attributes:
        parts, scratch: the same.
        checks: whether one of them checks its data.
        enqueues: the same as the queue enqueues them; None until every kernel has run.
    """

    __slots__ = ("checks", "enqueues", "parts", "scratch")

    def __init__(self, parts: Sequence[_Kept], scratch: Sequence[int]) -> None:
        self.parts, self.scratch = tuple(parts), tuple(scratch)
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
        return KeptLaunches(kept, [memory.nbytes for memory in lent])

    def lent(self, device: Device) -> list[Scratch]:
        """Scratch memory of one time's own."""
        made: list[Scratch] = []
        for nbytes in self.scratch:
            memory = Scratch(device)
            memory.nbytes = nbytes
            made.append(memory)
        return made

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
            found.append(Enqueue(launch, kernel, *how, pointers, scratch, given))
        self.enqueues = tuple(found)
