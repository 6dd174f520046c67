"""A plan's launches, bound when they run again, with the host's actions in between."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from ..array import Array
from ..device import BoundLaunches, Chaining, Device, Launch, Storage
from ..errors import TraceError, shortened
from .tracer import Action

# Binding takes a while; the device computes what was bound and enqueued before.
_BOUND_AT_ONCE = 32
# Chains are compiled for plans that run again and again: that takes seconds, once on a machine, and
# meanwhile the plan runs as it is.
_CHAINED_AT = 16


@dataclass(frozen=True)
class Gate:
    """A place among launches where a replay stands until other devices' have come to theirs.

    Attributes:
        meeting: what happens there, the same object on all devices.
        array: what this device brings, or gets.
    """

    meeting: Any
    array: Array | None = None

    def __call__(self) -> NoReturn:
        """Called by whoever does not know it: a replay of one device meets nobody."""
        raise TraceError("replay", "a plan of one device waits for no other")


class Replay:
    """Launches and actions in order; running them again costs little more than the enqueues.

    The first run, whose result is waited for and which may be the last, binds nothing; the second
    binds launches as it enqueues them. Where launches pay as chains, a later one has these built,
    and one after that takes them.

    Args:
        device: where they run.
        chained: whether chains may pay.
        program: what is run. The launches' storages have buffers, except arguments, which get
            theirs before each run.
    """

    def __init__(
        self, device: Device, program: Sequence[Launch | Action], *, chained: bool
    ) -> None:
        self._device = device
        self._queue = device.queue
        self._parts: list[list[Launch] | Action] = []
        self._ready: list[BoundLaunches | Action] = []
        self._users: dict[Storage, list[BoundLaunches]] = {}  # of a storage, among these
        self._runs = 0
        self._chained = chained  # until they were taken, or cannot be
        self._in_chains = False
        self._chaining: Chaining | None = None
        self._entries: list[list[Launch] | Action] = []  # chained ones, while they are built
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
        for part in self._users.get(storage, ()):
            part.rebind(storage)

    def moved(self) -> None:
        """Take note that a storage is a region elsewhere, which chains know as it was."""
        if self._chaining is not None or self._in_chains:
            self._keep([])
            self._entries = []
            self._chained, self._in_chains, self._chaining = False, False, None

    def run(self) -> None:
        """Enqueue everything once, where no gate is.

        What is bound and waits for no chains is gone through as it is: a plan of few launches takes
        less than what stands around them would.
        """
        if not self._ready or self._chained:
            for gate in self.stages():
                gate()
            return
        replay = self._queue.replay
        for part in self._ready:
            if isinstance(part, Action):
                part.run()
            else:
                replay(part)

    def stages(self) -> Iterator[Gate]:
        """Enqueue everything once.

        Yields:
            Every gate, when it is reached; what lies behind it is enqueued by going on.
        """
        if self._chained and self._runs >= _CHAINED_AT and self._device.chains:
            self._chain()
        ready: list[BoundLaunches | Action] = []
        for part in self._ready or self._parts:
            if isinstance(part, Action):
                if isinstance(part.run, Gate):
                    yield part.run
                else:
                    part.run()
                ready.append(part)
            elif isinstance(part, list) and self._runs == 0:
                for launch in part:
                    self._queue.launch(launch)
            else:
                ready.append(bound := self._queue.bind(part) if isinstance(part, list) else part)
                self._queue.replay(bound)
        if self._runs and not self._ready:
            self._keep(ready)
        self._runs += 1

    def _keep(self, ready: list[BoundLaunches | Action]) -> None:
        """Go through these from now on."""
        self._ready, self._users = ready, {}
        for part in ready:
            for storage in () if isinstance(part, Action) else part.storages:
                self._users.setdefault(storage, []).append(part)

    def _chain(self) -> None:
        """Have chains built, or take them when they are; without them launches are as right."""
        try:
            if self._chaining is None:
                self._entries = _joined(self._parts)
                launches = [e for e in self._entries if isinstance(e, list)]
                self._chaining = Chaining(self._device, launches)
                if self._device.programs.builds_beside:
                    self._chaining.build()
            if not self._chaining.ready:
                return
            found = iter(self._chaining.bound())
            self._keep(
                [
                    each
                    for entry in self._entries
                    for each in (next(found) if isinstance(entry, list) else [entry])
                ]
            )
            self._in_chains, failure = True, None
        except Exception as error:  # a compiler's, a driver's, of a disk
            failure = error
        self._chained, self._chaining, self._entries = False, None, []
        if failure is not None:
            text = f"a plan's launches stay apart: {shortened(failure)}"
            warnings.warn(text, RuntimeWarning, stacklevel=2)


def _joined(parts: Sequence[list[Launch] | Action]) -> list[list[Launch] | Action]:
    """Parts, as long as can be."""
    found: list[list[Launch] | Action] = []
    for part in parts:
        last = found[-1] if found else None
        if isinstance(part, list) and isinstance(last, list):
            last += part
        else:
            found.append(list(part) if isinstance(part, list) else part)
    return found
