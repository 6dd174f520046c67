"""A few drawn networks, and that what differs is found."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from tests.answers import torch
from tests.fuzz import networks

pytestmark = pytest.mark.device


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", [1, 2, 3, 6])
def test_networks_train_alike_in_all_ways(seed):
    network = networks.draw(seed)
    assert networks.wrong(network, torch if find_spec("torch") else None) == [], str(network)


def test_a_gradient_that_is_off_is_found(monkeypatch):
    network = networks.draw(6)
    step = networks.Trained._step

    def planted(self, x, classes):
        if x.array.storage.buffer is None:  # of a trace
            x = x * 1.001
        return step(self, x, classes)

    monkeypatch.setattr(networks.Trained, "_step", planted)
    assert "compiled" in networks.wrong(network)
    assert networks.farthest([np.ones(2)], [None]) > 1
