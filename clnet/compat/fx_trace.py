"""Functions taken apart by values that write down what is done with them: ``torch.fx.Tracer``."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

import dis
import functools  # noqa: F401 - packages take it from here
import inspect
import math
import operator
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import RLock, get_ident
from types import FunctionType  # noqa: F401
from typing import Any, ClassVar, TypeVar

from ..nn import Module, Parameter, Sequential
from ..tensor import Tensor
from .fx_graph import Graph, Node, map_aggregate

__all__ = ["Attribute", "GraphAppendingTracer", "Proxy", "TraceError", "Tracer", "wrap"]

F = TypeVar("F")


def compatibility(is_backward_compatible: bool = False) -> Any:
    """A decorator that changes nothing."""
    del is_backward_compatible
    return lambda function: function


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
        several = [f for m in autowrap_modules for f in vars(m).values() if callable(f)]
        self._autowrap_search, self._autowrap_functions = list(autowrap_modules), autowrap_functions
        self._autowrap_function_ids = {id(f) for f in (*several, *autowrap_functions)}
        self.root: Any = None
        self._named: tuple[Any, dict[int, str]] = (None, {})
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

    @property
    def _paths(self) -> dict[int, str]:
        """Names of the root's parameters and buffers."""
        if self._named[0] is not self.root:
            named = (*self.root.named_buffers(), *self.root.named_parameters())
            self._named = self.root, {id(value): name for name, value in named}
        return self._named[1]

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
    ) -> tuple[Callable[..., Any], list[Any]]:
        """A function, which takes all by place, and the values that it is called with."""
        given, by_name = concrete_args or {}, dict[str, Any]()
        args: list[Any] = [self.root] if is_module else []
        for p in list(inspect.signature(root_fn).parameters.values())[is_module:]:
            several = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
            default = () if p.default is p.empty else (p.default,)
            made: Any = self.create_proxy("placeholder", several + p.name, default, {})
            value = given.get(p.name, made)
            if p.kind is p.KEYWORD_ONLY:
                by_name[p.name] = value
            elif several != "**":
                args.append(value)
        return (partial(root_fn, **by_name) if by_name else root_fn), args

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
        self._constants, self._attributes = {}, {}
        function, args = self.create_args_for_root(function, is_module, concrete_args)
        with self._written_down():
            result = function(*args)
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

        with _Patcher() as patcher:
            for module in self._autowrap_search:
                _autowrap_check(patcher, vars(module), self._autowrap_function_ids)
            _patch_wrapped_functions(patcher)
            for function in self._autowrap_functions:
                _autowrap_check(patcher, getattr(function, "__globals__", {}), {id(function)})
            patcher.patch_method(Module, "__call__", called)
            patcher.patch_method(Module, "__getattr__", read)
            yield


class _Patcher:
    """A block in which functions and methods are others; packages with tracers use it, too."""

    def __init__(self) -> None:
        self._kept: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []

    def patch(
        self,
        frame_dict: dict[str, Any],
        name: str,
        new_fn: Callable[..., Any],
        deduplicate: bool = True,
    ) -> None:
        """Let a table have another function by that name."""
        del deduplicate
        undo = (frame_dict.pop, (name,))
        if name in frame_dict:
            undo = (frame_dict.__setitem__, (name, frame_dict[name]))
        self._kept.append(undo)
        frame_dict[name] = new_fn

    def patch_method(
        self,
        cls: type,
        name: str,
        new_fn: Callable[..., Any],
        deduplicate: bool = True,
    ) -> None:
        """Let a class have another method by that name."""
        del deduplicate
        own = name in vars(cls)
        self._kept.append(
            (setattr, (cls, name, vars(cls)[name])) if own else (delattr, (cls, name))
        )
        setattr(cls, name, new_fn)

    def __enter__(self) -> _Patcher:
        return self

    def __exit__(self, *raised: object) -> None:
        while self._kept:
            undo, given = self._kept.pop()
            undo(*given)


def _autowrap_check(patcher: _Patcher, table: dict[str, Any], function_ids: set[int]) -> None:
    """Patch those of a table's functions that are written down as calls."""
    for name, value in list(table.items()):
        if id(value) in function_ids and callable(value) and not name.startswith("_"):
            _patch(patcher, table, name, value)


def _patch_wrapped_functions(patcher: _Patcher) -> None:
    """Patch the functions that :func:`wrap` named."""
    for table, name in _WRAPPED:
        _patch(patcher, table, name, table.get(name, vars(builtins_module).get(name)))


def _patch(patcher: _Patcher, table: dict[str, Any], name: str, function: Any) -> None:
    if callable(function) and not isinstance(function, type):
        patcher.patch(table, name, _recorded(function))


def _recorded(function: Callable[..., Any]) -> Callable[..., Any]:
    def called(*args: Any, **kwargs: Any) -> Any:
        found: list[Any] = []
        map_aggregate((args, kwargs), lambda v: found.append(v) if isinstance(v, Proxy) else v)
        if not found:
            return function(*args, **kwargs)
        return found[0].tracer.create_proxy("call_function", function, args, kwargs)

    return called


_orig_module_call, _orig_module_getattr = Module.__call__, Module.__getattr__


class ScriptObject:
    """What is nothing here: classes of TorchScript."""


builtins_module = sys.modules["builtins"]
_ONE_AT_A_TIME = RLock()
"""Held while classes and modules are patched, which all threads share."""
_WRAPPED: list[tuple[dict[str, Any], str]] = []


def wrap(fn_or_name: F) -> F:
    """Let a function of this module be one call in graphs: by its name, or as a decorator."""
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__  # pyrefly: ignore[missing-attribute] - a function
    frame = sys._getframe(1)  # whose function it is
    _WRAPPED.append((frame.f_globals, name))
    return fn_or_name
