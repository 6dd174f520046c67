"""Training or evaluation for a while: afterwards every module is as it was."""

from __future__ import annotations

import pytest

from clnet import nn
from clnet.nn.module_mode import in_mode


class Counting(nn.Module):
    """Counts how often it was told of another mode."""

    def __init__(self):
        super().__init__()
        self.told = 0

    def train(self, mode=True):
        self.told += mode != self.training
        return super().train(mode)


def test_each_module_is_back_in_the_mode_it_was_in():
    model = nn.Sequential(nn.Dropout(), nn.Sequential(nn.Dropout(), Counting()), nn.Dropout())
    model[1].eval()
    model[1][0].train()
    before = [m.training for m in model.modules()]
    assert before == [True, True, False, True, False, True]
    with in_mode(model, training=False):
        assert not any(m.training for m in model.modules())
    assert [m.training for m in model.modules()] == before
    with in_mode(model, training=True):
        assert all(m.training for m in model.modules())
    assert [m.training for m in model.modules()] == before


def test_an_error_leaves_no_other_mode():
    def failing(model):
        with in_mode(model, training=False):
            raise KeyError

    model = nn.Dropout()
    with pytest.raises(KeyError):
        failing(model)
    assert model.training


def test_what_overrides_train_hears_of_it():
    model = nn.Sequential(Counting())
    with in_mode(model, training=False):
        assert model[0].told == 1
    assert model[0].told == 2
