"""Parts of a graph replaced by others: ``torch.fx.replace_pattern``."""

from __future__ import annotations

from typing import Any, NamedTuple

from .fx_graph import Graph, Node, map_arg
from .fx_module import GraphModule, symbolic_trace

__all__ = ["Match", "replace_pattern"]


class Match(NamedTuple):
    """A part of a graph that is as a pattern says.

    Attributes:
        anchor: its last node.
        nodes_map: the graph's nodes, by the pattern's.
    """

    anchor: Node
    nodes_map: dict[Node, Any]


def replace_pattern(gm: GraphModule, pattern: Any, replacement: Any) -> list[Match]:
    """Replace each part of a graph that computes what one function does by what another does.

    Args:
        gm: the graph's module.
        pattern: the function, or graph, that is looked for.
        replacement: what comes in its place, with as many arguments.

    Returns:
        The parts that were found; those that overlap an earlier one stay.
    """
    old, new = (_graph_of(f) for f in (pattern, replacement))
    taken: set[Node] = set()
    found: list[Match] = []
    for node in list(gm.graph.nodes):
        nodes: dict[Node, Any] = {}
        if not _same(old.output_node().args[0], node, nodes) or not _closed(old, nodes):
            continue
        inside = {v for k, v in nodes.items() if k.op != "placeholder"}
        if inside & taken:
            continue
        taken |= inside
        found.append(Match(node, nodes))
    replaced: dict[Node, Any] = {}
    for match in found:
        _replace(gm.graph, match, old, new, replaced)
    gm.recompile()
    return found


def _graph_of(function: Any) -> Graph:
    if isinstance(function, Graph):
        return function
    traced = function if isinstance(function, GraphModule) else symbolic_trace(function)
    return traced.graph


def _same(wanted: Any, got: Any, nodes: dict[Node, Any]) -> bool:
    """Whether two arguments are alike; the pattern's nodes are given those that they stand for."""
    if not isinstance(wanted, Node):
        if isinstance(wanted, tuple | list) and type(wanted) is type(got):
            pairs = zip(wanted, got, strict=False)
            return len(wanted) == len(got) and all(_same(a, b, nodes) for a, b in pairs)
        return type(wanted) is type(got) and wanted == got
    if wanted in nodes:
        return nodes[wanted] is got
    if wanted.op == "placeholder":
        nodes[wanted] = got
        return True
    if not isinstance(got, Node) or (wanted.op, wanted.target) != (got.op, got.target):
        return False
    nodes[wanted] = got
    if wanted.kwargs.keys() != got.kwargs.keys():
        return False
    values = tuple(got.kwargs[k] for k in wanted.kwargs)
    return _same(wanted.args, got.args, nodes) and _same(
        tuple(wanted.kwargs.values()), values, nodes
    )


def _closed(pattern: Graph, nodes: dict[Node, Any]) -> bool:
    """Whether nobody outside reads what is computed on the way."""
    last = pattern.output_node().args[0]
    inside = [v for k, v in nodes.items() if k.op != "placeholder"]
    on_the_way = [v for k, v in nodes.items() if k.op != "placeholder" and k is not last]
    return all(user in inside for node in on_the_way for user in node.users)


def _replace(graph: Graph, match: Match, old: Graph, new: Graph, replaced: dict[Node, Any]) -> None:
    arguments = [n for n in old.nodes if n.op == "placeholder"]
    values: dict[Node, Any] = {}
    for node, argument in zip(
        [n for n in new.nodes if n.op == "placeholder"], arguments, strict=True
    ):
        value = match.nodes_map[argument]
        values[node] = replaced.get(value, value) if isinstance(value, Node) else value
    with graph.inserting_before(match.anchor):
        result = graph.graph_copy(new, values)
    match.anchor.replace_all_uses_with(map_arg(result, lambda n: n))
    replaced[match.anchor] = result
    for node in reversed([v for k, v in match.nodes_map.items() if k.op != "placeholder"]):
        if not node.users and not node.erased:
            graph.erase_node(node)
    graph.eliminate_dead_code()
