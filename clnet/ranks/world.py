"""The processes that ``mpirun`` started: who they are, what they agree on, and how they end.

MPI (through mpi4py) moves the bytes. Before each exchange the ranks tell each other in a hundred
bytes what they are about to do, so that what does not fit is an error on all of them, and none
waits for ever. A rank that ends by an exception ends all others.
"""

from __future__ import annotations

import atexit
import os
import platform
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import count
from threading import Event, Thread
from types import TracebackType
from typing import Any
from zlib import crc32

import numpy as np

from ..errors import DeviceError, DistributedError
from ..values import mode
from ..values.dtypes import from_name
from ..values.exchanges import Exchange, tell_exchange
from ..values.settings import SETTINGS
from .arrival import answered, await_all, load_mpi, stay_away
from .device_sum import DeviceSums
from .lookout import LEFT, OVER, Lookout
from .nearby import Nearby, forget_files, look_at_room
from .post import PAUSE_SECONDS, Post, gone, no_answer
from .stream import Streams
from .work import Runner, Work

__all__ = ["ANSWER_TAG", "DEFAULT_SECONDS", "NUMBERS", "Group", "World", "load_mpi"]

_HEADER = np.dtype(
    [
        ("call", "S24"),
        ("dtype", "S12"),
        ("op", "S8"),
        ("root", "i4"),
        ("size", "i8"),
        ("shape", "S40"),
        ("wish", "i1"),
    ]
)
# MPI promises tags below 32768; an odd one for each of so many messages at a time.
NUMBERS = 2**14
_LEAVING = b"(ended)"
DEFAULT_SECONDS = 1800.0
# So long mpirun needs to pass on what a rank has written: after an abort it may not.
_LAST_WORDS_SECONDS = 0.5
# Ranks that wait for another give up within so long of each other.
_SKEW_SECONDS = 2.0
_WAITING_TAG = 1
_LEFT_TAG = 2
ANSWER_TAG = 3
"""Of the first of as many tags, by which receivers answer messages of these numbers."""


