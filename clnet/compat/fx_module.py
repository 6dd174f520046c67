"""Modules made of graphs, and graphs that are run node by node."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

import copy
from typing import Any, NamedTuple

from ..errors import ArgumentError
from ..nn import Module, Parameter
from ..tensor import Tensor
from .fx_graph import Graph, Node, map_aggregate, map_arg
from .fx_trace import Proxy, Tracer

__all__ = ["GraphModule", "Interpreter", "ShapeProp", "Transformer", "symbolic_trace"]


def _fetch(root: Any, path: str) -> Any:
    for part in path.split("."):
        root = getattr(root, part)
    return root


def _copy_attr(from_module: Any, to_module: Any, target: str) -> None:
    """Put what one module has under a dotted name into another, with the modules above it."""
    value = from_module[target] if isinstance(from_module, dict) else _fetch(from_module, target)
    *above, name = target.split(".")
    place = to_module
    for part in above:
        if not hasattr(place, part):
            setattr(place, part, Module())
        place = getattr(place, part)
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        if name not in dict(place.named_buffers(recurse=False)):
            place.register_buffer(name, value)
    else:
        setattr(place, name, value)


class GraphModule(Module):
    """A module whose ``forward`` is a graph.

    Args:
        root: the module whose attributes the graph names, or a dict of them.
        graph: the graph.
        class_name: the name of its class.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Of a class of its own, which has its ``forward``."""
        # PyTorch's name of the class: packages know modules by it whose class has the forward.
        named = {"__qualname__": "GraphModule.__new__.<locals>.GraphModuleImpl"}
        own: Any = type(cls.__name__, (cls,), {"__module__": cls.__module__, **named})
        return super().__new__(own)

    def __init__(self, root: Any, graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        if isinstance(root, Module):
            self.training = root.training
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                _copy_attr(root, self, node.target)
        self.graph = graph

    @property
    def graph(self) -> Graph:
        """What it computes; set anew, it is compiled anew."""
        return self.__dict__["_graph"]

    @graph.setter
    def graph(self, g: Graph) -> None:
        self.__dict__["_graph"] = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """Its ``forward`` as text."""
        return self.__dict__["_code"]

    def recompile(self) -> Any:
        """Take over changes of the graph."""
        code = self.graph.python_code("self")
        names: dict[str, Any] = dict(code.globals)
        exec(compile(code.src, "<fx graph>", "exec"), names)  # the text is made of nodes
        type(self).forward = names["forward"]
        self.__dict__["_code"] = code.src
        return code

    def print_readable(self, print_output: bool = True, **options: Any) -> str:
        """The text, printed."""
        del options
        if print_output:
            print(self.code)
        return self.code

    def add_submodule(self, target: str, m: Module) -> bool:
        """A module more, under a dotted name."""
        _copy_attr({target: m}, self, target)
        return True

    def delete_submodule(self, target: str) -> bool:
        """A module less."""
        above, _, name = target.rpartition(".")
        delattr(_fetch(self, above) if above else self, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Only modules that the graph names stay."""
        used = [n.target for n in self.graph.nodes if n.op in ("call_module", "get_attr")]
        for name, _ in list(self.named_modules())[:0:-1]:
            if not any(
                f"{u}.".startswith(f"{name}.") or f"{name}.".startswith(f"{u}.") for u in used
            ):
                self.delete_submodule(name)

    def __reduce__(self) -> Any:
        """The modules that the graph names, and its nodes, of which the text is made again."""
        paths = {n.target for n in self.graph.nodes if n.op in ("get_attr", "call_module")}
        parts = {path: _fetch(self, path) for path in sorted(paths)}
        return _unpickled, (parts, self.graph, type(self).__name__, self.training)

    def __deepcopy__(self, memo: Any) -> Any:
        found = GraphModule.__new__(GraphModule)
        Module.__init__(found)
        paths = {n.target for n in self.graph.nodes if n.op in ("get_attr", "call_module")}
        parts = copy.deepcopy({path: _fetch(self, path) for path in paths}, memo)
        GraphModule.__init__(found, parts, copy.deepcopy(self.graph), type(self).__name__)
        found.training = self.training
        return found


def _unpickled(parts: dict[str, Any], graph: Graph, class_name: str, training: bool) -> GraphModule:
    found = GraphModule(parts, graph, class_name)
    found.training = training
    return found


class _CodeOnlyModule(Module):  # for packages
    """A module of attributes alone.

    Args:
        body: they.
    """

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__.update(body)


