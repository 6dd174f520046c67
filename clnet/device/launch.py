"""What goes to the device: storage, run-time scalars, scratch memory and launch records.

Plain values; enqueueing them is the queue's work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from ..errors import DeviceError
from ..values.changes import WRITES

if TYPE_CHECKING:
    from .device import Device
    from .fault import Check

_NOTHING: Callable[[], Any] = ().__len__
"""Does nothing, in C."""


class Storage:
    """A piece of device memory that arrays look at; abstract until it gets a buffer.

    When the last array that looks at it goes, its buffer returns to the pool it came from.

    Attributes:
        device: the device it lives, or will live, on.
        nbytes: its size.
        buffer: the ``pyopencl.Buffer``, or None while it is abstract.
        version: counts in-place writes, so that backward can tell a changed value.
        unseen: in-place writes among these that no tape takes note of, those through ``x.data``.
        recorded: the version that the last write on the tape made.
        moves: how many tensors that a plan looks for here were given other memory since, less those
            that were given this; None: no plan does.
        aliases: arrays that look at it as ``x.data`` or as ``y`` of ``x.data = y``; None: there
            never were any.
        arena: the storage it is a region of, or None.
        begin: the byte of the buffer where the region begins.
        inference: whether what looks at it was made in ``inference_mode``.
    """

    __slots__ = (
        "__del__",
        "__weakref__",
        "aliases",
        "arena",
        "begin",
        "buffer",
        "device",
        "inference",
        "moves",
        "nbytes",
        "recorded",
        "unseen",
        "version",
    )

    def __init__(self, device: Device, nbytes: int) -> None:
        self.device = device
        self.nbytes = nbytes
        self.buffer: Any = None
        # What Python calls when this storage goes is C's alone: a method in Python would hear an
        # interrupt at its beginning, and what a finalizer raises is dropped.
        self.__del__ = _NOTHING
        self.version = self.recorded = self.unseen = 0
        self.moves: int | None = None
        self.aliases: WeakSet[Any] | None = None
        self.arena: Storage | None = None
        self.begin = 0
        self.inference = False

    @property
    def seen_version(self) -> int:
        """The version as the tape compares it."""
        return self.version - self.unseen

    def written(self, *, seen: bool = True) -> None:
        """Count an in-place write, of which the tape takes note or does not."""
        self.version += 1
        self.unseen += not seen
        WRITES.tell()

    def materialize(self) -> None:
        """Take a buffer from the device's pool, if it has none yet.

        Raises:
            OutOfDeviceMemory: if the device has no room left.
        """
        if self.buffer is None:
            pool = self.device.pool
            self.buffer = buffer = pool.take(self.nbytes)
            self.__del__ = partial(pool.give_back, (buffer, self.nbytes))

    @property
    def has_block(self) -> bool:
        """Whether it has a block of the pool, and looks at no other's memory."""
        return self.__del__ is not _NOTHING

    def lie_in(self, arena: Storage, offset: int) -> None:
        """Be a region of another storage's memory, which lives at least as long.

        It is no sub-buffer: NVIDIA's driver crashes when sub-buffers that overlap are released.
        Every pointer of a kernel is followed by an offset, which leads to the region.

        Args:
            arena: the memory.
            offset: where the region begins, in bytes; a multiple of every element's size.
        """
        self.buffer, self.arena, self.begin = arena.buffer, arena, offset

    def share(self, other: Storage) -> None:
        """Look at the region another storage is; for a value that replaces another in place."""
        self.buffer, self.arena, self.begin = other.buffer, other.arena, other.begin

    def look_at(self, other: Storage, offset: int = 0) -> None:
        """Look at another's memory, from a byte of it on, which lives as long as this does."""
        self.lie_in(other.arena or other, other.begin + offset)
        self.buffer = other.buffer

    def move_away(self) -> None:
        """Take memory of its own, with the elements that are seen here now."""
        seen = Storage(self.device, self.nbytes)
        seen.share(self)
        self.buffer, self.arena, self.begin = None, None, 0
        self.materialize()
        if self.nbytes:
            self.device.queue.copy(self, seen, self.nbytes)


