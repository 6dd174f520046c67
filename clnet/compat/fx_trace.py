"""Functions taken apart by values that write down what is done with them: ``torch.fx.Tracer``."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

import dis
import inspect
import math
import operator
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock, get_ident
from typing import Any, ClassVar, TypeVar

from ..nn import Module, Parameter, Sequential
from ..tensor import Tensor
from .fx_graph import Graph, Node, map_aggregate

__all__ = ["Attribute", "GraphAppendingTracer", "Proxy", "TraceError", "Tracer", "wrap"]

F = TypeVar("F")


_REMEDY = "Give the argument in concrete_args, or put what depends on it into a function of wrap()"


class TraceError(ValueError):
    """A function asks for what is known only when it runs."""


class Proxy:
    """A value that writes down what is done with it.

    Args:
        node: what computes it.
        tracer: what writes.
    """

    __taking_over__ = True

    def __init__(self, node: Node, tracer: Any = None) -> None:
        self.node = node
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Any:
        if k.startswith("__") and k.endswith("__"):
            raise AttributeError(k)
        return Attribute(self, k)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        frame = sys._getframe(1)  # who unpacks it
        at = next(i for i in dis.get_instructions(frame.f_code) if i.offset == frame.f_lasti)
        if at.opname == "UNPACK_SEQUENCE":  # so many are wanted
            return iter([operator.getitem(self, k) for k in range(at.argval)])  # pyrefly: ignore[no-matching-overload] - it has it from below
        return self.tracer.iter(self)

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def __len__(self) -> int:
        raise TraceError("fx: a length is known when the function runs; wrap len by fx.wrap('len')")

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Write a call down; operands that come as one sequence one by one, as PyTorch does."""
        if getattr(func, "__name__", "") == "einsum" and type(args[-1]) in (list, tuple):
            args = (*args[:-1], *args[-1])
        found: list[Proxy] = []
        map_aggregate(
            (args, kwargs or {}), lambda v: found.append(v) if isinstance(v, Proxy) else v
        )
        return found[0].tracer.create_proxy("call_function", func, args, kwargs or {})


class Attribute(Proxy):
    """An attribute of such a value, which may be a method.

    Args:
        root: the value.
        attr: its name.
    """

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:
        """What reads it, written once it is needed as a value."""
        if self._node is None:
            made = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {})
            self._node = made.node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


