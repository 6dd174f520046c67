"""Sparse gradients of lookups: what they hold, how they add up, and who takes them."""

import copy

import numpy as np
import pytest

import clnet
from tests.answers import torch

pytestmark = pytest.mark.device
TABLE = np.arange(30, dtype=np.float32).reshape(10, 3) / 10


def table(library=clnet, **given):
    layer = library.nn.Embedding(10, 3, sparse=True, **given)
    with library.no_grad():
        layer.weight.copy_(library.tensor(TABLE))
    return layer


def trained(library, make, **given):
    """Gradients' indices and values, and the tables, of three steps."""
    layer, found = table(library, **given), []
    optimizer = make(library)(layer.parameters())
    for k in range(3):
        optimizer.zero_grad(set_to_none=k != 1)
        index = library.tensor([[1, 2, 1], [0, k + 3, 7]])
        loss = (layer(index) ** 2).sum() + layer(library.tensor([9, 1])).sum() * k
        loss.backward()
        if k == 2:
            layer(index).sum().backward()
        g = layer.weight.grad
        assert g.is_sparse
        g = g.coalesce()
        found += [g.to_dense().tolist(), g.values().shape[0] >= 5]
        optimizer.step()
        found.append(layer.weight.detach().tolist())
    return found


@pytest.mark.parametrize("given", [{}, {"padding_idx": 2}], ids=["all", "padded"])
@pytest.mark.parametrize(
    "make",
    [
        lambda library: lambda p: library.optim.SGD(p, lr=0.1),
        lambda library: lambda p: library.optim.SGD(p, lr=0.1, momentum=0.9),
        lambda library: lambda p: library.optim.SparseAdam([*p], lr=0.1),
    ],
    ids=["SGD", "momentum", "SparseAdam"],
)
def test_training_with_sparse_gradients_is_pytorchs(make, given):
    for ours, theirs in zip(
        trained(clnet, make, **given), trained(torch, make, **given), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_what_a_sparse_gradient_meets():
    layer = table()
    dense, index = copy.deepcopy(layer.weight), clnet.tensor([3, 3, 1], dtype=clnet.int32)
    seen = []
    layer.weight.register_hook(lambda g: seen.append(g.is_sparse))
    (layer(index).sum() + (layer.weight * 2).sum()).backward()  # beside a dense one it is dense
    (clnet.nn.functional.embedding(index, dense).sum() + (dense * 2).sum()).backward()
    assert layer.weight.grad.tolist() == dense.grad.tolist()
    layer(index).sum().backward()  # and is added to one
    assert layer.weight.grad[3].tolist() == [6.0] * 3
    assert seen == [False, True]
    (g,) = clnet.autograd.grad(layer(index).sum(), layer.weight)
    assert (g.is_sparse, g.coalesce().indices().tolist()) == (True, [[1, 3]])
    moved = clnet.nn.functional.embedding(index, layer.weight * 2, sparse=True)
    layer.weight.grad = None
    moved.sum().backward()  # what made the table computes with all of it
    assert layer.weight.grad[3].tolist() == [4.0] * 3
    layer.weight.grad = None
    layer(clnet.zeros((0,), dtype=clnet.int64)).sum().backward()
    assert layer.weight.grad.to_dense().abs().sum().item() == 0


def test_norms_and_scalers_make_it_dense():
    layer, index = table(), clnet.tensor([3, 3, 1])
    layer(index).sum().backward()
    total = clnet.nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
    assert total.item() == pytest.approx(15**0.5)
    assert layer.weight.grad.norm().item() == pytest.approx(1.0, rel=1e-4)
    scaler, optimizer = clnet.amp.GradScaler(), clnet.optim.SGD(layer.parameters(), lr=1.0)
    optimizer.zero_grad()
    scaler.scale(layer(index).sum()).backward()
    scaler.step(optimizer)
    np.testing.assert_allclose(layer.weight[3].tolist(), TABLE[3] - 2, rtol=1e-5)


def test_other_optimisers_and_compiled_steps_take_it_as_a_dense_one():
    def tables(*, sparse, compiled):
        layer = table()
        layer.sparse = sparse
        optimizer = clnet.optim.Adam(layer.parameters(), lr=0.1)

        def step(index):
            optimizer.zero_grad()
            (layer(index) ** 2).sum().backward()
            optimizer.step()

        run = clnet.compile(step) if compiled else step
        for k in range(3):
            run(clnet.tensor([k, 4, k]))
        return layer.weight.tolist()

    expected = tables(sparse=False, compiled=False)
    for compiled in (False, True):
        np.testing.assert_allclose(tables(sparse=True, compiled=compiled), expected, rtol=1e-6)
