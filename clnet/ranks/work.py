"""Work that a thread does beside the caller's, in order, and the handles that wait for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Condition, Event, Lock, Thread, get_ident
from typing import Any

from ..errors import DistributedError
from ..values.futures import Future
from .short_turns import SHORT_TURNS

__all__ = ["Runner", "Work"]


class Work:
    """An exchange that was begun: what ``async_op=True`` gives.

    Args:
        job: what is to be done; its result is :meth:`result`'s.
    """

    def __init__(self, job: Callable[[], Any] | None = None) -> None:
        self._job = job
        self._done = Event()
        self._result: Any = None
        self._error: BaseException | None = None
        self._heard = False

    def run(self) -> None:
        """Do it; what it raises is kept for who waits."""
        job, self._job = self._job, None
        try:
            self.settle(None if job is None else job())
        except BaseException as error:  # raised where it is waited for
            self.settle(error=error)

    def settle(self, result: Any = None, *, error: BaseException | None = None) -> None:
        """It is done: with a result, or what went wrong."""
        self._result, self._error = result, error
        self._done.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is done.

        Args:
            timeout: seconds, or a ``timedelta``; None: as long as it takes.

        Returns:
            True.

        Raises:
            DistributedError: if it is not done by then.
            ClnetError: what went wrong in it.
        """
        seconds = getattr(timeout, "total_seconds", lambda: timeout)()
        if not self._done.wait(seconds):
            raise DistributedError("wait", "the exchange is not done in time", seconds=seconds)
        if self._error is not None:
            self._heard = True
            raise self._error
        return True

    def result(self) -> Any:
        """The tensors that the exchange wrote on this rank; waits for it."""
        self.wait()
        return self._result

    def get_future(self) -> Future:
        """A future of :meth:`result`; what is to be done then is done in a thread of its own.

        So it may exchange and wait, too, if it does so on all ranks in one order.
        """
        made = Future()

        def tell() -> None:
            try:
                made.set_result(self.result())
            except Exception as error:  # whatever it raises is the future's
                made.set_exception(error)

        Thread(target=tell, name="clnet-future", daemon=True).start()
        return made

    def is_completed(self) -> bool:
        """Whether it is done, well or not."""
        return self._done.is_set()

    def is_success(self) -> bool:
        """Whether it is done and nothing went wrong."""
        return self._done.is_set() and self._error is None

    def exception(self) -> BaseException | None:
        """What went wrong, if it is done."""
        self._heard = True
        return self._error

    def unheard(self) -> bool:
        """Whether something went wrong that nobody was told of."""
        return self._error is not None and not self._heard


class Runner:
    """Does one job after another: in a thread of its own, or at once in the caller's if it is idle.

    Args:
        name: of the thread, which begins with the first job that is not waited for.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._turn = Lock()
        self._jobs: SimpleQueue[Work | None] = SimpleQueue()
        self._counting = Condition()
        self._pending = 0
        self._holder: int | None = None
        self._thread: Thread | None = None
        self._failed: Work | None = None

    def begin(self, job: Callable[[], Any]) -> Work:
        """Have a job done after those that were begun before."""
        work = Work(job)
        with self._counting:
            self._wait_for_holder()
            self._pending += 1
            SHORT_TURNS.begin()
            self._jobs.put(work)
            if self._thread is None:
                self._thread = Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
        return work

    def do(self, job: Callable[[], Any]) -> Any:
        """Its result, once it and those before are done."""
        with self._counting:
            self._wait_for_holder()
            idle = self._pending == 0 and self._turn.acquire(blocking=False)
        if not idle:
            return self.begin(job).result()
        try:
            return job()
        finally:
            self._turn.release()

    @contextmanager
    def reserve(self) -> Iterator[None]:
        """Until the body ends this thread alone begins jobs; others' have been done before it.

        A replay holds a device's lock while it waits for its own exchanges. A job of another thread
        between them might wait for that lock, and the replay for the job.
        """
        with self._counting:
            self._wait_for_holder()
            outer, self._holder = self._holder, get_ident()
        try:
            if outer is None:
                self._settle()
            yield
        finally:
            with self._counting:
                self._holder = outer
                self._counting.notify_all()

    def _wait_for_holder(self) -> None:
        """Wait, with the lock, until no other thread has reserved it."""
        self._counting.wait_for(lambda: self._holder in {None, get_ident()})

    def _settle(self) -> None:
        """Wait until what was begun so far is done, well or not, in the thread or elsewhere."""
        if self._pending:
            self.begin(lambda: None).wait()
        with self._turn:
            pass

    def tell_failed(self) -> None:
        """Raise what went wrong in a job that nobody has waited for, once."""
        failed, self._failed = self._failed, None
        if failed is not None and failed.unheard():
            failed.wait()

    def close(self) -> None:
        """Let the thread end when it has done what was begun."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while (work := self._jobs.get()) is not None:
            with self._turn:
                work.run()
                if work.unheard() and (self._failed is None or not self._failed.unheard()):
                    self._failed = work
            SHORT_TURNS.end()
            with self._counting:
                self._pending -= 1
            del work
