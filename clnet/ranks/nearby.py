"""Sums over ranks through memory that those of one machine share; machines exchange by MPI.

Each rank sums a slice of what all have: the others leave it in their part of the shared memory, and
find the sum in this rank's. So every element of a tensor is read and written twice, and all else
stays in the caches; MPI's own ways move it more often (docs/notes/processes.md has the times).
Where there are two ranks alone each sums all: as many bytes go between cores, with half the
meetings.

Where a rank has several cores, threads of it sum parts of the tensor side by side, each with those
of its number in other ranks: one core copies a fifth of what a GPU's bus brings.

The memory has no name and takes no room in ``/dev/shm``: when its ranks end, however, it is gone.
"""

from __future__ import annotations

import mmap
import os
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..values.polling import polled
from .meetings import KEEPS_ORDER, Meetings, Wait
from .post import PAUSE_SECONDS
from .turns import SLOT_BYTES, Turns

__all__ = [
    "NEAR_BYTES",
    "Nearby",
    "file_of_memory",
    "forget_files",
    "identity_of",
    "look_at_room",
    "shared_memory",
]

# What is smaller goes by MPI: it is as fast there.
NEAR_BYTES = 256 * 2**10
# Of all ranks here together: it stays in the caches, and meetings, two a piece, are few.
_PIECE_BYTES = 2 * 2**20
# Of each of two, with one meeting a piece: half of it would wait more where others work.
_PAIR_BYTES = 2**20
_LINE_BYTES = 64
# A rank's threads, each with a lane of its own, what each has to sum at least, and how it waits.
_MOST_LANES = 8
_LANE_BYTES = 2 * 2**20
_LANE_SECONDS = 20e-6
# For each rank of a machine MPICH 5 and UCX take so much of /dev/shm when they begin.
_MPI_BYTES = 8 * 2**20


def look_at_room(ranks: int) -> None:
    """Warn if MPI will hardly find the shared memory that it takes when it begins.

    MPICH and UCX do not look: they end by a signal, and say nothing of why.

    Args:
        ranks: how many begin on this machine.
    """
    folder = "/dev/shm"
    if ranks < 2 or not os.path.isdir(folder):
        return
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    if free >= ranks * _MPI_BYTES and not found.f_flag & os.ST_RDONLY:
        return
    told = "is read-only" if found.f_flag & os.ST_RDONLY else f"has {free / 2**20:.0f} MiB free"
    warnings.warn(
        f"init_process_group: {folder} {told}, of which MPI takes some "
        f"{ranks * _MPI_BYTES // 2**20} MiB for {ranks} processes; without, it may end by signal "
        "7 or 11. Give a container more (--shm-size=1g), or set UCX_TLS=^posix",
        RuntimeWarning,
        stacklevel=4,
    )


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


_Finish = Callable[[np.ndarray], None]


