"""Sums over ranks through memory that those of one machine share; machines exchange by MPI.

Each rank sums a slice of what all have: the others leave it in their part of the shared memory, and
find the sum in this rank's. So every element of a tensor is read and written twice, and all else
stays in the caches; MPI's own ways move it more often (docs/notes/processes.md has the times).
"""

from __future__ import annotations

import time
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ..values.polling import polled
from .post import PAUSE_SECONDS

__all__ = ["NEAR_BYTES", "Nearby", "forget_files"]

# What is smaller goes by MPI: it is as fast there.
NEAR_BYTES = 256 * 2**10
# Of all ranks here together: it stays in the caches, and meetings, two a piece, are few enough.
_PIECE_BYTES = 2 * 2**20
_LINE_BYTES = 64


def forget_files() -> None:
    """Take the names of MPICH's shared memory away, which all ranks here have mapped by now.

    It does so itself at the end, which a rank that is killed does not reach: the memory would stay
    in ``/dev/shm`` until the machine is started again. UCX's has no name any more.
    """
    maps = Path("/proc/self/maps")
    if not maps.exists():  # not Linux
        return
    for line in maps.read_text(encoding="utf-8").splitlines():
        name = line.split()[-1]
        if name.startswith("/dev/shm/mpich_shm_"):
            Path(name).unlink(missing_ok=True)


class Nearby:
    """The memory that ranks of one machine share; all ranks of a group make it together.

    Args:
        mpi: ``mpi4py.MPI``.
        comm: the group's communicator.

    Attributes:
        serves: whether every machine has as many ranks, and more than one: else MPI sums.
    """

    def __init__(self, mpi: Any, comm: Any) -> None:
        self._in_place = mpi.IN_PLACE
        self._size = comm.size
        self._here = comm.Split_type(mpi.COMM_TYPE_SHARED, comm.rank)
        counts = np.empty(comm.size, np.int64)
        comm.Allgather(np.array([self._here.size]), counts)
        self.serves = bool((counts == counts[0]).all() and counts[0] > 1)
        self._across: Any = None
        self._window: Any = None
        if not self.serves:
            return
        if comm.size > self._here.size:
            self._across = comm.Split(self._here.rank, comm.rank)
        ranks = self._here.size
        self._slot = max(_PIECE_BYTES // ranks // _LINE_BYTES, 1) * _LINE_BYTES
        shape = ranks, self._slot
        self._window = mpi.Win.Allocate_shared(prod(shape), 1, comm=self._here)
        self._window.Lock_all()
        memory = [self._window.Shared_query(i)[0] for i in range(ranks)]
        # By rank, then by slice: that of the rank itself has its sum, others' what it gives them.
        self._slots = [np.frombuffer(m, np.uint8).reshape(shape) for m in memory]
        self._meet()
        forget_files()

    def sum(self, elements: np.ndarray, *, average: bool) -> None:
        """Overwrite elements in a row with the sum over all ranks, in one order.

        Args:
            elements: as many, of one dtype, on all ranks.
            average: whether the sum is divided by the number of ranks.
        """
        step = self._slot // elements.itemsize * self._here.size
        for start in range(0, elements.size, step):
            self._sum_piece(elements[start : start + step], average=average)

    def _sum_piece(self, piece: np.ndarray, *, average: bool) -> None:
        """What a slot held has been read when it is written: two meetings see to that."""
        mine, ranks = self._here.rank, range(self._here.size)
        width = -(-piece.size // len(ranks))
        slices = [piece[i * width : (i + 1) * width] for i in ranks]
        others = [i for i in ranks if i != mine]
        slots = [
            [slot[: part.nbytes].view(piece.dtype) for slot, part in zip(row, slices, strict=True)]
            for row in self._slots
        ]
        for i in others:
            slots[mine][i][:] = slices[i]
        self._meet()
        total = slices[mine]
        for i in others:
            np.add(total, slots[i][mine], out=total)
        if self._across is not None:
            self._across.Allreduce(self._in_place, total)
        if average:
            total /= self._size
        slots[mine][mine][:] = total
        self._meet()
        for i in others:
            slices[i][:] = slots[i][i]

    def _meet(self) -> None:
        """What ranks here have written is seen by the others; who waits leaves them the cores."""
        self._window.Sync()
        met = self._here.Ibarrier()
        if not polled(met.Test):
            while not met.Test():
                time.sleep(PAUSE_SECONDS)
        self._window.Sync()

    def free(self) -> None:
        """Give the memory back; all ranks do."""
        self._slots = []
        if self._window is not None:
            self._window.Unlock_all()
            self._window.Free()
        for comm in (self._across, self._here):
            if comm is not None:
                comm.Free()
