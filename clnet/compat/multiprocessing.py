"""``clnet.multiprocessing``: Python's own; tensors go between processes as copies."""

from __future__ import annotations

import multiprocessing as _python
import pickle
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from multiprocessing import *  # noqa: F403
from multiprocessing import spawn as _spawn
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

from ..values.settings import SETTINGS
from .launch import environment, mpirun, print_lines

__all__ = [
    "ProcessContext",
    "ProcessExitedException",
    "ProcessRaisedException",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]
__all__ += _python.__all__

_LOOKS_S = 0.05
# Others that wait for one that failed are ended then; MPI ends them itself, mostly.
_GRACE_S = 1
_CHILD = "import sys; from clnet.compat.multiprocessing import run_rank; run_rank(sys.argv[1])"


class ProcessException(_python.ProcessError):
    """A process of :func:`spawn` that failed.

    Attributes:
        msg: what is told.
        error_index: its number.
        error_pid: its process, or that of ``mpirun``.
    """

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.error_pid = msg, error_index, error_pid


class ProcessRaisedException(ProcessException):
    """... by an exception, whose traceback is told."""


class ProcessExitedException(ProcessException):
    """... without one.

    Attributes:
        exit_code: its status.
        signal_name: None: it is in the exit code, negative.
    """

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: Any = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name


class ProcessContext:
    """What :func:`spawn` started.

    Args:
        processes: Python's, by number, or the only one: ``mpirun``.
        folder: where those that fail write why.

    Attributes:
        processes: likewise.
    """

    def __init__(
        self, processes: list[Any], folder: tempfile.TemporaryDirectory[str] | None
    ) -> None:
        self.processes = processes
        self._folder = folder

    def pids(self) -> list[int]:
        """The processes' numbers."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until all have ended, or one has failed: then the others are ended.

        Args:
            timeout: seconds to wait; None: as long as it takes.
            grace_period: seconds that the others have to end by themselves.

        Returns:
            Whether all have ended.

        Raises:
            ProcessRaisedException: if one raised an exception.
            ProcessExitedException: if one ended otherwise, with another status than 0.
        """
        last = None if timeout is None else time.monotonic() + timeout
        while self._folder is not None:
            codes = [_exit_code(process) for process in self.processes]
            if any(codes) or self._told():
                self._fail(_GRACE_S if grace_period is None else grace_period)
            if None not in codes:
                self._clean()
                break
            if last is not None and time.monotonic() >= last:
                return False
            time.sleep(_LOOKS_S)
        return True

    def _told(self) -> list[tuple[int, str]]:
        """Who failed by an exception, and its traceback, the first one first."""
        found = [] if self._folder is None else [*Path(self._folder.name).glob("error-*")]
        found.sort(key=lambda path: path.stat().st_mtime_ns)
        return [(int(path.name[6:]), path.read_text(encoding="utf-8")) for path in found]

    def _fail(self, grace: float) -> None:
        last = time.monotonic() + grace
        while None in map(_exit_code, self.processes) and time.monotonic() < last:
            time.sleep(_LOOKS_S)
        for process in self.processes:
            if _exit_code(process) is None:
                process.terminate()
        for process in self.processes:
            process.wait() if isinstance(process, subprocess.Popen) else process.join()
        told, codes = self._told(), [_exit_code(process) for process in self.processes]
        self._clean()
        if told:
            index, text = told[0]
            pid = self.processes[min(index, len(codes) - 1)].pid
            msg = f"\n\n-- Process {index} terminated with the following error:\n{text}"
            raise ProcessRaisedException(msg, index, pid)
        index, code = next((i, code) for i, code in enumerate(codes) if code)
        msg = f"process {index} terminated with exit code {code}"
        raise ProcessExitedException(msg, index, self.processes[index].pid, code or 0)

    def _clean(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()
        self._folder = None


def _exit_code(process: Any) -> int | None:
    """None: it runs."""
    return process.poll() if isinstance(process, subprocess.Popen) else process.exitcode


def get_all_sharing_strategies() -> set[str]:
    """Names of ways in which PyTorch shares memory."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy() -> str:
    """One of them, which changes nothing."""
    return "file_system"


def set_sharing_strategy(new_strategy: str) -> None:
    """Taken: tensors go between processes as copies."""


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,  # noqa: FBT001, FBT002 - PyTorch's
    daemon: bool = False,  # noqa: FBT001, FBT002
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Call ``fn(rank, *args)`` in several processes; wait for them, unless ``join`` is False.

    Fresh ones are started by ``mpirun`` if it is there, so that they can be joined by
    ``init_process_group``; not where ``args`` hold a queue or a lock, which processes of Python
    alone share.

    Raises:
        ProcessRaisedException, ProcessExitedException: if one of them failed, when they are waited
            for.
    """
    folder = tempfile.TemporaryDirectory(prefix="clnet-spawn-")
    started = None
    if nprocs > 1 and start_method == "spawn":
        started = _ranks(fn, args, nprocs, Path(folder.name))
    if started is None:
        context = _python.get_context(start_method)
        started = [
            context.Process(target=_call, args=(fn, rank, args, folder.name), daemon=daemon)  # pyrefly: ignore[missing-attribute] - every context has it
            for rank in range(nprocs)
        ]
        for process in started:
            process.start()
    made = ProcessContext(started, folder)
    if not join:
        return made
    try:
        made.join()
    except KeyboardInterrupt:
        for process in started:
            process.terminate()
        raise
    return None


start_processes = spawn


def _ranks(
    fn: Callable[..., Any], args: tuple[Any, ...], nprocs: int, folder: Path
) -> list[Any] | None:
    """``mpirun``, which starts them; None: there is none, or something cannot be sent to it."""
    start = mpirun()
    if start is None:
        return None
    try:
        # What a fresh process of Python's is sent first: its paths, arguments and main program.
        told = _spawn.get_preparation_data("clnet-spawn")
        told.pop("authkey", None)  # of queues, which go by Python's own processes
        before = ForkingPickler.dumps(told)
        called = ForkingPickler.dumps((fn, args))
    except (RuntimeError, TypeError, AttributeError, pickle.PicklingError):
        return None  # Python's own processes take it, or say why not
    call = folder / "call"
    call.write_bytes(pickle.dumps((bytes(before), bytes(called))))
    command = [start, "-n", str(nprocs), sys.executable, "-c", _CHILD, str(call)]
    return [subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environment())]


def run_rank(call: str) -> None:
    """What a process does that ``mpirun`` started for :func:`spawn`.

    Args:
        call: the file that has what is to be called.
    """
    print_lines()
    before, called = pickle.loads(Path(call).read_bytes())
    _spawn.prepare(pickle.loads(before))
    fn, args = pickle.loads(called)
    _call(fn, SETTINGS.rank or 0, args, str(Path(call).parent))


def _call(fn: Callable[..., Any], rank: int, args: tuple[Any, ...], folder: str) -> None:
    """Call it, and write down why it failed."""
    try:
        fn(rank, *args)
    except KeyboardInterrupt:
        pass  # whoever waits for it was interrupted, too, and tells
    except Exception:
        written = Path(folder, f"writing-{rank}")
        written.write_text(traceback.format_exc(), encoding="utf-8")
        written.rename(written.with_name(f"error-{rank}"))
        raise