class Group:
    """Ranks that exchange tensors: PyTorch's ``ProcessGroup``.

    Args:
        comm: an MPI communicator of the group's own.
        ranks: the members' ranks in the world, in order.
        seconds: how long others are waited for.

    Attributes:
        ranks: the members.
        comm: collective exchanges go through it, in one order on all ranks.
        direct: another one, for messages from one rank to another.
        in_place: what MPI takes for an operand that is the result, too.
        runner: does one collective exchange after another.
        post: moves messages on.
        device_sums: what devices add up instead of the host.
        streams: what messages go through on one machine.
        queues: of devices that copy what is sent and received.
        busy: the collective exchange that all have agreed on and are in, and since when.
        lost: memory of an exchange that was given up: MPI may still use it.
        left: whether this rank has left it.
    """

    def __init__(self, comm: Any, ranks: Sequence[int], seconds: float) -> None:
        self.comm, self.direct = comm, comm.Dup()
        self.in_place = load_mpi().IN_PLACE
        self.ranks = tuple(ranks)
        self.seconds = seconds
        self.runner = Runner("clnet-collective")
        self.post = Post(
            "clnet-messages", self.ranks, self.ranks[comm.rank], seconds, self._has_left
        )
        self.device_sums, self.streams = DeviceSums(), Streams()
        self.queues: dict[Any, Any] = {}
        self.busy: tuple[str, float] | None = None
        self.lost: list[Any] = []
        self.left = False
        self._gone = False  # whether another has left, who answers nothing any more
        self._said: list[Any] = []  # to others, when this rank left
        self._met: tuple[str, float, float, int] | None = None
        self._nearby: Nearby | None = None
        self._numbers = count()

    def __deepcopy__(self, memo: dict[int, Any]) -> Group:
        """Itself: copies of layers exchange with the same ranks."""
        return self

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise DistributedError(
            "pickle",
            "a group of processes is no data",
            group=self,
            remedy="Save a state_dict, or full_state_dict of what is divided among ranks",
        )

    def __repr__(self) -> str:
        return f"<ProcessGroup of ranks {list(self.ranks)}>"

    def rank(self) -> int:
        """This process's number in the group."""
        return self.comm.rank

    def size(self) -> int:
        """How many processes it has."""
        return self.comm.size

    def numbered(self) -> int:
        """A number for the next message."""
        return next(self._numbers) % NUMBERS

    def nearby(self) -> Nearby | None:
        """Memory for sums that the members share, made at first use by all; None: MPI sums."""
        if self._nearby is None:
            self._nearby = Nearby(load_mpi(), self.comm)
        return self._nearby if self._nearby.serves else None

    def meet(self, job: Callable[[], Any], *, begin: bool = False) -> Any:
        """Do a collective exchange after those that were begun before, or begin it.

        Args:
            job: calls :meth:`agree` first.
            begin: whether it goes on in a thread; then a :class:`.Work` is given.

        Raises:
            ClnetError: what went wrong in one that was begun before, and that nobody waited for.
        """

        def watched() -> Any:
            try:
                if not begin:
                    self.runner.tell_failed()
                return job()
            finally:
                self.busy, met, self._met = None, self._met, None
                if met is not None:
                    call, start, since, nbytes = met
                    tell_exchange(Exchange(call, start, since, time.perf_counter(), nbytes))

        return self.runner.begin(watched) if begin else self.runner.do(watched)

    def exchange(
        self,
        writes: Sequence[Any],
        job: Callable[[], object],
        async_op: bool,  # noqa: FBT001
    ) -> Work | None:
        """Do an exchange of tensors, or begin it.

        Args:
            writes: what the handle's ``result`` gives: the tensors that are overwritten here.
            job: calls :meth:`agree` first.
            async_op: whether to begin it alone.
        """

        def outside() -> list[Any]:
            with mode.using(grad=False, autocast=None):
                job()
            return list(writes)

        found = self.meet(outside, begin=async_op)
        return found if async_op else None

    def agree(
        self,
        call: str,
        *,
        dtype: str = "",
        op: str = "",
        root: int = -1,
        shape: tuple[int, ...] | None = None,
        size: int = -1,
        nbytes: int | None = None,
        wish: int = 0,
        seconds: float | None = None,
    ) -> set[int]:
        """Tell the others what comes now, and hear the same from them.

        Args:
            call: the exchange's name.
            dtype: of its elements.
            op: how they are joined.
            root: the rank from which, or to which, they go; -1: there is none.
            shape: of what every rank gives.
            size: elements of it.
            nbytes: bytes of it, for who looks on; None: those of so many elements.
            wish: what this rank would like, which may differ from others'.
            seconds: how long others are waited for; None: as long as the group does.

        Returns:
            The wishes of all.

        Raises:
            DistributedError: if another rank does something else, has ended, or does not answer.
        """
        if self.comm.size == 1:
            return {wish}
        if self.lost:
            raise DistributedError(
                call,
                "no exchange of the group follows one that was not answered in time",
                rank=self.ranks[self.rank()],
                remedy="End the job and start it again from the last checkpoint",
            )
        start = time.perf_counter()
        mine = _header(call, dtype, op, root, size, shape, wish)
        everyone = np.empty(self.comm.size, _HEADER)
        self._tell(mine, everyone, call, self.seconds if seconds is None else seconds)
        # As bytes: comparing records takes NumPy longer than MPI takes to exchange them.
        wishes = {wish}
        if everyone.tobytes() != mine.tobytes() * self.comm.size:
            wishes = set(everyone["wish"].tolist())
            everyone["wish"] = wish
        if everyone.tobytes() == mine.tobytes() * self.comm.size:
            self.busy = call, time.monotonic()
            known = nbytes if nbytes is not None else max(size, 0) * _itemsize(dtype)
            self._met = call, start, time.perf_counter(), known
            return wishes
        ended = [self.ranks[i] for i in np.flatnonzero(everyone["call"] == _LEAVING)]
        if ended:
            self._gone = True
            raise gone(call, ended, self.ranks[self.rank()])
        told = {f"rank_{self.ranks[i]}": _said(h) for i, h in enumerate(everyone)}
        raise DistributedError(
            call,
            "all ranks make the same exchange, of the same shapes and dtypes",
            **told,
            remedy="Let all ranks of the group call it in the same order",
        )

    def collected(self, value: Any) -> list[Any] | None:
        """An object of each rank, on the first; None on the others. All ranks call it."""

        def job() -> Any:
            self.agree("collected")
            return self.comm.gather(value, 0)

        return self.meet(job)

    def _tell(self, mine: np.ndarray, everyone: np.ndarray, call: str, seconds: float) -> None:
        """Give the others a header and get theirs; what is not answered is kept for MPI.

        Raises:
            DistributedError: if they do not answer.
        """
        given, told = mine.view(np.uint8), everyone.view(np.uint8)
        request = self.comm.Iallgather(given, told)
        try:
            answered(request.Test, seconds, call)
        except DistributedError as error:
            self.lost.append((request, given, told))
            raise no_answer(call, seconds, silent_ranks=self.silent()) from error

    def silent(self) -> list[int]:
        """The ranks that do not say in a moment that they wait, too: stalled, or elsewhere."""
        told, heard = np.zeros(1, np.uint8), np.zeros(self.comm.size, np.uint8)
        others = self._others()
        awaited = {i: self.comm.Irecv(heard[i : i + 1], i, _WAITING_TAG) for i in others}
        said = [self.comm.Isend(told, i, _WAITING_TAG) for i in others]
        self.lost.append((said, dict(awaited), told, heard))
        until = time.monotonic() + min(_SKEW_SECONDS, self.seconds)
        while awaited and time.monotonic() < until:
            awaited = {i: request for i, request in awaited.items() if not request.Test()}
            time.sleep(PAUSE_SECONDS)
        return [self.ranks[i] for i in awaited]

    def say_left(self) -> None:
        """Let the others know that this rank sends and receives no more."""
        self.left = True
        self.post.close()
        told = np.zeros(1, np.uint8)
        self._said = [told, *(self.comm.Isend(told, i, _LEFT_TAG) for i in self._others())]

    def _others(self) -> list[int]:
        return [i for i in range(self.comm.size) if i != self.comm.rank]

    def _has_left(self, place: int) -> bool:
        """Whether the rank in a place has said so."""
        return self.comm.Iprobe(place, _LEFT_TAG)

    def leave(self, call: str) -> bool:
        """Let the others know that this rank comes no more, if they ask.

        Returns:
            Whether all have left, so that MPI needs nothing of the group any more.
        """
        self.say_left()
        self.runner.close()
        if self.lost or self.post.lost or self._gone:
            return False
        if self.comm.size > 1:
            mine = _header(call, "", "", -1, -1, None, 0)
            everyone = np.empty(self.comm.size, _HEADER)
            self._tell(mine, everyone, "destroy_process_group", self.seconds)
            return bool((everyone == mine).all())
        return True

    def free(self) -> None:
        """Give MPI's communicators back, of which it has 2,048: when all members have left."""
        self.device_sums.free()
        self.streams.free()
        heard = np.empty(1, np.uint8)
        for i in self._others():
            self.comm.Recv(heard, i, _LEFT_TAG)
        for request in self._said[1:]:
            request.Wait()
        if self._nearby is not None:
            self._nearby.free()
        self.direct.Free()
        self.comm.Free()


