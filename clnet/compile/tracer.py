"""Records what a function would run, on abstract arrays; nothing is executed or compiled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..array import Array
from ..device import Storage, users_line
from ..ops.machinery.function import Function
from ..values import mode


@dataclass(frozen=True)
class Step:
    """One op of a trace.

    Attributes:
        function: the op with its settings.
        inputs, outputs: its arrays; an output may be a view of an input.
        module_path, phase: who asked for it.
        line: the user's line, of a step whose kernels check their data; else "".
    """

    function: Function
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    module_path: str
    phase: str
    line: str = ""

    @cached_property
    def reads(self) -> tuple[Storage, ...]:
        """The storages of its inputs, those that it changes included."""
        return tuple(dict.fromkeys([x.storage for x in self.inputs]))

    @cached_property
    def storages(self) -> tuple[Storage, ...]:
        """The storages of its inputs and outputs."""
        return tuple(dict.fromkeys([a.storage for a in (*self.inputs, *self.outputs)]))

    @cached_property
    def mutated(self) -> tuple[Storage, ...]:
        """The storages it changes in place."""
        return tuple(self.inputs[i].storage for i in self.function.mutates)

    @cached_property
    def made(self) -> tuple[Storage, ...]:
        """The storages of outputs that are no views of inputs."""
        return tuple(
            [s for s in dict.fromkeys(y.storage for y in self.outputs) if s not in self.reads]
        )

    @cached_property
    def writes(self) -> tuple[Storage, ...]:
        """All storages it writes."""
        return tuple(dict.fromkeys((*self.mutated, *self.made)))


@dataclass(frozen=True)
class Action:
    """Something done on the host between launches, at every replay."""

    run: Callable[[], None]


class Tracer:
    """What :mod:`clnet.values.mode` holds while a function is traced.

    Attributes:
        steps: what was recorded, in order.
        watched: objects whose ``version`` the trace depends on, by ``id``.
        grads_before: gradients that were read before they were written, by ``id`` of the leaf.
        grads_after: leaves whose gradient was written, by ``id``.
    """

    def __init__(self) -> None:
        self.steps: list[Step | Action] = []
        self.watched: dict[int, tuple[Any, int]] = {}
        self.grads_before: dict[int, tuple[Any, Any]] = {}
        self.grads_after: dict[int, tuple[Any, Any]] = {}
        self._restore: dict[int, tuple[Any, Any]] = {}

    def record(
        self, function: Function, inputs: tuple[Array, ...], outputs: tuple[Array, ...]
    ) -> None:
        """Called by :func:`clnet.ops.execution.execute` instead of running the op."""
        now = mode.current()
        line = "" if function.check is None else users_line()
        self.steps.append(Step(function, inputs, outputs, now.module_path, now.phase, line))

    def record_action(self, action: Callable[[], None]) -> None:
        """Called by :func:`clnet.ops.machinery.function.host_action` instead of acting."""
        self.steps.append(Action(action))

    def watch(self, versioned: Any) -> None:
        """Make the trace invalid once ``versioned.version`` changes (modules, optimisers)."""
        self.watched.setdefault(id(versioned), (versioned, versioned.version))

    def grad_read(self, leaf: Any, value: Any) -> None:
        """A leaf's gradient is read: unless the trace wrote it, the trace depends on it."""
        if id(leaf) not in self.grads_after:
            self.grads_before.setdefault(id(leaf), (leaf, value))

    def grad_written(self, leaf: Any, before: Any, value: Any) -> None:
        """A leaf's gradient is written: every replay leaves it so."""
        self._restore.setdefault(id(leaf), (leaf, before))
        self.grads_after[id(leaf)] = (leaf, value)

    def undo(self) -> None:
        """Give leaves their gradients and storages their versions back: nothing has run yet."""
        for step in self.steps:
            if isinstance(step, Step):
                for position in step.function.mutates:
                    step.inputs[position].storage.version -= 1
        for leaf, before in self._restore.values():
            leaf.grad = before
