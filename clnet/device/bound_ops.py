"""Ops that follow each other as they did before, bound once; what differs is where their memory is.

Each launch has a kernel of its own, whose arguments stay set: a later run sets only buffers that
are others than the last time. Which ops these are, and what they read, is the caller's to know.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import OutOfDeviceMemory
from ..values.record import NamedTuple
from .launch import HostScalar, Scratch, Storage, abstract_error

if TYPE_CHECKING:
    from .device import Device
    from .kept import Enqueue, KeptLaunches


class OpAgain(NamedTuple):
    """An op of a sequence.

    Attributes:
        name, inputs: of the op, for errors.
        launches: what it launches; all its kernels have run.
        registers: where its storages are, those that it makes and its inputs'.
        made: the registers that get memory of so many bytes first.
        left: those whose memory is that of a storage of ``Memory.left``.
        freed: those whose memory goes back behind it, with its bytes.
        numbers: those that are given each time; a pair is a place in ``Memory.cells``.
    """

    name: str
    inputs: str
    launches: KeptLaunches
    registers: tuple[int, ...]
    made: tuple[tuple[int, int], ...]
    left: tuple[int, ...]
    freed: tuple[tuple[int, int], ...]
    numbers: tuple[Any, ...]


class Memory:
    """What one run of bound ops lies in.

    Args:
        buffers: by register; None of what is made.
        begins: the byte where each begins there.
        cells: numbers on the host that launches are given.
        left: the storages, without memory yet, of what is made and stays.
    """

    __slots__ = ("begins", "buffers", "cells", "left")

    def __init__(
        self,
        buffers: list[Any],
        begins: list[int],
        cells: Sequence[HostScalar],
        left: dict[int, Storage],
    ) -> None:
        self.buffers, self.begins, self.cells, self.left = buffers, begins, cells, left


class _Launch:
    """A launch with a kernel of its own.

    Attributes:
        handle, global_size, local_size: what is enqueued.
        own: places of arguments that ops of the sequence make, with their registers.
        last: the buffers that were set there.
        given: those of what is given, each with the offset behind it: its first value, the bytes of
            an element, its type.
        begins: where what is given began.
        scratch: places of scratch memory.
        cells: places of cells' numbers, which cell each is, and its type.
    """

    __slots__ = (
        *("begins", "cells", "given", "global_size", "handle"),
        *("last", "local_size", "own", "scratch"),
    )

    def __init__(
        self, each: Enqueue, op: OpAgain, lent: Sequence[Scratch], own: frozenset[int]
    ) -> None:
        kernel, types = each.kernel, each.kernel.signature.types
        self.handle = handle = kernel.new_handle()
        self.global_size, self.local_size = each.global_size, each.local_size
        self.scratch = tuple([(place, lent[number]) for place, number in each.scratch])
        later = {place for place, *_ in (*each.storages, *each.scratch)}
        self.own, self.given, self.cells = (list[Any]() for _ in range(3))
        for place, number, item in each.storages:
            register = op.registers[number]
            if register in own:
                self.own.append((place, register))
            else:
                offset = (each.args[place + 1], item, types[place + 1])
                self.given.append((place, register, *offset))
        values = list(each.args)
        for place, number in each.numbers:
            values[place] = value = op.numbers[number]
            if type(value) is tuple:
                later.add(place)
                self.cells.append((place, value[0], types[place]))
        for place, (value, scalar) in enumerate(zip(values, types, strict=True)):
            if place not in later:
                handle.set_arg(place, value if scalar is None else scalar(value))
        self.last: list[Any] = [None] * len(self.own)
        self.begins = [0] * len(self.given)

    def set(self, memory: Memory, lend: Callable[[Scratch], Any]) -> None:
        """Set what is another than the last time."""
        buffers, handle, last = memory.buffers, self.handle, self.last
        for k, (place, register) in enumerate(self.own):
            buffer = buffers[register]
            if last[k] is not buffer:
                handle.set_arg(place, buffer)
                last[k] = buffer
        # Of these no reference is kept: they may be anybody's.
        for k, (place, register, first, item, scalar) in enumerate(self.given):
            buffer, begin = buffers[register], memory.begins[register]
            if buffer is None:
                raise abstract_error()
            handle.set_arg(place, buffer)
            if self.begins[k] != begin:
                handle.set_arg(place + 1, scalar(first + begin // item))
                self.begins[k] = begin
        for place, scratch in self.scratch:
            handle.set_arg(place, lend(scratch).buffer)
        for place, number, scalar in self.cells:
            handle.set_arg(place, scalar(memory.cells[number].value))


class BoundOps:
    """A sequence of ops with kernels of their own.

    Args:
        device: where they run.
        parts: the ops in order, in parts behind which something is done.

    Attributes:
        num_launches: of all.
    """

    __slots__ = ("_device", "_parts", "num_launches")

    def __init__(self, device: Device, parts: Sequence[Sequence[OpAgain]]) -> None:
        self._device = device
        every = [op for ops in parts for op in ops]
        own = frozenset(r for op in every for r in (*op.left, *(r for r, _ in op.made)))
        self._parts: list[list[tuple[OpAgain, list[_Launch]]]] = []
        self.num_launches = 0
        for ops in parts:
            bound: list[tuple[OpAgain, list[_Launch]]] = []
            for op in ops:
                lent, enqueues = op.launches.lent(device), op.launches.enqueues or ()
                bound.append((op, [_Launch(each, op, lent, own) for each in enqueues]))
                self.num_launches += len(enqueues)
            self._parts.append(bound)

    def run(
        self,
        memory: Memory,
        behind: Callable[[int], None] | None,
        lend: Callable[[Scratch], Any],
        enqueue: Callable[..., Any],
    ) -> Any:
        """Take memory, enqueue, give memory back; the device's lock is held.

        Args:
            memory: where all lies.
            behind: called with the place of each part when that is enqueued; None: nothing is.
            lend: where scratch memory comes from.
            enqueue: of a kernel and its sizes.

        Returns:
            The last event, or None.

        Raises:
            OutOfDeviceMemory: if something made does not fit; all but what stays is given back.
        """
        buffers, pool, last = memory.buffers, self._device.pool, None
        take, give_back = pool.take, pool.give_back
        try:
            for place, ops in enumerate(self._parts):
                for op, launches in ops:
                    try:
                        for register, nbytes in op.made:
                            buffers[register] = take(nbytes)
                        for register in op.left:
                            memory.left[register].materialize()
                            buffers[register] = memory.left[register].buffer
                        for launch in launches:
                            launch.set(memory, lend)
                            last = enqueue(launch.handle, launch.global_size, launch.local_size)
                    except OutOfDeviceMemory as error:
                        error.tell_op(op.name, op.inputs)
                        raise
                    for register, nbytes in op.freed:
                        give_back((buffers[register], nbytes))
                        buffers[register] = None
                if behind is not None:
                    behind(place)
        except BaseException:
            self._let_go(memory)
            raise
        return last

    def _let_go(self, memory: Memory) -> None:
        """Give back what was made and does not stay."""
        for ops in self._parts:
            for op, _ in ops:
                for register, nbytes in op.made:
                    if memory.buffers[register] is not None:
                        self._device.pool.give_back((memory.buffers[register], nbytes))
                        memory.buffers[register] = None
