"""Buffers that the host may look at where they lie, without mapping them.

OpenCL shows a buffer's bytes to the host by a command that maps it, and takes them back by another:
on PoCL each is a change of threads, 0.15 ms together where two ranks keep two cores busy, for bytes
that have been the host's all the time. So where a device declares that host and kernels see each
other's writes without commands (shared memory of fine grain), each buffer is mapped once, and
looked at in that place from then on, by whoever has waited for the queue. That a driver keeps
buffers in one place OpenCL does not promise; it is tried before it is believed.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl

from .launch import Storage
from .watch import Watch

if TYPE_CHECKING:
    from .queue import Queue

__all__ = ["InPlace"]

_TRIED_BYTES = 4096


class InPlace:
    """What a queue's buffers hold, for a host that has waited for the queue.

    Args:
        device: the ``pyopencl.Device``.
        watch: who looks on: mapping is told, looking is not, so that observers see it mapped.
    """

    def __init__(self, device: Any, watch: Watch) -> None:
        self._watch = watch
        self._believed = None if _is_shared(device) else False

    def look(self, storage: Storage, nbytes: int, offset_bytes: int) -> np.ndarray | None:
        """A storage's bytes where they lie; None: they have to be mapped.

        Args:
            storage: in a buffer; of it the array is valid as long as it has that.
            nbytes: how many.
            offset_bytes: where they begin.
        """
        shared = storage.device.traits.unified_memory
        if self._believed is False or self._watch.observers or not shared:
            return None
        if self._believed is None:
            self._believed = False  # while it is tried
            self._believed = _stays(storage.device)
        whole: np.ndarray | None = getattr(storage.buffer, "in_place", None)
        begin = storage.begin + offset_bytes
        return None if whole is None else whole[begin : begin + nbytes]

    def show(self, queue: Queue, storage: Storage, array: np.ndarray, offset_bytes: int) -> bool:
        """Copy what a storage holds into a dense host array, waiting for the queue; False: cannot.

        Args:
            queue: the storage's.
            storage: in a buffer, which is mapped if it never was.
            array: for so many bytes as it has.
            offset_bytes: where they begin.

        Raises:
            ClnetError: if a kernel has found its data to be bad since the last synchronisation.
        """
        lies, bytes_of = self.look(storage, array.nbytes, offset_bytes), array.reshape(-1)
        if lies is not None:
            queue.reach()
            bytes_of.view(np.uint8)[:] = lies
        elif self._believed and not self._watch.observers:
            with queue.map(storage, array.nbytes, offset_bytes) as mapped:
                self.learn(storage, mapped, offset_bytes)
                bytes_of.view(np.uint8)[:] = mapped
        else:
            return False
        return True

    def learn(self, storage: Storage, mapped: np.ndarray, offset_bytes: int) -> None:
        """Remember where a buffer lies.

        Args:
            storage: in that buffer.
            mapped: what mapping gave.
            offset_bytes: where that begins.
        """
        if self._believed:
            begin, buffer = storage.begin + offset_bytes, storage.buffer
            buffer.in_place = _bytes_at(mapped.ctypes.data - begin, buffer.size)


def _bytes_at(place: int, nbytes: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(place))


def _is_shared(device: Any) -> bool:
    """Whether host and kernels see each other's writes by what the device says."""
    try:
        wanted = cl.device_svm_capabilities.FINE_GRAIN_BUFFER
        return bool(device.host_unified_memory and device.svm_capabilities & wanted)
    except (AttributeError, cl.Error):  # before OpenCL 2.0
        return False


def _stays(device: Any) -> bool:
    """Whether a buffer that was mapped is found there by the host, and by commands what it left."""
    queue, drawn = device.queue, np.arange(_TRIED_BYTES, dtype=np.uint32).astype(np.uint8)
    storage, found = Storage(device, _TRIED_BYTES), np.empty_like(drawn)
    storage.materialize()
    queue.upload(storage, drawn)
    with queue.map(storage, _TRIED_BYTES) as mapped:
        place = mapped.ctypes.data
    there = _bytes_at(place, _TRIED_BYTES)
    queue.upload(storage, drawn + 1)
    queue.wait()
    seen = (there == drawn + 1).all()
    there[:] = drawn + 2
    queue.download(found, storage)
    with queue.map(storage, _TRIED_BYTES) as mapped:
        same = mapped.ctypes.data == place and (mapped == found).all()
    return bool(seen and same and (found == drawn + 2).all())
