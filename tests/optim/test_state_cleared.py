"""An optimiser's state that a program clears, or that a setting needs from some step on."""

from __future__ import annotations

import pytest

import clnet
from clnet.errors import ArgumentError

pytestmark = pytest.mark.device


@pytest.mark.parametrize("compiled", [False, True])
def test_momentum_begins_where_there_was_no_state(compiled):
    """As PyTorch's: with the gradient of that step, also when a program cleared the state."""
    p = clnet.zeros(1, requires_grad=True)
    optimizer = clnet.optim.SGD([p], lr=1.0)
    p.grad = clnet.ones(1)
    step = clnet.compile(optimizer.step) if compiled else optimizer.step
    step()
    optimizer.param_groups[0]["momentum"] = 0.5
    step()
    assert p.item() == -2
    step()
    assert p.item() == -3.5
    optimizer.state.clear()
    step()
    assert p.item() == -4.5


def test_setting_that_needs_state_is_refused_later():
    first = clnet.ones(5, 3, requires_grad=True)
    optimizer = clnet.optim.RMSprop([first], lr=0.1)
    first.grad = clnet.ones(5, 3)
    optimizer.step()  # before it, the state would be made
    before = first.tolist()
    optimizer.param_groups[0]["momentum"] = 0.9
    with pytest.raises(ArgumentError, match="momentum_buffer"):
        optimizer.step()
    assert first.tolist() == before
