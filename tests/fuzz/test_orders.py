"""A few drawn orders of views and writes, and that what differs is found."""

from __future__ import annotations

from collections import Counter

import pytest

import clnet
from tests.answers import torch
from tests.fuzz import orders

pytestmark = pytest.mark.device


@pytest.mark.filterwarnings("ignore")
def test_drawn_orders_give_pytorchs_gradients():
    pytest.importorskip("torch")
    came = Counter(orders.verdict(orders.draw(seed), torch) for seed in range(120))
    assert came.keys() <= {"same", "left out", "refused"}
    assert came["same"] > 80


def test_what_turns_without_gradients_is_found(monkeypatch):
    pytest.importorskip("torch")
    lines = ["b = w * 2", "with lib.no_grad(): b.unsqueeze_(0)", "out.append(b * 1)"]
    assert orders.verdict(lines, torch) == "same"
    monkeypatch.setattr(clnet.Tensor, "unsqueeze_", lambda x, axis: x.detach_().unsqueeze(axis))
    assert orders.verdict(lines, torch) == "differs"
