"""Ops that follow each other as they did before, for other memory: nothing is looked up anew.

Which ops these are, and what they read, is the caller's to know.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ..errors import OutOfDeviceMemory
from ..values.record import NamedTuple
from .kept import NOTHING, picking
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
    """What one run of a sequence lies in.

    Args:
        buffers: by register; None of what is made.
        begins: the byte where each begins there.
        cells: numbers on the host that launches are given.
        left: the storages, without memory yet, of what is made and stays.

    Attributes:
        plain: whether all that is given has memory, which begins where its buffer does.
    """

    __slots__ = ("begins", "buffers", "cells", "left", "plain")

    def __init__(
        self,
        buffers: list[Any],
        begins: list[int],
        cells: Sequence[HostScalar],
        left: dict[int, Storage],
    ) -> None:
        self.buffers, self.begins, self.cells, self.left = buffers, begins, cells, left
        self.plain = False


class _Launch(NamedTuple):
    """A launch of an op that comes again, as it is enqueued.

    Attributes:
        set_args, handle: of the kernel.
        global_size, local_size, args: the launch's, with None for what differs.
        own: places of arguments that ops of the sequence make, with their registers.
        given: those of what is given, each with its register, the offset behind it, and the bytes
            of an element.
        scratch: places of scratch memory.
        cells: places of numbers of ``Memory.cells``, and which each is.
        take: gives the buffers of ``own`` and of ``given``, in this order, of all registers'.
        pick: gives the arguments in order, of what ``take`` gives, of scratch memory, numbers and
            ``args``.
    """

    set_args: Callable[..., None]
    handle: Any
    global_size: tuple[int, ...]
    local_size: tuple[int, ...]
    args: tuple[Any, ...]
    own: tuple[tuple[int, int], ...]
    given: tuple[tuple[int, int, int, int], ...]
    scratch: tuple[tuple[int, Scratch], ...]
    cells: tuple[tuple[int, int], ...]
    take: Callable[[Sequence[Any]], tuple[Any, ...]]
    pick: Callable[[Sequence[Any]], tuple[Any, ...]]

    @staticmethod
    def of(
        each: Enqueue, op: OpAgain, lent: Sequence[Scratch], registers: frozenset[int]
    ) -> _Launch:
        """One of an op's, where some registers are the sequence's own."""
        args, cells = list(each.args), list[tuple[int, int]]()
        for place, number in each.numbers:
            value = op.numbers[number]
            if type(value) is tuple:
                cells.append((place, value[0]))
            else:
                args[place] = value
        places = [(place, op.registers[number], item) for place, number, item in each.storages]
        sizes = each.global_size, each.local_size
        own = tuple((place, r) for place, r, _ in places if r in registers)
        given = tuple((p, r, args[p + 1], item) for p, r, item in places if r not in registers)
        scratch = tuple((place, lent[number]) for place, number in each.scratch)
        taken = [r for _, r in own] + [r for _, r, *_ in given]
        taken += [0] * max(0, 2 - len(taken))  # of one register nothing would give a tuple
        filled = [p for p, _ in own] + [p for p, *_ in given]
        where = list(zip(filled, range(len(filled)), strict=True))
        behind = [place for place, _ in (*scratch, *cells)]
        where += zip(behind, range(len(taken), len(taken) + len(behind)), strict=True)
        return _Launch(
            *(each.set_args, each.handle, *sizes, tuple(args), own, given, scratch, tuple(cells)),
            itemgetter(*taken),
            picking(len(taken) + len(behind), args, where),
        )

    def set(self, memory: Memory, lend: Callable[[Scratch], Any]) -> None:
        """Set the kernel's arguments. It is others' too, so they are all set, as for every op."""
        buffers = memory.buffers
        if memory.plain:
            found = self.take(buffers)
            if self.scratch:
                found += tuple([lend(scratch).buffer for _, scratch in self.scratch])
            if self.cells:
                found += tuple([memory.cells[number].value for _, number in self.cells])
            self.set_args(*self.pick((*found, *self.args)))
            return
        values = list(self.args)
        for place, register in self.own:
            values[place] = buffers[register]
        for place, register, first, item in self.given:
            values[place] = buffer = buffers[register]
            if buffer is None:
                raise abstract_error()
            if begin := memory.begins[register]:
                values[place + 1] = first + begin // item
        for place, scratch in self.scratch:
            values[place] = lend(scratch).buffer
        for place, number in self.cells:
            values[place] = memory.cells[number].value
        self.set_args(*values)


class OpSequence:
    """Ops in order, whose kernels have run.

    Args:
        device: where they run.
        parts: the ops in order, in parts behind which something is done.

    Attributes:
        num_launches: of all.
    """

    __slots__ = ("_device", "_given", "_parts", "num_launches")

    def __init__(self, device: Device, parts: Sequence[Sequence[OpAgain]]) -> None:
        self._device = device
        every = [op for ops in parts for op in ops]
        own = frozenset(r for op in every for r in (*op.left, *(r for r, _ in op.made)))
        self._parts: list[list[tuple[OpAgain, list[_Launch]]]] = []
        self.num_launches = 0
        for ops in parts:
            known: list[tuple[OpAgain, list[_Launch]]] = []
            for op in ops:
                lent, enqueues = op.launches.lent(device), op.launches.enqueues or ()
                known.append((op, [_Launch.of(each, op, lent, own) for each in enqueues]))
                self.num_launches += len(enqueues)
            self._parts.append(known)
        launches = [x for ops in self._parts for _, launches in ops for x in launches]
        self._given = frozenset(register for x in launches for _, register, *_ in x.given)

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
        given = map(type, map(buffers.__getitem__, self._given))
        memory.plain = not any(memory.begins) and NOTHING not in given
        op: OpAgain | None = None
        try:
            for place, ops in enumerate(self._parts):
                for op, launches in ops:
                    for register, nbytes in op.made:
                        buffers[register] = take(nbytes)
                    for register in op.left:
                        memory.left[register].materialize()
                        buffers[register] = memory.left[register].buffer
                    for launch in launches:
                        launch.set(memory, lend)
                        last = enqueue(launch.handle, launch.global_size, launch.local_size)
                    for register, nbytes in op.freed:
                        buffer, buffers[register] = buffers[register], None
                        give_back((buffer, nbytes))  # once: Ctrl-C is heard behind the call
                if behind is not None:
                    behind(place)
        except BaseException as error:
            if isinstance(error, OutOfDeviceMemory) and op is not None:
                error.tell_op(op.name, op.inputs)
            self._let_go(memory)
            raise
        return last

    def _let_go(self, memory: Memory) -> None:
        """Give back what was made and does not stay."""
        for ops in self._parts:
            for op, _ in ops:
                for register, nbytes in op.made:
                    buffer, memory.buffers[register] = memory.buffers[register], None
                    if buffer is not None:
                        self._device.pool.give_back((buffer, nbytes))
