"""Graphs of calls, as ``torch.fx`` has them: nodes in order, and the Python that they stand for."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

import builtins
import keyword
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..errors import ArgumentError

__all__ = ["Graph", "Node", "map_aggregate", "map_arg"]

Argument = Target = Any
OPCODES = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output")
SIDE_EFFECTS = {"placeholder", "output"}
# What code that is written means otherwise.
_NO_NAMES = frozenset((*keyword.kwlist, *dir(builtins), "self", "torch", "clnet"))
_INFIX = (
    *"add + sub - mul * truediv / floordiv // mod % pow ** matmul @".split(),
    *"and_ & or_ | xor ^ lshift << rshift >> eq == ne != lt < le <= gt > ge >=".split(),
)
_SIGNS = {
    getattr(operator, name): sign for name, sign in zip(_INFIX[::2], _INFIX[1::2], strict=True)
}


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """A structure of tuples, lists, dicts and slices with a function's results in it."""
    if isinstance(a, tuple):
        parts = [map_aggregate(v, fn) for v in a]
        return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
    if isinstance(a, list):
        return [map_aggregate(v, fn) for v in a]
    if isinstance(a, dict):
        return {k: map_aggregate(v, fn) for k, v in a.items()}
    if isinstance(a, slice):
        return slice(*(map_aggregate(v, fn) for v in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """The same, of the nodes alone."""
    return map_aggregate(a, lambda v: fn(v) if isinstance(v, Node) else v)


class Node:
    """One call, or what a function takes or gives.

    Args:
        graph: whose it is.
        name: under which others read it.
        op: ``"placeholder"``, ``"get_attr"``, ``"call_function"``, ``"call_method"``,
            ``"call_module"`` or ``"output"``.
        target: a function; a name of a method, module, attribute or argument.
        args: arguments, nodes among them.
        kwargs: those by name.
        return_type: taken for ``type``.

    Attributes:
        users: the nodes that read it.
        meta: what passes note.
    """

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Target,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        return_type: Any = None,
    ) -> None:
        self.graph, self.name, self.op, self.target = graph, name, op, target
        self.type = return_type
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self.stack_trace: str | None = None
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = {}
        self._read: dict[Node, None] = {}
        self.prev: Node = self
        self.next: Node = self
        self.erased = False
        self._take(args, kwargs or {})

    def _take(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for node in self._read:
            node.users.pop(self, None)
        self._args, self._kwargs, self._read = tuple(args), dict(kwargs), {}
        map_arg((self._args, self._kwargs), self._reads)

    def _reads(self, node: Node) -> Node:
        self._read[node] = node.users[self] = None
        return node

    @property
    def args(self) -> tuple[Any, ...]:
        """Its arguments."""
        return self._args

    @args.setter
    def args(self, given: tuple[Any, ...]) -> None:
        self._take(given, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """Those by name."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, given: dict[str, Any]) -> None:
        self._take(self._args, given)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes that it reads."""
        return list(self._read)

    _input_nodes = all_input_nodes

    def update_arg(self, idx: int, arg: Any) -> None:
        """Another argument in a place."""
        self.args = (*self._args[:idx], arg, *self._args[idx + 1 :])

    def update_kwarg(self, key: str, arg: Any) -> None:
        """Another argument of a name."""
        self.kwargs = {**self._kwargs, key: arg}

    def insert_arg(self, idx: int, arg: Any) -> None:
        """One argument more."""
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def prepend(self, x: Node) -> None:
        """Move another node before this one."""
        if x is self:
            return
        x.prev.next, x.next.prev = x.next, x.prev
        x.prev, x.next = self.prev, self
        self.prev.next = self.prev = x

    def append(self, x: Node) -> None:
        """Move another node behind this one."""
        self.next.prepend(x)

    def replace_input_with(self, old_input: Node, new_input: Any) -> None:
        """Read another node wherever it read the old one."""
        self._take(
            *map_arg((self._args, self._kwargs), lambda n: new_input if n is old_input else n)
        )

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] = lambda user: True,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Let all that read it read another node.

        Args:
            replace_with: the other one.
            delete_user_cb: whether a reader takes part.
            propagate_meta: whether the other one gets its ``meta``.

        Returns:
            The readers that took part.
        """
        chosen = [user for user in self.users if user is not replace_with and delete_user_cb(user)]
        for user in chosen:
            user.replace_input_with(self, replace_with)
        if propagate_meta:
            replace_with.meta.update(self.meta)
        return chosen

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether it has an effect beside its result: writes in place, and what has no result."""
        del impure_random
        if self.op == "call_function":
            return str(getattr(self.target, "__name__", "")) in ("setitem", "_assert")
        in_place = self.op == "call_method" and self.target.endswith("_")
        return self.op in SIDE_EFFECTS or (in_place and not self.target.endswith("__"))

    def format_node(self, *_: Any) -> str:
        """It as a line of text."""
        text = f"%{self.name} : [num_users={len(self.users)}] = {self.op}[target={_name(self)}]"
        if self.op == "placeholder":
            return text
        return f"{text}(args = {self._args}, kwargs = {self._kwargs})"

    def __repr__(self) -> str:
        return self.name

    def __lt__(self, other: Node) -> bool:
        order = {node: k for k, node in enumerate(self.graph.nodes)}
        return order[self] < order[other]


def _name(node: Node) -> str:
    return node.target if isinstance(node.target, str) else _path(node.target)


def _path(function: Any) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return f"{getattr(function, '__module__', None) or 'builtins'}.{name}"


class _Nodes:
    """The nodes of a graph in order; those that come or go meanwhile do no harm."""

    def __init__(self, root: Node, step: str = "next") -> None:
        self._root, self._step = root, step

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[Node]:
        node = getattr(self._root, self._step)
        while node is not self._root:
            if not node.erased:
                yield node
            node = getattr(node, self._step)

    def __reversed__(self) -> Iterator[Node]:
        return iter(_Nodes(self._root, "prev" if self._step == "next" else "next"))


class _Inserting:
    """Where new nodes come; as a block, until its end."""

    def __init__(self, graph: Graph, before: Node) -> None:
        self._graph, self._old = graph, graph.insertion
        graph.insertion = before

    def __enter__(self) -> None:
        """It was said where."""

    def __exit__(self, *raised: object) -> None:
        self._graph.insertion = self._old


class Graph:
    """Nodes in the order in which they are computed.

    Args:
        owning_module: the module that it belongs to.
        tracer_cls: taken: the class that made it.
        tracer_extras: taken.
    """

    def __init__(
        self, owning_module: Any = None, tracer_cls: Any = None, tracer_extras: Any = None
    ) -> None:
        del tracer_extras
        self.owning_module, self._tracer_cls = owning_module, tracer_cls
        self._root = Node(self, "", "root", "")
        self.insertion = self._root
        self._names: set[str] = set()

    @property
    def nodes(self) -> _Nodes:
        """All of them in order."""
        return _Nodes(self._root)

    def _fresh(self, wanted: str) -> str:
        base = re.sub(r"\W+", "_", wanted).lower() or "_"
        base = re.sub(r"_\d+$", "", base) if wanted in self._names else base
        if base[0].isdigit():
            base = f"_{base}"
        name, k = base, 0
        while name in self._names or name in _NO_NAMES:
            k += 1
            name = f"{base}_{k}"
        self._names.add(name)
        return name

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """One node more, at the place of insertion.

        Raises:
            ArgumentError: if there is no such kind.
        """
        if op not in OPCODES:
            raise ArgumentError("fx.Graph", "a node is of a known kind", kind=op, known=OPCODES)
        wanted = name or (target if isinstance(target, str) else _path(target).rpartition(".")[2])
        node = Node(self, self._fresh(wanted.strip("*")), op, target, args or (), kwargs, type_expr)
        self.insertion.prepend(node)
        return node

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """An argument of the function."""
        default = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, default, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """An attribute of the module, by its dotted name."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self, module_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None
    ) -> Node:
        """A call of a module within the module."""
        return self.create_node("call_module", module_name, args, kwargs, None, type_expr)

    def call_method(
        self, method_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None
    ) -> Node:
        """A call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, None, type_expr)

    def call_function(
        self, the_function: Any, args: Any = None, kwargs: Any = None, type_expr: Any = None
    ) -> Node:
        """A call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, None, type_expr)

    def output(self, result: Any, type_expr: Any = None) -> Node:
        """What the function gives."""
        return self.create_node("output", "output", (result,), None, None, type_expr)

    def output_node(self) -> Node:
        """That node."""
        return next(node for node in reversed(self.nodes) if node.op == "output")

    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[Node]:
        """The nodes of a kind, and of a target if one is given."""
        del sort
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    def inserting_before(self, n: Node | None = None) -> _Inserting:
        """New nodes come before one; of None before all."""
        return _Inserting(self, self._root.next if n is None else n)

    def inserting_after(self, n: Node | None = None) -> _Inserting:
        """New nodes come behind one; of None behind all."""
        return _Inserting(self, self._root if n is None else n.next)

    def erase_node(self, to_erase: Node) -> None:
        """Take a node away.

        Raises:
            ArgumentError: if others read it.
        """
        if to_erase.users:
            raise ArgumentError(
                "fx.Graph", "what is erased is not read", node=to_erase, users=list(to_erase.users)
            )
        to_erase.prev.next, to_erase.next.prev = to_erase.next, to_erase.prev
        to_erase.erased = True
        to_erase.args, to_erase.kwargs = (), {}

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda n: n) -> Node:
        """A node of another graph, whose arguments are what a function makes of that one's."""
        args, kwargs = map_arg((node.args, node.kwargs), arg_transform)
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = dict(node.meta)
        return made

    def graph_copy(
        self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False
    ) -> Any:
        """All nodes of another graph but its output.

        Args:
            g: the other graph.
            val_map: what stands for its nodes; filled.
            return_output_node: whether its output node is given, too.

        Returns:
            What that graph gives, in nodes of this one; None if it gives nothing.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                found = map_arg(node.args[0], val_map.__getitem__)
                return (found, node) if return_output_node else found
            val_map[node] = self.node_copy(node, val_map.__getitem__)
        return None

    def __reduce__(self) -> Any:
        """A row for each node, in which others are their numbers; what was noted of them stays."""
        order = {id(node): k for k, node in enumerate(self.nodes)}
        rows = [
            (node.op, node.target, *_numbered(node, order), node.name, node.type)
            for node in self.nodes
        ]
        return _unpickled, (rows,)

    def __deepcopy__(self, memo: Any = None) -> Graph:
        made, nodes = Graph(tracer_cls=self._tracer_cls), {}
        for node in self.nodes:
            nodes[node] = made.node_copy(node, nodes.__getitem__)
        return made

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Take away what nobody reads and what has no effect beside; whether there was any."""
        impure = is_impure_node or Node.is_impure
        dead = [n for n in reversed(self.nodes) if not n.users and not impure(n)]
        found = bool(dead)
        while dead:
            for node in dead:
                self.erase_node(node)
            dead = [n for n in reversed(self.nodes) if not n.users and not impure(n)]
        return found

    def lint(self) -> None:
        """Look whether every node comes behind those that it reads.

        Raises:
            ArgumentError: if one does not.
        """
        seen: set[Node] = set()
        for node in self.nodes:
            late = [n for n in node.all_input_nodes if n not in seen or n.graph is not self]
            if late:
                raise ArgumentError(
                    "fx.Graph", "nodes come before their readers", node=node, read=late
                )
            seen.add(node)

    def print_tabular(self) -> None:
        """Print a line for each node."""
        for n in self.nodes:
            print(f"{n.op:14} {n.name:20} {_name(n):30} {n.args} {n.kwargs}")

    def __str__(self) -> str:
        return "\n".join(["graph():", *(f"    {node.format_node()}" for node in self.nodes)])

    def python_code(self, root_module: str = "self") -> Code:
        """The graph as a method ``forward``, and the names that its text uses."""
        return Code(self, root_module)


class Code:
    """A graph as Python.

    Args:
        graph: which.
        root: what the module is called.

    Attributes:
        src: the text of a method ``forward``.
        globals: what its names mean.
    """

    def __init__(self, graph: Graph, root: str) -> None:
        self.globals: dict[str, Any] = {"inf": float("inf"), "nan": float("nan")}
        self._names: dict[int, str] = {}
        self._root = root
        given = [_parameter(self, node) for node in graph.nodes if node.op == "placeholder"]
        lines = [text for node in graph.nodes if (text := self._line(node))]
        body = "\n".join(f"    {line}" for line in lines or ["pass"])
        self.src = f"def forward({', '.join([root, *given])}):\n{body}\n"

    def _line(self, node: Node) -> str:
        args = [self.text(v) for v in node.args]
        by_name = [f"{k} = {self.text(v)}" for k, v in node.kwargs.items()]
        if node.op == "placeholder":
            name = str(node.target).strip("*")
            return "" if name == node.name else f"{node.name} = {name}"
        if node.op == "output":
            return f"return {args[0]}"
        if node.op == "get_attr":
            called = _attribute(self._root, node.target)
        elif node.op == "call_module":
            called = f"{_attribute(self._root, node.target)}({', '.join([*args, *by_name])})"
        elif node.op == "call_method":
            called = f"{args[0]}.{node.target}({', '.join([*args[1:], *by_name])})"
        elif node.target in _SIGNS and len(args) == 2:
            first = f"({args[0]})" if args[0].startswith("-") else args[0]  # -2 ** x is -(2 ** x)
            called = f"{first} {_SIGNS[node.target]} {args[1]}"
        elif node.target is operator.getitem:
            called = f"{args[0]}[{args[1]}]"
        else:
            called = f"{self.name(node.target)}({', '.join([*args, *by_name])})"
        return f"{node.name} = {called}"

    def name(self, value: Any) -> str:
        """A global name of an object."""
        if id(value) not in self._names:
            path = _path(value).replace("clnet.", "torch.", 1)
            name = base = re.sub(r"\W", "_", path.removeprefix("builtins."))
            while name in self.globals and self.globals[name] is not value:
                name = f"{base}_{len(self.globals)}"
            self.globals[name] = value
            self._names[id(value)] = name
        return self._names[id(value)]

    def text(self, value: Any) -> str:
        """An argument as Python."""
        if isinstance(value, Node):
            return value.name
        if isinstance(value, tuple) and not hasattr(value, "_fields"):
            inside = ", ".join(map(self.text, value))
            return f"({inside},)" if len(value) == 1 else f"({inside})"
        if isinstance(value, list):
            return f"[{', '.join(map(self.text, value))}]"
        if isinstance(value, dict):
            return f"{{{', '.join(f'{k!r}: {self.text(v)}' for k, v in value.items())}}}"
        if isinstance(value, slice):
            parts = (value.start, value.stop, value.step)
            return f"slice({', '.join(map(self.text, parts))})"
        if value is None or type(value) in (bool, int, float, complex, str, bytes):
            return repr(value)
        return "..." if value is ... else self.name(value)


def _parameter(code: Code, node: Node) -> str:
    default = f" = {code.text(node.args[0])}" if node.args else ""
    return f"{node.target}{default}"


def _attribute(root: str, path: str) -> str:
    for part in path.split("."):
        plain = part.isidentifier() and not keyword.iskeyword(part)
        root = f"{root}.{part}" if plain else f"getattr({root}, {part!r})"
    return root


@dataclass(frozen=True)
class _Numbered:
    """Stands for a node in a pickle."""

    place: int


def _numbered(node: Node, order: dict[int, int]) -> tuple[Any, Any]:
    return map_arg((node.args, node.kwargs), lambda n: _Numbered(order[id(n)]))


def _unpickled(rows: list[tuple[Any, ...]]) -> Graph:
    made, nodes = Graph(), list[Node]()
    for op, target, args, kwargs, name, kind in rows:
        own, named = map_aggregate((args, kwargs), lambda v: _at_its_number(v, nodes))
        nodes.append(made.create_node(op, target, own, named, name, kind))
    return made


def _at_its_number(value: Any, nodes: list[Node]) -> Any:
    return nodes[value.place] if isinstance(value, _Numbered) else value
