"""A graph made ready to run: nodes in an order that feeds them, with their handlers and attributes.

`build` reads the protobuf graph once and says all that is missing; `Program.run` is all that is
left at a call. Host data (shapes) is computed on the host by the twins of `shapes`, never data of
tensors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..errors import ClnetError, OnnxError, shortened
from ..tensor import Tensor
from . import protos
from .contributed import spelled
from .elements import Carried, Known, Laid, by_number, by_numpy, to_device, to_host
from .registry import Handler, find, twin

__all__ = ["Missing", "Program", "Step", "build", "bury", "missing_text", "read_by_bodies"]

# What handlers raise over operands that no valid model has: None where a value is needed ...
_BROKEN = (
    *(TypeError, ValueError, IndexError, KeyError, ZeroDivisionError, OverflowError),
    *(AttributeError, StopIteration, MemoryError),
)
_DEEPEST = 16  # of bodies in bodies and functions in functions


@dataclass
class Missing:
    """What a model asks for and clnet does not have: reasons, counted."""

    counts: Counter[str] = field(default_factory=Counter)


@dataclass
class Step:
    """A node that runs.

    Attributes:
        label: op and name, for errors.
        handler: computes it; None: ``body`` does.
        on_host: computes it from host data.
        inputs: names; the empty one is an input left out.
        outputs: names, the empty one of results that nobody reads.
        attributes: by the handler's parameters.
        tied: for each output the input whose carried type it has, or None.
        dead: names that nobody reads after it.
    """

    label: str
    handler: Handler | None
    on_host: Callable[..., Any] | None
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    tied: tuple[int | None, ...] = ()
    body: Program | None = None
    dead: tuple[str, ...] = ()

    def run(self, scope: dict[str, Any], device: Any) -> None:
        """Compute the outputs in a scope of values by name."""
        given = [scope[name] if name else None for name in self.inputs]
        try:
            made = self._computed(given, scope, device)
        except ClnetError as error:
            if error.module is None:
                error.module = self.label
            raise
        except _BROKEN as error:
            raise OnnxError("onnx", f"node {self.label} fails: {shortened(error)}") from error
        results = made if isinstance(made, tuple) else (made,)
        if len(results) < len([name for name in self.outputs if name]):
            raise OnnxError("onnx", f"node {self.label} has fewer results", results=len(results))
        for i, (name, result) in enumerate(zip(self.outputs, results, strict=False)):
            if name:
                source = self.tied[i] if i < len(self.tied) else None
                scope[name] = _retyped(result, given, source)
        for name in self.dead:
            scope.pop(name, None)

    def _computed(self, given: list[Any], scope: dict[str, Any], device: Any) -> Any:
        """The results: of a body, of host data on the host, else of the handler on the device."""
        if self.body is not None:
            return tuple(self.body.run(given, {}, device))
        if self.on_host is not None and all(v is None or _is_host(v) for v in given):
            made = self.on_host(*map(_array, given), **self.attributes)
            if made is not NotImplemented:
                return made
        handler = self.handler
        if handler is None:
            raise OnnxError("onnx", f"node {self.label} has no handler")
        kinds = handler.kinds + (handler.rest or "Any",) * (len(given) - len(handler.kinds))
        taken = [_taken(v, kind, device) for v, kind in zip(given, kinds, strict=False)]
        options = {
            k: v.within(scope) if isinstance(v, Body) else v for k, v in self.attributes.items()
        }
        if "device" in handler.context:
            options["device"] = device
        return handler.function(*taken, **options)


@dataclass
class Body:
    """A graph that a node of control flow runs in the scope around it.

    Attributes:
        program: the graph.
        none: of each output an array of no rounds, ``(0, ...)``; None of what tells no type.
        scope: values by name.
    """

    program: Program
    none: tuple[np.ndarray | None, ...] = ()
    scope: dict[str, Any] | None = None

    def within(self, scope: dict[str, Any]) -> Body:
        """The body in a scope."""
        return Body(self.program, self.none, scope)

    def no_rounds(self, first: int) -> list[Any]:
        """What outputs from a place on are, stacked over no rounds; sizes not told are 0.

        Raises:
            OnnxError: if one tells no type.
        """
        found = self.none[first:]
        if any(array is None for array in found):
            raise OnnxError("onnx", "outputs of a body that runs 0 times tell their types")
        return [
            to_device(array, (self.scope or {}).get("")) for array in found if array is not None
        ]

    def __call__(self, *inputs: Any) -> list[Any]:
        """Run it once."""
        scope = self.scope or {}
        return self.program.run(list(inputs), scope, scope.get("", None))


@dataclass
class Program:
    """A graph that runs.

    Attributes:
        inputs: names of what is given.
        outputs: names of what comes back.
        steps: in order.
        constants: host data by name.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    steps: list[Step]
    constants: dict[str, Any]
    types: dict[str, Any] = field(default_factory=dict)

    def run(self, given: list[Any], around: Mapping[str, Any], device: Any) -> list[Any]:
        """The outputs of inputs in order, in a scope of values by name."""
        scope: dict[str, Any] = {**around, **self.constants, "": device}
        scope.update(zip(self.inputs, given, strict=False))
        for step in self.steps:
            step.run(scope, device)
        lost = [name for name in self.outputs if name not in scope]
        if lost:
            raise OnnxError("onnx", "an output is the result of a node", outputs=lost)
        return [scope[name] for name in self.outputs]

    def fold(self) -> None:
        """Compute once what depends on host data alone."""
        left: list[Step] = []
        for step in self.steps:
            made = self._known_of(step)
            if made is None:
                left.append(step)
            else:
                self.constants.update(made)
        self.steps = left

    def _known_of(self, step: Step) -> dict[str, Known] | None:
        """What a step gives, if that is host data and depends on nothing else."""
        read = [name for name in step.inputs if name]
        known = all(name in self.constants for name in read)
        if step.on_host is None or not step.inputs or not known:
            return None
        if not all(_is_host(v) for v in map(self.constants.get, read) if v is not None):
            return None
        scope = dict(self.constants)
        step.dead = ()
        step.run(scope, None)
        made = {n: scope[n] for n in step.outputs if n}
        if not all(map(_is_host, made.values())):
            return None
        return {n: Known(_array(v)) for n, v in made.items()}