def _operators() -> None:
    """Give :class:`Proxy` Python's operators, and those turned round."""

    def forward(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, *args: self.tracer.create_proxy(
            "call_function", function, (self, *args), {}
        )

    def turned(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, other: self.tracer.create_proxy(
            "call_function", function, (other, self), {}
        )

    both = "add sub mul truediv floordiv mod pow matmul lshift rshift and_ or_ xor".split()
    for name in (*both, *"eq ne lt le gt ge neg pos invert getitem setitem abs".split()):
        setattr(Proxy, f"__{name.strip('_')}__", forward(getattr(operator, name)))
    for name in both:
        setattr(Proxy, f"__r{name.strip('_')}__", turned(getattr(operator, name)))
    Proxy.__hash__ = object.__hash__


_operators()


class TracerBase:
    """What writes calls down.

    Attributes:
        graph: where.
    """

    graph: Graph
    record_stack_traces = check_mutable_operations = trace_asserts = False
    proxy_buffer_attributes: ClassVar[bool] = False

    def create_node(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A node of the graph."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node: Node) -> Proxy:
        """The value of a node."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Any] | None = None,
    ) -> Any:
        """Write a call down and give its value."""
        given = tuple([self.create_arg(v) for v in args])
        by_name = {k: self.create_arg(v) for k, v in kwargs.items()}
        node = self.create_node(kind, target, given, by_name, name, type_expr)
        return (proxy_factory_fn or self.proxy)(node)

    def create_arg(self, a: Any) -> Any:
        """An argument as nodes have it."""
        return map_aggregate(a, lambda v: v.node if isinstance(v, Proxy) else v)

    def to_bool(self, obj: Proxy) -> bool:
        """Whether a value is true, which nobody knows yet.

        Raises:
            TraceError: always.
        """
        law = f"fx: a branch depends on {obj!r}, which is known when the function runs"
        raise TraceError(f"{law}. {_REMEDY}")

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """A value's parts, which nobody has counted yet.

        Raises:
            TraceError: always.
        """
        law = f"fx: a loop goes over {obj!r}, which is known when the function runs"
        raise TraceError(f"{law}. {_REMEDY}")

    def keys(self, obj: Proxy) -> Any:
        """A value's keys, for ``**``."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """Writes into a graph that is there.

    Args:
        graph: which.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph


class Tracer(TracerBase):
    """Takes a module or a function apart.

    Args:
        autowrap_modules: modules whose functions are written down as calls.
        autowrap_functions: further such functions.
        param_shapes_constant: taken and without effect.
    """

    def __init__(
        self,
        autowrap_modules: tuple[Any, ...] = (math,),
        autowrap_functions: tuple[Any, ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        del param_shapes_constant
        self._autowrapped = [vars(m) for m in autowrap_modules], autowrap_functions
        self.root: Any = None
        self._paths: dict[int, str] = {}
        self._constants: dict[int, str] = {}
        self._attributes: dict[str, Proxy] = {}

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a module's call is one node: clnet's own, but for ``Sequential``."""
        del module_qualified_name
        return type(m).__module__.startswith(("clnet.nn", "torch.nn")) and not isinstance(
            m, Sequential
        )

    def path_of_module(self, mod: Module) -> str:
        """A module's dotted name in the root.

        Raises:
            NameError: if it is no part of it.
        """
        for name, module in self.root.named_modules(remove_duplicate=False):
            if module is mod:
                return name
        raise NameError("module is not installed as a submodule")

    def call_module(
        self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A module's call: one node, or what its ``forward`` does."""
        path = self.path_of_module(m)
        if self.is_leaf_module(m, path):
            return self.create_proxy("call_module", path, args, kwargs)
        return forward(*args, **kwargs)

    def create_arg(self, a: Any) -> Any:
        """An argument as nodes have it; tensors are attributes of the root."""
        return map_aggregate(a, self._leaf)

    def _leaf(self, value: Any) -> Any:
        if isinstance(value, Proxy):
            return value.node
        if isinstance(value, Tensor):
            return self.create_node("get_attr", self._where(value), (), {})
        return value

    def _where(self, value: Tensor) -> str:
        path = self._paths.get(id(value)) or self._constants.get(id(value))
        if path is None:
            path = self._constants[id(value)] = f"_tensor_constant{len(self._constants)}"
            setattr(self.root, path, value)
        return path

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        """An attribute that a module's code reads: a parameter is a node."""
        path = self._paths.get(id(attr_val))
        asked = isinstance(attr_val, Parameter) or self.proxy_buffer_attributes
        if path is None or not asked or not isinstance(attr_val, Tensor):
            return attr_val
        if path not in parameter_proxy_cache:
            parameter_proxy_cache[path] = self.create_proxy("get_attr", path, (), {})
        return parameter_proxy_cache[path]

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool, concrete_args: Any = None
    ) -> tuple[Any, list[Any], dict[str, Any]]:
        """The values that a function is called with."""
        given, args, by_name = concrete_args or {}, list[Any](), dict[str, Any]()
        for p in list(inspect.signature(root_fn).parameters.values())[is_module:]:
            several = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
            default = () if p.default is p.empty else (p.default,)
            made: Any = self.create_proxy("placeholder", several + p.name, default, {})
            value = given.get(p.name, made)
            if p.kind is p.KEYWORD_ONLY:
                by_name[p.name] = value
            elif several != "**":
                args.append(value)
        return root_fn, args, by_name

    def trace(self, root: Any, concrete_args: dict[str, Any] | None = None) -> Graph:
        """The graph of a module or a function.

        Args:
            root: it.
            concrete_args: values of arguments that are known.
        """
        is_module = isinstance(root, Module)
        function = type(root).forward if is_module else root
        self.root = root if is_module else Module()
        self.graph = Graph(tracer_cls=type(self))
        named = (*self.root.named_buffers(), *self.root.named_parameters())
        self._paths = {id(value): name for name, value in named}
        self._constants, self._attributes = {}, {}
        function, args, by_name = self.create_args_for_root(function, is_module, concrete_args)
        before = [self.root] if is_module else []
        with self._written_down():
            result = function(*before, *args, **by_name)
        self.create_node("output", "output", (self.create_arg(result),), {})
        return self.graph

    @contextmanager
    def _written_down(self) -> Iterator[None]:
        """A block in which modules' calls, parameters and wrapped functions are written down.

        Only those of this thread are; others that take something apart wait for it to end.
        """
        with _ONE_AT_A_TIME:
            yield from self._while_patched(get_ident())

    def _while_patched(self, thread: int) -> Iterator[None]:
        call, get = Module.__call__, Module.__getattr__

        def called(module: Module, *args: Any, **kwargs: Any) -> Any:
            if get_ident() != thread:
                return call(module, *args, **kwargs)
            return self.call_module(module, lambda *a, **k: call(module, *a, **k), args, kwargs)

        def read(module: Module, name: str) -> Any:
            value = get(module, name)
            return value if get_ident() != thread else self.getattr(name, value, self._attributes)

        kept: list[tuple[dict[str, Any], str, Any]] = []
        modules, functions = self._autowrapped
        places = [(table, name) for table in modules for name in table if callable(table[name])]
        for table, name in [*places, *_WRAPPED]:
            old = table.get(name, _ABSENT)
            target = vars(builtins_module).get(name) if old is _ABSENT else old
            if callable(target) and not name.startswith("_") and not isinstance(target, type):
                kept.append((table, name, old))
                table[name] = self._wrapped(target)
        for function in functions:
            table = getattr(function, "__globals__", {})
            for name in [n for n, v in table.items() if v is function]:
                kept.append((table, name, function))
                table[name] = self._wrapped(function)
        Module.__call__, Module.__getattr__ = called, read  # pyrefly: ignore[bad-assignment] - for a while
        try:
            yield
        finally:
            Module.__call__, Module.__getattr__ = call, get
            for table, name, old in reversed(kept):
                if old is _ABSENT:
                    del table[name]
                else:
                    table[name] = old

    def _wrapped(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            found: list[Any] = []
            map_aggregate((args, kwargs), lambda v: found.append(v) if isinstance(v, Proxy) else v)
            if not found:
                return function(*args, **kwargs)
            return self.create_proxy("call_function", function, args, kwargs)

        return called


builtins_module = sys.modules["builtins"]
_ABSENT = object()
_ONE_AT_A_TIME = RLock()
"""Held while classes and modules are patched, which all threads share."""
_WRAPPED: list[tuple[dict[str, Any], str]] = []


def wrap(fn_or_name: F) -> F:
    """Let a function of this module be one call in graphs: by its name, or as a decorator."""
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__  # pyrefly: ignore[missing-attribute] - a function
    frame = sys._getframe(1)  # whose function it is
    _WRAPPED.append((frame.f_globals, name))
    return fn_or_name