_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"


def symbolic_trace(root: Any, concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """A module or a function as a module of its graph.

    Args:
        root: what is taken apart: it is run once, with values that write down what is done.
        concrete_args: values of arguments that are known, by name.
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)


class Interpreter:
    """Runs a graph node by node; a subclass says what a kind of node does.

    Args:
        module: whose graph.
        garbage_collect_values: whether values go as soon as nobody reads them any more.
        graph: another graph for that module.
    """

    def __init__(
        self, module: Any, garbage_collect_values: bool = True, graph: Graph | None = None
    ) -> None:
        self.module = module
        self.graph = module.graph if graph is None else graph
        self.garbage_collect_values = garbage_collect_values
        self.env: dict[Node, Any] = {}
        self.args_iter: Any = iter(())
        self._by_name: dict[str, Any] = {}

    def run(
        self,
        *args: Any,
        initial_env: dict[Node, Any] | None = None,
        enable_io_processing: bool = True,
    ) -> Any:
        """What the graph gives for arguments."""
        del enable_io_processing
        self.env = dict(initial_env or {})
        self.args_iter = iter(args)
        last = {n: user for user in self.graph.nodes for n in user.all_input_nodes}
        for node in self.graph.nodes:
            if node in self.env:
                continue
            self.env[node] = self.run_node(node)
            if node.op == "output":
                return self.env[node]
            if self.garbage_collect_values:
                for read in node.all_input_nodes:
                    if last[read] is node:
                        self.env.pop(read, None)
        return None

    def run_node(self, n: Node) -> Any:
        """What a node gives."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[Any, Any]:
        """A node's arguments as values."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """Values for nodes."""
        del n
        return map_arg(args, self.env.__getitem__)

    def fetch_attr(self, target: str) -> Any:
        """An attribute of the module."""
        return _fetch(self.module, target)

    def placeholder(self, target: str, args: Any, kwargs: Any) -> Any:
        """The next argument, or its default.

        Raises:
            ArgumentError: if there is neither.
        """
        del kwargs
        if target.startswith("*"):
            return list(self.args_iter)
        missing = object()
        found = next(self.args_iter, args[0] if args else missing)
        if found is missing:
            raise ArgumentError("fx.Interpreter", "each argument is given", missing=target)
        return found

    def get_attr(self, target: str, args: Any, kwargs: Any) -> Any:
        """An attribute."""
        del args, kwargs
        return self.fetch_attr(target)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A function's result."""
        return target(*args, **kwargs)

    def call_method(self, target: str, args: Any, kwargs: Any) -> Any:
        """A method's result."""
        return getattr(args[0], target)(*args[1:], **kwargs)

    def call_module(self, target: str, args: Any, kwargs: Any) -> Any:
        """A module's result."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: str, args: Any, kwargs: Any) -> Any:
        """What the graph gives."""
        del target, kwargs
        return args[0]


class TensorMetadata(NamedTuple):
    """What is known of a tensor that a node gives."""

    shape: Any
    dtype: Any
    requires_grad: bool
    stride: Any


class ShapeProp(Interpreter):
    """Runs a graph and notes in ``node.meta["tensor_meta"]`` what tensors come."""

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        metas = map_aggregate(result, _meta)
        if metas is not None:
            n.meta["tensor_meta"] = metas
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """What the graph gives for arguments."""
        return self.run(*args)


def _meta(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return None
    return TensorMetadata(value.shape, value.dtype, value.requires_grad, value.stride())


class _Rewriting(Tracer):
    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        del m, module_qualified_name
        return True


class Transformer(Interpreter):
    """Writes a new graph while it goes through one.

    Args:
        module: whose graph.
    """

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.tracer = _Rewriting()
        self.tracer.graph, self.tracer.root = self.new_graph, module

    def placeholder(self, target: str, args: Any, kwargs: Any) -> Any:
        """The same argument of the new graph."""
        return Proxy(self.new_graph.create_node("placeholder", target, args, kwargs), self.tracer)

    def get_attr(self, target: str, args: Any, kwargs: Any) -> Any:
        """The same attribute."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: str, args: Any, kwargs: Any) -> Any:
        """The same call."""
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The same call."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The module of the new graph."""
        result = super().run()
        self.new_graph.output(self.tracer.create_arg(result))
        return GraphModule(self.module, self.new_graph)

    def run(self, *args: Any, **given: Any) -> Any:
        """Not of a transformer: :meth:`transform`."""
        return super().run(*args, **given)
