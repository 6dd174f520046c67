"""What programs do with numbers, containers and ``compile`` beside calling ops."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.errors import DtypeError, TraceError

pytestmark = pytest.mark.device


def test_arrays_are_operands():
    x = clnet.arange(3.0)
    for y in (x * np.array([1, 2, 3]), np.array([1, 2, 3]) * x):
        assert y.tolist() == [0, 2, 6]
        assert isinstance(y, clnet.Tensor)
    assert (x + np.float32(1)).tolist() == [1, 2, 3]
    assert (x + np.ones(3, np.float32)).tolist() == clnet.add(x, np.array([1, 1, 1])).tolist()
    assert (x > np.array([1.0, 0.0, 5.0], np.float32)).tolist() == [False, True, False]
    with pytest.raises(DtypeError, match="one operand is a tensor"):
        clnet.add(np.ones(2), np.ones(2))


def test_python_asks():
    x = clnet.tensor([1.0, 2.5])
    assert 2.5 in x
    assert 3.0 not in x
    assert round(clnet.tensor(2.6)).item() == 3
    assert math.trunc(clnet.tensor(2.6)) == 2 == math.floor(clnet.tensor(2.6))
    assert x is not None
    assert x != None  # noqa: E711 - as programs write it


def test_uint8_masks():
    x, mask = clnet.arange(4.0), clnet.tensor([1, 0, 1, 0], dtype=clnet.uint8)
    assert x[mask].tolist() == [0, 2]
    assert x.masked_fill(mask, 9).tolist() == [9, 1, 9, 3]
    x[mask] = 5
    assert x.tolist() == [5, 1, 5, 3]


def test_containers_are_lists():
    layers = nn.ModuleList()
    layers += [nn.ReLU(), nn.Tanh()]
    longer = layers + nn.ModuleList([nn.Sigmoid()])
    assert (len(layers), len(longer), type(longer)) == (2, 3, nn.ModuleList)
    assert isinstance(layers.pop(0), nn.ReLU)
    assert [*layers._modules] == ["0"]
    both = nn.Sequential(nn.ReLU()) + nn.Sequential(nn.Tanh())
    assert both(clnet.tensor([-1.0, 0.5])).tolist()[0] == 0
    assert len(both * 2) == 4
    assert nn.ModuleDict({"a": nn.ReLU()}).get("b") is None


def test_there_may_be_no_module():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_module("downsample", None)
            self.layers = nn.ModuleList([nn.Linear(1, 1), None])

    block = Block()
    assert block.downsample is None
    assert [*block.state_dict()] == ["layers.0.weight", "layers.0.bias"]
    assert "(downsample): None" in repr(block)
    assert all(m is not None for m in block.eval().modules())
    block.downsample = nn.ReLU()
    assert "downsample" in dict(block.named_children())


def test_modules_that_are_shared_are_named_twice():
    layer = nn.ReLU()
    both = nn.Sequential(layer, layer)
    assert [n for n, _ in both.named_modules(remove_duplicate=False)] == ["", "0", "1"]
    assert [n for n, _ in both.named_modules(prefix="m")] == ["m", "m.0"]
    kept = nn.Linear(1, 1).state_dict(keep_vars=True)
    assert isinstance(kept["weight"], nn.Parameter)


def test_a_compiled_module_stands_where_the_module_stood():
    layer = nn.Linear(3, 2)
    compiled = clnet.compile(layer, mode="max-autotune", dynamic=False, fullgraph=True)
    x = clnet.ones(1, 3)
    with clnet.no_grad():
        assert compiled(x).tolist() == layer(x).tolist()
    assert compiled.num_traces == 1
    assert [*compiled.state_dict()] == ["weight", "bias"]
    assert compiled.weight is layer.weight
    assert isinstance(compiled, nn.Linear)
    assert compiled.eval() is compiled
    assert not layer.training
    compiled.note = 3
    assert layer.note == 3
    holder = nn.Sequential(compiled, nn.ReLU())
    assert [*holder.state_dict()] == ["0.weight", "0.bias"]
    for twin in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        assert twin.weight.tolist() == layer.weight.tolist()
        assert twin.weight is not layer.weight


def test_methods_are_compiled():
    class Doubling(nn.Module):
        factor = 2

        @clnet.compile(dynamic=True)
        def forward(self, x):
            return x * self.factor if x.shape[0] > 1 else x

    layer = Doubling()
    assert layer(clnet.ones(2)).tolist() == [2, 2]
    assert layer(clnet.ones(1)).tolist() == [1]  # control flow on shapes
    layer.factor = 3
    assert layer(clnet.ones(2)).tolist() == [3, 3]
    assert clnet.compile(len, disable=True) is len


def test_a_module_compiles_itself():
    layer = nn.Linear(2, 2)
    layer.compile()
    with clnet.no_grad():
        layer(clnet.ones(1, 2))
        layer(clnet.ones(1, 2))
    assert layer.forward.num_traces == 1
    assert [*layer.state_dict()] == ["weight", "bias"]


def test_control_flow_on_data_names_the_line():
    @clnet.compile
    def chosen(x):
        return x if x.sum() > 0 else -x

    with pytest.raises(TraceError, match=r"line=.*test_programs_ask.py:\d+.*clnet.where"):
        chosen(clnet.ones(2))
