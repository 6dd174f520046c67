"""Trees against rows sent down one by one, and trees that lead nowhere."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet.errors import OnnxError
from clnet.onnx.handlers.trees import tree_ensemble

# Two trees: x0 <= 0.5 ? leaf 0 : (x1 > -1 ? leaf 1 : leaf 2), and x1 in {1, 2} ? leaf 3 : leaf 4.
TREES = {
    "leaf_targetids": [0, 1, 0, 1, 1],
    "leaf_weights": np.array([1, 2, 4, 8, 16], np.float32),
    "membership_values": np.array([1, 2, np.nan], np.float32),
    "n_targets": 2,
    "nodes_falseleafs": [0, 1, 1],
    "nodes_falsenodeids": [1, 2, 4],
    "nodes_featureids": [0, 1, 1],
    "nodes_missing_value_tracks_true": [1, 0, 0],
    "nodes_modes": np.array([0, 3, 6], np.uint8),
    "nodes_splits": np.array([0.5, -1, 0], np.float32),
    "nodes_trueleafs": [1, 1, 1],
    "nodes_truenodeids": [0, 1, 3],
    "tree_roots": [0, 2],
}
X = np.array([[0.5, 1], [0.6, 0], [0.6, -1], [np.nan, 2]], np.float32)
LEAVES = [(0, 3), (1, 4), (2, 4), (0, 3)]
JOINED = {0: lambda v: np.sum(v) / 2, 1: np.sum, 2: np.min, 3: np.max}


@pytest.mark.parametrize("way", JOINED)
def test_leaves_are_joined(way):
    wanted = np.zeros((4, 2), np.float32)
    for row, leaves in zip(wanted, LEAVES, strict=True):
        for target in (0, 1):
            held = [
                TREES["leaf_weights"][i] for i in leaves if TREES["leaf_targetids"][i] == target
            ]
            row[target] = JOINED[way](held) if held else 0
    y = tree_ensemble(clnet.tensor(X), **TREES, aggregate_function=way)
    np.testing.assert_allclose(y.numpy(), wanted)
    scores = tree_ensemble(clnet.tensor(X), **TREES, aggregate_function=way, post_transform=2)
    np.testing.assert_allclose(scores.numpy(), 1 / (1 + np.exp(-wanted)), rtol=1e-6)


@pytest.mark.parametrize(
    ("changed", "law"),
    [
        ({"nodes_falsenodeids": [0, 2, 4]}, "lead down"),
        ({"nodes_falsenodeids": [1, 2, 5]}, "lead to nodes and leaves"),
        ({"nodes_featureids": [0, 1, 2]}, "columns that are there"),
        ({"tree_roots": [3]}, "lead to nodes and leaves"),
        ({"nodes_modes": np.full(3, 6), "membership_values": None}, "has a set"),
        ({"post_transform": 4}, "softmax or logistic"),
    ],
)
def test_trees_that_are_none_are_refused(changed, law):
    with pytest.raises(OnnxError, match=law):
        tree_ensemble(clnet.tensor(X), **{**TREES, **changed})
