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


FIRST = [("Rprop", {"lr": 0.1}), ("Adagrad", {"lr": 0.1, "initial_accumulator_value": 0.5})]
"""Those whose state does not begin with zeros."""


@pytest.mark.parametrize(("name", "options"), FIRST)
def test_state_begins_with_its_first_value_where_it_is_made_late(name, options):
    """Cleared by a program, or of a layer that took its shape from its input."""
    p, twin = (clnet.ones(3, requires_grad=True) for _ in range(2))
    optimizers = [getattr(clnet.optim, name)([x], **options) for x in (p, twin)]
    optimizers[0].state.clear()
    for x, optimizer in zip((p, twin), optimizers, strict=True):
        x.grad = clnet.tensor([1.0, -2.0, 0.5])
        optimizer.step()
    assert p.tolist() == twin.tolist()

    layer = clnet.nn.LazyLinear(2, bias=False)
    optimizer = getattr(clnet.optim, name)(layer.parameters(), **options)
    layer(clnet.ones(1, 3)).sum().backward()
    before = layer.weight.detach().clone()
    optimizer.step()
    like = before.clone().requires_grad_()
    like.grad = layer.weight.grad
    getattr(clnet.optim, name)([like], **options).step()
    assert layer.weight.tolist() == like.tolist() != before.tolist()


def test_a_state_of_pytorchs_before_its_first_step_begins_anew():
    torch = pytest.importorskip("torch")
    theirs = torch.nn.Parameter(torch.ones(3))
    p = clnet.ones(3, requires_grad=True)
    optimizer = clnet.optim.Rprop([p], lr=0.1)
    optimizer.load_state_dict(torch.optim.Rprop([theirs], lr=0.1).state_dict())
    p.grad = clnet.tensor([1.0, -2.0, 0.5])
    optimizer.step()
    assert p.tolist() == pytest.approx([0.9, 1.1, 0.9])
