"""Tables whose gradients are sparse."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import nn

pytestmark = pytest.mark.device


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("SparseAdam", {"lr": 0.05, "betas": (0.8, 0.95), "eps": 1e-3}),
        ("SGD", {"lr": 0.05}),
        ("Adagrad", {"lr": 0.05, "lr_decay": 0.1}),
    ],
)
@pytest.mark.parametrize("layer", ["Embedding", "EmbeddingBag"])
@pytest.mark.filterwarnings("ignore:Sparse invariant checks")  # PyTorch's
def test_tables_of_sparse_gradients(name, settings, layer):
    """Steps are PyTorch's, whose gradients are sparse where these are dense."""
    torch = pytest.importorskip("torch")
    table = np.random.default_rng(5).standard_normal((6, 3)).astype(np.float32)
    theirs = getattr(torch.nn, layer)(6, 3, sparse=True)
    theirs.weight.data = torch.tensor(table.copy())
    ours = getattr(nn, layer)(6, 3, sparse=True)
    ours.weight.data = clnet.tensor(table)
    other = getattr(torch.optim, name)(theirs.parameters(), **settings)
    mine = getattr(clnet.optim, name)(ours.parameters(), **settings)
    for rows in ([[0, 2, 2]], [[2, 5, 1]], [[0, 0, 1]]):
        other.zero_grad()
        theirs(torch.tensor(rows)).square().sum().backward()
        other.step()
        mine.zero_grad()
        ours(clnet.tensor(rows)).square().sum().backward()
        mine.step()
    found = ours.weight.detach().numpy()
    np.testing.assert_allclose(found, theirs.weight.detach().numpy(), rtol=2e-6)
    assert (found[[3, 4]] == table[[3, 4]]).all()


def test_sparse_adam_leaves_what_has_no_gradient():
    """Without PyTorch: rows that a batch did not look up stay, with their moments."""
    layer = nn.Embedding(4, 2, sparse=True)
    optimizer = clnet.optim.SparseAdam(layer.parameters(), lr=0.1)
    layer(clnet.tensor([0, 1])).sum().backward()
    optimizer.step()
    before = layer.weight.detach().clone()
    optimizer.zero_grad()
    layer(clnet.tensor([1, 3])).sum().backward()
    optimizer.step()
    moved = (layer.weight.detach() != before).all(1)
    assert moved.tolist() == [False, True, False, True]
