"""A plan's launches, bound once, with the host's actions in between."""

from __future__ import annotations

from collections.abc import Sequence

from ..device import BoundLaunches, Launch, Queue, Storage
from .tracer import Action


class Replay:
    """Launches and actions in order; running them again costs little more than the enqueues.

    Args:
        queue: where they run.
        program: what is run. The launches' storages have buffers, except arguments, which get
            theirs before each run.
    """

    def __init__(self, queue: Queue, program: Sequence[Launch | Action]) -> None:
        self._queue = queue
        self._ran = False
        self._parts: list[BoundLaunches | Action] = []
        run: list[Launch] = []
        for entry in (*program, None):
            if isinstance(entry, Launch):
                run.append(entry)
                continue
            if run:
                self._parts.append(queue.bind(run))
                run = []
            if entry is not None:
                self._parts.append(entry)
        self._bound = [part for part in self._parts if isinstance(part, BoundLaunches)]

    @property
    def launches(self) -> list[Launch]:
        """Kernels of one run."""
        return [launch for bound in self._bound for launch in bound.launches]

    def rebind(self, storage: Storage) -> None:
        """Take note that a storage may have got another buffer."""
        for bound in self._bound:
            bound.rebind(storage)

    def run(self) -> None:
        """Enqueue everything once."""
        for part in self._parts:
            if isinstance(part, Action):
                part.run()
            elif self._ran:
                self._queue.replay(part)
            else:  # the first time, so that the program cache sees what was launched
                for launch in part.launches:
                    self._queue.launch(launch)
        self._ran = True
