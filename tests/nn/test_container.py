"""Containers behave as the Python container they are named after."""

from __future__ import annotations

from collections import OrderedDict

import pytest

import clnet
from clnet import nn
from clnet.errors import BoundsError, DtypeError


def kinds(container):
    return [type(m).__name__ for m in container]


def row():
    return nn.Sequential(nn.ReLU(), nn.Tanh(), nn.Flatten())


def test_a_row_applies_its_modules_in_order():
    net = nn.Sequential(nn.Identity(), nn.Flatten(0), nn.LeakyReLU(0.5))
    assert net(clnet.full((2, 1), -2.0)).tolist() == [-1.0, -1.0]
    assert nn.Sequential()(3) == 3


def test_a_row_of_names():
    net = nn.Sequential(OrderedDict([("act", nn.ReLU()), ("flat", nn.Flatten())]))
    assert net.flat is net[1]
    assert [n for n, _ in net.named_children()] == ["act", "flat"]
    assert [n for n, _ in net[1:].named_children()] == ["flat"]


@pytest.mark.parametrize("make", [row, lambda: nn.ModuleList(row())], ids=["row", "list"])
def test_indexing_as_a_list(make):
    net = make()
    assert len(net) == 3
    assert net[0] is next(iter(net))
    assert net[-1] is net[2]
    assert net[1] in net
    assert nn.ReLU() not in net
    assert type(net[1:]) is type(net)
    assert kinds(net[::2]) == ["ReLU", "Flatten"]
    net[-1] = nn.Sigmoid()
    assert kinds(net) == ["ReLU", "Tanh", "Sigmoid"]
    assert [n for n, _ in net.named_children()] == ["0", "1", "2"]


@pytest.mark.parametrize("make", [row, lambda: nn.ModuleList(row())], ids=["row", "list"])
def test_growing_and_shrinking(make):
    net = make()
    assert net.append(nn.Sigmoid()) is net
    net.extend([nn.GELU(), nn.SiLU()])
    net.insert(1, nn.Identity())
    assert kinds(net) == ["ReLU", "Identity", "Tanh", "Flatten", "Sigmoid", "GELU", "SiLU"]
    del net[0]
    del net[3:]
    assert kinds(net) == ["Identity", "Tanh", "Flatten"]
    assert [n for n, _ in net.named_children()] == ["0", "1", "2"]


@pytest.mark.parametrize("index", [3, -4])
def test_an_index_outside(index):
    with pytest.raises(BoundsError, match=f"Sequential: .* got index={index}, modules=3"):
        row()[index]


def test_what_is_no_module_is_refused():
    with pytest.raises(
        DtypeError, match="a sub-module is a Module; got name=1, type=builtin_function_or_method"
    ):
        nn.Sequential(nn.ReLU(), abs)
    net = row()
    with pytest.raises(DtypeError, match="a sub-module is a Module"):
        net.insert(1, [nn.ReLU()])
    with pytest.raises(BoundsError, match="an index lies inside"):
        net.insert(-4, nn.ReLU())
    assert len(net) == 3, "nothing was changed"


def test_a_tensor_is_an_index():
    at = clnet.tensor(1)
    assert row()[at] is not None
    held = nn.ParameterList([clnet.ones(2), clnet.zeros(2)])
    held[at] = clnet.ones(3)
    assert held[at] is held[1]


def test_a_list_hands_its_parameters_up():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(2, 2, bias=False) for _ in range(2))

    assert list(Net().state_dict()) == ["layers.0.weight", "layers.1.weight"]


def test_a_list_shows_repeated_modules_once():
    text = repr(nn.ModuleList([nn.ReLU(), nn.Tanh(), nn.Tanh()]))
    assert text == "ModuleList(\n  (0): ReLU()\n  (1-2): 2 x Tanh()\n)"
    assert repr(nn.ModuleList()) == "ModuleList()"


def test_a_dict_of_modules():
    table = nn.ModuleDict({"act": nn.ReLU(), "flat": nn.Flatten()})
    table["out"] = nn.Linear(2, 3)
    assert list(table) == list(table.keys()) == ["act", "flat", "out"]
    assert len(table) == 3
    assert "act" in table
    assert "gone" not in table
    assert dict(table.items())["out"] is table["out"] is list(table.values())[2]
    assert list(table.state_dict()) == ["out.weight", "out.bias"]
    flat = table["flat"]
    assert table.pop("flat") is flat
    del table["act"]
    assert list(table) == ["out"]
    table.update([("last", nn.Tanh())])
    table.clear()
    assert len(table) == 0
    with pytest.raises(KeyError):
        table["out"]
