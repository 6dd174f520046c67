"""Weights computed before every call: PyTorch's values, gradients and names of the state."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.errors import ArgumentError
from tests.nn.normed import compare_two_steps, take_state

pytestmark = pytest.mark.device


def pair(make, norm, **given):
    """The same normed layer in both, with PyTorch's state."""
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PyTorch would have them parametrized
        theirs = getattr(torch.nn.utils, norm)(make(torch.nn), **given)
    ours = getattr(nn.utils, norm)(make(nn), **given)
    take_state(ours, theirs)
    return ours, theirs, torch


LAYERS = {
    "linear": (lambda m: m.Linear(4, 3), (5, 4)),
    "conv": (lambda m: m.Conv2d(4, 3, 3, bias=False), (2, 4, 5, 5)),
    "transposed": (lambda m: m.ConvTranspose1d(4, 3, 3), (2, 4, 5)),
}


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize(
    ("norm", "given"),
    [
        ("weight_norm", {}),
        ("weight_norm", {"dim": None}),
        ("weight_norm", {"dim": 1}),
        ("spectral_norm", {}),
        ("spectral_norm", {"n_power_iterations": 3}),
    ],
)
def test_values_gradients_and_state_are_pytorchs(layer, norm, given):
    make, shape = LAYERS[layer]
    ours, theirs, _ = pair(make, norm, **given)
    compare_two_steps(ours, theirs, shape, tolerance=2e-5)


@pytest.mark.parametrize("norm", ["weight_norm", "spectral_norm"])
def test_a_norm_is_taken_away(norm):
    layer = getattr(nn.utils, norm)(nn.Linear(4, 3))
    x = clnet.ones(2, 4)
    y = layer.eval()(x).detach().numpy()
    assert getattr(nn.utils, f"remove_{norm}")(layer) is layer
    assert list(layer.state_dict()) == ["bias", "weight"]
    np.testing.assert_allclose(layer(x).detach().numpy(), y, rtol=1e-6)
    with pytest.raises(ArgumentError, match=f"^remove_{norm}: the weight is computed so"):
        getattr(nn.utils, f"remove_{norm}")(layer)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_norm_is_taken_away_from_a_copy(duplicate):
    layer = nn.utils.weight_norm(nn.Linear(4, 3))
    copied = nn.utils.remove_weight_norm(duplicate(layer))
    with clnet.no_grad():
        copied.weight.fill_(2.0)
        copied.bias.zero_()
    assert copied(clnet.ones(1, 4)).tolist() == [[8.0] * 3]
    assert "weight_g" in layer.state_dict()


def test_a_compiled_step_trains_it():
    layer = nn.utils.weight_norm(nn.Linear(4, 3))
    optimiser = clnet.optim.SGD(layer.parameters(), lr=0.1)

    @clnet.compile
    def step(x):
        optimiser.zero_grad()
        loss = (layer(x) ** 2).sum()
        loss.backward()
        optimiser.step()
        return loss

    losses = [step(clnet.ones(2, 4)).item() for _ in range(4)]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0]


def test_errors():
    with pytest.raises(ArgumentError, match=r"the module has the parameter; got name=nothing"):
        nn.utils.weight_norm(nn.Linear(2, 2), "nothing")
    with pytest.raises(ArgumentError, match=r"^spectral_norm: n_power_iterations is 1 or more"):
        nn.utils.spectral_norm(nn.Linear(2, 2), n_power_iterations=0)