class Nearby:
    """The memory that ranks of one machine share; all ranks of a group make it together.

    Args:
        mpi: ``mpi4py.MPI``.
        comm: the group's communicator.

    Attributes:
        serves: whether every machine has as many ranks, more than one, and they can share memory:
            else MPI sums.
        here: the communicator of this machine's ranks.
        turns: moves elements between ranks; None: by MPI, since there are several machines.
    """

    def __init__(self, mpi: Any, comm: Any) -> None:
        self._in_place = mpi.IN_PLACE
        self._size = comm.size
        self.here = comm.Split_type(mpi.COMM_TYPE_SHARED, comm.rank)
        self._across: Any = None
        self._lanes: list[_Lane | _Pair] = []
        self.turns: Turns | None = None
        self._threads: ThreadPoolExecutor | None = None
        ranks = self.here.size
        # Machines exchange what a thread has summed, by MPI's one thread.
        one = comm.size > ranks or not KEEPS_ORDER
        most = 1 if one else self.here.allreduce(_cores(ranks), op=mpi.MIN)
        lanes = max(1, min(most, _MOST_LANES))
        kind = _Pair if comm.size == 2 else _Lane
        piece = _PAIR_BYTES if kind is _Pair else _PIECE_BYTES // ranks
        slot = max(piece // _LINE_BYTES, 1) * _LINE_BYTES
        each = ranks * slot + _LINE_BYTES
        turns = 0 if comm.size > ranks else 2 * SLOT_BYTES + _LINE_BYTES
        memory = shared_memory(self.here, lanes * each + turns) if ranks > 1 else None
        counts = np.empty(comm.size, np.int64)
        comm.Allgather(np.array([0 if memory is None else ranks]), counts)
        self.serves = bool((counts == counts[0]).all() and counts[0] > 1)
        if not self.serves or memory is None:
            return
        if comm.size > ranks:
            self._across = comm.Split(self.here.rank, comm.rank)
        for start in range(0, lanes * each, each):
            parts = [memoryview(m)[start : start + each] for m in memory]
            self._lanes.append(kind(self.here, parts, slot))
        if turns:
            last = [memoryview(m)[lanes * each :] for m in memory]
            self.turns = Turns(self.here, last, self._alone)

    @property
    def spans_machines(self) -> bool:
        """Whether there are ranks on other machines."""
        return self._across is not None

    def sum(self, elements: np.ndarray, *, average: bool) -> None:
        """Overwrite elements in a row with the sum over all ranks, in one order.

        Args:
            elements: as many, of one dtype, on all ranks.
            average: whether the sum is divided by the number of ranks.
        """
        lanes = self._lanes[: max(elements.nbytes // _LANE_BYTES, 1)]
        width = -(-elements.size // len(lanes))
        parts = [elements[i * width : (i + 1) * width] for i in range(len(lanes))]
        finish = partial(self._finish, average=average)
        if len(lanes) == 1:
            lanes[0].sum(elements, finish, self._alone)
            return
        if self._threads is None:
            self._threads = ThreadPoolExecutor(len(self._lanes), "clnet-sum")
        begun = [
            self._threads.submit(lane.sum, part, finish, _beside)
            for lane, part in zip(lanes, parts, strict=True)
        ]
        while wait(begun, PAUSE_SECONDS).not_done:
            self.here.Iprobe()  # so that MPI goes on with what others still wait for
        for done in begun:
            done.result()

    def _alone(self, met: Callable[[], bool]) -> None:
        """Wait; who waits leaves others the cores."""
        if not polled(met, stay=True):
            while not met():
                self.here.Iprobe()
                time.sleep(PAUSE_SECONDS)

    def _finish(self, total: np.ndarray, *, average: bool) -> None:
        """What is done with a sum over the ranks of this machine."""
        if self._across is not None:
            self._across.Allreduce(self._in_place, total)
        if average:
            # Each part of complex numbers, which NumPy multiplies by a rounded reciprocal.
            parts = total.view(np.real(total).dtype)
            parts /= self._size

    def free(self) -> None:
        """Give the memory back; all ranks do."""
        self._lanes, self.turns = [], None
        if self._threads is not None:
            self._threads.shutdown()
        for comm in (self._across, self.here):
            if comm is not None:
                comm.Free()


class _Lane:
    """A part of the shared memory, in which a thread of each rank sums a part of the elements.

    Args:
        here: the communicator of the machine's ranks.
        memory: of each rank: its slots, and behind them a line of its own.
        slot: bytes of a slot.
    """

    def __init__(self, here: Any, memory: Sequence[memoryview], slot: int) -> None:
        self._ranks, self._mine, self._slot = range(here.size), here.rank, slot
        # By rank, then by slice: that of the rank itself has its sum, others' what it gives them.
        self._slots = [
            np.frombuffer(m, np.uint8, here.size * slot).reshape(here.size, slot) for m in memory
        ]
        self._meetings = Meetings(here, [m[here.size * slot :] for m in memory])

    def sum(self, elements: np.ndarray, finish: _Finish, until: Wait) -> None:
        """Overwrite elements with the sum over all ranks; NumPy says nothing of infinities in it.

        Args:
            elements: of this rank.
            finish: is given each slice's sum.
            until: waits until something is so.
        """
        step = self._slot // elements.itemsize * len(self._ranks)
        with np.errstate(all="ignore"):
            for start in range(0, elements.size, step):
                self._sum_piece(elements[start : start + step], finish, until)

    def _sum_piece(self, piece: np.ndarray, finish: _Finish, until: Wait) -> None:
        """What a slot held has been read when it is written: two meetings see to that."""
        mine, ranks = self._mine, self._ranks
        width = -(-piece.size // len(ranks))
        slices = [piece[i * width : (i + 1) * width] for i in ranks]
        others = [i for i in ranks if i != mine]
        slots = [
            [slot[: part.nbytes].view(piece.dtype) for slot, part in zip(row, slices, strict=True)]
            for row in self._slots
        ]
        for i in others:
            slots[mine][i][:] = slices[i]
        self._meetings.meet(until)
        # In the ranks' order, whoever adds: so pieces and lanes change no bit.
        terms = [slices[mine] if i == mine else slots[i][mine] for i in ranks]
        total = slots[mine][mine]
        np.add(terms[0], terms[1], out=total)
        for term in terms[2:]:
            np.add(total, term, out=total)
        finish(total)
        slices[mine][:] = total
        self._meetings.meet(until)
        for i in others:
            slices[i][:] = slots[i][i]


class _Pair:
    """As :class:`_Lane`, of two ranks, which both sum all; one slot is written while one is read.

    Args:
        here, memory, slot: as there.
    """

    def __init__(self, here: Any, memory: Sequence[memoryview], slot: int) -> None:
        self._mine, self._slot = here.rank, slot
        self._slots = [np.frombuffer(m, np.uint8, 2 * slot).reshape(2, slot) for m in memory]
        self._meetings = Meetings(here, [m[2 * slot :] for m in memory])
        self._turn = 0

    def sum(self, elements: np.ndarray, finish: _Finish, until: Wait) -> None:
        """As there; ``finish`` is given pieces of all."""
        step = self._slot // elements.itemsize
        with np.errstate(all="ignore"):
            for start in range(0, elements.size, step):
                self._sum_piece(elements[start : start + step], finish, until)

    def _sum_piece(self, piece: np.ndarray, finish: _Finish, until: Wait) -> None:
        terms = [slots[self._turn][: piece.nbytes].view(piece.dtype) for slots in self._slots]
        terms[self._mine][:] = piece
        # Who comes to a meeting has read what the other gave at the one before.
        self._meetings.meet(until)
        terms[self._mine] = piece
        np.add(*terms, out=piece)
        finish(piece)
        self._turn = 1 - self._turn


def _beside(met: Callable[[], bool]) -> None:
    """Wait beside other threads: who asks on and on keeps Python from them."""
    while not met():
        time.sleep(_LANE_SECONDS)


def _cores(ranks: int) -> int:
    """That each of so many ranks may use: MPI may have bound it to some, else they share all."""
    cores = (os.cpu_count() or 1) // ranks
    bound = getattr(os, "sched_getaffinity", None)
    return cores if bound is None else min(cores, len(bound(0)))


def shared_memory(here: Any, nbytes: int) -> list[mmap.mmap] | None:
    """Memory of each rank of a machine, seen by all of them; all call it.

    None: this rank does not see all: no Linux, another user's, or in another container.
    """
    mine = file_of_memory(nbytes)
    files: list[int] = [] if mine is None else [mine]
    try:
        known = None if mine is None else (os.getpid(), mine, identity_of(mine))
        told = here.allgather(known)
        if None in told:
            return None
        for process, number, identity in told:
            files.append(os.open(f"/proc/{process}/fd/{number}", os.O_RDWR))
            if identity_of(files[-1]) != identity:  # a process of that number here
                return None
        return [mmap.mmap(file, nbytes) for file in files[1:]]
    except OSError:
        return None
    finally:
        here.Barrier()  # until all have opened it
        for file in files:
            os.close(file)


def file_of_memory(nbytes: int) -> int | None:
    """A file of memory alone, which has all its bytes; None: there is none."""
    if not hasattr(os, "memfd_create"):
        return None
    file = os.memfd_create("clnet-ranks")
    try:
        os.posix_fallocate(file, 0, nbytes)  # here, since who writes it later would be killed
    except OSError:
        os.close(file)
        return None
    return file


def identity_of(file: int) -> tuple[int, int]:
    """What no other file of this machine has."""
    found = os.fstat(file)
    return found.st_dev, found.st_ino
