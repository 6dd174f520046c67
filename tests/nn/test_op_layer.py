"""Layers that declare their op and its settings: constructor, checks, buffers, text."""

from __future__ import annotations

import inspect

import pytest

import clnet
from clnet import nn
from clnet.errors import ArgumentError, DtypeError
from clnet.nn import functional as F


def test_fields_are_the_constructor():
    signature = inspect.signature(nn.ELU)
    assert str(signature) == "(alpha: 'float' = 1.0, inplace: 'bool' = False) -> 'None'"
    kinds = [p.kind.name for p in inspect.signature(nn.BCELoss).parameters.values()]
    assert kinds == ["POSITIONAL_OR_KEYWORD", "KEYWORD_ONLY"]
    assert nn.ELU(2.0, True).inplace
    assert not hasattr(nn.ELU, "alpha")


def test_settings_reach_the_op_as_they_stand():
    x = clnet.tensor([-1.0, 2.0])
    layer = nn.ELU(2.0)
    layer.alpha = 3.0
    assert layer(x).tolist() == F.elu(x, alpha=3.0).tolist()
    assert repr(layer) == "ELU(alpha=3.0)"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: nn.ELU("a"), "ELU: alpha is a number"),
        (lambda: nn.ELU(1.0, False, 2), "ELU: the arguments do not fit"),
        (lambda: nn.Threshold(1.0), "Threshold: the arguments do not fit: missing"),
        (lambda: nn.ELU()(3), "ELU: x is a tensor"),
    ],
)
def test_bad_settings_are_named(make, says):
    with pytest.raises(DtypeError, match=says):
        make()


def test_an_unknown_reduction_names_those_there_are():
    with pytest.raises(
        ArgumentError, match="KLDivLoss: reduction is 'batchmean', 'mean', 'sum' or"
    ):
        nn.KLDivLoss(reduction="median")


def test_a_tensor_among_the_settings_is_a_buffer():
    loss = nn.NLLLoss(clnet.ones(3))
    assert list(loss.state_dict()) == ["weight"]
    assert nn.NLLLoss().weight is None


def test_a_users_subclass_declares_nothing():
    class Steep(nn.ELU):
        beta: float = 3.0

        def forward(self, x):
            return super().forward(x * self.beta)

    assert Steep.beta == 3.0
    assert repr(Steep(2.0)) == "Steep(alpha=2.0)"
    assert Steep()(clnet.tensor([1.0])).tolist() == [3.0]


def test_a_layer_is_called_with_pytorchs_name_of_its_input():
    x = clnet.tensor([[1.0, 2.0]])
    several = nn.Sequential(nn.Identity(), nn.ELU())
    for layer in (nn.Softmax(1), nn.LogSoftmax(1), nn.ELU(), nn.MaxPool1d(2), several):
        assert layer(input=x).tolist() == layer(x).tolist()
    for layer in (nn.GRU(2, 1), nn.LSTM(2, 1)):
        y, state = layer(input=x)
        assert layer(input=x, hx=state)[0].shape == y.shape
    assert nn.L1Loss(None, None, "sum")(x, x * 2).item() == 3.0
