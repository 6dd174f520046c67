"""Rows looked up within a length, and gradients by frequency, beside PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import nn, ops
from clnet.errors import ArgumentError

pytestmark = pytest.mark.device

TABLE = np.random.default_rng(0).standard_normal((7, 5)).astype(np.float32)
INDEX = np.array([[0, 3, 3], [6, 3, 0]])
SETTINGS = [
    {"max_norm": 1.0},
    {"max_norm": 1.5, "norm_type": 1.0},
    {"max_norm": 0.5, "norm_type": float("inf")},
    {"max_norm": 100.0},
    {"scale_grad_by_freq": True},
    {"scale_grad_by_freq": True, "padding_idx": 3},
    {"max_norm": 1.0, "scale_grad_by_freq": True, "padding_idx": -1},
]


def looked_up(package, settings, call="embedding", **given):
    """Rows, the table afterwards and its gradient."""
    table = package.nn.Parameter(package.tensor(TABLE))
    y = getattr(package.nn.functional, call)(package.tensor(INDEX), table, **settings, **given)
    (y * package.arange(float(y.numel())).reshape(y.shape)).sum().backward()
    return y.detach().numpy(), table.detach().numpy(), table.grad.numpy()


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_rows_table_and_gradient_are_pytorchs(settings):
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")
    for mine, other in zip(looked_up(clnet, settings), looked_up(torch, settings), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_within_a_length_are_pytorchs(mode):
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")
    settings = {"max_norm": 1.0, "norm_type": 3.0, "mode": mode}
    found = (looked_up(package, settings, "embedding_bag") for package in (clnet, torch))
    for mine, other in zip(*found, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)


def test_gradients_of_bags_are_divided_by_the_uses_of_a_row():
    """PyTorch 2.13 on a CPU divides by another row's."""
    plain, by_frequency = (
        looked_up(clnet, {"mode": "sum", "scale_grad_by_freq": f}, "embedding_bag")[2]
        for f in (False, True)
    )
    uses = np.maximum(np.bincount(INDEX.ravel(), minlength=7), 1)[:, None]
    np.testing.assert_allclose(by_frequency, plain / uses, rtol=1e-6)
    assert uses.max() == 3


def test_rows_that_are_not_looked_up_stay():
    table = clnet.tensor(3 * TABLE)
    ops.embedding(clnet.tensor([2, 9, -1]), table, max_norm=1.0)
    with pytest.raises(IndexError, match=r"embedding: .*input=9, position=1, rows=7"):
        clnet.synchronize()
    found = table.numpy()
    np.testing.assert_array_equal(np.delete(found, 2, 0), np.delete(3 * TABLE, 2, 0))
    assert np.linalg.norm(found[2]) == pytest.approx(1.0, rel=1e-5)


def test_gradients_by_frequency_can_be_differentiated():
    weight = clnet.tensor(TABLE, requires_grad=True)
    index = clnet.tensor(INDEX)
    y = ops.embedding(index, weight, scale_grad_by_freq=True)
    (first,) = clnet.autograd.grad((y * y).sum(), weight, create_graph=True)
    np.testing.assert_allclose(first.detach().numpy()[[0, 3, 6]], 2 * TABLE[[0, 3, 6]], rtol=1e-6)
    (second,) = clnet.autograd.grad(first.sum(), weight)
    expected = np.zeros((7, 5))
    expected[[0, 3, 6]] = 2 / np.array([[2], [3], [1]])  # divided once more, on the way back
    np.testing.assert_allclose(second.numpy(), expected, rtol=1e-6)


def test_a_padded_row_has_no_second_gradient_of_infinity_either():
    weight = clnet.tensor(TABLE, requires_grad=True)
    gy = clnet.ones(2, 5).requires_grad_()
    y = ops.embedding(clnet.tensor([1, 3]), weight, padding_idx=3)
    (first,) = clnet.autograd.grad(y, weight, gy, create_graph=True)
    (second,) = clnet.autograd.grad(first, gy, clnet.full((7, 5), float("inf")))
    assert second.tolist() == [[float("inf")] * 5, [0.0] * 5]


def test_a_frequent_row_of_16_bits_keeps_its_count():
    weight = clnet.ones(2, 3, dtype=clnet.float16).requires_grad_()
    y = ops.embedding(clnet.zeros(3001, dtype=clnet.int64), weight, scale_grad_by_freq=True)
    y.backward(clnet.ones(3001, 3, dtype=clnet.float16))
    assert weight.grad.dtype is clnet.float16
    assert weight.grad.tolist() == [[1.0] * 3, [0.0] * 3]


def test_a_compiled_step_shortens_the_table_as_eager_does():
    def trained(compiled):
        clnet.manual_seed(0)
        layer = nn.Embedding(7, 5, max_norm=1.0, scale_grad_by_freq=True)
        optimizer = clnet.optim.SGD(layer.parameters(), lr=0.5)

        def step(index):
            optimizer.zero_grad()
            loss = (layer(index) - 1).square().sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = clnet.compile(step) if compiled else step
        losses = [float(run(clnet.tensor(INDEX))) for _ in range(3)]
        return losses, layer.weight.detach().numpy()

    (losses, table), (other_losses, other_table) = trained(False), trained(True)
    np.testing.assert_allclose(losses, other_losses, rtol=1e-6)
    np.testing.assert_allclose(table, other_table, rtol=1e-6)
    assert losses[2] < losses[0]


def test_layers_say_what_they_do():
    layer = nn.Embedding(4, 3, 1, 2.0, 1.0, True)
    assert repr(layer) == (
        "Embedding(4, 3, padding_idx=1, max_norm=2.0, norm_type=1.0, scale_grad_by_freq=True)"
    )
    bag = nn.EmbeddingBag(4, 3, max_norm=2.0)
    assert repr(bag) == "EmbeddingBag(4, 3, max_norm=2.0, mode='mean')"
    table = clnet.tensor(3 * TABLE)
    layer = nn.Embedding.from_pretrained(table, max_norm=1.0)
    layer(clnet.tensor([0]))
    assert np.linalg.norm(table.numpy()[0]) == pytest.approx(1.0, rel=1e-5)


def test_what_is_not_there_is_refused():
    index, table = clnet.tensor([0]), clnet.ones(4, 3)
    with pytest.raises(ArgumentError, match="max_norm is 0 or more"):
        ops.embedding(index, table, max_norm=-1.0)
    with pytest.raises(ArgumentError, match="the table is dense"):
        ops.embedding(index, clnet.ones(3, 4).T, max_norm=1.0)
    with pytest.raises(ArgumentError, match="go with sums and means"):
        ops.embedding_bag(index[None], table, mode="max", scale_grad_by_freq=True)
