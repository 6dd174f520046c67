"""Old forms of functions, and weights of losses, against the forms of today."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import ops
from clnet.errors import ArgumentError, ClnetError, ShapeError
from clnet.nn import functional as F

pytestmark = pytest.mark.device

OTHERWISE_TESTED = {
    "conv_tbc": "test_rows_are_convolved_over_time",
    "native_channel_shuffle": "test_second_names",
    "upsample": "test_second_names",
    "upsample_nearest": "test_second_names",
    "upsample_bilinear": "test_second_names",
}


def drawn(*shape):
    return clnet.tensor(np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32))


def test_rows_are_convolved_over_time():
    x, weight, bias = drawn(6, 2, 3), drawn(3, 3, 4), drawn(4)
    found = F.conv_tbc(x, weight, bias, 1).numpy()
    padded = np.pad(x.numpy(), ((1, 1), (0, 0), (0, 0)))
    wanted = sum(padded[k : k + 6] @ weight.numpy()[k] for k in range(3)) + bias.numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    with pytest.raises(ShapeError, match="x is \\(time, batch, channels\\)"):
        ops.conv_tbc(x[0], weight, bias)


def test_second_names():
    x = drawn(1, 4, 3, 3)
    assert clnet.native_channel_shuffle(x, 2).tolist() == ops.channel_shuffle(x, 2).tolist()
    assert F.upsample(x, scale_factor=2).tolist() == F.interpolate(x, scale_factor=2).tolist()
    assert F.upsample_nearest(x, 5).tolist() == F.interpolate(x, 5).tolist()
    wanted = F.interpolate(x, 5, mode="bilinear", align_corners=True)
    assert F.upsample_bilinear(x, 5).tolist() == wanted.tolist()


@pytest.mark.parametrize("name", ["l1_loss", "mse_loss", "huber_loss"])
def test_weights_of_losses(name):
    loss = getattr(F, name)
    x, target, weight = drawn(3, 4), drawn(4, 3).T, abs(drawn(2, 6)).reshape(3, 4)
    each = loss(x, target, reduction="none").numpy() * weight.numpy()
    found = loss(x, target, reduction="none", weight=weight).numpy()
    np.testing.assert_allclose(found, each, rtol=1e-6)
    whole = loss(x, target, reduction="sum", weight=weight).item()
    np.testing.assert_allclose(whole, each.sum(), rtol=1e-5)
    by = each.size if name == "huber_loss" else weight.numpy().sum()
    mean = loss(x, target, weight=weight).item()
    np.testing.assert_allclose(mean, each.sum() / by, rtol=1e-5)
    with pytest.raises(ShapeError, match="weight has the shape of x"):
        loss(x, target, weight=weight[0])
    with pytest.raises(ArgumentError, match="reduction is"):
        loss(x, target, reduction="most", weight=weight)


def filled(m, inplace):
    x, value = m.ones(3, requires_grad=True), m.tensor(2.0, requires_grad=True)
    places = m.tensor([0, 2])
    y = (x * 1).index_fill_(0, places, value) if inplace else x.index_fill(0, places, value)
    return [y, *m.autograd.grad(y.sum(), (x, value))]


TAKEN = {
    "cov of whole numbers": lambda m: m.cov(m.tensor([[1, 2, 5], [3, 4, 4]])),
    "cov of whole numbers, weighed": lambda m: m.cov(
        m.tensor([[1, 2, 5], [3, 4, 4]]), aweights=m.tensor([0.5, 0.2, 0.9]), correction=0
    ),
    "mode of a number": lambda m: m.tensor(True).mode().values,
    "gradient, spacing=None": lambda m: m.gradient(m.arange(4.0) ** 2, spacing=None, dim=None),
    "masked_scatter": lambda m: m.masked_scatter(
        m.arange(3.0), m.tensor([[True, False, True], [False] * 3]), m.arange(5.0, 9.0)
    ),
    "index_fill": lambda m: filled(m, inplace=False),
    "index_fill_": lambda m: filled(m, inplace=True),
    "index_fill of complex numbers": lambda m: m.view_as_real(
        m.ones(2, dtype=m.complex64).index_fill(0, m.tensor([0]), 1 + 2j)
    ),
    "broadcast_shapes": lambda m: m.zeros(m.broadcast_shapes(5, (3, 1))),
    "one size for both axes": lambda m: m.nn.functional.avg_pool2d(
        m.arange(16.0).reshape(1, 4, 4), (2,), stride=(1,), padding=[1]
    ),
    "tensordot": lambda m: [
        m.tensordot(*pair, dims=dims)
        for pair, dims in (
            ((m.full((1, 1, 1), 2.0), m.arange(4.0).reshape(2, 1, 2)), ([0, 1], [2, 0])),
            ((m.arange(6.0).reshape(2, 3), m.ones(1, 3)), ([0], [0])),
        )
    ],
    "tensordot of uint8": lambda m: m.tensordot(
        m.full((1, 1), 2, dtype=m.uint8), m.full((3, 1), 100, dtype=m.uint8), dims=([0], [0])
    ),
    "cov of float16, weighed in float32": lambda m: m.cov(
        m.tensor([[1, 2, 5], [3, 4, 4]]).half(), aweights=m.tensor([0.5, 0.2, 0.9])
    ),
    "index_add to a number": lambda m: m.tensor(2.0).index_add(
        0, m.tensor([0]), m.tensor(3.0), alpha=2
    ),
    "unravel_index of uint8": lambda m: m.unravel_index(m.tensor([200, 3]).byte(), (2, 300)),
    "vander of uint8": lambda m: m.linalg.vander(m.tensor([20, 30]).byte(), N=3),
    "powers of bytes, not of linalg": lambda m: m.vander(m.tensor([20, 30]).byte(), N=3),
    "norm": lambda m: m.norm(m.arange(12.0).reshape(2, 2, 3), "nuc", (1, 2), keepdim=True),
    "scalar_tensor": lambda m: (lambda x: m.autograd.grad(x**2, x))(
        m.scalar_tensor(2.0, requires_grad=True)
    ),
    "vander of a number": lambda m: m.linalg.vander(m.tensor(3.0), N=3),
    "eigvalsh": lambda m: m.linalg.eigvalsh(m.tensor([[1 + 2j, 3 + 1j], [2 - 1j, 4 - 1j]])),
}


@pytest.mark.parametrize("call", TAKEN.values(), ids=TAKEN)
def test_forms_that_pytorch_takes(call):
    torch = pytest.importorskip("torch")
    found, wanted = (y if isinstance(y, list | tuple) else [y] for y in (call(clnet), call(torch)))
    for y, expected in zip(found, wanted, strict=True):
        assert str(y.dtype).split(".")[1] == str(expected.dtype).split(".")[1]
        np.testing.assert_allclose(y.detach().numpy(), expected.detach().numpy(), rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: x[0].narrow(0, 0, 1), RuntimeError, "narrow: the tensor has an axis"),
        (lambda x: clnet.cat([x[0]]), RuntimeError, "cat: the tensor has an axis"),
        (lambda x: x[0].unbind(), IndexError, "unbind: the tensor has an axis"),
        (lambda x: clnet.fft.fft(x[0]), IndexError, "fft: the tensor has an axis"),
        (lambda x: x[:0].amax(0), IndexError, "amax: an extreme is among elements"),
        (lambda x: x[:0].max(), RuntimeError, "max: an extreme is among elements"),
        (lambda x: clnet.empty_permuted((2, 3), (0,)), RuntimeError, "names each axis once"),
    ],
)
def test_errors_are_of_the_kinds_that_pytorch_raises(call, error, message):
    with pytest.raises(error, match=message) as info:
        call(clnet.ones(3))
    assert isinstance(info.value, ClnetError)
