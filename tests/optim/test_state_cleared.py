"""An optimiser's state that a program clears, that a setting needs later, or that follows it."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet.errors import ArgumentError
from tests.optim.steps import gradients, parameters, starts

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


def test_a_cycled_momentum_counts_for_the_steps_made_with_it_as_pytorchs():
    """NAdam goes on from the product of the momenta as they were, also from a state."""
    torch = pytest.importorskip("torch", reason="the torch extra is not installed")
    theirs = [torch.tensor(x, requires_grad=True) for x in starts()]
    reference = torch.optim.NAdam(theirs, lr=0.1)
    params = parameters()
    optimizer = clnet.optim.NAdam(params, lr=0.1)
    for i in range(12):
        if i in (5, 8):
            state = optimizer.state_dict() if i == 5 else reference.state_dict()
            optimizer = clnet.optim.NAdam(params)
            optimizer.load_state_dict(state)
        for part in (optimizer, reference):
            part.param_groups[0]["betas"] = (0.95 - 0.07 * i, 0.999)
        for p, q, g in zip(params, theirs, gradients(i), strict=True):
            p.grad, q.grad = clnet.tensor(g), torch.tensor(g)
        optimizer.step()
        reference.step()
        for p, q in zip(params, theirs, strict=True):
            np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-5, atol=1e-6)
