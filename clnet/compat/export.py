"""``torch.export``: a module's computation as a program without the module's Python.

The program is the graph that :mod:`clnet.fx` writes down: layers are calls of modules, parameters
stay where they were and are no inputs, and sizes are not fixed. What reads a value or a size in
Python, to branch or to count by it, is refused. Other names of PyTorch's can be imported, and say
when they are called that they are not here.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ArgumentError
from ..nn import Module
from ..tensor import Tensor
from .fx_graph import Graph, Node, map_arg
from .fx_module import GraphModule, symbolic_trace
from .fx_trace import TraceError
from .refused import Refused

__all__ = ["Dim", "ExportGraphSignature", "ExportedProgram", "export"]

_OTHERS = Refused(
    "torch.export",
    "Names of exported programs.",
    "only export(), its program and Dim are here",
    "clnet.onnx.export writes ONNX, torch.save(program.module(), file) keeps the module",
)


exported_program = graph_signature = sys.modules[__name__]
"""PyTorch's files of these names."""


def __getattr__(name: str) -> Any:
    return getattr(_OTHERS, name)


class Dim:
    """A size that varies, by a name: the sizes of all programs do here.

    Args:
        name: of the size.
        min: the least, taken for PyTorch's sake.
        max: the largest, likewise.
    """

    AUTO = DYNAMIC = STATIC = None

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:  # noqa: A002 - PyTorch's
        self.__name__, self.min, self.max = name, min, max

    def __repr__(self) -> str:
        return f"Dim({self.__name__!r}, min={self.min}, max={self.max})"


@dataclass(frozen=True)
class ExportGraphSignature:
    """Names of what a program reads and gives.

    Attributes:
        parameters: the module's that the graph may read.
        buffers: likewise.
        user_inputs: the graph's placeholders.
        user_outputs: the nodes that it gives, in order.
    """

    parameters: Sequence[str]
    buffers: Sequence[str]
    user_inputs: Sequence[str]
    user_outputs: Sequence[str]


class ExportedProgram:
    """What :func:`export` gives.

    Args:
        graph_module: the graph as a module.
        example_inputs: arguments, and those by name, of which it was made.
    """

    def __init__(self, graph_module: GraphModule, example_inputs: tuple[Any, Any]) -> None:
        self.graph_module, self.example_inputs = graph_module, example_inputs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refused, as PyTorch does.

        Raises:
            ArgumentError: always.
        """
        law = "Unable to call ExportedProgram directly"
        raise ArgumentError("ExportedProgram", law, remedy="Call program.module()(...)")

    def module(self, check_guards: bool = True) -> GraphModule:  # noqa: FBT001, FBT002 - PyTorch's
        """What computes, with the module's own parameters.

        Args:
            check_guards: taken for PyTorch's sake: arguments that are no tensors are always
                compared with those of which the program was made.
        """
        del check_guards
        return self.graph_module

    @property
    def graph(self) -> Graph:
        """The nodes."""
        return self.graph_module.graph

    @property
    def graph_signature(self) -> ExportGraphSignature:
        """The names of inputs and outputs."""
        outputs: list[str] = []
        for node in self.graph.nodes:
            if node.op == "output":
                map_arg(node.args, lambda given: outputs.append(given.name))
        return ExportGraphSignature(
            [name for name, _ in self.named_parameters()],
            [name for name, _ in self.named_buffers()],
            [node.name for node in self.graph.nodes if node.op == "placeholder"],
            outputs,
        )

    @property
    def state_dict(self) -> dict[str, Any]:
        """Parameters and buffers by name."""
        return self.graph_module.state_dict()

    def parameters(self) -> Iterator[Any]:
        """The parameters that the graph reads."""
        return self.graph_module.parameters()

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        """Likewise, with their names."""
        return self.graph_module.named_parameters()

    def buffers(self) -> Iterator[Any]:
        """The buffers that it reads."""
        return self.graph_module.buffers()

    def named_buffers(self) -> Iterator[tuple[str, Any]]:
        """Likewise, with their names."""
        return self.graph_module.named_buffers()

    def __str__(self) -> str:
        code = self.graph_module.code.strip().replace("\n", "\n    ")
        return f"ExportedProgram:\n    {code}\n\nGraph signature:\n    {self.graph_signature}"


def export(
    mod: Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
) -> ExportedProgram:
    """A module's computation as a program.

    Args:
        mod: the module.
        args: arguments of a call. Tensors are the program's inputs; other values are fixed.
        kwargs: those by name.
        dynamic_shapes: taken for PyTorch's sake: sizes are not fixed.
        strict: taken for PyTorch's sake.
        preserve_module_call_signature: taken for PyTorch's sake: layers are calls of modules.

    Raises:
        ArgumentError: if it is no module, its ``forward`` does not take the arguments, or it
            reads a value or a size in Python.
    """
    del dynamic_shapes, strict, preserve_module_call_signature
    if not isinstance(mod, Module):
        raise ArgumentError("export", "it takes a module", mod=type(mod).__name__)
    try:
        bound = inspect.signature(type(mod).forward).bind(mod, *args, **(kwargs or {}))
    except TypeError as error:
        raise ArgumentError("export", "forward takes the arguments", error=error) from error
    bound.apply_defaults()
    given = list(bound.arguments.items())[1:]
    fixed = {name: value for name, value in given if not _has_tensors(value)}
    try:
        found = symbolic_trace(mod, fixed)
    except TraceError as error:
        law = "forward reads neither values nor sizes in Python"
        raise ArgumentError("export", law, error=error) from error
    for node in found.graph.nodes:
        if node.op == "placeholder" and node.target in fixed:
            _compare(found.graph, node, fixed[node.target])
    found.recompile()
    return ExportedProgram(found, (args, dict(kwargs or {})))


def _has_tensors(value: Any) -> bool:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return any(map(_has_tensors, value))
    return isinstance(value, Tensor)


def _compare(graph: Graph, node: Node, value: Any) -> None:
    """Let a program refuse another value than the one that it was made with."""
    node.args = (value,)  # the argument may be left out
    with graph.inserting_after(node):
        graph.call_function(require_equal, (node, value, node.target))


def require_equal(given: Any, value: Any, name: str) -> None:
    """Refuse an argument of a program, for its graph.

    Args:
        given: what came.
        value: that of which the program was made.
        name: the argument's.

    Raises:
        ArgumentError: if they differ.
    """
    if isinstance(given, Tensor) or given != value:
        law = "an argument that is no tensor is that of which the program was made"
        raise ArgumentError(
            "ExportedProgram.module", law, argument=name, given=given, made_of=value
        )