class Scratch:
    """Memory needed only while the launches of one op run; the queue lends its workspace for it.

    Attributes:
        nbytes: its size, final before the first launch that names it is enqueued.
    """

    __slots__ = ("_next", "device", "nbytes", "version")
    ALIGNMENT = 256

    def __init__(self, device: Device) -> None:
        self.device = device
        self.nbytes = 0
        self.version = 0
        self._next = 0

    @staticmethod
    def beside(*storages: Storage | Scratch) -> Scratch:
        """The scratch memory that one of an op's operands lies in, else a new one.

        A part of an op whose operands may be scratch takes its own from here: two scratch memories
        would begin at the same place.
        """
        found = next((s for s in storages if isinstance(s, Scratch)), None)
        return Scratch(storages[0].device) if found is None else found

    def reserve(self, nbytes: int) -> int:
        """Set ``nbytes`` aside.

        Returns:
            The byte offset of the piece, aligned for any element type.
        """
        offset = self._next
        self._next = offset + -(-nbytes // self.ALIGNMENT) * self.ALIGNMENT
        self.nbytes = max(self.nbytes, self._next)
        return offset

    def mark(self) -> int:
        """What is set aside so far, for :meth:`rewind`."""
        return self._next

    def rewind(self, mark: int) -> None:
        """Let launches that come later use again what was set aside since ``mark``."""
        self._next = mark


class HostScalar:
    """A number on the host that kernels read at every enqueue, also when a plan is replayed.

    Learning rates and the like live in such cells, so that a scheduler causes no new trace.

    Attributes:
        value: the number.
    """

    __slots__ = ("value",)

    def __init__(self, value: float) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"HostScalar({self.value})"


def values_of(
    args: Sequence[Any],
    pointers: Sequence[tuple[int, int]],
    lend: Callable[[Scratch], Storage] | None = None,
) -> list[Any]:
    """What OpenCL gets for a launch's arguments: buffers, and numbers as they are now.

    A pointer is followed by an offset in elements; the region that a storage is begins further on.

    Args:
        args: of a launch.
        pointers: the places of those that are pointers, each with the bytes of an element.
        lend: where scratch memory comes from; None: there is none among the arguments, and storages
            may get their buffers later.

    Raises:
        DeviceError: if a storage has no memory, and will not get any.
    """
    values = list(args)
    for place, item in pointers:
        memory = args[place]
        if lend is not None and type(memory) is Scratch:
            memory = lend(memory)
        elif memory.begin:
            values[place + 1] += memory.begin // item
        values[place] = memory.buffer
        if memory.buffer is None and lend is not None:
            raise abstract_error()
    if HostScalar in map(type, args):
        return [v.value if type(v) is HostScalar else v for v in values]
    return values


def abstract_error() -> DeviceError:
    """The error for what has no memory: OpenCL would take it for a null pointer."""
    return DeviceError(
        "abstract tensor",
        "it has no elements",
        remedy="Compute with it inside clnet.abstract(), load a state into its module first, or "
        "return it from the compiled function that made it",
    )


class KernelSource(Protocol):
    """What the program cache needs of a kernel; compared by identity."""

    @property
    def name(self) -> str:
        """Name of the ``__kernel`` function."""
        ...

    @property
    def options(self) -> tuple[str, ...]:
        """Build options."""
        ...

    @property
    def origin(self) -> str:
        """Template and parameters, for messages."""
        ...

    @property
    def alone(self) -> bool:
        """Whether each of its groups has one work-item."""
        ...

    @property
    def foretold(self) -> bool:
        """Whether a launch's operations and bytes tell how long it takes."""
        ...

    def text(self) -> str:
        """The rendered OpenCL C."""
        ...


class Launch:
    """One kernel with its arguments: what eager enqueues at once and a plan keeps.

    Attributes:
        kernel: the rendered kernel.
        global_size, local_size: work-items in all and in a group.
        args: in the kernel's order: Storage or Scratch for a pointer, bytes for a vector, else a
            number or a cell.
        flops, bytes: arithmetic operations, and bytes moved to and from memory at least.
        check: what the kernel checks of its data, or None; see :mod:`.fault`.
        op, module_path, phase: who asked for it (filled in by whoever runs the op).
        line: the user's line that a trace recorded it for, or "".
    """

    __slots__ = (
        "args",
        "bytes",
        "check",
        "flops",
        "global_size",
        "kernel",
        "line",
        "local_size",
        "module_path",
        "op",
        "phase",
    )

    def __init__(
        self,
        kernel: KernelSource,
        global_size: tuple[int, ...],
        local_size: tuple[int, ...],
        args: tuple[Any, ...],
        *,
        flops: int,
        bytes: int,  # noqa: A002 - beside flops, nothing else is meant
    ) -> None:
        self.kernel = kernel
        self.global_size = global_size
        self.local_size = local_size
        self.args = args
        self.flops = flops
        self.bytes = bytes
        self.check: Check | None = None
        self.op = ""
        self.line = ""
        self.module_path = ""
        self.phase = "forward"

    def with_args(self, args: tuple[Any, ...], op: str = "") -> Launch:
        """The launch with other arguments; of who asked for it the op alone is said."""
        made = Launch(
            self.kernel,
            self.global_size,
            self.local_size,
            args,
            flops=self.flops,
            bytes=self.bytes,
        )
        made.check, made.op = self.check, op
        return made

    def reporting(self, check: Check | None) -> Launch:
        """The launch, which is told to report; where to are its kernel's last arguments.

        They are the queue's to give, and no part of :attr:`args`.

        Args:
            check: what the kernel checks of its data; None: nothing.
        """
        self.check = check
        return self
