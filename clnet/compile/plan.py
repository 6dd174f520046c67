"""From a trace to launches that can be replayed: values get memory, kernels their arguments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ..array import Array
from ..device import BoundLaunch, Launch, Storage, size_class
from .trace import Trace
from .tracer import Action, Step, Tracer


class Plan:
    """The launches of one trace, bound to buffers the plan holds.

    Args:
        trace: what to run, rewritten; its arguments are overwritten before each replay, its results
            copied out after it.
        tracer: what the plan depends on, and which gradients it leaves.
    """

    def __init__(self, trace: Trace, tracer: Tracer) -> None:
        self.device = device = trace.device
        self._arguments = trace.arguments
        self._results = trace.results
        self._grads_after = list(tracer.grads_after.values())
        self._guards = list(tracer.watched.values())
        self._grads_before = list(tracer.grads_before.values())
        kept = list(
            dict.fromkeys(
                [
                    *(a.storage for a in (*trace.arguments, *trace.results)),
                    *trace.kept,
                    *(s for step in trace.setup for s in step.made),
                ]
            )
        )
        self._blocks = _assign_memory(trace, kept)
        self._mutated: list[Storage] = []
        self._ran = False
        self._setup = [launch for step in trace.setup for launch in self._launches(step)]
        self._program: list[BoundLaunch | Action] = []
        for step in trace.steps:
            if isinstance(step, Action):
                self._program.append(step)
                continue
            self._mutated += step.mutated
            self._program += [device.queue.bind(launch) for launch in self._launches(step)]

    @property
    def num_launches(self) -> int:
        """Kernels of one replay."""
        return sum(isinstance(p, BoundLaunch) for p in self._program)

    @property
    def held_bytes(self) -> int:
        """Memory the plan holds between replays."""
        return sum(size_class(b.nbytes) for b in self._blocks)

    def valid(self) -> bool:
        """Whether modules, optimisers and gradients are as they were when it was traced."""
        return not self.outdated() and all(leaf.grad is g for leaf, g in self._grads_before)

    def outdated(self) -> bool:
        """Whether a module or optimiser changed since, so that it never becomes valid again."""
        return any(o.version != version for o, version in self._guards)

    def run(self, arguments: Sequence[Array]) -> list[Array]:
        """Replay on new arguments.

        Args:
            arguments: arrays of the shapes and dtypes that were traced, dense.

        Returns:
            The results, in memory of their own.
        """
        queue = self.device.queue
        while self._setup:
            queue.launch(self._setup.pop(0))
        for place, given in zip(self._arguments, arguments, strict=True):
            if given.nbytes:
                item = given.dtype.itemsize
                queue.copy(
                    place.storage, given.storage, given.nbytes, source_bytes=given.offset * item
                )
        for entry in self._program:
            if isinstance(entry, Action):
                entry.run()
            elif self._ran:
                queue.replay(entry)
            else:  # the first time, so that the program cache sees what was launched
                queue.launch(entry.launch)
        self._ran = True
        for storage in self._mutated:
            storage.version += 1
        for leaf, grad in self._grads_after:
            leaf.grad = grad
        return [self._copied(result) for result in self._results]

    def _launches(self, step: Step) -> list[Launch]:
        launches = step.function.lower(self.device.target, step.outputs, step.inputs)
        for launch in launches:
            launch.op, launch.module_path, launch.phase = (
                step.function.name,
                step.module_path,
                step.phase,
            )
        return launches

    def _copied(self, result: Array) -> Array:
        copy = Array(
            Storage(self.device, result.storage.nbytes),
            result.shape,
            result.strides,
            result.offset,
            result.dtype,
        )
        copy.storage.materialize()
        if result.storage.nbytes:
            self.device.queue.copy(copy.storage, result.storage, result.storage.nbytes)
        return copy


def _assign_memory(trace: Trace, kept: Sequence[Storage]) -> list[Storage]:
    """Give every abstract storage of a trace a buffer; those in between share by lifetime.

    Args:
        trace: the trace.
        kept: storages that live from replay to replay.

    Returns:
        The storages that own the buffers.
    """
    owners: list[Storage] = []
    for storage in kept:
        if storage.buffer is None:
            storage.materialize()
    last_use = trace.last_use
    expiring: dict[int, list[Storage]] = defaultdict(list)
    free: dict[int, list[Storage]] = defaultdict(list)
    owner_of: dict[Storage, Storage] = {}
    for index, step in trace.ops:
        for array in step.outputs:
            storage = array.storage
            if storage.buffer is not None:
                continue
            blocks = free[size_class(storage.nbytes)]
            owner = blocks.pop() if blocks else _block(storage, owners)
            storage.buffer = owner.buffer
            owner_of[storage] = owner
            expiring[last_use[storage]].append(storage)
        for storage in expiring.pop(index, ()):
            free[size_class(storage.nbytes)].append(owner_of[storage])
    return [*kept, *owners]


def _block(like: Storage, owners: list[Storage]) -> Storage:
    owner = Storage(like.device, size_class(like.nbytes))
    owner.materialize()
    owners.append(owner)
    return owner
