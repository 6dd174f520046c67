"""The buffer pool: device memory is taken once and reused by size class. It knows no arrays."""

from __future__ import annotations

import gc
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from threading import RLock
from typing import Any
from weakref import WeakSet

import pyopencl as cl

from ..errors import OutOfDeviceMemory
from ..values.record import NamedTuple
from .watch import Watch

_SMALLEST = 256
_STEPS_PER_DOUBLING = 8
_LARGEST_STEP = 2 * 2**20
_TOLD_HOLDERS = 3


@lru_cache(maxsize=4096)
def size_class(nbytes: int) -> int:
    """The capacity of the block that serves a request: at most 12.5% more, eight to a doubling.

    Knet's pool steps by the cube root of two (26% waste at most); finer steps lose little reuse in
    training, where the same sizes return at every step. From 16 MiB on a block has at most 2 MiB
    too much, as PyTorch's (16 MiB were 1.02 of the peaks of networks that are asked).
    """
    if nbytes <= _SMALLEST:
        return _SMALLEST
    step = 1 << max((nbytes - 1).bit_length() - 1 - _STEPS_PER_DOUBLING.bit_length() + 1, 0)
    step = min(max(step, _SMALLEST), _LARGEST_STEP)
    return -(-nbytes // step) * step


@dataclass(frozen=True)
class PoolStatistics:
    """Figures of a pool, in bytes unless named otherwise.

    Attributes:
        allocated: in blocks that are in use.
        reserved: taken from the device, in use or free.
        peak_allocated, peak_reserved: their highest values since the last reset.
        num_allocations: blocks handed out.
        allocated_in_all: bytes handed out, blocks that came back included.
        num_device_allocations: blocks that had to be taken from the device.
    """

    allocated: int
    reserved: int
    peak_allocated: int
    peak_reserved: int
    num_allocations: int
    allocated_in_all: int
    num_device_allocations: int


class BlockSizes(NamedTuple):
    """The blocks of one size class.

    Attributes:
        capacity: bytes of each.
        in_use, free: how many.
        requested_bytes: asked for by those that use them.
    """

    capacity: int
    in_use: int
    free: int
    requested_bytes: int


class BufferPool:
    """Blocks of device memory by size class.

    A block that is given back serves the next request of its class at once: the queue is in order,
    so what is enqueued later runs after what still uses the block. Blocks come back from any thread
    at any moment (Python's collector calls finalizers wherever it runs, also under this lock): they
    are only put down then, without a lock, and taken in by whoever holds it next.

    Args:
        create: makes a buffer of so many bytes, backed with memory; raises pyopencl's errors.
        finish: waits for the queue.
        max_block: the largest single buffer by what the device says.
        keeps: whether a larger buffer, of so many bytes, holds what is written to it; None: none
            is tried.
        limit: bytes the pool may take from the device, or None for no limit of ours.
        whole: bytes the device has in all, if that is known.
        watch: who looks on; None: one of its own.
        poison: fills so many bytes of a buffer, in its turn, so that nobody reads what was not
            written; None: blocks are left as they are.
        lock: the device's; None: one of its own.

    Attributes:
        returned: blocks that came back, each with what was asked for when it was taken.
        give_back: returns such a pair.
        holders: those that hold memory for what they can make again. Where there is no room left
            they are asked to ``make_room()``, under the lock, and say whether they let some go.
    """

    def __init__(
        self,
        *,
        create: Callable[[int], Any],
        finish: Callable[[], None],
        max_block: int,
        keeps: Callable[[Any, int], bool] | None = None,
        limit: int | None,
        whole: int | None = None,
        watch: Watch | None = None,
        poison: Callable[[Any, int], None] | None = None,
        lock: Any = None,
    ) -> None:
        self._create = create
        self._poison = poison
        self._finish = finish
        self._max_block = max_block  # grows with what was tried
        self._keeps = keeps
        self._watch = watch or Watch()
        self._free: dict[int, list[Any]] = defaultdict(list)
        self.lock: Any = RLock() if lock is None else lock
        self.returned: deque[tuple[Any, int]] = deque()
        self.give_back = self.returned.append
        self.holders: WeakSet[Any] = WeakSet()
        self._taken: Counter[int] = Counter()  # blocks handed out so far, by bytes asked for
        self._back: Counter[int] = Counter()  # those of them that came back
        self._plain = poison is None  # whether a block needs nothing before it is handed on
        self.limit = limit
        self._whole = whole
        self._allocated = self._reserved = 0
        self._peak_allocated = self._peak_reserved = 0
        self._num_device_allocations = 0
        self.lines: dict[int, str] | None = None
        self._line: Callable[[], str] | None = None

    def take(self, nbytes: int) -> Any:
        """A buffer of at least ``nbytes`` bytes.

        Args:
            nbytes: what the storage that will hold it needs.

        Returns:
            The ``pyopencl.Buffer``.

        Raises:
            OutOfDeviceMemory: if the device or the limit leaves no room, after cached blocks were
                freed and the queue was waited for.
        """
        capacity = size_class(nbytes)
        with self.lock:
            if self.returned:
                last, before = self.returned.pop()
                if size_class(before) == capacity and self._plain:  # as in a chain of ops
                    self._back[before] += 1
                    self._taken[nbytes] += 1
                    return last
                self.returned.append((last, before))
                self._take_in()
            free = self._free.get(capacity)
            buffer = free.pop() if free else self._allocate(capacity, nbytes)
            self._taken[nbytes] += 1
            self._allocated = allocated = self._allocated + capacity
            if allocated > self._peak_allocated:
                self._peak_allocated = allocated
            if self.lines is not None and self._line is not None:
                self.lines[buffer.int_ptr] = self._line()
            return buffer

    def record_lines(self, line: Callable[[], str] | None) -> None:
        """Keep in ``lines``, by a block's address, what ``line()`` says when it is handed out.

        Args:
            line: None: nothing is kept any longer.
        """
        with self.lock:
            self._line, self.lines = line, None if line is None else {}
            self._plain = line is None and self._poison is None

    def poison_with(self, poison: Callable[[Any, int], None] | None) -> None:
        """Have blocks filled by ``poison`` from now on; None: they are left as they are."""
        with self.lock:
            self._poison = poison
            self._plain = poison is None and self._line is None
            if poison is not None:  # those that are free, too
                self._take_in(leave=True)
                for capacity, buffers in self._free.items():
                    for buffer in buffers:
                        poison(buffer, capacity)

    def check(self, nbytes: int) -> None:
        """Refuse what there can be no room for, however much is freed.

        Args:
            nbytes: of a storage.

        Raises:
            OutOfDeviceMemory: if it is larger than any buffer, than the limit or the device.
        """
        tried = self._keeps is not None and self._whole is not None and nbytes <= self._whole
        if size_class(nbytes) > self._max_block and not tried:
            raise self._too_large(nbytes)
        if self.limit is not None and size_class(nbytes) > self.limit:
            place = "the device" if self._limit_is_all() else "the limit set on it"
            raise self._error(nbytes, f"{place} has no room left")

    def empty_cache(self) -> None:
        """Give the blocks that nobody uses back to the device."""
        with self.lock:
            self._finish()
            self._take_in(leave=True)
            start = time.perf_counter()
            for capacity, buffers in self._free.items():
                for buffer in buffers:
                    buffer.release()
                self._reserved -= capacity * len(buffers)
            self._free.clear()
            self._watch.call("clReleaseMemObject", start)

    def statistics(self) -> PoolStatistics:
        """The figures just now."""
        with self.lock:
            self._take_in()
            return PoolStatistics(
                self._allocated,
                self._reserved,
                self._peak_allocated,
                self._peak_reserved,
                self._taken.total(),
                sum(size_class(nbytes) * count for nbytes, count in self._taken.items()),
                self._num_device_allocations,
            )

    def block_sizes(self) -> list[BlockSizes]:
        """The blocks of every size class there is, the largest first."""
        with self.lock:
            self._take_in()
            used, asked = Counter[int](), Counter[int]()
            for nbytes, count in (self._taken - self._back).items():
                used[size_class(nbytes)] += count
                asked[size_class(nbytes)] += count * nbytes
            free = {capacity: len(buffers) for capacity, buffers in self._free.items()}
            return [
                BlockSizes(each, used[each], free.get(each, 0), asked[each])
                for each in sorted({*used, *free}, reverse=True)
                if used[each] or free.get(each)
            ]

    def reset_peak(self) -> None:
        """Let the peaks start again from what is held now."""
        with self.lock:
            self._take_in()
            self._peak_allocated, self._peak_reserved = self._allocated, self._reserved

    def _take_in(self, *, leave: bool = False) -> None:
        """Enter the blocks that came back since, poisoned; the lock is held.

        Args:
            leave: leave them as they are, since they go to the device: a fill would keep them.
        """
        returned, free, back = self.returned, self._free, self._back
        while returned:
            buffer, nbytes = returned.popleft()
            capacity = size_class(nbytes)
            free[capacity].append(buffer)
            back[nbytes] += 1
            self._allocated -= capacity
            if self._poison is not None and not leave:
                self._poison(buffer, capacity)

    def _allocate(self, capacity: int, wanted: int) -> Any:
        """A new block, after whatever may make room for it, the cheapest first.

        Raises:
            OutOfDeviceMemory: if there is none.
        """
        if capacity > self._max_block and self._keeps is None:
            raise self._too_large(wanted)
        buffer = self._try(capacity, wanted)
        if buffer is None:
            self.empty_cache()
            buffer = self._try(capacity, wanted)
        if buffer is None and gc.collect():  # tensors may wait in garbage that holds itself
            self.empty_cache()
            buffer = self._try(capacity, wanted)
        for holder in [*self.holders] if buffer is None else ():
            if buffer is None and holder.make_room():
                self.empty_cache()
                buffer = self._try(capacity, wanted)
        if buffer is None:
            ours = self._beyond_limit(capacity) and not self._limit_is_all()
            place = "the limit set on it" if ours else "the device"
            raise self._error(wanted, f"{place} has no room left")
        if capacity > self._max_block:
            self._believe(buffer, capacity, wanted)
        if self._poison is not None:
            self._poison(buffer, capacity)
        self._reserved += capacity
        self._num_device_allocations += 1
        self._peak_reserved = max(self._peak_reserved, self._reserved)
        return buffer

    def _believe(self, buffer: Any, capacity: int, wanted: int) -> None:
        """Take a buffer larger than the device says there are, if it holds what is written."""
        self._finish()
        try:
            kept = self._keeps is not None and self._keeps(buffer, capacity)
        except cl.Error:  # its memory is taken when it is used
            kept = False
        if not kept:
            buffer.release()
            raise self._too_large(wanted)
        self._max_block = capacity

    def _try(self, capacity: int, wanted: int) -> Any:
        if self._beyond_limit(capacity):
            return None
        try:
            return self._create(capacity)
        except cl.MemoryError:
            return None
        except cl.LogicError as error:
            if error.code != cl.status_code.INVALID_BUFFER_SIZE or capacity <= self._max_block:
                raise
            raise self._too_large(wanted) from error
        except cl.RuntimeError as error:
            if error.code != cl.status_code.OUT_OF_RESOURCES:
                raise
            return None

    def _beyond_limit(self, capacity: int) -> bool:
        return self.limit is not None and self._reserved + capacity > self.limit

    def _limit_is_all(self) -> bool:
        return self.limit is not None and self._whole is not None and self.limit >= self._whole

    def _too_large(self, wanted: int) -> OutOfDeviceMemory:
        return self._error(wanted, f"one buffer may have {self._max_block:,} bytes")

    def _error(self, wanted: int, law: str) -> OutOfDeviceMemory:
        with self.lock:  # figures that belong together
            held = islice(
                sorted((self._taken - self._back).elements(), reverse=True), _TOLD_HOLDERS
            )
            return OutOfDeviceMemory(
                "out of device memory",
                law,
                need=f"{wanted:,} bytes",
                in_use=f"{self._allocated:,}",
                reserved=f"{self._reserved:,}",
                limit="none" if self.limit is None else f"{self.limit:,}",
                largest_holders="[" + ", ".join(f"{n:,}" for n in held) + "]",
                remedy="Use a smaller batch, free tensors you keep, or raise the limit with "
                "clnet.set_memory_limit or CLNET_MEMORY_LIMIT",
            )