def missing_text(missing: Missing) -> str:
    """What is missing in a line: each reason with its count."""
    # A name in a damaged file may end a line.
    counts = missing.counts.most_common()
    return ", ".join(f"{repr(what)[1:-1]} ({count}x)" for what, count in counts)


@dataclass(frozen=True)
class Context:
    """What building needs to know of the model around a graph.

    Attributes:
        opsets: the version of each domain.
        functions: the model's own, by domain, name and overload.
        missing: filled with what has no handler.
        bound: attributes of the function that is being built.
        depth: of bodies and functions.
    """

    opsets: dict[str, int]
    functions: dict[tuple[str, str, str], Any]
    missing: Missing
    bound: dict[str, Any] = field(default_factory=dict)
    depth: int = 0

    def inner(
        self, opsets: dict[str, int] | None = None, bound: dict[str, Any] | None = None
    ) -> Context:
        """The context of a graph in this one.

        Raises:
            OnnxError: if it lies too deep, as functions that call themselves do.
        """
        if self.depth >= _DEEPEST:
            raise OnnxError("onnx", f"bodies and functions lie {_DEEPEST} deep at most")
        return replace(
            self,
            opsets=self.opsets if opsets is None else opsets,
            bound=self.bound if bound is None else bound,
            depth=self.depth + 1,
        )


def build(
    nodes: Iterable[Any],
    inputs: Iterable[str],
    outputs: Iterable[str],
    constants: dict[str, Any],
    context: Context,
    known: frozenset[str] = frozenset(),
) -> Program:
    """Make a graph ready to run.

    Args:
        nodes: of the graph, as protobuf has them.
        inputs: names of what is given.
        outputs: names of what comes back.
        constants: its initialisers by name.
        context: of the model.
        known: names of the scope around.

    Raises:
        OnnxError: if nodes feed each other in a circle, or read what nobody makes.
    """
    inputs, outputs = tuple(inputs), tuple(outputs)
    constants = dict(constants)
    there = {*inputs, *constants, *known}
    nodes = spelled(nodes, context.opsets.get("", 1), context.functions)
    ordered = _ordered(list(nodes), there)
    everything = frozenset(there | {o for node in ordered for o in node.output})
    steps: list[Step] = []
    for node in ordered:
        if not node.output:
            raise OnnxError("onnx", f"{node.op_type} has an output", node=node.name)
        if node.op_type == "Constant" and node.domain in protos.OWN:
            for each in node.attribute:
                given = protos.resolved(each, context.bound)
                protos.check_attribute(node, given, context.opsets.get("", 1), "")
            constants[node.output[0]] = Known(protos.constant(node, context.bound))
        else:
            steps.append(_step(node, context, everything))
    program = Program(inputs, outputs, steps, constants)
    program.fold()
    bury(program)
    return program


