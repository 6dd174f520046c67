"""Elements of a tensor that is sent or received: on the host, or where they lie on a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..array import Array
from ..device import Beside, Device
from .device_sum import may_add
from .post import Asked, Message
from .stream import Streams

__all__ = ["Elements", "elements_of", "until"]


class _Asks:
    """As a request of MPI's: whether something is so."""

    def __init__(self, so: Callable[[], Any]) -> None:
        self._so = so

    def Test(self, status: Any = None) -> bool:  # noqa: N802 - MPI's
        """Whether it is."""
        del status
        return bool(self._so())


def until(so: Callable[[], Any], peers: tuple[int, ...] = ()) -> Asked:
    """Wait until something is so.

    Args:
        so: whether it is.
        peers: who may bring it about; else this rank does.
    """
    return Asked(_Asks(so), received=False, peers=peers)


def _over(event: Any) -> bool:
    """Whether a command is done; raises what went wrong in it."""
    status = event.command_execution_status
    if status < 0:
        event.wait()
    return status <= 0


class Elements:
    """Of a dense array, as they are at this place of its device's queue.

    Args:
        array: is sent, or overwritten.
        sends: which of both.

    Attributes:
        nbytes: their bytes.
        by_device: whether the device copies them.
    """

    by_device = False

    def __init__(self, array: Array, *, sends: bool) -> None:
        self.array, self.nbytes, self._sends = array, array.nbytes, sends

    def ready(self) -> Message:
        """Wait until they may be copied."""
        raise NotImplementedError

    def copy(self, slot: np.ndarray, begin: int, *, out: bool) -> Callable[[], bool]:
        """As :class:`.Copied`."""
        raise NotImplementedError

    def raw(self) -> np.ndarray:
        """Their bytes on the host for MPI, when they may be copied."""
        raise NotImplementedError

    def came(self) -> Message:
        """MPI has brought them."""
        raise NotImplementedError

    def end(self, *, written: bool) -> None:
        """Give them back.

        Args:
            written: whether they were overwritten.
        """
        raise NotImplementedError


class _OnHost(Elements):
    """The host looks at them where they lie, or at a copy."""

    def __init__(self, array: Array, *, sends: bool) -> None:
        super().__init__(array, sends=sends)
        self._visit = array.visit(read=sends, write=not sends)
        self._bytes = np.empty(0, np.uint8)

    def ready(self) -> Message:
        yield until(self._visit.there)
        self._bytes = self._visit.wait().view(np.uint8)

    def copy(self, slot: np.ndarray, begin: int, *, out: bool) -> Callable[[], bool]:
        part = self._bytes[begin : begin + slot.size]
        if out:
            slot[:] = part
        else:
            part[:] = slot
        return lambda: True

    def raw(self) -> np.ndarray:
        return self._bytes

    def came(self) -> Message:
        yield from ()

    def end(self, *, written: bool) -> None:
        self._visit.end(written=written)


class _OnDevice(Elements):
    """A device copies them in a queue of its own."""

    by_device = True

    def __init__(self, array: Array, queue: Beside, *, sends: bool) -> None:
        super().__init__(array, sends=sends)
        self._queue, self._event = queue, array.device.queue.mark()
        self._begin = array.offset * array.dtype.itemsize
        self._taken = np.empty(0, np.uint8)

    def ready(self) -> Message:
        self._queue.follow(self._event)
        yield from ()

    def copy(self, slot: np.ndarray, begin: int, *, out: bool) -> Callable[[], bool]:
        place, storage, queue = self._begin + begin, self.array.storage, self._queue
        event = queue.read(slot, storage, place) if out else queue.write(storage, slot, place)
        queue.flush()
        return lambda: _over(event)

    def raw(self) -> np.ndarray:
        self._taken = self.array.device.queue.pinned.take(self.nbytes)
        found = self._taken[: self.nbytes]
        if self._sends:
            self._queue.wait([self._queue.read(found, self.array.storage, self._begin)])
        return found

    def came(self) -> Message:
        yield until(self.copy(self._taken[: self.nbytes], 0, out=False))

    def end(self, *, written: bool) -> None:
        if self._taken.size:
            self.array.device.queue.pinned.give_back(self._taken)
        if written:
            with self.array.device.lock:
                self.array.storage.written()


def elements_of(
    array: Array, streams: Streams, queues: dict[Device, Any], *, sends: bool
) -> Elements:
    """Elements as they are best looked at.

    Args:
        array: dense.
        streams: what large ones go through.
        queues: of devices, for each way.
        sends: whether they are sent, not received.
    """
    device = array.device
    if not (may_add(device) and streams.serves(array.nbytes)):
        return _OnHost(array, sends=sends)
    if device not in queues:
        queues[device] = device.beside.another(), device.beside.another()
    return _OnDevice(array, queues[device][sends], sends=sends)
