"""Containers in containers: their leaves, and the same containers around other leaves.

Tuples, named tuples, lists, dicts, ordered and default dicts, deques, and what is registered;
``torch.utils._pytree`` in PyTorch. It touches no tensor.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from ..errors import ArgumentError

__all__ = [
    "GetAttrKey",
    "LeafSpec",
    "MappingKey",
    "NodeDef",
    "PyTree",
    "SequenceKey",
    "TreeSpec",
    "keystr",
    "register_dataclass",
    "register_pytree_node",
    "tree_all",
    "tree_all_only",
    "tree_any",
    "tree_any_only",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_is_leaf",
    "tree_iter",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_map_only_",
    "tree_map_with_path",
    "tree_structure",
    "tree_unflatten",
]

PyTree = Any
IsLeaf = Callable[[Any], bool] | None


class NodeDef(NamedTuple):
    """How a kind of container is taken apart and made."""

    type: Any
    flatten_fn: Callable[[Any], tuple[list[Any], Any]]
    unflatten_fn: Callable[[Iterable[Any], Any], Any]
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Any]] | None = None


@dataclasses.dataclass(frozen=True)
class MappingKey:
    """A place in a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """A place in a list or tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """A field of a named tuple or dataclass."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


@dataclasses.dataclass(frozen=True)
class TreeSpec:
    """The containers of a tree, without its leaves.

    Attributes:
        type: the outer container's; None for a leaf.
        context: what its making needs beside the children.
        children_specs: of what is in it.
    """

    type: Any
    context: Any
    children_specs: list[TreeSpec]

    @property
    def num_leaves(self) -> int:
        """How many leaves a tree of this kind has."""
        return 1 if self.is_leaf() else sum(child.num_leaves for child in self.children_specs)

    @property
    def num_children(self) -> int:
        """How many there are at the top."""
        return len(self.children_specs)

    def is_leaf(self) -> bool:
        """Whether there is no container."""
        return self.type is None

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """A tree of this kind.

        Raises:
            ArgumentError: if there are more or fewer leaves than it has.
        """
        return tree_unflatten(leaves, self)


class LeafSpec(TreeSpec):
    """The spec of one leaf."""

    def __init__(self) -> None:
        super().__init__(None, None, [])


def _list_flatten(d: Iterable[Any]) -> tuple[list[Any], Any]:
    return list(d), None


def _list_unflatten(values: Iterable[Any], context: Any) -> list[Any]:  # for packages
    return list(values)


def _list_flatten_with_keys(d: Iterable[Any]) -> tuple[list[Any], Any]:  # for packages
    return [(SequenceKey(k), value) for k, value in enumerate(d)], None


def _sequence(kind: Any) -> NodeDef:
    return NodeDef(kind, _list_flatten, lambda leaves, _: kind(leaves))


def _mapping(kind: Any) -> NodeDef:
    return NodeDef(
        kind,
        lambda x: (list(x.values()), list(x)),
        lambda leaves, keys: kind(zip(keys, leaves, strict=True)),
    )


SUPPORTED_NODES: dict[Any, NodeDef] = {
    **{kind: _sequence(kind) for kind in (tuple, list)},
    **{kind: _mapping(kind) for kind in (dict, OrderedDict)},
    defaultdict: NodeDef(
        defaultdict,
        lambda x: (list(x.values()), (x.default_factory, list(x))),
        lambda leaves, kept: defaultdict(kept[0], zip(kept[1], leaves, strict=True)),
    ),
    deque: NodeDef(
        deque, lambda x: (list(x), x.maxlen), lambda leaves, most: deque(leaves, maxlen=most)
    ),
}
"""What is a container, by its type."""
Context = Any
"""What the making of a container needs beside its children."""


def _dict_flatten(  # for packages
    d: dict[Any, Any],
) -> tuple[list[Any], Context]:
    return list(d.values()), list(d)


def _dict_flatten_with_keys(  # for packages
    d: dict[Any, Any],
) -> tuple[list[tuple[Any, Any]], Context]:
    return [(MappingKey(key), value) for key, value in d.items()], list(d)


def _dict_unflatten(  # for packages
    values: Iterable[Any], context: Context
) -> dict[Any, Any]:
    return dict(zip(context, values, strict=True))


def _get_node_type(tree: Any) -> Any:  # for packages
    named = isinstance(tree, tuple) and hasattr(tree, "_fields")
    return namedtuple if named and type(tree) not in SUPPORTED_NODES else type(tree)


_NAMED = NodeDef(None, lambda x: (list(x), type(x)), lambda leaves, kind: kind(*leaves))


