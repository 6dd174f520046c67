"""Further queues of a device: what one thread has done beside all that others enqueue.

Nobody needs the device's lock for it, so that a replay may hold that while it waits for what is
done here. Kernels have handles of their own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl

from ..values.polling import polled
from ..values.process import process_lock
from .handles import new_handle, tell_types
from .launch import Launch, Storage, values_of
from .refusal import told

if TYPE_CHECKING:
    from .program import ProgramCache

__all__ = ["Beside", "Pin", "bytes_of_buffer", "host_memory"]

_MOST_AHEAD = 2

Pin = Any
"""What keeps memory of the host pinned for as long as it is held."""


def host_memory(context: Any, device: Any, nbytes: int) -> np.ndarray:
    """Bytes of the host's that the driver allocated, mapped for as long as they are used.

    A GPU reads them by itself; from other memory the driver copies first, and waits meanwhile for
    what was enqueued before. So would mapping, were it not for a queue of its own.

    Args:
        context: the ``pyopencl.Context``.
        device: the ``pyopencl.Device``.
        nbytes: how many.
    """
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR
    array, _ = cl.enqueue_map_buffer(
        cl.CommandQueue(context, device),
        cl.Buffer(context, flags, nbytes),
        cl.map_flags.WRITE,
        0,
        (nbytes,),
        np.dtype(np.uint8),
        is_blocking=True,
    )
    return array


@contextmanager
def bytes_of_buffer(context: Any, device: Any, buffer: Any) -> Iterator[np.ndarray]:
    """A buffer's bytes, to be written; does not wait for what was enqueued before.

    Args:
        context: the ``pyopencl.Context``.
        device: the ``pyopencl.Device``.
        buffer: the ``pyopencl.Buffer``.
    """
    queue = cl.CommandQueue(context, device)
    flags, byte = cl.map_flags.WRITE_INVALIDATE_REGION, np.dtype(np.uint8)
    array, event = cl.enqueue_map_buffer(
        queue, buffer, flags, 0, (buffer.size,), byte, is_blocking=False
    )
    event.wait()  # so that other threads of Python go on
    try:
        yield array
    finally:
        array.base.release(queue)
        queue.finish()


class Beside:
    """Commands of a queue of their own, in order; they are told to no observer.

    Args:
        context: the ``pyopencl.Context``.
        device: the ``pyopencl.Device``.
        programs: builds kernels.
    """

    def __init__(self, context: Any, device: Any, programs: ProgramCache) -> None:
        self._context, self._device, self._programs = context, device, programs
        self._queue = cl.CommandQueue(context, device)
        self._lock = process_lock()
        self._handles: dict[Any, Any] = {}
        self._ahead: deque[Any] = deque()

    @told
    def another(self) -> Beside:
        """One more: what is asked of it goes on beside what is asked of this one."""
        return Beside(self._context, self._device, self._programs)

    @told
    def pin(self, memory: memoryview) -> Pin:
        """Let the device read and write memory of the host by itself, if its driver can do that.

        NVIDIA's pins what a buffer is made of, another process's mapping of the same included:
        copies from and to that address run at the bus's speed.
        """
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
        return cl.Buffer(self._context, flags, hostbuf=np.frombuffer(memory, np.uint8))

    @told
    def reserve(self, storage: Storage) -> None:
        """Give an abstract storage memory that is no pool's: a pool's is used in another order."""
        storage.buffer = cl.Buffer(self._context, cl.mem_flags.READ_WRITE, storage.nbytes)

    @told
    def follow(self, event: Any) -> None:
        """What is asked for from now on comes behind a command of another queue."""
        cl.enqueue_barrier(self._queue, wait_for=[event])

    @told
    def keep_near(self, event: Any) -> None:
        """Have whoever enqueues wait until what was marked two marks ago is done.

        A driver whose queue is full blocks who enqueues, and Python with it, on which what is done
        here depends.
        """
        self._ahead.append(event)
        if len(self._ahead) > _MOST_AHEAD:
            self._ahead.popleft().wait()

    @told
    def read(self, array: np.ndarray, storage: Storage, offset_bytes: int) -> Any:
        """Copy from a storage into a dense array of the host; gives the event."""
        place = storage.begin + offset_bytes
        return cl.enqueue_copy(
            self._queue, array, storage.buffer, src_offset=place, is_blocking=False
        )

    @told
    def write(self, storage: Storage, array: np.ndarray, offset_bytes: int) -> Any:
        """Copy a dense array of the host into a storage; gives the event."""
        place = storage.begin + offset_bytes
        return cl.enqueue_copy(
            self._queue, storage.buffer, array, dst_offset=place, is_blocking=False
        )

    @told
    def copy(
        self, storage: Storage, offset_bytes: int, source: Storage, begin: int, nbytes: int
    ) -> Any:
        """Copy bytes of a storage into another, or another place of it; gives the event.

        Args:
            storage: to which.
            offset_bytes: to where in it.
            source: from which.
            begin: from where in it.
            nbytes: how many.
        """
        return cl.enqueue_copy(
            self._queue,
            storage.buffer,
            source.buffer,
            byte_count=nbytes,
            src_offset=source.begin + begin,
            dst_offset=storage.begin + offset_bytes,
        )

    @told
    def run(self, launches: Sequence[Launch]) -> None:
        """Enqueue kernels without scratch memory, which check no data.

        Raises:
            BuildError: if one does not compile.
        """
        for launch in launches:
            kernel = self._programs.get(launch.kernel)
            values = values_of(launch.args, kernel.signature.pointers)
            with self._lock:
                handle = self._handles.get(launch.kernel)
                if handle is None:
                    handle = new_handle(kernel.program, kernel.name)
                    tell_types(handle, kernel.signature.types)
                    self._handles[launch.kernel] = handle
                handle.set_args(*values)
                cl.enqueue_nd_range_kernel(
                    self._queue, handle, launch.global_size, launch.local_size
                )

    @told
    def flush(self) -> None:
        """Have the device begin with what was asked for."""
        self._queue.flush()

    @told
    def wait(self, events: list[Any], *, soon: bool = False) -> None:
        """Wait for copies, and forget them.

        Args:
            events: of all that were asked for, in order: whoever drops one that is not done waits
                for it there, and keeps Python meanwhile.
            soon: whether they take so little that it is asked again and again.
        """
        self._queue.flush()
        if events:
            if soon:
                polled(lambda: events[-1].command_execution_status <= 0)  # done, or failed
            for event in reversed(events):
                event.wait()
            events.clear()
