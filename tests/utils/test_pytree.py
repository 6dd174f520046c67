"""Trees of containers, as PyTorch takes them apart."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque
from typing import Any, NamedTuple

import pytest

from clnet.errors import ArgumentError
from clnet.utils import _pytree as pytree
from tests.answers import torch


class Pair(NamedTuple):
    """Two things."""

    a: Any
    b: Any


TREES = [
    3,
    [],
    [1, (2, None), {"b": 3, "a": [4]}],
    Pair(1, [2, 3]),
    OrderedDict(z=1, a=(2,)),
    deque([1, 2], maxlen=5),
    defaultdict(list, x=1),
]


@pytest.mark.parametrize("tree", TREES, ids=[type(t).__name__ for t in TREES])
def test_leaves_and_back(tree):
    leaves, spec = pytree.tree_flatten(tree)
    assert pytree.tree_unflatten(leaves, spec) == tree
    assert spec.num_leaves == len(leaves)
    assert spec == pytree.tree_structure(tree)
    paths = [pytree.keystr(path) for path, _ in pytree.tree_leaves_with_path(tree)]
    doubled = pytree.tree_map(lambda x, y: (x, y), tree, tree)
    assert type(doubled) is (tuple if tree == 3 else type(tree))
    if torch is None:
        return
    theirs = torch.utils._pytree
    assert theirs.tree_leaves(tree) == leaves
    assert [theirs.keystr(path) for path, _ in theirs.tree_flatten_with_path(tree)[0]] == paths
    assert theirs.tree_map(lambda x, y: (x, y), tree, tree) == doubled


def test_some_leaves_alone_and_questions():
    tree = {"a": 1, "b": [2.5, "x"]}
    assert pytree.tree_map_only(int, lambda x: x + 1, tree) == {"a": 2, "b": [2.5, "x"]}
    assert pytree.tree_map_only(lambda x: x == "x", len, tree)["b"][1] == 1
    assert pytree.tree_any(lambda x: x == 2.5, tree)
    assert not pytree.tree_all(lambda x: x == 2.5, tree)
    assert pytree.tree_all_only(int, lambda x: x == 1, tree)
    assert pytree.tree_leaves(tree, is_leaf=lambda x: isinstance(x, list)) == [1, [2.5, "x"]]
    named = pytree.tree_map_with_path(lambda path, x: pytree.keystr(path), tree)
    assert named == {"a": "['a']", "b": ["['b'][0]", "['b'][1]"]}
    with pytest.raises(ArgumentError, match="a leaf for each place"):
        pytree.tree_unflatten([1], pytree.tree_structure(tree))
    with pytest.raises(ArgumentError, match="same containers"):
        pytree.tree_map(max, [1], (2,))


def test_registered_classes_are_containers():
    @dataclasses.dataclass
    class Point:
        x: int
        y: int

    class Box:
        def __init__(self, inside):
            self.inside = inside

    pytree.register_dataclass(Point)
    pytree.register_pytree_node(Box, lambda b: ([b.inside], None), lambda c, _: Box(*c))
    assert pytree.tree_map(lambda x: x * 2, [Point(1, 2)]) == [Point(2, 4)]
    assert pytree.tree_leaves([Box((1, 2))]) == [1, 2]
    assert pytree.keystr(pytree.tree_leaves_with_path(Point(1, 2))[1][0]) == ".y"
    with pytest.raises(ArgumentError, match="once"):
        pytree.register_dataclass(Point)
