"""Weights of linear layers are packed once, and again when they change."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.compile.pack_weights import pack_weights
from clnet.compile.passes import KEEPING_BITS, PASSES
from clnet.kernels.grid import in_groups
from tests.compile.lasting import explained_training, of_float64
from tests.kernels.launching import normal

needs_panels = pytest.mark.skipif(
    in_groups(clnet.device().target.traits), reason="products read panels on CPUs alone"
)


@needs_panels
@pytest.mark.parametrize("rows", [17, 64, 197])
@pytest.mark.parametrize("columns", [96, 333])
def test_a_layer_reads_panels_that_are_made_once(rows, columns):
    layer, x = nn.Linear(130, columns), clnet.tensor(normal(rows, 130))
    with clnet.no_grad():
        fast = clnet.compile(lambda x: layer(x))
        fast(x)
        found = fast(x).numpy()
    np.testing.assert_allclose(found, of_float64(layer, x), rtol=1e-4, atol=1e-4)
    assert "pack_panels" in fast.explain().split("once, before the first replay:")[1]


@needs_panels
def test_panels_are_made_again_when_a_weight_changed():
    layer, x = nn.Linear(128, 256), clnet.tensor(normal(32, 128))
    fast = clnet.compile(lambda x: layer(x))
    with clnet.no_grad():
        before = fast(x).numpy()
        layer.weight.mul_(2.0)
        found = fast(x).numpy()
    assert not np.allclose(found, before)
    np.testing.assert_allclose(found, of_float64(layer, x), rtol=1e-4, atol=1e-4)


@needs_panels
def test_layers_that_share_a_weight_share_nothing_that_is_written():
    layer, x = nn.Linear(160, 160), clnet.tensor(normal(48, 160))
    with clnet.no_grad():
        fast = clnet.compile(lambda x: layer(clnet.relu(layer(x))))
        found, again = fast(x).numpy(), fast(x).numpy()
        wanted = layer(clnet.relu(layer(x))).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(found, again)


@pytest.mark.parametrize(
    ("shape", "rows"),
    [((128, 256), 5000), ((128, 256), 1), ((128, 2), 64)],
    ids=["many rows", "one row", "two columns"],
)
def test_what_gains_nothing_is_not_packed(shape, rows):
    layer, x = nn.Linear(*shape), clnet.tensor(normal(rows, shape[0]))
    with clnet.no_grad():
        fast = clnet.compile(lambda x: layer(x))
        found = fast(x).numpy()
    np.testing.assert_allclose(found, of_float64(layer, x), rtol=1e-4, atol=1e-4)
    assert "pack_panels" not in fast.explain()


def test_a_weight_that_is_trained_is_not_packed_apart():
    layer, x = nn.Linear(128, 256), clnet.tensor(normal(32, 128))
    assert "pack_panels" not in explained_training(layer, x)


def test_eager_bits_are_kept_without_the_pass():
    assert pack_weights in PASSES
    assert pack_weights not in KEEPING_BITS