def register_pytree_node(
    cls: Any,
    flatten_fn: Callable[[Any], tuple[list[Any], Any]],
    unflatten_fn: Callable[[Iterable[Any], Any], Any],
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Any = None,
    from_dumpable_context: Any = None,
    flatten_with_keys_fn: Any = None,
) -> None:
    """Take a class as a container from now on.

    Args:
        cls: the class.
        flatten_fn: gives its children and a context.
        unflatten_fn: makes one of children and a context.
        serialized_type_name: taken; trees are not written into files.
        to_dumpable_context: taken.
        from_dumpable_context: taken.
        flatten_with_keys_fn: gives pairs of keys and children, and the context.

    Raises:
        ArgumentError: if it is one already.
    """
    if cls in SUPPORTED_NODES:
        raise ArgumentError("register_pytree_node", "a class is registered once", type=cls.__name__)
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)


def _register_pytree_node(  # PyTorch's older name
    cls: Any, flatten_fn: Any, unflatten_fn: Any, **given: Any
) -> None:
    register_pytree_node(cls, flatten_fn, unflatten_fn, **given)


def register_dataclass(
    cls: Any, *, field_names: list[str] | None = None, drop_field_names: list[str] | None = None
) -> None:
    """Take a dataclass as a container of its fields, those that its ``__init__`` takes.

    Args:
        cls: the class.
        field_names: of its children; None: all but those dropped.
        drop_field_names: that are left out.
    """
    every = [f.name for f in dataclasses.fields(cls) if f.init]
    names = [n for n in field_names or every if n not in (drop_field_names or [])]
    register_pytree_node(
        cls,
        lambda x: ([getattr(x, n) for n in names], None),
        lambda leaves, _: cls(**dict(zip(names, leaves, strict=True))),
        flatten_with_keys_fn=lambda x: ([(GetAttrKey(n), getattr(x, n)) for n in names], None),
    )


def _node(tree: Any, is_leaf: IsLeaf) -> NodeDef | None:
    """How it is taken apart; None: it is a leaf."""
    if is_leaf is not None and is_leaf(tree):
        return None
    found = SUPPORTED_NODES.get(type(tree))
    if found is None and isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return _NAMED
    return found


def is_namedtuple_class(cls: Any) -> bool:
    """Whether it is a class of tuples whose elements have names."""
    return isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields")


def is_namedtuple(obj: Any) -> bool:
    """Whether it is a tuple whose elements have names, or a class of such."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_namedtuple_instance(obj: Any) -> bool:
    """Whether it is a tuple whose elements have names."""
    return is_namedtuple_class(type(obj))


def is_structseq_class(cls: Any) -> bool:
    """Whether it is a class of tuples of the kind of ``time.struct_time``."""
    return (
        isinstance(cls, type)
        and cls.__bases__ == (tuple,)
        and all(isinstance(getattr(cls, n, None), int) for n in ("n_fields", "n_sequence_fields"))
    )


def is_structseq_instance(obj: Any) -> bool:
    """Whether it is a tuple of the kind of ``time.struct_time``."""
    return is_structseq_class(type(obj))


def tree_is_leaf(tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether it is no container."""
    return _node(tree, is_leaf) is None


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves in order, and the containers around them.

    Args:
        tree: containers, or a leaf.
        is_leaf: called with everything from the top; what it says yes to is a leaf.
    """
    node = _node(tree, is_leaf)
    if node is None:
        return [tree], LeafSpec()
    children, context = node.flatten_fn(tree)
    leaves: list[Any] = []
    specs: list[TreeSpec] = []
    for child in children:
        below, spec = tree_flatten(child, is_leaf)
        leaves += below
        specs.append(spec)
    return leaves, TreeSpec(type(tree), context, specs)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The containers of a spec around leaves.

    Raises:
        ArgumentError: if there are more or fewer leaves than it has.
    """
    listed = list(leaves)
    if len(listed) != treespec.num_leaves:
        raise ArgumentError(
            "tree_unflatten",
            "there is a leaf for each place",
            leaves=len(listed),
            places=treespec.num_leaves,
        )
    return _made(iter(listed), treespec)


def _made(leaves: Iterator[Any], spec: TreeSpec) -> Any:
    if spec.is_leaf():
        return next(leaves)
    children = [_made(leaves, child) for child in spec.children_specs]
    return SUPPORTED_NODES.get(spec.type, _NAMED).unflatten_fn(children, spec.context)


