"""Metrics and their means."""

from __future__ import annotations

import math

import numpy as np
import pytest

import clnet
from clnet.train import accuracy
from clnet.train.history import Means


@pytest.mark.device
def test_accuracy_counts_the_largest_output():
    outputs = clnet.tensor([[0.1, 0.9], [2.0, -1.0], [0.0, 3.0], [5.0, 4.0]])
    assert accuracy(outputs, clnet.tensor([1, 0, 0, 0])).item() == 0.75


def test_means_weigh_batches_by_their_examples():
    means = Means(["loss", "accuracy"])
    assert math.isnan(means.values()["loss"])
    means.add(np.array([1.0, 0.5]), 30)
    means.add(np.array([4.0, 0.0]), 10)
    assert means.values("test_") == {"test_loss": 1.75, "test_accuracy": 0.375}


def test_means_continue_from_their_state():
    means = Means(["loss"])
    means.add(np.array([0.1]), 3)
    restored = Means(["loss"])
    restored.load_state_dict(means.state_dict())
    for each in (means, restored):
        each.add(np.array([0.7]), 4)
    assert restored.values() == means.values()
