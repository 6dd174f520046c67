"""A plan's launches, bound when they run again, with the host's actions in between."""

from __future__ import annotations

from collections.abc import Sequence

from ..device import BoundLaunches, Launch, Queue, Storage
from .tracer import Action

# Binding takes a while; the device computes what was bound and enqueued before.
_BOUND_AT_ONCE = 32


class Replay:
    """Launches and actions in order; running them again costs little more than the enqueues.

    The first run, whose result is waited for and which may be the last, binds nothing; the second
    binds launches as it enqueues them.

    Args:
        queue: where they run.
        program: what is run. The launches' storages have buffers, except arguments, which get
            theirs before each run.
    """

    def __init__(self, queue: Queue, program: Sequence[Launch | Action]) -> None:
        self._queue = queue
        self._parts: list[list[Launch] | Action] = []
        self._ready: list[BoundLaunches | Action] = []
        self._ran = False
        for entry in program:
            last = self._parts[-1] if self._parts else None
            if isinstance(entry, Action):
                self._parts.append(entry)
            elif isinstance(last, list) and len(last) < _BOUND_AT_ONCE:
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
        if self._ready:
            for part in self._ready:
                self._run_part(part)
        elif self._ran:
            self._ready = [self._bound(part) for part in self._parts]
        else:
            for part in self._parts:
                self._run_unbound(part)
            self._ran = True

    def _run_part(self, part: BoundLaunches | Action) -> None:
        if isinstance(part, Action):
            part.run()
        else:
            self._queue.replay(part)

    def _bound(self, part: list[Launch] | Action) -> BoundLaunches | Action:
        """A part, bound and run."""
        bound = part if isinstance(part, Action) else self._queue.bind(part)
        self._run_part(bound)
        return bound

    def _run_unbound(self, part: list[Launch] | Action) -> None:
        if isinstance(part, Action):
            part.run()
        else:
            for launch in part:
                self._queue.launch(launch)
