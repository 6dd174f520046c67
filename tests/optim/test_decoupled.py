"""Adam's weight decay of either kind, and states that say which."""

from __future__ import annotations

import pytest

import clnet

pytestmark = pytest.mark.device


def test_the_kind_of_weight_decay_comes_with_a_state():
    first, second = (clnet.nn.Parameter(clnet.ones(3)) for _ in range(2))
    given = clnet.optim.Adam([first], weight_decay=0.3, decoupled_weight_decay=True)
    taker = clnet.optim.Adam([second], lr=0.1)
    for p, optimizer in ((first, given), (second, taker)):
        p.grad = clnet.arange(3.0)
        optimizer.step()
    with clnet.no_grad():
        second.copy_(first)
    taker.load_state_dict(given.state_dict())
    given.step()
    taker.step()
    assert second.tolist() == first.tolist()
    assert first[0].item() == pytest.approx((1 - 1e-3 * 0.3) ** 2)
    old = given.state_dict()  # of a PyTorch that had no such setting
    del old["param_groups"][0]["decoupled_weight_decay"]
    for kind in (clnet.optim.Adam, clnet.optim.AdamW):
        later = kind([second])
        later.load_state_dict(old)
        assert later.param_groups[0]["decoupled_weight_decay"] is (kind is clnet.optim.AdamW)
