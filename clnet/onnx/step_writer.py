"""Writes the steps of a trace, each by its exporter or in the ops that it decomposes into."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..array import Array
from ..autograd import no_grad
from ..compile.tracer import Action, Step, Tracer
from ..device import Storage
from ..errors import OnnxError
from ..ops.machinery.function import Function
from ..tensor import Tensor
from ..values import mode
from .exporters import EXPORTERS, Exporter, Given, NotExported
from .sizes import Dynamic
from .writing import Graph

__all__ = ["StepWriter", "place"]

Steps = Sequence[Step | Action]
# Where the generator of random numbers stood, and how data is checked: not what is computed.
_ASIDE = {"check", "counter"}


def place(array: Array) -> tuple[Any, ...]:
    """What two arrays have in common that are the same elements."""
    return (array.storage, array.offset, array.shape, array.strides, array.dtype)


class StepWriter:
    """Steps of traces at several sizes as nodes of one graph.

    Args:
        graph: to write into.
        dynamic: the sizes that the traces differ in.
        states: parameters and buffers by place, with their names.

    Attributes:
        graph: as above.
    """

    def __init__(
        self, graph: Graph, dynamic: Dynamic, states: dict[Any, tuple[str, Array]]
    ) -> None:
        self.graph = graph
        self._dynamic = dynamic
        self._states = states
        self._names: dict[Any, str] = {}
        self._makers: dict[Any, Step] = {}
        self._missing: Counter[str] = Counter()
        self._unknown: set[Storage] = set()

    def know(self, array: Array, name: str) -> None:
        """A value has a name."""
        self._names[place(array)] = name

    def named(self, array: Array) -> str:
        """The name of a value; what lies outside the traces becomes an initialiser."""
        key = place(array)
        if key not in self._names:
            if array.storage.buffer is None:
                if array.storage not in self._unknown:
                    self._missing["a value that its op does not tell"] += 1
                return ""
            name, _ = self._states.get(key, ("constant", None))
            host = Tensor(array).numpy()
            whole = name != "constant" or host.ndim > 1
            made = self.graph.initialiser(name, host) if whole else self.graph.constant(host)
            self._names[key] = made
        return self._names[key]

    def refuse(self) -> None:
        """Say all that cannot be exported.

        Raises:
            OnnxError: if there is any.
        """
        if self._missing:
            listed = ", ".join(f"{what} ({n}x)" for what, n in self._missing.most_common())
            raise OnnxError(
                "onnx.export",
                f"ONNX gets no node for all of it: {listed}",
                remedy="Write those parts in other ops",
            )

    def write(self, traces: Sequence[Steps], results: Sequence[Array]) -> None:
        """Write the steps that results need.

        Args:
            traces: the steps at each size.
            results: at the first.

        Raises:
            OnnxError: if the steps differ in more than sizes.
        """
        lengths = [len(steps) for steps in traces]
        other = next((i for i, n in enumerate(lengths) if n != lengths[0]), None)
        if other is not None:
            raise self._different("it does other ops", other)
        alive = {array.storage for array in results}
        kept: list[int] = []
        for position in range(len(traces[0]) - 1, -1, -1):
            step = traces[0][position]
            if isinstance(step, Action):
                self._missing["what is done on the host at each call, as random numbers are"] += 1
            elif alive.intersection(step.made) or step.mutated or _views(step, alive):
                kept.append(position)
                alive.update(step.reads)
        for position in reversed(kept):
            self._step([steps[position] for steps in traces])  # pyrefly: ignore[bad-argument-type] - no actions

    def _step(self, steps: Sequence[Step]) -> None:
        step = steps[0]
        if step.mutated:
            self._lack(step, f"{step.function.name} in place")
            return
        if step.outputs and all(place(array) in self._names for array in step.outputs):
            return  # told by the exporter of what it is a part of
        entry = EXPORTERS.get(type(step.function))
        self._compare(steps, entry)
        if self._unknown.intersection(step.reads):
            self._unknown.update(step.made)
            return
        before = len(self.graph.nodes)
        try:
            names = self._exported(steps, entry)
        except NotExported as error:
            del self.graph.nodes[before:]
            self._lack(step, str(error).removeprefix("onnx: "))
            return
        if names is None and step.function.decompose is not None:
            self._decomposed(steps)
        elif names is None:
            self._lack(step, step.function.name)
        else:
            self._keep(steps, names)

    def _exported(self, steps: Sequence[Step], entry: Exporter | None) -> Any:
        if entry is None:
            return None
        names = tuple([self.named(array) for array in steps[0].inputs])
        given = Given(self.graph, steps, names, self._dynamic, self.know, self._maker)
        return entry.write(given)

    def _maker(self, array: Array) -> tuple[Step, Sequence[str]] | None:
        step = self._makers.get(place(array))
        return None if step is None else (step, [self.named(x) for x in step.inputs])

    def _keep(self, steps: Sequence[Step], names: Any) -> None:
        made = names if isinstance(names, tuple) else (names,)
        self._makers.update((place(array), steps[0]) for array in steps[0].outputs)
        for k, name in enumerate(made):
            if name is not None:
                for step in steps:
                    self.know(step.outputs[k], name)

    def _lack(self, step: Step, what: str) -> None:
        self._missing[what] += 1
        self._unknown.update(step.storages if step.mutated else step.made)

    def _decomposed(self, steps: Sequence[Step]) -> None:
        """In the ops that a fused one is made of."""
        parts = [_parts(step) for step in steps]
        self.write([steps for steps, _ in parts], parts[0][1])
        wanted = {place(a) for a in parts[0][1] if place(a) in self._names}
        for k, array in enumerate(parts[0][1]):
            outside = array.storage.buffer is not None
            if place(array) in wanted or outside:
                name = self.named(array)
                for step in steps:
                    self.know(step.outputs[k], name)
            else:
                self._unknown.update(step.outputs[k].storage for step in steps)

    def _compare(self, steps: Sequence[Step], entry: Exporter | None) -> None:
        """The ops at several sizes differ in sizes alone."""
        first = steps[0].function
        varies = _ASIDE | (entry.varies if entry is not None else set())
        for i, other in enumerate(steps[1:], 1):
            function = other.function
            same = (type(function), function.name) == (type(first), first.name)
            if not same or len(other.inputs) != len(steps[0].inputs):
                raise self._different(f"{first.name} is {function.name} there", i)
            if function == first:
                continue
            for name in type(first).__match_args__:
                if name not in varies and getattr(first, name) != getattr(function, name):
                    raise self._different(f"{first.name} has another {name}", i)

    def _different(self, how: str, at: int) -> OnnxError:
        return OnnxError(
            "onnx.export",
            f"at other sizes of its dynamic axes the function is another: {how}",
            sizes=[*self._dynamic.points, self._dynamic.odd][at],
            remedy="Let fewer axes be dynamic",
        )


def _views(step: Step, alive: set[Storage]) -> bool:
    """Whether it is a view of what is needed."""
    return any(y.storage in alive for y in step.outputs)


def _parts(step: Step) -> tuple[Steps, tuple[Array, ...]]:
    """The steps that a fused op decomposes into, and its outputs there."""
    function: Function = step.function
    tracer = Tracer()
    try:
        with mode.using(tracer=tracer, device=step.outputs[0].device), no_grad():
            found: Any = function.decompose(*(Tensor(x) for x in step.inputs))  # pyrefly: ignore[not-callable] - it has one
    finally:
        tracer.undo()
    made = found if isinstance(found, tuple) else (found,)
    return tracer.steps, tuple(t.array for t in made)