def _step(node: Any, context: Context, known: frozenset[str]) -> Step:
    """A node with its handler, or with a body that the model or ONNX gives it.

    What has neither is noted as missing.
    """
    domain = "" if node.domain in protos.OWN else node.domain
    label = f"{node.op_type} '{node.name}'" if node.name else node.op_type
    names = tuple(node.input), tuple(node.output)
    function = context.functions.get((node.domain, node.op_type, node.overload))
    if function is not None:
        return Step(label, None, None, *names, {}, body=_function(node, function, context))
    version = context.opsets.get(domain, context.opsets.get(node.domain, 1))
    handler = find(domain, node.op_type, version)
    attributes = {}
    for attribute in node.attribute:
        value = protos.attribute(attribute, context.bound)
        if value is protos.UNBOUND:
            continue
        protos.check_attribute(node, protos.resolved(attribute, context.bound), version, domain)
        if protos.is_graph(value):
            value = _body(value, context, known)
        attributes[attribute.name] = value
    if handler is None:
        body = _expanded(node, domain, version, context)
        if body is None:
            place = f"{domain}." if domain else ""
            context.missing.counts[f"{place}{node.op_type} of opset {version}"] += 1
            return Step(label, None, None, *names, {})
        return Step(label, None, None, *names, {}, body=body)
    attributes = _taken_attributes(handler, node, attributes, context)
    if "opset" in handler.context:
        attributes["opset"] = version
    if "outputs" in handler.context:
        attributes["outputs"] = len(node.output)
    if "named" in handler.context:
        attributes["named"] = sum(map(bool, node.output))
    tied = protos.tied_types(node, version, domain)
    on_host = twin(domain, node.op_type)
    return Step(label, handler, on_host, *names, attributes, tied)


def _taken_attributes(
    handler: Handler, node: Any, given: dict[str, Any], context: Context
) -> dict[str, Any]:
    """Attributes by the handler's parameters; those it does not know, or lacks, are noted."""
    taken = {}
    for name, value in given.items():
        if name in handler.attributes:
            taken[handler.attributes[name]] = value
        else:
            context.missing.counts[f"attribute {name} of {node.op_type}"] += 1
    for name in sorted(handler.required - set(given)):
        raise OnnxError("onnx", f"{node.op_type} has the attribute {name}", node=node.name)
    lost = [i for i in handler.needed if i >= len(node.input) or not node.input[i]]
    if lost:
        raise OnnxError("onnx", f"{node.op_type} has its input {lost[0]}", node=repr(node.name))
    if handler.rest is None and len(node.input) > len(handler.kinds):
        context.missing.counts[f"input {len(handler.kinds)} of {node.op_type}"] += 1
    return taken


def _body(graph: Any, context: Context, known: frozenset[str]) -> Body:
    constants = protos.initialisers(graph)
    inner = context.inner()
    names = [value.name for value in graph.input], [value.name for value in graph.output]
    host = {name: Known(array) for name, array in constants.items()}
    program = build(graph.node, *names, host, inner, known)
    return Body(program, tuple(_no_rounds(value.type) for value in graph.output))


def _no_rounds(kind: Any) -> np.ndarray | None:
    """An output stacked over no rounds, of its declared type."""
    if not kind.HasField("tensor_type") or not kind.tensor_type.elem_type:
        return None
    sizes = [dim.dim_value for dim in kind.tensor_type.shape.dim]
    dtype = by_number(kind.tensor_type.elem_type).numpy
    try:
        return np.empty((0, *sizes), dtype)
    except ValueError as error:
        raise OnnxError("onnx", "sizes of a body's outputs are none", sizes=sizes) from error


def _function(node: Any, function: Any, context: Context) -> Program:
    """A model's own function: a graph that sees nothing around it."""
    bound = {a.name: a for a in function.attribute_proto}
    bound.update({a.name: protos.resolved(a, context.bound) for a in node.attribute})
    opsets = {**context.opsets, **protos.opsets(function)}
    inner = context.inner(opsets=opsets, bound=bound)
    inputs = list(function.input)
    return build(function.node, inputs, function.output, {}, inner, frozenset({*inputs}))


def _expanded(node: Any, domain: str, version: int, context: Context) -> Program | None:
    """The body that ONNX itself gives an op, where it has one."""
    function = protos.schema_function(node, version, domain)
    return None if function is None else _function(node, function, context)


