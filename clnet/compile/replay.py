"""A plan's launches, bound once they ran, with the host's actions in between."""

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
        self._parts: list[list[Launch] | Action] = []
        self._ready: list[BoundLaunches | Action] = []
        for entry in program:
            if isinstance(entry, Action):
                self._parts.append(entry)
            elif self._parts and isinstance(last := self._parts[-1], list):
                last.append(entry)
            else:
                self._parts.append([entry])

    @property
    def launches(self) -> list[Launch]:
        """Kernels of one run."""
        return [launch for part in self._parts if isinstance(part, list) for launch in part]

    def rebind(self, storage: Storage) -> None:
        """Take note that a storage may have got another buffer."""
        for part in self._ready:
            if not isinstance(part, Action):
                part.rebind(storage)

    def run(self) -> None:
        """Enqueue everything once."""
        for part in self._ready:
            if isinstance(part, Action):
                part.run()
            else:
                self._queue.replay(part)
        if not self._ready:
            self._run_first()

    def _run_first(self) -> None:
        for part in self._parts:
            if isinstance(part, Action):
                part.run()
            else:
                for launch in part:
                    self._queue.launch(launch)
        # Binding takes a while, in which the device computes.
        self._ready = [
            part if isinstance(part, Action) else self._queue.bind(part) for part in self._parts
        ]
