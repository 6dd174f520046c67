"""Memory of a queue that its users have in turns: ops one workspace, plans the same arenas."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING
from weakref import ref

from .launch import Scratch, Storage
from .traits import DeviceKind

if TYPE_CHECKING:
    from .device import Device


# Less than this kernels touch before a thread has started.
_WORTH_A_THREAD = 16 * 2**20


class Workspace:
    """One block, as large as the largest request so far.

    Launches run in order, so an op's scratch memory is free again when the next op starts: layers
    need not own one each, as Caffe's did. Who asks holds the device's lock until they are enqueued.

    Args:
        device: whose pool it comes from.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._storage: Storage | None = None
        self._served: Scratch | None = None
        self.requests = 0
        self.requested_bytes = 0

    @property
    def nbytes(self) -> int:
        """Its size just now."""
        return 0 if self._storage is None else self._storage.nbytes

    def lend(self, nbytes: int) -> Storage:
        """A block of at least ``nbytes`` bytes for the launches of one op.

        Args:
            nbytes: what the op asks for.

        Returns:
            The block; a plan that binds its buffer keeps it, so that growth does not free it.

        Raises:
            OutOfDeviceMemory: if the device has no room for it.
        """
        self.requests += 1
        self.requested_bytes += nbytes
        if self._storage is None or self._storage.nbytes < nbytes:
            self.release()
            storage = Storage(self._device, nbytes)
            storage.materialize()
            self._storage = storage
        return self._storage

    def serve(self, scratch: Scratch) -> Storage:
        """The block for a launch of the op whose scratch memory this is.

        Args:
            scratch: the same for all launches of one op; the block keeps what they leave in it.

        Raises:
            OutOfDeviceMemory: if the device has no room for it.
        """
        storage = self.lend(scratch.nbytes)
        poison = self._device.poison
        if poison is not None and scratch is not self._served:
            self._served = scratch
            poison(storage.buffer, scratch.nbytes)
        return storage

    def storages(self) -> list[Storage]:
        """The block, if there is one."""
        return [] if self._storage is None else [self._storage]

    def release(self) -> None:
        """Give the block back to the pool."""
        self._storage = None


class Arenas:
    """Blocks for what lasts no longer than one replay of a plan; plans run one after another.

    A block goes when the last plan that uses it goes. A plan holds the device's lock from its first
    launch until its results are copied out, so it finds in them what it left there.

    Args:
        device: whose pool they come from.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._blocks: list[ref[Storage]] = []

    def expecting(self, nbytes: int) -> AbstractContextManager[None]:
        """While a plan is made, touch pages for the largest block that it will ask for.

        Only where the device is the host's CPU, and nothing is there that would serve as well.

        Args:
            nbytes: what the plan is thought to need; half of it is certain enough.
        """
        device, least = self._device, nbytes // 2
        traits, pool = device.traits, device.pool.statistics()
        most = min(nbytes + nbytes // 4, traits.max_allocation_bytes)
        free = pool.reserved - pool.allocated
        if (
            traits.kind is not DeviceKind.CPU
            or not _WORTH_A_THREAD <= least <= most
            or max((free, *(block.nbytes for block in self._alive()))) >= least
        ):
            return nullcontext()
        return device.queue.expecting(least=least, most=most)

    def lend(self, sizes: Sequence[int]) -> list[Storage]:
        """Blocks of at least these sizes, all different; those of other plans where they do.

        Args:
            sizes: in bytes.

        Raises:
            OutOfDeviceMemory: if the device has no room for a new one.
        """
        with self._device.lock:
            alive = self._alive()
            free = sorted(alive, key=lambda block: block.nbytes)
            lent: list[Storage] = []
            for nbytes in sizes:
                block = next((b for b in free if b.nbytes >= nbytes), None)
                if block is None:
                    block = Storage(self._device, nbytes)
                    block.materialize()
                    alive.append(block)
                else:
                    free.remove(block)
                lent.append(block)
            self._blocks = [ref(block) for block in alive]
            return lent

    def storages(self) -> list[Storage]:
        """The blocks that plans use."""
        with self._device.lock:
            return self._alive()

    def _alive(self) -> list[Storage]:
        return [block for weak in self._blocks if (block := weak()) is not None]
