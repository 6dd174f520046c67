"""Ensembles of decision trees: all rows go down all trees together, a level at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import ops
from ...errors import OnnxError
from ...tensor import Tensor
from ...values.dtypes import bool_, int64
from ..registry import Host, handler

MEMBER = 6
SOFTMAX, LOGISTIC = 1, 2


@dataclass(frozen=True)
class Forest:
    """Trees as tables: an entry for each inner node; leaves are numbered behind those.

    Attributes:
        features: column of the input that a node looks at.
        splits: what it compares with.
        modes: how; ``MEMBER`` asks for one of a set.
        members: sets, filled up with NaN.
        on_true: where a row goes if it holds.
        on_false: where a row goes if not.
        missing: whether NaN holds.
        depth: the longest way to a leaf.
    """

    features: np.ndarray
    splits: np.ndarray
    modes: np.ndarray
    members: np.ndarray
    on_true: np.ndarray
    on_false: np.ndarray
    missing: np.ndarray
    depth: int


def depth_of(on_true: np.ndarray, on_false: np.ndarray, roots: Sequence[int]) -> int:
    """The most nodes on a way from a root to a leaf.

    Raises:
        OnnxError: if a way leads back, or to what is no node.
    """
    count = len(on_true)
    level, depth = {*map(int, roots)}, 0
    while level:
        if any(not 0 <= node < count for node in level):
            raise OnnxError("onnx", "a tree's nodes lead to nodes and leaves")
        if depth > count:
            raise OnnxError("onnx", "a tree's nodes lead down")
        depth += 1
        below = {int(way[node]) for node in level for way in (on_true, on_false)}
        level = {node for node in below if node < count}
    return depth


def sets_of(modes: np.ndarray, values: np.ndarray | None) -> np.ndarray:
    """The set of each node, NaN where it has none: sets stand one behind the other, NaN between."""
    asked = np.flatnonzero(modes == MEMBER)
    found: list[list[float]] = [[]]
    for value in [] if values is None else values.tolist():
        if np.isnan(value):
            found.append([])
        else:
            found[-1].append(value)
    if len(asked) > len(found):
        raise OnnxError("onnx", "each node that asks for members has a set", nodes=len(asked))
    table = np.full((len(modes), max(1, max(map(len, found)))), np.nan)
    for node, members in zip(asked, found, strict=False):
        table[node, : len(members)] = members
    return table


def leaves_of(x: Tensor, forest: Forest, roots: Sequence[int]) -> Tensor:
    """The leaf of each row in each tree: ``(n, trees)``."""
    count = len(forest.features)

    def places(array: Any) -> Tensor:
        return x.new_tensor(np.asarray(array), dtype=int64)

    splits, members = x.new_tensor(forest.splits), x.new_tensor(forest.members)
    features, modes = places(forest.features), places(forest.modes)
    ways = [places(way) for way in (forest.on_true, forest.on_false)]
    missing = x.new_tensor(forest.missing, dtype=bool_)
    shape = (x.shape[0], len(roots))
    at = ops.broadcast_to(places(roots), shape)
    for _ in range(forest.depth):
        node = ops.clamp(at, 0, count - 1).reshape(-1)
        value = ops.gather(x, 1, ops.index_select(features, 0, node).reshape(shape))
        split = ops.index_select(splits, 0, node).reshape(shape)
        mode = ops.index_select(modes, 0, node).reshape(shape)
        sets = ops.index_select(members, 0, node).reshape((*shape, -1))
        holds = ops.any(ops.eq(sets, value.unsqueeze(-1)), -1)
        for code, compare in enumerate((ops.le, ops.lt, ops.ge, ops.gt, ops.eq, ops.ne)):
            holds = ops.where(ops.eq(mode, code), compare(value, split), holds)
        absent = ops.index_select(missing, 0, node).reshape(shape)
        holds = ops.where(ops.isnan(value), ops.logical_or(absent, holds), holds)
        on_true, on_false = (ops.index_select(way, 0, node).reshape(shape) for way in ways)
        at = ops.where(ops.lt(at, count), ops.where(holds, on_true, on_false), at)
    return at - count


@handler("TreeEnsemble", domain="ai.onnx.ml", since=5)
def tree_ensemble(
    x: Tensor,
    *,
    aggregate_function: int = 1,
    leaf_targetids: Sequence[int],
    leaf_weights: Host,
    membership_values: Host | None = None,
    n_targets: int,
    nodes_falseleafs: Sequence[int],
    nodes_falsenodeids: Sequence[int],
    nodes_featureids: Sequence[int],
    nodes_hitrates: Host | None = None,
    nodes_missing_value_tracks_true: Sequence[int] | None = None,
    nodes_modes: Host,
    nodes_splits: Host,
    nodes_trueleafs: Sequence[int],
    nodes_truenodeids: Sequence[int],
    post_transform: int = 0,
    tree_roots: Sequence[int],
) -> Tensor:
    """Mean, sum, least or largest of the leaves' weights for each target."""
    modes = np.asarray(nodes_modes)
    count = len(modes)
    on_true, on_false = (
        np.asarray(ids) + count * (np.asarray(leaf) != 0)
        for ids, leaf in (
            (nodes_truenodeids, nodes_trueleafs),
            (nodes_falsenodeids, nodes_falseleafs),
        )
    )
    missing = np.asarray(nodes_missing_value_tracks_true or [0] * count) != 0
    depth = depth_of(on_true, on_false, tree_roots)
    sets = sets_of(modes, membership_values)
    features = np.asarray(nodes_featureids)
    if max(on_true.max(), on_false.max()) >= count + len(leaf_weights):
        raise OnnxError("onnx", "a tree's nodes lead to nodes and leaves")
    if not 0 <= features.min() <= features.max() < x.shape[1]:
        raise OnnxError("onnx", "trees look at columns that are there", shape=x.shape)
    forest = Forest(
        features, np.asarray(nodes_splits), modes, sets, on_true, on_false, missing, depth
    )
    leaf = leaves_of(x, forest, tree_roots)
    flat = leaf.reshape(-1)
    weights = ops.index_select(x.new_tensor(leaf_weights).to(x.dtype), 0, flat).reshape(leaf.shape)
    target_ids = x.new_tensor(np.asarray(leaf_targetids), dtype=int64)
    targets = ops.index_select(target_ids, 0, flat).reshape(leaf.shape)
    empty = ops.new_zeros(x, (x.shape[0], n_targets))
    if aggregate_function in {2, 3}:
        way = "amin" if aggregate_function == 2 else "amax"
        y = ops.scatter_reduce(empty, 1, targets, weights, way, include_self=False)
    else:
        y = ops.scatter_add(empty, 1, targets, weights)
        y = y if aggregate_function else y / len(tree_roots)
    if post_transform == SOFTMAX:
        return ops.softmax(y, -1)
    if post_transform not in {0, LOGISTIC}:
        raise OnnxError("onnx", "scores are left, or go through softmax or logistic")
    return ops.sigmoid(y) if post_transform else y