def _ordered(nodes: list[Any], given: set[str]) -> list[Any]:
    """Nodes in an order in which each finds its inputs.

    Raises:
        OnnxError: if there is none.
    """
    makers: dict[str, int] = {}
    for i, node in enumerate(nodes):
        for name in node.output:
            if name and (name in makers or name in given):
                raise OnnxError("onnx", "a name is given once", name=repr(name))
            makers[name] = i
    waits = [{makers[n] for n in _reads(node) if n in makers and n} for node in nodes]
    for i, node in enumerate(nodes):
        absent = [n for n in node.input if n and n not in makers and n not in given]
        if absent:
            raise OnnxError("onnx", "a node reads what another makes", name=repr(absent[0]))
        if i in waits[i]:
            raise OnnxError("onnx", "nodes feed each other in a circle", node=node.op_type)
    readers: list[list[int]] = [[] for _ in nodes]
    for i, needed in enumerate(waits):
        for j in needed:
            readers[j].append(i)
    left = [len(w) for w in waits]
    ready = [i for i in range(len(nodes) - 1, -1, -1) if not left[i]]
    order: list[Any] = []
    while ready:
        i = ready.pop()
        order.append(nodes[i])
        for j in reversed(readers[i]):
            left[j] -= 1
            if not left[j]:
                ready.append(j)
    if len(order) < len(nodes):
        stuck = next(nodes[i].op_type for i in range(len(nodes)) if left[i])
        raise OnnxError("onnx", "nodes feed each other in a circle", node=stuck)
    return order


def _reads(node: Any) -> Iterator[str]:
    """Names that a node or the graphs in it read."""
    stack = [node]
    while stack:
        inner = stack.pop()
        yield from inner.input
        for attribute in inner.attribute:
            for graph in protos.graphs(attribute):
                stack.extend(graph.node)
                yield from (value.name for value in graph.output)


def bury(program: Program) -> None:
    """Note for each step the values that die with it; bodies keep what lies around."""
    last: dict[str, int] = {}
    for i, step in enumerate(program.steps):
        names = {*step.inputs, *step.outputs}
        for value in step.attributes.values():
            if isinstance(value, Body):
                names |= _free(value.program)
        last.update(dict.fromkeys(names, i))
    kept = {*program.outputs, *program.constants, ""}
    dying: dict[int, list[str]] = {}
    for name, i in last.items():
        if name not in kept:
            dying.setdefault(i, []).append(name)
    for i, step in enumerate(program.steps):
        step.dead = tuple(dying.get(i, ()))


def read_by_bodies(program: Program) -> list[str]:
    """Names that bodies of its steps read, once for each."""
    bodies = (v for s in program.steps for v in s.attributes.values() if isinstance(v, Body))
    return [name for body in bodies for name in _free(body.program)]


def _free(program: Program) -> set[str]:
    names = {name for step in program.steps for name in step.inputs} | {*program.outputs}
    for step in program.steps:
        for value in step.attributes.values():
            if isinstance(value, Body):
                names |= _free(value.program)
    return names


def _is_host(value: Any) -> bool:
    if isinstance(value, Known):
        return value.is_host
    return isinstance(value, np.ndarray) and value.dtype.kind in "biuf"


def _array(value: Any) -> Any:
    return value.array if isinstance(value, Known) else value


def _taken(value: Any, kind: str, device: Any) -> Any:
    """A value as a handler takes it."""
    if value is None or kind == "Any":
        return _array(value)
    if isinstance(value, Laid):
        value = value.plain()
    if isinstance(value, Known) and kind == "Tensor":
        value = value.on(device)
    if kind == "Host":
        return to_host(value)
    if isinstance(value, np.ndarray):
        value = to_device(value, device)
    return value.tensor if isinstance(value, Carried) else value


def _is_carried(value: Any) -> bool:
    return by_numpy(_array(value).dtype).carried


def _retyped(result: Any, given: list[Any], source: int | None) -> Any:
    """A result in the carried type of the input that it shares a type with."""
    if source is None or not isinstance(result, Tensor) or source >= len(given):
        return result
    value = given[source]
    if isinstance(value, np.ndarray | Known):
        value = Carried(result, by_numpy(_array(value).dtype)) if _is_carried(value) else value
    if isinstance(value, list) and value:
        value = value[0]
    if isinstance(value, Carried):
        return Carried(value.element.wrapped(result), value.element)
    return result
