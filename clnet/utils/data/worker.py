"""Processes that make batches ahead: what they are sent, what they answer, how they end.

A worker has a pipe of its own, so that one that is killed damages nobody else's. It is spawned, not
forked: OpenCL does not survive a fork.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import multiprocessing
import os
import pickle
import random
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import cycle, islice
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple
from weakref import WeakSet

import numpy as np

from ...errors import ArgumentError, ClnetError, WorkerError
from ...random import manual_seed
from ...values.process import in_child

_PATIENCE = 5.0  # seconds a worker may take to end by itself
Fetch = Callable[[Any], Any]
"""Makes a batch of what a sampler gave; StopIteration: a stream has ended."""


@dataclass(frozen=True)
class WorkerInfo:
    """What a data set may ask in a worker.

    Attributes:
        id: which worker it is, from 0.
        num_workers: how many there are.
        seed: of its random numbers, another for each worker and pass.
        dataset: this worker's copy.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


_WORKER: ContextVar[WorkerInfo | None] = ContextVar("clnet_worker", default=None)


_worker_info: WorkerInfo | None = None  # packages with workers of their own set it in these


def get_worker_info() -> WorkerInfo | None:
    """Which worker of a loader this process is; None in the process of the loader itself."""
    return _WORKER.get() or _worker_info


def _generate_state(base_seed: int, worker_id: int) -> list[int]:  # for packages
    """Seeds of NumPy for a worker, which others' do not meet."""
    entropy = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    seeds: Any = np.random.SeedSequence(entropy).generate_state(4)
    return seeds.tolist()


@dataclass(frozen=True)
class _IterableDatasetStopIteration:  # for packages
    """A worker's answer where its stream has ended."""

    worker_id: int


@dataclass(frozen=True)
class _ResumeIteration:  # for packages
    """Asks a worker for another pass."""

    seed: int | None = None


class ManagerWatchdog:
    """Says in a worker whether the process that began it is there."""

    def __init__(self) -> None:
        self._parent = os.getppid()

    def is_alive(self) -> bool:
        """Whether it is."""
        return os.getppid() == self._parent


class Task(NamedTuple):
    """What a worker is to do: the batch of a number, or (no number) a pass over a stream afresh."""

    number: int | None
    indices: Any


class Answer(NamedTuple):
    """What a worker did: a batch, pickled; the end of its stream; or an error."""

    number: int | None
    content: bytes | None
    error: BaseException | None = None
    text: str = ""


class UnsentError(ArgumentError):
    """What workers need cannot be pickled."""


def obstacle() -> str:
    """Why processes that are spawned cannot begin, or nothing: they run the main file again."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    if path is None or not Path(path).is_file():
        return ""
    if _is_guarded(path):
        return ""
    return f"{Path(path).name} has no if __name__ == '__main__', so that a worker would run it all"


@functools.cache
def _is_guarded(path: str) -> bool:
    """Whether a main file asks what its name is; also if it is no source."""
    try:
        body = ast.parse(Path(path).read_bytes()).body
    except (SyntaxError, ValueError):
        return True
    tests = [node.test for node in body if isinstance(node, ast.If)]
    return any(getattr(part, "id", "") == "__name__" for test in tests for part in ast.walk(test))


class _Shipped:
    """A value that is unpickled when it is opened, so that errors then have somewhere to go."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __getstate__(self) -> bytes:
        try:
            return bytes(ForkingPickler.dumps(self.value))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise UnsentError(
                "DataLoader",
                "what workers need is pickled",
                error=error,
                remedy="Define functions and classes at the top of a module, or set num_workers=0",
            ) from error

    def __setstate__(self, state: bytes) -> None:
        self.value = state

    def open(self) -> Any:
        """The value; in a forked process the very one."""
        return pickle.loads(self.value) if isinstance(self.value, bytes) else self.value


@dataclass(frozen=True)
class Work:
    """All that a worker needs to know.

    Attributes:
        dataset: the examples.
        fetcher: ``fetcher(dataset)`` begins a pass and gives a :data:`Fetch`.
        begin: the user's ``worker_init_fn``, or None.
    """

    dataset: Any
    fetcher: Callable[[Any], Fetch]
    begin: Callable[[int], Any] | None


