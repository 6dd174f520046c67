"""A model's layers in a table: shapes, parameters, operations; nothing of the model changes."""

from __future__ import annotations

import pytest

import clnet
from clnet import models, nn
from clnet.errors import ArgumentError, ShapeError

pytestmark = pytest.mark.device


class Twice(nn.Module):
    """A layer called twice, one that is not, outputs in a tuple, and weights tied."""

    def __init__(self):
        super().__init__()
        self.recurrent = nn.LSTM(8, 16)
        self.inner = nn.Sequential(nn.Linear(16, 16), nn.ReLU())
        self.unused = nn.Linear(3, 3)
        self.tied = nn.Linear(16, 16)
        self.tied.weight = self.inner[0].weight

    def forward(self, x):
        y, _ = self.recurrent(x)
        return {"out": self.tied(self.inner(self.inner(y)))}


def test_layers_have_shapes_parameters_operations_and_bytes():
    found = clnet.summary(models.LeNet(), (64, 1, 28, 28))
    rows = {layer.path: layer for layer in found.layers}
    conv = rows["conv2"]
    assert conv.output_shape == (64, 16, 10, 10)
    assert conv.parameters == 16 * 6 * 25 + 16
    assert conv.flops == 2 * 64 * 16 * 10 * 10 * 6 * 25
    assert conv.output_bytes == 4 * 64 * 16 * 10 * 10
    assert rows["pool"].calls == 2
    assert found.layers[0].flops >= sum(layer.flops for layer in found.layers[1:])
    assert found.parameters == found.trainable == 61_706
    assert "conv2: Conv2d       64 x 16 x 10 x 10       2,416" in str(found)
    assert "<td" in found._repr_html_()


def test_nested_shared_and_unused_layers():
    model = Twice()
    found = model.summary((5, 2, 8))
    rows = {layer.path: layer for layer in found.layers}
    assert rows["recurrent"].output_shape == (5, 2, 16)
    assert (rows["inner"].calls, rows["inner.0"].calls, rows["unused"].calls) == (2, 2, 0)
    assert rows["inner.0"].flops >= 2 * 2 * 10 * 16 * 16
    assert rows["tied"].parameters == 16 * 16 + 16
    assert found.parameters == sum(p.numel() for p in model.parameters())
    assert "not called" in str(found)
    assert rows[""].output_shape == (5, 2, 16)


def test_a_model_stays_as_it_is():
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.Dropout(0.5))
    before = {key: value.numpy().copy() for key, value in model.state_dict().items()}
    state = clnet.get_rng_state().tolist()
    model.summary((2, 2, 8, 8))
    assert clnet.get_rng_state().tolist() == state
    for key, value in model.state_dict().items():
        assert (value.numpy() == before[key]).all(), key
    assert not any(layer._forward_hooks for layer in model.modules())
    assert model(clnet.ones(2, 2, 8, 8)).shape == (2, 3, 6, 6)


def test_what_is_wrong_is_told():
    with pytest.raises(ArgumentError, match="model is a module"):
        clnet.summary(3, (1, 2))
    model = nn.Linear(3, 4)
    with pytest.raises(ShapeError):
        model.summary((5, 2))
    assert model(clnet.ones(5, 3)).shape == (5, 4)


def test_a_layer_that_returns_texts():
    class Named(nn.Linear):
        def forward(self, x):
            return {"kind": "dense", "made": super().forward(x)}

    assert clnet.summary(Named(3, 4), (5, 3)).layers[0].calls == 1
