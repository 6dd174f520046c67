"""What one rank sends another of its machine goes through memory that both share, in chunks.

The sender makes the memory, and tells where it is with its first message; the receiver says whether
it sees it, else MPI moves the bytes. A message waits until its receiver comes to it, so that
messages are received in any order; then the sender fills one slot while the receiver empties
another. Whoever has elements on a device that copies by itself has it do so, from and to slots that
it has pinned.
"""

from __future__ import annotations

import mmap
import os
import secrets
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ..device import Device, Pin
from ..errors import DeviceError, OutOfDeviceMemory
from ..values.record import NamedTuple
from ..values.shapes import round_up
from .meetings import KEEPS_ORDER
from .nearby import NEAR_BYTES, file_of_memory, identity_of

__all__ = ["PLACE", "Copied", "Stream", "Streams", "Transfer"]

# Both ranks' cores keep such a slot near; a bus has more on its way at a time.
_HOST_SLOT_BYTES, _DEVICE_SLOT_BYTES = 2**19, 2**22
_SLOTS = 4
_LEAST_CHUNK_BYTES = 2**18
_LINE_BYTES = 64

PLACE = np.dtype(
    [(name, "i8") for name in ("process", "file", "volume", "node", "nbytes", "secret")]
)
"""Where a sender's memory is; no process: nowhere."""


class Copied(Protocol):
    """Elements that come to slots, or go from them.

    Attributes:
        nbytes: their bytes.
    """

    nbytes: int

    def copy(self, slot: np.ndarray, begin: int, *, out: bool) -> Callable[[], bool]:
        """Begin to copy a chunk; gives whether that is done.

        Args:
            slot: bytes, as many as the chunk has.
            begin: where in the elements it begins.
            out: whether to the slot.
        """
        ...


