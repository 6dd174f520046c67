"""``distributed.pipelining``: stages of a pipeline, and models that are cut into them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from ..errors import ArgumentError
from ..nn.module import Module
from ..nn.parallel.interleaved import ScheduleInterleaved1F1B, ScheduleLoopedBFS
from ..nn.parallel.pipeline import PipelineStage, Schedule1F1B, ScheduleGPipe
from ..ranks.world import Group
from .fx_graph import Graph, Node
from .fx_module import GraphModule
from .fx_trace import Tracer

__all__ = [
    "Pipe",
    "PipelineStage",
    "Schedule1F1B",
    "ScheduleGPipe",
    "ScheduleInterleaved1F1B",
    "ScheduleLoopedBFS",
    "SplitPoint",
    "pipeline",
]


class SplitPoint(Enum):
    """Where a model is cut: before a module is called, or behind it."""

    BEGINNING, END = 1, 2


class _Cutter(Tracer):
    """Writes a model down, with the modules at which it is cut as calls."""

    def __init__(self, at: Mapping[str, SplitPoint]) -> None:
        super().__init__()
        self._at = at

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        within = any(name.startswith(f"{module_qualified_name}.") for name in self._at)
        leaf = super().is_leaf_module(m, module_qualified_name) and not within
        return leaf or module_qualified_name in self._at


class Pipe:
    """A model that was cut into stages.

    Args:
        stages: the modules, in order.

    Attributes:
        num_stages: how many there are.
    """

    def __init__(self, stages: list[GraphModule]) -> None:
        self._stages, self.num_stages = stages, len(stages)

    def get_stage_module(self, stage_idx: int) -> GraphModule:
        """A stage, whose parameters have the names that they have in the model."""
        return self._stages[stage_idx]

    def build_stage(
        self, stage_index: int, device: Any = None, group: Group | None = None
    ) -> PipelineStage:
        """The stage of this process.

        Args:
            stage_index: which: this rank's number in the group, or so many ranks further.
            device: where it computes; None: the current one.
            group: who takes part; None: all.
        """
        module = self.get_stage_module(stage_index)
        if device is not None:
            module.to(device)
        return PipelineStage(module, stage_index, self.num_stages, device, group=group)


def pipeline(
    module: Module,
    mb_args: tuple[Any, ...],
    mb_kwargs: dict[str, Any] | None = None,
    split_spec: Mapping[str, SplitPoint] | None = None,
    split_policy: Callable[[Any], Any] | None = None,
) -> Pipe:
    """Cut a model into stages, by what its ``forward`` calls.

    Args:
        module: takes one tensor; its ``forward`` can be written down (``fx.symbolic_trace``).
        mb_args: the inputs for a part of a batch: one.
        mb_kwargs: None.
        split_spec: by the names of modules where it is cut; None: it is one stage.
        split_policy: None.

    Raises:
        ArgumentError: if a module of that name is not called, a stage would take more than one
            tensor from those before it, or something else is given.
    """
    if len(mb_args) != 1 or mb_kwargs or split_policy is not None:
        law = "a model takes one tensor, and is cut where split_spec says"
        given = {"mb_args": len(mb_args), "mb_kwargs": mb_kwargs, "split_policy": split_policy}
        raise ArgumentError("pipeline", law, **given)
    at = dict(split_spec or {})
    graph = _Cutter(at).trace(module)
    places, number, missed = dict[Node, int](), 0, set(at)
    for node in graph.nodes:
        point = at.get(node.target) if node.op == "call_module" else None
        missed -= {node.target} if point is not None else set()
        number += point is SplitPoint.BEGINNING
        places[node] = number
        number += point is SplitPoint.END
    if missed:
        law = "forward calls the modules of split_spec"
        raise ArgumentError("pipeline", law, not_called=sorted(missed))
    return Pipe([_stage(module, graph, places, i, number) for i in range(number + 1)])


def _stage(
    module: Module, graph: Graph, places: Mapping[Node, int], number: int, last: int
) -> GraphModule:
    """The module of a stage.

    Args:
        module: the model.
        graph: it, written down.
        places: in which stage each node is.
        number: the stage's.
        last: that of the last.
    """
    made, found = Graph(), dict[Node, Node]()
    if number:
        found[_handed_on(places, number)] = made.placeholder("x")
    for node in graph.nodes:
        wanted = node.op == "get_attr" and any(places[user] == number for user in node.users)
        computed = places[node] == number and node.op not in ("get_attr", "output")
        if wanted or computed:
            found[node] = made.node_copy(node, found.__getitem__)
    result = graph.output_node().args[0] if number == last else _handed_on(places, number + 1)
    if not isinstance(result, Node) or result not in found:
        raise ArgumentError("pipeline", "the result is one tensor of the last stage", result=result)
    made.output(found[result])
    return GraphModule(module, made, f"Stage{number}")


def _handed_on(places: Mapping[Node, int], number: int) -> Node:
    """What a stage takes from those before it.

    Raises:
        ArgumentError: if it is not one tensor.
    """
    taken = [
        node
        for node, place in places.items()
        if place < number
        and node.op != "get_attr"
        and any(places[user] >= number for user in node.users)
    ]
    if len(taken) != 1:
        law, remedy = "a stage takes one tensor of those before it", "Cut it elsewhere"
        names = [node.name for node in taken]
        raise ArgumentError("pipeline", law, stage=number, takes=names, remedy=remedy)
    return taken[0]