def serve(pipe: Connection, shipped: _Shipped, index: int, num_workers: int, seed: int) -> None:
    """A worker's life: answers tasks until the pipe is closed.

    Args:
        pipe: to the loader.
        shipped: a :class:`Work`.
        index: which worker this is.
        num_workers: of how many.
        seed: of its random numbers.
    """
    tasks: SimpleQueue[Task | None] = SimpleQueue()
    Thread(target=_listen, args=(pipe, tasks), daemon=True).start()
    failed: Answer | None = None
    work: Any = None
    fetch: Fetch | None = None
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the loader hears it, and ends its workers
    try:
        random.seed(seed)
        np.random.seed(np.random.SeedSequence(seed).generate_state(4))
        manual_seed(seed)
        work = shipped.open()
        _WORKER.set(WorkerInfo(index, num_workers, seed, work.dataset))
        if work.begin is not None:
            work.begin(index)
        fetch = work.fetcher(work.dataset)
    except Exception as error:  # the loader raises it, whatever it is
        failed = _failure(None, index, error)
    while (task := tasks.get()) is not None:
        if failed is not None:
            answer = failed._replace(number=task.number)
        elif task.number is None:
            fetch = work.fetcher(work.dataset)
            continue
        else:
            answer = _answer(task, fetch, index)
        try:
            pipe.send_bytes(pickle.dumps(answer, pickle.HIGHEST_PROTOCOL))
        except (BrokenPipeError, ConnectionResetError):
            return  # the loader has ended meanwhile


def _listen(pipe: Connection, tasks: SimpleQueue[Task | None]) -> None:
    """Always reads, so that a loader that sends never waits for a worker that does, too."""
    try:
        while True:
            tasks.put(pipe.recv())
    except (EOFError, OSError):
        tasks.put(None)


def _answer(task: Task, fetch: Any, index: int) -> Answer:
    try:
        return Answer(task.number, pickle.dumps(fetch(task.indices), pickle.HIGHEST_PROTOCOL))
    except StopIteration:
        return Answer(task.number, None)
    except Exception as error:  # the loader raises it, whatever it is
        return _failure(task.number, index, error)


def _failure(number: int | None, index: int, error: Exception) -> Answer:
    kind, told = type(error).__name__, traceback.format_exc()
    text = f"Caught {kind} in DataLoader worker process {index}.\nOriginal {told}"
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # its class need not be picklable; the text is
        return Answer(number, None, RuntimeError(text), text)
    return Answer(number, None, error, text)


class _FarAwayError(Exception):
    """Shown as the cause of an error: where in the worker it was raised."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class Failed(NamedTuple):
    """In the place of a batch: why it could not be made."""

    error: Exception


def failed(answer: Answer) -> Failed:
    """A worker's error, with its traceback in the text or as its cause."""
    error: Any = answer.error
    if not isinstance(error, ClnetError):  # those have fields, and their text is made of them
        try:
            error = type(error)(answer.text)
        except TypeError:
            error = RuntimeError(answer.text)
    error.__cause__ = _FarAwayError(answer.text)
    return Failed(error)