def broadcast_flat(tree: Any, treespec: TreeSpec, is_leaf: IsLeaf = None) -> list[Any] | None:
    """The leaves of a tree, each repeated for all leaves that a spec has at its place.

    Args:
        tree: containers that are the outer ones of the spec, or a leaf.
        treespec: of containers.
        is_leaf: as :func:`tree_flatten`'s.

    Returns:
        As many as the spec has leaves; None if the containers are others.
    """
    node = _node(tree, is_leaf)
    if node is None:
        return [tree] * treespec.num_leaves
    children, context = node.flatten_fn(tree)
    below = treespec.children_specs
    if type(tree) is not treespec.type or context != treespec.context or treespec.is_leaf():
        return None
    found: list[Any] = []
    for child, spec in zip(children, below, strict=False):
        leaves = broadcast_flat(child, spec, is_leaf)
        if leaves is None or len(children) != len(below):
            return None
        found += leaves
    return found


_broadcast_to_and_flatten = broadcast_flat  # PyTorch's name


def tree_iter(tree: Any, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """The leaves, one after another."""
    yield from tree_leaves(tree, is_leaf)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> TreeSpec:
    """The containers alone."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """The same containers around what ``func`` gives for each leaf.

    Args:
        func: called with a leaf, and with what stands at its place in each of ``rests``.
        tree: containers, or a leaf.
        *rests: trees that have containers where ``tree`` has some.
        is_leaf: as :func:`tree_flatten`'s.
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [_up_to(spec, rest) for rest in rests]
    return tree_unflatten([func(*found) for found in zip(leaves, *others, strict=True)], spec)


def _up_to(spec: TreeSpec, tree: Any) -> list[Any]:
    """What stands in a tree where a spec has its leaves."""
    if spec.is_leaf():
        return [tree]
    if type(tree) is not spec.type:
        raise ArgumentError(
            "tree_map", "trees have the same containers", type=type(tree), wanted=spec.type
        )
    children, _ = SUPPORTED_NODES.get(spec.type, _NAMED).flatten_fn(tree)
    pairs = zip(spec.children_specs, children, strict=True)
    return [leaf for below, child in pairs for leaf in _up_to(below, child)]


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """Call ``func`` for each leaf, and give the tree itself."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _chosen(kinds: Any) -> Callable[[Any], bool]:
    if callable(kinds) and not isinstance(kinds, type):
        return lambda x: bool(kinds(x))
    return lambda x: isinstance(x, kinds)


def tree_map_only(
    type_or_types_or_pred: Any,
    func: Callable[[Any], Any],
    tree: Any,
    is_leaf: IsLeaf = None,
) -> Any:
    """As :func:`tree_map`, of leaves of some types (or that a predicate chooses)."""
    chosen = _chosen(type_or_types_or_pred)
    return tree_map(lambda x: func(x) if chosen(x) else x, tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Any,
    func: Callable[[Any], Any],
    tree: Any,
    is_leaf: IsLeaf = None,
) -> Any:
    """As :func:`tree_map_`, of leaves of some types (or that a predicate chooses)."""
    tree_map_only(type_or_types_or_pred, func, tree, is_leaf)
    return tree


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether ``pred`` holds for all leaves."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether ``pred`` holds for a leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(
    type_or_types: Any, pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None
) -> bool:
    """Whether ``pred`` holds for all leaves of some types."""
    return all(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def tree_any_only(
    type_or_types: Any, pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None
) -> bool:
    """Whether ``pred`` holds for a leaf of some types."""
    return any(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def tree_leaves_with_path(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[tuple[Any, ...], Any]]:
    """Each leaf with the keys that lead to it."""
    node = _node(tree, is_leaf)
    if node is None:
        return [((), tree)]
    if node.flatten_with_keys_fn is not None:
        children = node.flatten_with_keys_fn(tree)[0]
    elif isinstance(tree, dict):
        children = [(MappingKey(k), v) for k, v in tree.items()]
    elif hasattr(tree, "_fields"):
        children = [(GetAttrKey(n), v) for n, v in zip(tree._fields, tree, strict=True)]
    else:
        children = [(SequenceKey(k), v) for k, v in enumerate(node.flatten_fn(tree)[0])]
    return [
        ((key, *path), leaf)
        for key, child in children
        for path, leaf in tree_leaves_with_path(child, is_leaf)
    ]


def tree_flatten_with_path(
    tree: Any, is_leaf: IsLeaf = None
) -> tuple[list[tuple[tuple[Any, ...], Any]], TreeSpec]:
    """As :func:`tree_flatten`, with the keys that lead to each leaf."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None
) -> Any:
    """As :func:`tree_map`; ``func`` is given the keys that lead to the leaf before it."""
    found, spec = tree_flatten_with_path(tree, is_leaf)
    others = [_up_to(spec, rest) for rest in rests]
    mapped = [func(*both, *more) for both, *more in zip(found, *others, strict=True)]
    return tree_unflatten(mapped, spec)


def keystr(kp: Iterable[Any]) -> str:
    """The keys that lead to a leaf, as one writes them: ``['a'][0].x``."""
    return "".join(map(str, kp))
