"""Corners that no family's cases come to: operands refused, numbers without axes, rare settings."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import nn, ops
from clnet.errors import ArgumentError, ShapeError
from clnet.nn import functional as F
from clnet.ops.machinery.update import update

pytestmark = pytest.mark.device

X = clnet.zeros(2, 3)
IMAGE, KERNEL = clnet.zeros(1, 4, 5, 5), clnet.zeros(4, 2, 3, 3)
CLASSES = clnet.tensor([0, 2])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: F.conv_transpose2d(IMAGE, KERNEL, groups=3), ShapeError, "groups divides the 4"),
        (
            lambda: F.conv_transpose2d(IMAGE, KERNEL, clnet.zeros(3)),
            ShapeError,
            "the bias has 2 numbers, one for each output channel",
        ),
        (lambda: ops.meshgrid(X), ShapeError, "an axis is a vector"),
        (lambda: ops.meshgrid(X[0], indexing="yx"), ArgumentError, "indexing is 'ij' or 'xy'"),
        (
            lambda: F.cross_entropy(X, CLASSES, weight=X[0, :2]),
            ShapeError,
            "weight has one element a class",
        ),
        (lambda: F.cross_entropy(X, X.T), ShapeError, "probabilities have x's shape"),
        (lambda: F.smooth_l1_loss(X, X, beta=-1), ArgumentError, "beta is 0 or more"),
        (lambda: F.huber_loss(X, X, delta=0), ArgumentError, "delta is above 0"),
        (lambda: F.adaptive_avg_pool2d(IMAGE[..., :0], 2), ShapeError, "the planes are not empty"),
        (lambda: ops.max(X[:, :0], 1), ArgumentError, "an extreme is among elements"),
        (lambda: update(_added, [X, X[0]]), ShapeError, "operands have one shape"),
        (lambda: nn.RNN(3, 2)(X[:0]), ShapeError, "a sequence has one step or more"),
    ],
)
def test_operands_that_do_not_fit_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def _added(a, b):
    return (a + b,)


def test_numbers_without_axes():
    x = clnet.tensor(2.0)
    assert ops.inner(x, x).item() == 4
    assert ops.transpose(x, 0, -1).item() == 2
    assert ops.flatten(x).tolist() == [2]
    assert ops.movedim(x, 0, 0) is x
    assert F.local_response_norm(clnet.zeros(0, 3, 2), 2).shape == (0, 3, 2)


def test_soft_targets_with_weights():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 3)).astype(np.float32)
    soft = rng.dirichlet(np.ones(3), 4).astype(np.float32)
    weight = np.array([0.5, 1, 2], np.float32)
    logs = x - np.log(np.exp(x).sum(1, keepdims=True))
    expected = -((soft * 0.8 + 0.2 / 3) * logs * weight).sum(1)
    given = {"weight": clnet.tensor(weight), "label_smoothing": 0.2}
    for reduction, value in (
        ("none", expected),
        ("sum", expected.sum()),
        ("mean", expected.mean()),
    ):
        found = F.cross_entropy(clnet.tensor(x), clnet.tensor(soft), reduction=reduction, **given)
        np.testing.assert_allclose(found.numpy(), value, rtol=1e-5)


def test_losses_at_the_ends_of_their_settings():
    x, y = clnet.tensor([1.0, 4.0]), clnet.tensor([2.0, 2.0])
    assert F.smooth_l1_loss(x, y, beta=0, reduction="sum").item() == 3
    shares = F.binary_cross_entropy(
        clnet.tensor([0.5, 0.5]), clnet.ones(2), weight=clnet.tensor([0.0, 2.0]), reduction="none"
    )
    np.testing.assert_allclose(shares.numpy(), [0, 2 * np.log(2)], rtol=1e-6)
    rows = clnet.tensor([[1.0, 3.0]])
    one = F.gaussian_nll_loss(rows, rows * 0, 2.0)
    each = F.gaussian_nll_loss(rows, rows * 0, clnet.tensor([2.0]))
    np.testing.assert_allclose([one.item(), each.item()], (5 / 2 + np.log(2)) / 2, rtol=1e-6)
    rows = clnet.tensor([[1.0, 3.0], [2.0, 4.0]])
    shared = F.gaussian_nll_loss(rows, rows * 0, clnet.tensor([[2.0, 4.0]]), reduction="none")
    wanted = F.gaussian_nll_loss(rows, rows * 0, clnet.tensor([[2.0, 4.0]] * 2), reduction="none")
    assert shared.tolist() == wanted.tolist()


def test_the_last_window_does_not_lie_in_the_padding():
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")
    host = np.random.default_rng(0).standard_normal((1, 2, 4, 4, 4)).astype(np.float32)
    found = F.avg_pool3d(clnet.tensor(host), 2, 3, 1, ceil_mode=True)
    wanted = torch.nn.functional.avg_pool3d(torch.tensor(host), 2, 3, 1, ceil_mode=True)
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-5)
    host = host[..., :3, :3, :3]
    found = F.max_pool3d(clnet.tensor(host), 2, 2, 1, ceil_mode=True)
    wanted = torch.nn.functional.max_pool3d(torch.tensor(host.copy()), 2, 2, 1, ceil_mode=True)
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-6)


def test_modules_in_rare_use():
    layer = nn.Linear(2, 2)
    assert repr(layer.weight).startswith("Parameter containing:\ntensor(")
    with pytest.raises(NotImplementedError, match=r"Module\.forward"):
        nn.Module()(1)
    model = nn.Module()
    model.register_module("a", layer)
    model.b = layer
    assert [name for name, _ in model.named_modules()] == ["", "a"]
    del model.b
    assert not hasattr(model, "b")
    assert nn.ParameterDict({"w": layer.weight})["w"] is layer.weight
    alone = nn.RNN(3, 2)
    x, h = clnet.ones(4, 3), clnet.ones(1, 2)
    y, state = alone(x, h)
    batched, _ = alone(x.unsqueeze(1), h.unsqueeze(1))
    np.testing.assert_allclose(y.detach().numpy(), batched.detach().numpy()[:, 0], rtol=1e-6)
    assert state.shape == (1, 2)
    custom = nn.TransformerEncoderLayer(4, 2, 8, activation=ops.tanh)
    assert custom(clnet.ones(3, 1, 4)).shape == (3, 1, 4)
