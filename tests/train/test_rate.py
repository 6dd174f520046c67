"""The search for a learning rate."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.cli import main
from clnet.data import ArrayDataset, DataLoader
from clnet.errors import ArgumentError
from clnet.nn import functional as F
from clnet.train import RateSearch, find_learning_rate
from clnet.values import mode

pytestmark = pytest.mark.device


def setting(scale=1.0):
    """Linear regression, whose gradient descent converges below a known rate."""
    x = scale * np.random.default_rng(0).standard_normal((64, 4), dtype=np.float32)
    loader = DataLoader(ArrayDataset(x, x @ np.ones((4, 1), np.float32)), 16, shuffle=True)
    model = nn.Sequential(nn.Linear(4, 1), nn.Dropout(0.0))
    return model, clnet.optim.SGD(model.parameters(), lr=0.3, momentum=0.5), loader


def test_suggestion_is_where_the_loss_falls_fastest():
    rates = np.geomspace(1e-4, 1, 64)
    losses = 2 - np.tanh(2 * (np.log10(rates) + 2)) + 1e3 * np.maximum(rates - 0.3, 0)
    assert RateSearch(rates, losses).suggestion == pytest.approx(1e-2, rel=0.6)


@pytest.mark.parametrize("scale", [0.3, 3.0])
def test_suggested_rate_follows_the_problem(scale):
    """With features ``scale`` times as large, the loss is steeper by the square."""
    with mode.using(generator=clnet.Generator().manual_seed(1)):
        model, optimizer, loader = setting(scale)
        search = find_learning_rate(model, F.mse_loss, optimizer, loader, steps=120)
    assert 0.005 < search.suggestion * scale**2 < 1
    assert len(search.rates) == len(search.losses) < 120  # it diverged, and stopped
    assert search.losses.min() < search.losses[0] / 2


def test_everything_is_put_back():
    with mode.using(generator=clnet.Generator().manual_seed(1)) as now:
        model, optimizer, loader = setting()
        model.eval()
        next(iter(loader))
        before = {name: x.numpy() for name, x in model.state_dict().items()}
        random_state, place = now.generator.stands(), loader.state_dict()
        find_learning_rate(model, F.mse_loss, optimizer, loader, steps=8)
        assert now.generator.stands() == random_state
    assert loader.state_dict() == place
    assert not model.training
    assert optimizer.param_groups[0]["lr"] == 0.3
    assert optimizer.state_dict()["state"]["0"]["step"] == 0
    assert all(p.grad is None for p in model.parameters())
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name])


@pytest.mark.parametrize(
    ("options", "law"),
    [
        ({"steps": 7}, "8 steps or more"),
        ({"lowest": 0.0}, "rates rise from above 0"),
        ({"lowest": 1.0, "highest": 0.1}, "rates rise"),
        ({"lowest": 1e30, "highest": 1e35}, "diverges at once"),
    ],
)
def test_unfit_rates_are_refused(options, law):
    model, optimizer, loader = setting()
    with pytest.raises(ArgumentError, match=law):
        find_learning_rate(model, F.mse_loss, optimizer, loader, **options)


def test_command_suggests_a_rate(capsys):
    assert main(["train", "digits", "--model", "mlp", "--find-lr"]) == 0
    out = capsys.readouterr().out
    suggested = float(out.split()[-1])
    assert 1e-5 < suggested < 1
    assert "epoch" not in out
