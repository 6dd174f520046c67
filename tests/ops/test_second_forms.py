"""Old forms of functions, and weights of losses, against the forms of today."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import ops
from clnet.errors import ArgumentError, ShapeError
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
