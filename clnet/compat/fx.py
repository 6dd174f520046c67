"""``clnet.fx``: functions taken apart into graphs of calls, changed, and run again.

``fx_graph`` has graphs and nodes, ``fx_trace`` what writes them, ``fx_module`` what runs them,
``fx_rewrite`` exchanges parts. Nothing is made faster by it: that is what ``clnet.compile`` does.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, TypeVar

from . import fx_graph as graph
from . import fx_graph as node
from . import fx_module as graph_module
from . import fx_module as interpreter
from . import fx_rewrite as subgraph_rewriter
from . import fx_trace as proxy
from .fx_graph import Graph, Node, map_aggregate, map_arg
from .fx_module import GraphModule, Interpreter, Transformer, symbolic_trace
from .fx_rewrite import Match, replace_pattern
from .fx_trace import (
    Attribute,
    GraphAppendingTracer,
    Proxy,
    TraceError,
    Tracer,
    compatibility,
    wrap,
)

__all__ = [
    "Attribute",
    "Graph",
    "GraphAppendingTracer",
    "GraphModule",
    "Interpreter",
    "Match",
    "Node",
    "Proxy",
    "TraceError",
    "Tracer",
    "Transformer",
    "graph",
    "graph_module",
    "interpreter",
    "map_aggregate",
    "map_arg",
    "node",
    "proxy",
    "replace_pattern",
    "subgraph_rewriter",
    "symbolic_trace",
    "wrap",
]

F = TypeVar("F")
_symbolic_trace = proxy


def _no_mode() -> None:
    """None: nothing is traced."""


def _as_it_is(a: Any) -> Any:
    return a


experimental = ModuleType("torch.fx.experimental", "Of PyTorch's compiler.")
experimental.__dict__.update(
    proxy_tensor=ModuleType("torch.fx.experimental.proxy_tensor", "Of PyTorch's compiler."),
    symbolic_shapes=ModuleType("torch.fx.experimental.symbolic_shapes", "Sizes are known."),
)
experimental.__dict__["proxy_tensor"].__dict__["get_proxy_mode"] = _no_mode
experimental.__dict__["symbolic_shapes"].__dict__.update(
    dict.fromkeys(("guard_size_oblivious", "guard_or_false", "guard_or_true"), _as_it_is)
)
_compatibility = ModuleType("torch.fx._compatibility", "Of packages.")
_compatibility.__dict__["compatibility"] = compatibility
passes = ModuleType("torch.fx.passes", "What goes over graphs.")
passes.__dict__["shape_prop"] = graph_module
