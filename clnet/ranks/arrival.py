"""How processes come together: MPI begins, and all are waited for, but for one that has ended."""

from __future__ import annotations

import faulthandler
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..errors import DeviceError
from ..values.polling import polled
from ..values.settings import SETTINGS
from .post import PAUSE_SECONDS, gone, no_answer

__all__ = ["answered", "await_all", "load_mpi", "stay_away"]

# Of a process that ends before all have joined; among the program's own messages, so an odd one.
_ABSENT_TAG = 32_693
_LAST_SECONDS = 1.0  # that others have to end as well
_SAID: list[Any] = []
"""What this process has said as it ended, which MPI may still read."""


def load_mpi(seconds: float | None = None) -> Any:
    """``mpi4py.MPI``, which initialises MPI when it is imported.

    Args:
        seconds: how long other processes are waited for, of which one may have ended before; then
            this one ends. None: without end.

    Raises:
        DeviceError: if it is not installed, or finds no MPI.
    """
    try:
        with _ended_after(None if "mpi4py.MPI" in sys.modules else seconds):
            from mpi4py import MPI  # noqa: PLC0415 - optional
    except (ImportError, RuntimeError) as error:
        raise DeviceError(
            "distributed",
            "processes exchange tensors through MPI",
            error=" ".join(str(error).split()),
            remedy="pip install 'clnet[mpi]', and start with mpirun -n 2 python ...",
        ) from error
    return MPI


@contextmanager
def _ended_after(seconds: float | None) -> Iterator[None]:
    """End the process, with its traceback, if the body takes longer.

    MPI waits in its beginning for all processes, and keeps Python's lock: no thread could end it.
    """
    stream = sys.__stderr__
    if seconds is None or SETTINGS.ranks == 1 or stream is None or stream.closed:
        yield
        return
    faulthandler.dump_traceback_later(seconds, exit=True, file=stream)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def answered(test: Callable[[], bool], seconds: float, what: str) -> None:
    """Ask until something is so, politely: the cores are for computing.

    Args:
        test: whether it is.
        seconds: how long it is waited for.
        what: the exchange, for the error.

    Raises:
        DistributedError: if it is not within so many seconds.
    """
    start = time.monotonic()
    if polled(test, stay=True):
        return
    while not test():
        waited = time.monotonic() - start
        if waited > seconds:
            raise no_answer(what, waited)
        time.sleep(PAUSE_SECONDS)


def await_all(comm: Any, seconds: float) -> None:
    """Wait until all processes of a communicator have come here.

    Args:
        comm: MPI's, of all processes.
        seconds: how long others are waited for.

    Raises:
        DistributedError: if one has ended before, or does not come in time.
    """
    if comm.size == 1:
        return
    request = comm.Ibarrier()

    def come() -> bool:
        if request.Test():
            return True
        others = [i for i in range(comm.size) if i != comm.rank]
        if ended := [i for i in others if comm.Iprobe(i, _ABSENT_TAG)]:
            raise gone("init_process_group", ended, comm.rank)
        return False

    answered(come, seconds, "init_process_group")


def stay_away(comm: Any) -> None:
    """Let the others, who may wait in :func:`await_all`, know that this process has ended.

    Others may end likewise, and say the same: they are heard, since MPI does not end well with what
    is still on its way.
    """
    told, heard = np.zeros(1, np.uint8), np.zeros(1, np.uint8)
    others = [i for i in range(comm.size) if i != comm.rank]
    said = [comm.Isend(told, i, _ABSENT_TAG) for i in others]
    _SAID.extend([told, *said])
    end = time.monotonic() + _LAST_SECONDS
    while (said or others) and time.monotonic() < end:
        said = [request for request in said if not request.Test()]
        for i in [i for i in others if comm.Iprobe(i, _ABSENT_TAG)]:
            comm.Recv(heard, i, _ABSENT_TAG)
            others.remove(i)
        time.sleep(PAUSE_SECONDS)