@lru_cache(maxsize=256)
def _header(
    call: str, dtype: str, op: str, root: int, size: int, shape: tuple[int, ...] | None, wish: int
) -> np.ndarray:
    """What a rank tells, as MPI sends it; a record takes NumPy as long as MPI takes to send it."""
    text = b"" if shape is None else _brief(str(list(shape)).encode())
    words = call.encode(), dtype.encode(), op.encode()
    return np.array([(*words, root, size, text, wish)], _HEADER)


def _brief(text: bytes) -> bytes:
    """A text that fits into a header; a longer one differs from others of its kind at the end."""
    room = _HEADER["shape"].itemsize
    return text if len(text) <= room else text[: room - 9] + b"~%08x" % crc32(text)


def _itemsize(dtype: str) -> int:
    """Bytes of an element, by a dtype's name; 0: there is none."""
    return from_name(dtype).itemsize if dtype else 0


def _said(header: Any) -> str:
    """What a rank was about to do, in words."""
    call, dtype, op, root, size, shape, _ = header.tolist()
    words = [call.decode(), dtype.decode(), shape.decode() or (f"{size}" if size >= 0 else "")]
    words += [op.decode(), f"root {root}" if root >= 0 else ""]
    return " ".join(word for word in words if word)


class World:
    """All processes, while they are joined; there is one object of it.

    Attributes:
        group: all of them; None: they are not joined.
        groups: those that were made of some of them.
    """

    def __init__(self) -> None:
        self.group: Group | None = None
        self.groups: list[Group] = []
        self._mpi: Any = None
        self._ended = Event()
        self._lookout = Lookout()
        self._hook: Any = None
        if SETTINGS.ranks > 1:  # others wait in MPI's beginning for one that never comes to join
            self._end_by_exceptions()

    def join(self, size: int | None, seconds: float | None, rank: int | None = None) -> None:
        """Join the processes.

        Args:
            size: how many the caller expects; None: any number.
            seconds: how long others are waited for.
            rank: this one's number, as the caller believes; None: whatever it is.

        Raises:
            DistributedError: if they are joined already, or are others, or do not come.
            DeviceError: if there is no MPI for several threads.
        """
        if self.group is not None:
            raise DistributedError(
                "init_process_group",
                "the processes are joined once",
                group=self.group,
                remedy="Call destroy_process_group() before",
            )
        if self._mpi is None:
            look_at_room(SETTINGS.ranks_here)
        seconds = DEFAULT_SECONDS if seconds is None else seconds
        mpi = self._mpi = load_mpi(seconds)
        comm = mpi.COMM_WORLD
        if comm.size > 1:  # nobody waits for a process that is alone
            self._end_by_exceptions()
            atexit.register(stay_away, comm)
        self._check(size, rank)
        await_all(comm, seconds)
        own = comm.Dup()
        own.Barrier()
        forget_files()
        self._lookout.begin(own, platform.node())
        self.group = Group(own, range(own.size), seconds)
        if own.size > 1:
            self._ended = Event()
            Thread(target=self._watch, args=(self._ended,), name="clnet-watch", daemon=True).start()
        atexit.unregister(stay_away)
        atexit.register(self.end)

    def _check(self, size: int | None, rank: int | None) -> None:
        """The processes are those that the caller expects; arguments as :meth:`join`'s."""
        mpi, comm = self._mpi, self._mpi.COMM_WORLD
        if mpi.Query_thread() < mpi.THREAD_MULTIPLE:
            raise DeviceError(
                "init_process_group",
                "MPI serves several threads at the same time",
                remedy="Install an MPI that gives MPI_THREAD_MULTIPLE, as MPICH does",
            )
        if rank not in (None, comm.rank):
            raise DistributedError(
                "init_process_group",
                "the rank is the one that mpirun gave",
                rank=rank,
                given=comm.rank,
                remedy="Leave rank out",
            )
        if size not in (None, comm.size):
            raise DistributedError(
                "init_process_group",
                "mpirun started as many processes as are expected",
                world_size=size,
                started=comm.size,
                remedy=f"Start with mpirun -n {size} python ...",
            )
        asked = max(SETTINGS.ranks, SETTINGS.torchrun_ranks)
        if size is None and comm.size == 1 and asked > 1:
            raise DistributedError(
                "init_process_group",
                "the processes that were started find each other by MPI",
                started=asked,
                found=1,
                remedy=f"Start with mpirun -n {asked} python ..., or python -m clnet.torchrun "
                f"--nproc-per-node {asked} ..., not with torchrun; the mpirun of the MPI that "
                "mpi4py finds: pip install 'clnet[mpi]' has both",
            )

    def _end_by_exceptions(self) -> None:
        if sys.excepthook != self._ended_by:
            self._hook, sys.excepthook = sys.excepthook, self._ended_by

    def part(self, ranks: Sequence[int], seconds: float | None) -> Group | None:
        """A group of some ranks; all of the world call it. None: this rank is not in it."""
        world = self.joined("new_group")
        chosen = world.comm.rank in ranks
        comm = world.comm.Split(0 if chosen else self._mpi.UNDEFINED, world.comm.rank)
        if not chosen:
            return None
        made = Group(comm, ranks, world.seconds if seconds is None else seconds)
        self.groups.append(made)
        return made

    def joined(self, op_name: str) -> Group:
        """The group of all.

        Raises:
            DistributedError: if the processes are not joined.
        """
        if self.group is None:
            raise DistributedError(
                op_name,
                "there is no group of processes",
                remedy="Call init_process_group(), or ask is_initialized() first",
            )
        return self.group

    def end(self, *, call: str = _LEAVING.decode()) -> None:
        """Leave the others; what is still under way is waited for."""
        group, self.group = self.group, None
        if group is None:
            return
        atexit.unregister(self.end)
        if self._hook is not None and sys.excepthook == self._ended_by:
            sys.excepthook, self._hook = self._hook, None
        self._ended.set()
        groups, self.groups = self.groups, []
        try:
            for each in groups:
                each.say_left()
            if group.leave(call):
                for each in (*groups, group):
                    each.runner.close()
                    if not (each.lost or each.post.lost):
                        each.free()
        finally:
            self._lookout.leave(LEFT)
        for each in (*groups, group):
            each.runner.tell_failed()

    def part_with(self, group: Group) -> None:
        """End a group that was made of some ranks."""
        if group in self.groups:
            self.groups.remove(group)
            if group.leave(_LEAVING.decode()):
                group.free()

    def _watch(self, ended: Event) -> None:
        """End the job if an exchange that all ranks have agreed on is not done in time.

        MPI's own calls have no timeout: a rank that gave up before, or is stalled, would be waited
        for without end.
        """
        group = self.group
        seconds = DEFAULT_SECONDS if group is None else group.seconds
        while not ended.wait(min(1.0, seconds / 4)):
            now = time.monotonic()
            for members in (group, *self.groups):
                busy = None if members is None else members.busy
                if members is not None and busy and now - busy[1] > members.seconds:
                    told = f"waits in {busy[0]} for others since {now - busy[1]:.0f} s"
                    silent = members.silent()
                    self._abort(f"{told}; silent_ranks={silent}" if silent else told)

    def _ended_by(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        """Called with an exception that nobody caught: a job without this rank is over."""
        story = "".join(traceback.format_exception(kind, error, trace))
        self._abort(f"ended by {kind.__name__}", story)

    def _abort(self, why: str, story: str = "") -> None:
        group, rank, size = self.group, SETTINGS.rank, SETTINGS.ranks
        if group is not None:
            rank, size = group.rank(), group.size()
        line = f"clnet: rank {rank} of {size} on {platform.node()} {why}; the job ends\n"
        self._lookout.leave(OVER)
        sys.stdout.flush()
        sys.stderr.write(story + line)
        sys.stderr.flush()
        time.sleep(_LAST_WORDS_SECONDS)
        if self._mpi is None and "mpi4py.MPI" not in sys.modules:
            # MPI begins with all processes or never: mpirun ends them where one dies of a signal.
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
        load_mpi().COMM_WORLD.Abort(1)
