"""Shape and strides over a storage, views of it, and NumPy in and out; no mathematics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any
from weakref import WeakSet

import numpy as np

from .device import Device, Scratch, Storage, transfer
from .errors import DtypeError
from .values.dtypes import DType, from_numpy
from .values.polling import polled
from .values.shapes import (
    Shape,
    Strides,
    contiguous_strides,
    is_contiguous,
    last_place,
    memory_order,
)

Form = tuple[Device, int, Shape, Strides, int, DType]
"""A device, bytes of a storage there, and how an array lies in it; of :class:`Array`."""

# A view with this many places for each element, and so many in all, is read element by element: to
# copy what lies between would touch memory that may be nobody's yet.
_SPARSE, _LEAST_SPAN = 4, 2**16


class Array:
    """Elements of one dtype in device memory, addressed by shape and strides.

    An array is *abstract* while its storage has no buffer: it has a shape and a dtype, and can be
    inferred with and planned with, but not read.

    Attributes:
        storage: the memory; several arrays may look at one storage.
        shape: sizes of the axes.
        strides: steps between elements along the axes, in elements; 0 repeats, never negative.
        offset: elements before the first.
        dtype: the element type.
        form: all that ops see of it but its elements.
    """

    __slots__ = ("__weakref__", "dtype", "form", "offset", "shape", "storage", "strides")
    whole: Any = None
    """Of an element of a batch the tensor of the batch; see ``autodiff/batched.py``."""

    def __init__(
        self, storage: Storage, shape: Shape, strides: Strides, offset: int, dtype: DType
    ) -> None:
        self.storage = storage
        self.shape = shape
        self.strides = strides
        self.offset = offset
        self.dtype = dtype
        self.form: Form = (storage.device, storage.nbytes, shape, strides, offset, dtype)

    def __repr__(self) -> str:
        state = "abstract" if self.storage.buffer is None else "on"
        return f"Array({self.shape}, {self.dtype.name}, {state} {self.device.name})"

    @staticmethod
    def abstract(shape: Shape, dtype: DType, device: Device) -> Array:
        """A dense array without memory yet.

        Raises:
            DtypeError: if the device has no such type.
        """
        if dtype.compute == "float64" and not device.traits.float64:
            raise DtypeError(f"device {device.name!r}", "it has no double precision", dtype=dtype)
        storage = Storage(device, prod(shape) * dtype.itemsize)
        return Array(storage, shape, contiguous_strides(shape), 0, dtype)

    @staticmethod
    def like(form: Form) -> Array:
        """An array of a form, without memory yet, in a storage of its own."""
        array = object.__new__(Array)
        device, nbytes, array.shape, array.strides, array.offset, array.dtype = array.form = form
        array.storage = Storage(device, nbytes)
        return array

    @staticmethod
    def scratch(memory: Scratch, shape: Shape, dtype: DType) -> Array:
        """A dense array in an op's scratch memory, for launches of that op alone."""
        offset = memory.reserve(prod(shape) * dtype.itemsize) // dtype.itemsize
        return Array(memory, shape, contiguous_strides(shape), offset, dtype)  # pyrefly: ignore[bad-argument-type] - scratch stands for storage

    @staticmethod
    def from_numpy(values: np.ndarray, device: Device) -> Array:
        """A copy of a host array.

        Raises:
            DtypeError: if clnet or the device has no such type.
            OutOfDeviceMemory: if the device has no room left.
        """
        array = Array.abstract(values.shape, from_numpy(values.dtype), device)
        array.storage.materialize()
        if values.size:
            device.queue.upload(
                array.storage, np.ascontiguousarray(values, dtype=array.dtype.numpy)
            )
        return array

    @property
    def device(self) -> Device:
        """Where it lives."""
        return self.storage.device

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes its elements take when dense."""
        return prod(self.shape) * self.dtype.itemsize

    @property
    def contiguous(self) -> bool:
        """Whether its elements lie densely in row-major order."""
        return is_contiguous(self.shape, self.strides)

    def view(self, shape: Shape, strides: Strides, offset: int | None = None) -> Array:
        """Another look at the same storage; ``offset`` in elements, this array's when None."""
        start = self.offset if offset is None else offset
        return Array(self.storage, shape, strides, start, self.dtype)

    def part(self, which: int) -> Array:
        """The real (0) or imaginary (1) parts of a complex array, as a view of their dtype."""
        strides = tuple(2 * s for s in self.strides)
        return Array(self.storage, self.shape, strides, 2 * self.offset + which, self.dtype.real)

    def off_tape(self) -> Array:
        """The same elements, for a tensor off the tape."""
        return self

    def require_alone(self) -> None:
        """Refuse what an element of a batch cannot do for all."""

    def register(self) -> None:
        """Let the storage know that somebody looks at it through this array."""
        if self.storage.aliases is None:
            self.storage.aliases = WeakSet()
        self.storage.aliases.add(self)

    def uncounted(self) -> Array:
        """The same elements, written so that no tape takes note; see :class:`Uncounted`."""
        return Uncounted(self.storage, self.shape, self.strides, self.offset, self.dtype)

    @property
    def parts(self) -> tuple[Array, ...]:
        """Both parts of a complex array; another array itself."""
        return (self.part(0), self.part(1)) if self.dtype.is_complex else (self,)

    @property
    def order(self) -> tuple[int, ...]:
        """The axes from the outermost in memory to the innermost, as PyTorch's copies keep them.

        Axes of one step are those of repeated elements, or of one size 1; they keep their places.
        """
        return memory_order(self.shape, (self.strides,))

    @property
    def dense_order(self) -> tuple[int, ...] | None:
        """The order of its axes in which its elements lie densely; None: there is none."""
        if self.contiguous:
            return tuple(range(self.ndim))
        order = self.order
        sizes, steps = zip(*((self.shape[axis], self.strides[axis]) for axis in order), strict=True)
        return order if is_contiguous(sizes, steps) else None

    @property
    def repeated(self) -> bool:
        """Whether several of its elements are one in memory."""
        return 0 in (s for n, s in zip(self.shape, self.strides, strict=True) if n > 1)

    def disturbs(self, other: Array) -> bool:
        """Whether writing this array element by element may change what ``other`` holds elsewhere.

        So that an op in place that reads ``other`` element by element reads a copy; what lies in
        the same memory in the same order is read before it is written.
        """
        if self is other or self.storage is not other.storage:
            return False
        if 0 in self.shape or 0 in other.shape:
            return False
        mine, its = self._span(), other._span()
        if mine[0] >= its[1] or its[0] >= mine[1]:
            return False
        own = (self.offset, self.shape, self.strides, self.dtype)
        return own != (other.offset, other.shape, other.strides, other.dtype)

    def _span(self) -> tuple[int, int]:
        """The first byte, and the one after the last."""
        size, last = self.dtype.itemsize, last_place(self.shape, self.strides)
        return self.offset * size, (self.offset + last + 1) * size

    def numpy(self) -> np.ndarray:
        """A copy on the host; waits for the device."""
        if self.size == 0:
            return np.empty(self.shape, self.dtype.numpy)
        span = 1 + last_place(self.shape, self.strides)
        sparse = span >= max(_SPARSE * self.size, _LEAST_SPAN)
        if sparse and self.device.traits.unified_memory and self.storage.buffer is not None:
            with self.map() as view:
                return view.copy()
        if self.contiguous:
            host = np.empty(self.shape, self.dtype.numpy)
            self.device.queue.download(host, self.storage, self.offset * self.dtype.itemsize)
            return host
        host = np.empty(span, self.dtype.numpy)
        self.device.queue.download(host, self.storage, self.offset * self.dtype.itemsize)
        return self._shaped(host)

    def write(self, values: np.ndarray) -> None:
        """Overwrite a dense array with a host array of its shape and dtype."""
        if self.size:
            host = np.ascontiguousarray(values, dtype=self.dtype.numpy)
            self.device.queue.upload(self.storage, host, self.offset * self.dtype.itemsize)
        with self.device.lock:
            self.storage.written()

    def moved(self, device: Device) -> Array:
        """A copy of a dense array on another device; waits for this one's alone.

        Raises:
            DtypeError: if that device has no such type.
            OutOfDeviceMemory: if it has no room left.
        """
        made = Array.abstract(self.shape, self.dtype, device)
        made.storage.materialize()
        if self.size:
            transfer(
                made.storage,
                self.storage,
                self.nbytes,
                source_bytes=self.offset * self.dtype.itemsize,
                pinned=not self.device.traits.unified_memory,
            )
        return made

    @contextmanager
    def map(self) -> Iterator[np.ndarray]:
        """The elements in the host's address space, without a copy where the device shares memory.

        Yields:
            A read-only array, valid inside the ``with`` block alone.
        """
        if self.size == 0:
            yield np.empty(self.shape, self.dtype.numpy)
            return
        span = 1 + last_place(self.shape, self.strides)
        item = self.dtype.itemsize
        with self.device.queue.map(self.storage, span * item, self.offset * item) as raw:
            yield self._shaped(raw.view(self.dtype.numpy), copy=False)

    def place(self) -> int | None:
        """Where the storage's first byte is in the host's memory, once all that writes it is done.

        None if it is not the host's, or does not stay in one place.
        """
        storage = self.storage
        if not storage.nbytes:
            return 0
        if storage.buffer is None or not self.device.traits.unified_memory:
            return None
        queue = self.device.queue
        raw = queue.in_place.look(storage, storage.nbytes, 0)
        if raw is None:
            with queue.map(storage, storage.nbytes, 0) as mapped:
                queue.in_place.learn(storage, mapped, 0)
            raw = queue.in_place.look(storage, storage.nbytes, 0)
        queue.finish()
        return None if raw is None else raw.ctypes.data

    @contextmanager
    def on_host(self, *, read: bool, write: bool) -> Iterator[np.ndarray]:
        """The elements of a dense array in a row, for what reads and writes host memory.

        They are looked at where they lie if the device's memory is the host's; else they go through
        pinned memory, both ways if need be.

        Args:
            read: whether they are asked for.
            write: whether the body overwrites them, all of them if they are not read.

        Yields:
            An array of one axis, valid inside the ``with`` block alone.
        """
        queue, begin = self.device.queue, self.offset * self.dtype.itemsize
        if self.size == 0:
            yield np.empty(0, self.dtype.numpy)
        elif (raw := queue.in_place.look(self.storage, self.nbytes, begin)) is not None:
            queue.reach()
            raw.flags.writeable = write
            yield raw.view(self.dtype.numpy)
        elif self.device.traits.unified_memory:
            with queue.map(self.storage, self.nbytes, begin, write=write) as raw:
                queue.in_place.learn(self.storage, raw, begin)
                yield raw.view(self.dtype.numpy)
        else:
            with queue.pinned.lend(self.nbytes) as raw:
                if read:
                    queue.download(raw, self.storage, begin)
                yield raw.view(self.dtype.numpy)
                if write:
                    queue.send(self.storage, raw, begin).wait()
        if write:
            with self.device.lock:
                self.storage.written()

    def visit(self, *, read: bool, write: bool, stands: bool = False) -> Visit:
        """As :meth:`on_host`, begun now and waited for later: the queue goes on behind it.

        Args:
            read: whether the elements are asked for.
            write: whether they are overwritten, all of them if they are not read.
            stands: whether nothing is enqueued until it is waited for; an idle queue is not asked.
        """
        return Visit(self, read=read, write=write, stands=stands)

    def _shaped(self, host: np.ndarray, *, copy: bool = True) -> np.ndarray:
        steps = tuple(s * self.dtype.itemsize for s in self.strides)
        view = np.lib.stride_tricks.as_strided(host, self.shape, steps, writeable=False)
        if not copy:
            return view
        return view.copy()


