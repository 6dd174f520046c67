"""The one door to the device: launches, copies and replays are enqueued here and nowhere else."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

import numpy as np
import pyopencl as cl

from ..values import mode
from .backing import Expecting
from .beside import host_memory
from .bound import BoundLaunches
from .fault import CELL, Faults
from .forked import INHERITANCE
from .in_place import InPlace
from .kept import KeptLaunches
from .launch import HostScalar, Launch, Storage, abstract_error, values_of
from .misfit import misfit
from .op_sequence import Memory, OpSequence
from .refusal import failing, told
from .staging import MOST_BYTES, Staging
from .transfer import Landing, Pinned
from .watch import Observer, Watch

if TYPE_CHECKING:
    from .program import CompiledKernel, Prepared, ProgramCache
    from .workspace import Workspace

# Bytes FF 7F: NaN as float16, bfloat16, float32 and float64, large as an integer.
_POISON = np.full(1, 0x7FFF, np.uint16)
_ASKED = 200  # times, before a thread that waits sleeps
_CALLS = {
    "upload": "clEnqueueWriteBuffer",
    "download": "clEnqueueReadBuffer",
    "copy": "clEnqueueCopyBuffer",
    "map": "clEnqueueMapBuffer",
}


class _Made(Protocol):
    """An array: something that lies in a storage."""

    @property
    def storage(self) -> Storage: ...


class Queue:
    """An in-order command queue of one device.

    Who enqueues holds the device's lock, so that what belongs together (setting a kernel's
    arguments and launching it, an op's launches with their scratch memory, a replay) stands
    together in the queue. Nobody holds it while waiting for a value.

    Args:
        context: the ``pyopencl.Context``.
        device: the ``pyopencl.Device``.
        programs: builds kernels.
        workspace: lends scratch memory.
        watch: who looks on; None: one of its own.
        lock: the device's; None: one of its own.

    Attributes:
        bound: all launches that are bound just now.
        landing, pinned: where bytes of other devices, and of other processes, come by.
        in_place: shows the host what buffers hold, without mapping them.
        expecting: touches pages for a buffer that will be created.
    """

    def __init__(
        self,
        context: Any,
        device: Any,
        programs: ProgramCache,
        workspace: Workspace,
        watch: Watch | None = None,
        lock: Any = None,
    ) -> None:
        self.lock: Any = RLock() if lock is None else lock
        self._context = context
        self._device = device
        self._programs = programs
        self.workspace = workspace
        self._watch = watch or Watch()
        self._queue = cl.CommandQueue(context, device)
        self._last: Any = None  # the event of the last command that wrote what the host may read
        allocate = partial(host_memory, context, device)
        self._staging = Staging(allocate)
        self.landing, self.pinned = Landing(allocate), Pinned(allocate)
        self.in_place = InPlace(device, self._watch)
        self.expecting = Expecting(context, device, self.lock)
        self.bound: WeakSet[BoundLaunches] = WeakSet()
        self.faults = Faults(self.create, self._zero)

    def launch(self, launch: Launch) -> None:
        """Enqueue one kernel.

        Args:
            launch: what to run.

        Raises:
            BuildError: if its kernel does not compile.
            OutOfDeviceMemory: if its scratch memory does not fit.
            ClnetError: in debug mode, what a kernel that checks its data found.
        """
        self.run((launch,))

    @told
    def run(self, launches: Sequence[Launch], made: Sequence[_Made] = ()) -> None:
        """Enqueue the kernels of an op: nothing of another thread comes between them.

        Args:
            launches: what to run, in order.
            made: arrays that the op makes; they get their memory first.

        Raises:
            BuildError: if a kernel does not compile.
            OutOfDeviceMemory: if what is made, or scratch memory, does not fit.
            ClnetError: in debug mode, what a kernel that checks its data found.
        """
        kernels, lend = self._programs.kernels, self.workspace.serve
        for launch in launches:
            if launch.kernel not in kernels:  # built while others go on
                self._programs.get(launch.kernel)
        with self.lock:
            for array in made:
                array.storage.materialize()
            watched, queue = self._watch.observers, self._queue
            for launch in launches:
                kernel = kernels[launch.kernel]
                args = launch.args if launch.check is None else self.faults.args_of(launch)
                if watched or not kernel.launched:
                    self._launch_watched(launch, args, kernel)
                else:
                    values = values_of(args, kernel.signature.pointers, lend)
                    try:
                        kernel.set_args(*values)
                        self._last = cl.enqueue_nd_range_kernel(
                            queue, kernel.handle, launch.global_size, launch.local_size
                        )
                    except RuntimeError as error:  # not the driver's, but the binding's
                        raise misfit(launch, kernel.signature.types, values) or error from error
                if launch.check is not None:
                    self.faults.expected = True
                    if mode.current().debug:  # under the lock: nobody else is told
                        self.finish()

    @told
    def run_again(
        self,
        kept: KeptLaunches,
        op: Any,
        storages: Sequence[Storage],
        numbers: Sequence[float | HostScalar],
        num_made: int,
    ) -> None:
        """Enqueue the launches of an op that came before, as :meth:`run` does.

        Args:
            kept: the launches.
            op: who asks for them, with a ``name``.
            storages: of what the op makes, and of its inputs.
            numbers: those that are given each time.
            num_made: how many storages the op makes; these get their memory first.
        """
        with self.lock:
            for storage in storages[:num_made]:
                storage.materialize()
            looked_at = self._watch.observers or (kept.checks and mode.current().debug)
            if kept.enqueues is not None and not looked_at:
                self._enqueue(kept, op, storages, numbers)
                return
        now = mode.current()
        launches = kept.launches(storages[0].device, storages, numbers)
        for launch in launches:
            launch.op, launch.module_path, launch.phase = op.name, now.module_path, now.phase
        self.run(launches)
        if kept.enqueues is None:
            kept.compiled(self._programs.kernels)

    def _enqueue(
        self, kept: KeptLaunches, op: Any, storages: Sequence[Storage], numbers: Sequence[Any]
    ) -> None:
        """Enqueue kernels that have run before, under the lock."""
        queue, lend = self._queue, self.workspace.serve
        found = kept.together(storages, numbers, lend)
        lent = kept.lent(storages[0].device) if found is None else ()
        for each in kept.enqueues or ():
            if found is not None:
                values = each.pick((*found, *each.args))
            else:
                values = each.values(storages, lent, numbers, lend)
            if kept.checks and each.launch.check is not None:
                number = self.faults.number_of(each.launch.check, mode.current().module_path)
                values = (*values, self.faults.cell.buffer, 0, number)
                self.faults.expected = True
            try:
                each.set_args(*values)
                self._last = cl.enqueue_nd_range_kernel(
                    queue, each.handle, each.global_size, each.local_size
                )
            except RuntimeError as error:  # not the driver's, but the binding's
                named = each.launch.with_args(each.launch.args, op.name)
                raise misfit(named, each.kernel.signature.types, values) or error from error

    def prepare(self, launches: Sequence[Launch]) -> Prepared:
        """Have the kernels of launches to come at hand; see :meth:`.program.ProgramCache.prepare`.

        Raises:
            BuildError: if one does not compile.
        """
        return self._programs.prepare(launch.kernel for launch in launches)

    def bind(self, launches: Sequence[Launch], stand_for: Sequence[Launch] = ()) -> BoundLaunches:
        """Set the arguments of launches once, for :meth:`replay`.

        Args:
            launches: in order; their pointers are storages, scratch memory included, some of which
                may get their buffers later.
            stand_for: what they are a chain of.
        """
        kernels = [self._programs.get(launch.kernel) for launch in launches]
        with self.lock:
            bound = BoundLaunches(launches, kernels, self.faults, stand_for)
            self.bound.add(bound)
        return bound

    @told
    def replay(self, bound: BoundLaunches) -> None:
        """Enqueue bound launches; while someone observes, they go the observable way.

        A plan binds and replays, and copies out what was computed, under the device's lock.

        Raises:
            ClnetError: in debug mode, what a kernel that checks its data found.
        """
        if self._watch.observers or (bound.checks and mode.current().debug):
            for launch in bound.launches:
                self.launch(launch)
            return
        bound.refresh()
        # Calling clEnqueueNDRangeKernel through ctypes with everything prepared costs the same.
        enqueue, queue = cl.enqueue_nd_range_kernel, self._queue
        for kernel, global_size, local_size in bound.enqueues:
            self._last = enqueue(queue, kernel, global_size, local_size)
        if bound.checks:
            self.faults.expected = True

    @told
    def run_sequence(
        self, ops: OpSequence, memory: Memory, behind: Callable[[int], None] | None
    ) -> None:
        """Enqueue bound ops, under the lock, while nobody observes; see :class:`.OpSequence`.

        Raises:
            OutOfDeviceMemory: if something that they make does not fit.
        """
        enqueue = partial(cl.enqueue_nd_range_kernel, self._queue)
        last = ops.run(memory, behind, self.workspace.serve, enqueue)
        self._last = self._last if last is None else last

    @property
    def observed(self) -> bool:
        """Whether somebody looks on."""
        return bool(self._watch.observers)

    @told
    def upload(self, storage: Storage, array: np.ndarray, offset_bytes: int = 0) -> None:
        """Copy a dense host array into a storage; the host array may be reused on return.

        Nobody waits for what was enqueued before, so that a batch can be brought while the device
        is busy with the last one: the array is copied, unless it is large.
        """
        start = time.perf_counter()
        place = storage.begin + offset_bytes
        waits = array.nbytes > MOST_BYTES
        with self.lock:
            staged = array if waits else self._staging.place(array)
            event = self._last = cl.enqueue_copy(
                self._queue, storage.buffer, staged, dst_offset=place, is_blocking=False
            )
            if not waits:
                self._staging.sent(event)
            self._tell("upload", (), (storage,), array.nbytes, event, start)
        if waits:
            event.wait()

    @told
    def send(self, storage: Storage, array: np.ndarray, offset_bytes: int) -> Any:
        """Copy host memory into a storage when the queue comes to it; gives the event."""
        start = time.perf_counter()
        place = storage.begin + offset_bytes
        with self.lock:
            event = self._last = cl.enqueue_copy(
                self._queue, storage.buffer, array, dst_offset=place, is_blocking=False
            )
            self._tell("upload", (), (storage,), array.nbytes, event, start)
            self._queue.flush()
        return event

    @told
    def download(self, array: np.ndarray, storage: Storage, offset_bytes: int = 0) -> None:
        """Copy from a storage into a dense host array; waits until it is there.

        Raises:
            ClnetError: if a kernel has found its data to be bad since the last synchronisation.
        """
        if storage.buffer is None:
            raise abstract_error()
        if self.in_place.show(self, storage, array, offset_bytes):
            return
        found = self._faults_now()
        start = time.perf_counter()
        with self.lock:
            queue = self._queue
        # Without the lock: others enqueue meanwhile. If the queue has just been replaced, all that
        # this thread had enqueued before is done.
        event = cl.enqueue_copy(
            queue, array, storage.buffer, src_offset=storage.begin + offset_bytes, is_blocking=True
        )
        self._tell("download", (storage,), (), array.nbytes, event, start, queue)
        self._raise(found)

    def reach(self) -> None:
        """Wait until what the host may read of is written, and look what kernels found.

        What is short is asked for again and again, for some 30 us: on PoCL a small kernel is done
        in 14, to sleep meanwhile takes 54, and ``clFinish``, or a command that reads, longer.

        Raises:
            DeviceError: if a kernel failed on the device.
            ClnetError: if one has found its data to be bad since the last synchronisation.
        """
        found = self._faults_now()
        with self.lock:
            last = self._last
        if last is not None:
            with failing():
                for _ in range(_ASKED):
                    if last.command_execution_status <= 0:  # done, or failed
                        break
                last.wait()
        self._raise(found)

    @told
    def copy(
        self,
        target: Storage,
        source: Storage,
        nbytes: int,
        *,
        target_bytes: int = 0,
        source_bytes: int = 0,
    ) -> None:
        """Copy ``nbytes`` from one storage of this device to another, at byte offsets."""
        start = time.perf_counter()
        with self.lock:
            event = self._last = cl.enqueue_copy(
                self._queue,
                target.buffer,
                source.buffer,
                byte_count=nbytes,
                src_offset=source.begin + source_bytes,
                dst_offset=target.begin + target_bytes,
            )
            self._tell("copy", (source,), (target,), 2 * nbytes, event, start)

    def create(self, nbytes: int) -> Any:
        """A new buffer, backed with memory now and not at its first use.

        Raises:
            cl.Error: if the device has no room for it.
        """
        start = time.perf_counter()
        if (buffer := self.expecting.take(nbytes)) is not None:
            return buffer
        buffer = cl.Buffer(self._context, cl.mem_flags.READ_WRITE, nbytes)
        self._watch.call("clCreateBuffer", start)
        cl.enqueue_fill_buffer(self._queue, buffer, np.zeros(1, np.uint8), 0, 1)
        return buffer

    def poison(self, buffer: Any, nbytes: int) -> None:
        """Fill a buffer's first bytes with what nobody may read: see ``CLNET_POISON``.

        Args:
            buffer: the ``pyopencl.Buffer``.
            nbytes: how many; even, as all blocks and regions are.
        """
        with self.lock:
            self._last = cl.enqueue_fill_buffer(self._queue, buffer, _POISON, 0, nbytes)

    def _zero(self, buffer: Any, nbytes: int) -> None:
        # Waits: once for a queue, and after an error. Oclgrind takes what is filled for unwritten.
        cl.enqueue_copy(self._queue, buffer, np.zeros(nbytes, np.uint8), is_blocking=True)

    @contextmanager
    def map(
        self, storage: Storage, nbytes: int, offset_bytes: int = 0, *, write: bool = False
    ) -> Iterator[np.ndarray]:
        """The storage's bytes in the host's address space, until the body ends.

        Args:
            storage: what holds them.
            nbytes: how many.
            offset_bytes: where they begin.
            write: whether the body may write them.

        Raises:
            ClnetError: if a kernel has found its data to be bad since the last synchronisation.
        """
        found = self._faults_now()
        start = time.perf_counter()
        with self.lock:
            queue = self._queue
        array, event = cl.enqueue_map_buffer(
            queue,
            storage.buffer,
            cl.map_flags.READ | cl.map_flags.WRITE if write else cl.map_flags.READ,  # pyrefly: ignore[bad-argument-type] - its flags join to a number
            storage.begin + offset_bytes,
            (nbytes,),
            np.dtype(np.uint8),
            is_blocking=True,
        )
        self._tell("map", (storage,), (), nbytes, event, start, queue)
        if not write:
            array.flags.writeable = False
        try:
            self._raise(found)
            yield array
        finally:
            array.base.release(queue)

    def begin_map(
        self, storage: Storage, nbytes: int, offset_bytes: int = 0, *, write: bool = False
    ) -> tuple[np.ndarray, Any]:
        """As :meth:`map`, not waited for: the bytes, which are there when the event is done."""
        start = time.perf_counter()
        flags = cl.map_flags.READ | cl.map_flags.WRITE if write else cl.map_flags.READ
        with self.lock:
            array, event = cl.enqueue_map_buffer(
                self._queue,
                storage.buffer,
                flags,  # pyrefly: ignore[bad-argument-type] - its flags join to a number
                storage.begin + offset_bytes,
                (nbytes,),
                np.dtype(np.uint8),
                is_blocking=False,
            )
            self._tell("map", (storage,), (), nbytes, event, start)
            self._queue.flush()
        return array, event

    def end_map(self, array: np.ndarray) -> None:
        """Give back what :meth:`begin_map` gave."""
        with self.lock:
            base: Any = array.base
            base.release(self._queue)

    @told
    def begin_download(self, array: np.ndarray, storage: Storage, offset_bytes: int) -> Any:
        """As :meth:`download`, not waited for; gives the event."""
        start = time.perf_counter()
        with self.lock:
            event = cl.enqueue_copy(
                self._queue,
                array,
                storage.buffer,
                src_offset=storage.begin + offset_bytes,
                is_blocking=False,
            )
            self._tell("download", (storage,), (), array.nbytes, event, start)
            self._queue.flush()
        return event

    @told
    def mark(self) -> Any:
        """The event of all that was enqueued so far."""
        with self.lock:
            event = cl.enqueue_marker(self._queue)
            self._queue.flush()
        return event

    def finish(self) -> None:
        """Wait until all that was enqueued is done, and look what kernels found.

        Raises:
            DeviceError: if a kernel failed on the device.
            ClnetError: if one has found its data to be bad since the last synchronisation.
        """
        found = self._faults_now()
        self.wait()
        self._raise(found)

    def _faults_now(self) -> np.ndarray | None:
        """The cell of faults, to be there with whatever is waited for next; None: as it was."""
        if not self.faults.expected:
            return None
        found = np.zeros((), CELL)
        with self.lock:
            self.faults.expected = False
            # A few bytes that no tensor holds: observers are not told.
            cell = self.faults.cell.buffer
            self._last = cl.enqueue_copy(self._queue, found, cell, is_blocking=False)
        return found

    def _raise(self, found: np.ndarray | None) -> None:
        """Raise what a kernel found, once; the device is as usable as before."""
        error = None if found is None else self.faults.error(found)
        if error is not None:
            with self.lock:
                self.faults.clear()
            raise error

    def wait(self) -> None:
        """Wait until all that was enqueued is done; what kernels found is told later.

        Raises:
            DeviceError: if a kernel failed on the device.
        """
        start = time.perf_counter()
        with self.lock:
            queue = self._queue
        with failing():
            queue.finish()
        with self.lock:
            self._staging.forget()
        self._watch.call("clFinish", start)

    @contextmanager
    def observe(self, observer: Observer) -> Iterator[None]:
        """Let ``observer`` see every command while the body runs."""
        try:
            with self.lock:
                self._set_observers((*self._watch.observers, observer))
            yield
        finally:
            if not INHERITANCE.lost:  # a forked child leaves what its parent had entered
                with self.lock:  # others may have come and gone meanwhile
                    self._set_observers([o for o in self._watch.observers if o is not observer])

    def _set_observers(self, observers: Sequence[Observer]) -> None:
        both = (observers, self._watch.observers)
        wanted, before = (any(o.profiling for o in each) for each in both)
        if not wanted:  # first: who is interrupted meanwhile leaves nobody who looks on
            self._watch.set(observers)
        if wanted != before:
            self.wait()
            properties = [cl.command_queue_properties.PROFILING_ENABLE] if wanted else []
            self._queue = cl.CommandQueue(self._context, self._device, *properties)
        self._watch.set(observers)

    def _launch_watched(
        self, launch: Launch, args: tuple[Any, ...], kernel: CompiledKernel
    ) -> None:
        """Enqueue a kernel while someone looks on, or for the first time: some compile then."""
        start = enqueue = time.perf_counter()
        values = values_of(args, kernel.signature.pointers, self.workspace.serve)
        try:
            kernel.set_args(*values)
            self._watch.call("clSetKernelArg", start)
            enqueue = time.perf_counter()
            event = self._last = cl.enqueue_nd_range_kernel(
                self._queue, kernel.handle, launch.global_size, launch.local_size
            )
        except RuntimeError as error:
            raise misfit(launch, kernel.signature.types, values) or error from error
        self._watch.call("clEnqueueNDRangeKernel", enqueue)
        if not kernel.launched:
            kernel.launched = True
            self._programs.statistics.first_launch_seconds += time.perf_counter() - enqueue
        self._watch.launched(launch, kernel.signature.writes, event, start)

    def _tell(
        self,
        kind: str,
        reads: tuple[Storage, ...],
        writes: tuple[Storage, ...],
        nbytes: int,
        event: Any,
        start: float,
        queue: Any = None,
    ) -> None:
        if not self._watch.observers:
            return
        with self.lock:
            if queue is None or queue is self._queue:  # else it began before they looked on
                self._watch.call(_CALLS[kind], start)
                self._watch.copied(kind, reads, writes, nbytes, event, start)