class Stream:
    """Memory from one rank to another.

    Args:
        memory: slots, then a line of the sender's and one of the receiver's.

    Attributes:
        waiting: of the receiver: messages in the order in which it comes to them.
    """

    def __init__(self, memory: mmap.mmap) -> None:
        self._slot = (len(memory) - 2 * _LINE_BYTES) // _SLOTS
        raw = np.frombuffer(memory, np.uint8)
        self._slots = raw[: _SLOTS * self._slot].reshape(_SLOTS, self._slot)
        lines = raw[_SLOTS * self._slot :].view(np.int64).reshape(2, -1)
        # The sender's: a secret, chunks written, messages that were ended; the receiver's:
        # the message that is received, negative if it is not wanted, and chunks taken.
        self.sender, self.receiver = lines
        self._memory, self._pins = memory, dict[Device, Pin]()
        self.waiting, self._served = deque[int](), 0

    def pin(self, device: Device) -> None:
        """Let a device copy by itself; it copies all the same if it cannot, but not as fast."""
        if device not in self._pins:
            try:
                self._pins[device] = device.beside.pin(memoryview(self._memory))
            except (DeviceError, OutOfDeviceMemory):
                self._pins[device] = None

    def wants(self, number: int) -> bool | None:
        """Of the sender: whether the receiver wants a message; None: it has not come to it."""
        told = int(self.receiver[0])
        return told > 0 if abs(told) == number + 1 else None

    def tell(self, number: int, *, wanted: bool) -> None:
        """Of the receiver: which message it has come to."""
        self.receiver[0] = number + 1 if wanted else -number - 1

    def ended(self) -> bool:
        """Of the receiver: whether the sender has done all for the message; once, if so."""
        if int(self.sender[2]) == self._served:
            return False
        self._served += 1
        self.receiver[0] = 0  # numbers come again
        return True

    def end(self) -> None:
        """Of the sender: it has."""
        self.sender[2] += 1

    def slot(self, chunk: int, nbytes: int) -> np.ndarray:
        """The bytes of a chunk."""
        return self._slots[chunk % _SLOTS][:nbytes]

    def chunk_bytes(self, nbytes: int) -> int:
        """Of how many bytes a chunk is, of a message of so many."""
        wanted = max(round_up(-(-nbytes // _SLOTS), _LINE_BYTES), _LEAST_CHUNK_BYTES)
        return min(wanted, self._slot // _LINE_BYTES * _LINE_BYTES)


class Transfer:
    """The chunks of one message on their way, at one of its ends.

    Args:
        stream: what they go through.
        elements: on this rank.
        sends: whether they are sent, not received.
    """

    def __init__(self, stream: Stream, elements: Copied, *, sends: bool) -> None:
        self._stream, self._elements, self._sends = stream, elements, sends
        self._step = stream.chunk_bytes(elements.nbytes)
        self._left = -(-elements.nbytes // self._step)
        # Chunks of all messages have numbers: what this end has begun, and done.
        self._done = int(stream.sender[1] if sends else stream.receiver[1])
        self._first = self._begun = self._done
        self._under_way = deque[Callable[[], bool]]()

    @property
    def done(self) -> bool:
        """Whether all is there, or has been left."""
        return self._done - self._first == self._left

    def Test(self, status: Any = None) -> bool:  # noqa: N802 - as MPI's requests
        """Go on as far as it goes; whether something has happened."""
        del status
        before, stream = self._done + self._begun, self._stream
        other = int(stream.receiver[1]) + _SLOTS if self._sends else int(stream.sender[1])
        if self._begun < min(other, self._first + self._left):  # one, so that others go on as well
            start = (self._begun - self._first) * self._step
            size = min(self._step, self._elements.nbytes - start)
            slot = stream.slot(self._begun, size)
            self._under_way.append(self._elements.copy(slot, start, out=self._sends))
            self._begun += 1
        while self._under_way and self._under_way[0]():
            self._under_way.popleft()
            self._done += 1
        if self._sends:
            stream.sender[1] = self._done
        else:
            stream.receiver[1] = self._done
        return self._done + self._begun > before


class _Outgoing(NamedTuple):
    stream: Stream
    file: int
    place: np.ndarray


class Streams:
    """Those of a group's messages, from this rank and to it."""

    def __init__(self) -> None:
        self._to: dict[int, _Outgoing | None] = {}
        self._from: dict[int, Stream] = {}
        self.seen: dict[int, bool] = {}

    def serves(self, nbytes: int) -> bool:
        """Whether a message of so many bytes goes so, if ranks share a machine."""
        return KEEPS_ORDER and nbytes >= NEAR_BYTES

    def outgoing(self, place: int, device: Device) -> Stream | None:
        """The way to a rank; None: there is none.

        Args:
            place: of the rank in the group.
            device: whose memory is sent.
        """
        if place not in self._to:
            own = not device.traits.unified_memory
            self._to[place] = _made(_DEVICE_SLOT_BYTES if own else _HOST_SLOT_BYTES)
        found = self._to[place] if self.seen.get(place, True) else None
        return None if found is None else found.stream

    def told(self, place: int) -> np.ndarray:
        """Where that memory is."""
        found = self._to.get(place)
        return np.zeros((), PLACE) if found is None else found.place

    def answered(self, place: int, *, seen: bool) -> None:
        """The rank has said whether it sees the memory; nobody needs its file any more."""
        known = place in self.seen
        self.seen[place] = seen
        found = self._to[place]
        if not known and found is not None:
            os.close(found.file)

    def incoming(self, place: int, told: Any) -> Stream | None:
        """The way from a rank; None: it is not seen here.

        Args:
            place: of the rank in the group.
            told: where its memory is.
        """
        if place not in self._from:
            found = _opened(told)
            if found is None:
                return None
            self._from[place] = found
        return self._from[place]

    def free(self) -> None:
        """Give the memory back."""
        for place, found in self._to.items():
            if found is not None and place not in self.seen:
                os.close(found.file)
        self._to, self._from = {}, {}


def _made(slot: int) -> _Outgoing | None:
    """Memory with slots of so many bytes; None: there is none."""
    nbytes = _SLOTS * slot + 2 * _LINE_BYTES
    file = file_of_memory(nbytes)
    if file is None:
        return None
    stream, secret = Stream(mmap.mmap(file, nbytes)), secrets.randbits(62)
    stream.sender[0] = secret
    found = os.getpid(), file, *identity_of(file), nbytes, secret
    return _Outgoing(stream, file, np.array(found, PLACE))


def _opened(told: Any) -> Stream | None:
    """The memory of another process here; None: it is elsewhere, or not to be seen."""
    process, number, volume, node, nbytes, secret = told.tolist()
    try:
        file = os.open(f"/proc/{process}/fd/{number}", os.O_RDWR)
    except OSError:
        return None
    try:
        if identity_of(file) != (volume, node):  # a process of that number here
            return None
        stream = Stream(mmap.mmap(file, nbytes))
    except (OSError, ValueError):
        return None
    finally:
        os.close(file)
    return stream if int(stream.sender[0]) == secret else None