class Uncounted(Array):
    """An array of ``tensor.data``: what is written through it or a view of it, no tape notes.

    Its storage knows which of these there are: who gives a tensor other memory asks.
    """

    __slots__ = ()

    def __init__(
        self, storage: Storage, shape: Shape, strides: Strides, offset: int, dtype: DType
    ) -> None:
        super().__init__(storage, shape, strides, offset, dtype)
        self.register()

    def view(self, shape: Shape, strides: Strides, offset: int | None = None) -> Array:
        """Another look at the same storage, through which nothing is counted either."""
        return super().view(shape, strides, offset).uncounted()


class Visit:
    """Elements of a dense array on the host, from the place in the queue where it was begun.

    Args:
        array: dense.
        read: whether its elements are asked for.
        write: whether they are overwritten.
        stands: whether nothing is enqueued until it is waited for.

    Attributes:
        array: the same.
    """

    def __init__(self, array: Array, *, read: bool, write: bool, stands: bool = False) -> None:
        self.array, self._write = array, write
        self._event: Any = None
        self._stands = self._in_place = False
        self._mapped, self._taken = False, np.empty(0, np.uint8)
        queue, begin = array.device.queue, array.offset * array.dtype.itemsize
        if array.size == 0:
            self._raw = self._taken
        elif (raw := queue.in_place.look(array.storage, array.nbytes, begin)) is not None:
            self._raw, self._stands, self._in_place = raw, stands, True
            self._event = None if stands else queue.mark()
        elif array.device.traits.unified_memory:
            self._mapped = True
            self._raw, self._event = queue.begin_map(
                array.storage, array.nbytes, begin, write=write
            )
            queue.in_place.learn(array.storage, self._raw, begin)
        else:
            self._taken = queue.pinned.take(array.nbytes)
            self._raw = self._taken[: array.nbytes]
            if read:
                self._event = queue.begin_download(self._raw, array.storage, begin)

    def there(self) -> bool:
        """Whether they are there, of what does not stand; an error counts, :meth:`wait` tells."""
        return self._event is None or self._event.command_execution_status <= 0

    def wait(self) -> np.ndarray:
        """The elements in a row, once they are there; any thread may wait, and needs no lock."""
        if self._stands:
            self.array.device.queue.wait()
            self._stands = False
        if self._event is not None:
            polled(self.there)
            self._event.wait()
        return self._raw.view(self.array.dtype.numpy)

    def end(self, *, written: bool = True) -> None:
        """Give them back; what comes behind in the queue finds what was written.

        It waits for nothing: the queue may still have all to do that was asked for since.

        Args:
            written: False if nothing was, though it was to be.
        """
        array, queue, last = self.array, self.array.device.queue, self._event
        if self._mapped:
            queue.end_map(self._raw)
        elif array.size and not self._in_place:
            if self._write and written:
                begin = array.offset * array.dtype.itemsize
                last = queue.send(array.storage, self._raw, begin)
            queue.pinned.give_back(self._taken, behind=last)
        if self._write and written:
            with array.device.lock:
                array.storage.written()