class Workers:
    """The processes of a loader.

    Args:
        work: what they do.
        count: how many.
        seed: worker ``k`` gets ``seed + k``.
        context: of ``multiprocessing``, its name, or None for ``"spawn"``.
        timeout: seconds an answer may take; 0: any time.
    """

    def __init__(self, work: Work, count: int, *, seed: int, context: Any, timeout: float) -> None:
        how: Any = context or "spawn"
        if isinstance(how, str):
            how = multiprocessing.get_context(how)
        self.timeout = timeout
        self.next_number = 0
        self.pipes: list[Connection] = []
        self.processes: list[Any] = []
        _OPEN.add(self)
        shipped = _Shipped(work)
        try:
            for k in range(count):
                ours, theirs = how.Pipe()
                self.pipes.append(ours)
                args = (theirs, shipped, k, count, seed + k)
                process = how.Process(target=serve, args=args, daemon=True, name=f"loader-{k}")
                process.start()
                self.processes.append(process)
                theirs.close()  # ours is closed in the worker by spawning: it hears when we end
        except BaseException:
            self.close()
            raise

    def send(self, worker: int, task: Task) -> None:
        """Have a worker do something.

        Raises:
            WorkerError: if it has died, or is another process's: this one was forked since.
        """
        try:
            self._pipe(worker).send(task)
        except (BrokenPipeError, ConnectionResetError):
            raise self._death(worker) from None

    def receive(self, worker: int, number: int) -> Answer:
        """The answer of a worker to a task; those to tasks of a pass that was left are skipped.

        Raises:
            WorkerError: if it takes longer than the timeout, or as :meth:`send`.
        """
        pipe = self._pipe(worker)
        while True:
            if self.timeout and not wait([pipe], self.timeout):
                law = f"DataLoader timed out after {self.timeout} seconds"
                raise WorkerError("DataLoader", law, worker=worker)
            try:
                answer: Answer = pickle.loads(pipe.recv_bytes())
            except (EOFError, ConnectionResetError):
                raise self._death(worker) from None
            if answer.number == number:
                return answer

    def _pipe(self, worker: int) -> Connection:
        if not self.pipes:
            law = "its workers are those of the process that this one was forked from"
            raise WorkerError("DataLoader", law, remedy="Begin another pass here")
        return self.pipes[worker]

    def _death(self, worker: int) -> WorkerError:
        process = self.processes[worker]
        process.join(_PATIENCE)
        return WorkerError(
            "DataLoader",
            f"DataLoader worker (pid {process.pid}) exited unexpectedly",
            worker=worker,
            exitcode=process.exitcode,
            remedy="Its own message is above. A script that starts workers has its code under "
            "if __name__ == '__main__'",
        )

    def close(self) -> None:
        """End the processes: by themselves if they can, else by force."""
        for pipe in self.pipes:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it has ended
                pipe.send(None)
            pipe.close()
        end = time.monotonic() + _PATIENCE
        for process in self.processes:
            process.join(max(0.0, end - time.monotonic()))
            if process.is_alive():
                process.terminate()
                process.join()
            process.close()
        self.pipes, self.processes = [], []

    def leave(self) -> None:
        """Forget them in a process that was forked: to end them is for the one that began them.

        A copy of our ends would also keep workers waiting for a loader that was killed.
        """
        for pipe in self.pipes:
            pipe.close()
        self.pipes, self.processes = [], []


_OPEN: WeakSet[Workers] = WeakSet()
"""Those of this process, of all threads: a fork leaves them."""


def _leave_all() -> None:
    for workers in list(_OPEN):
        workers.leave()


in_child(_leave_all)


def in_order(workers: Workers, tasks: Iterator[Any], depth: int) -> Iterator[bytes | Failed]:
    """Batches in the order of the tasks, each worker with up to ``depth`` of them ahead.

    Args:
        workers: who do them, in turns; one whose stream has ended gets no more.
        tasks: what samplers gave.
        depth: tasks that a worker is given before its first answer is read.

    Yields:
        Batches, pickled, and the errors of those that could not be made.
    """
    count = len(workers.pipes)
    alive = [True] * count
    given: deque[tuple[int, int]] = deque()  # number and worker of each task without an answer yet
    turns = cycle(range(count))

    def give() -> None:
        worker = next((k for k in islice(turns, count) if alive[k]), None)
        if worker is not None:
            for indices in islice(tasks, 1):
                given.append((workers.next_number, worker))
                workers.send(worker, Task(workers.next_number, indices))
                workers.next_number += 1

    for _ in range(depth * count):
        give()
    while given:
        number, worker = given.popleft()
        answer = workers.receive(worker, number)
        ended = answer.content is None and answer.error is None
        alive[worker] = alive[worker] and not ended
        give()
        outcomes = [] if answer.content is None else [answer.content]
        if answer.error is not None:
            outcomes = [failed(answer)]
        del answer  # an error kept here, whose traceback has this pass, would keep the pass
        while outcomes:
            yield outcomes.pop()
