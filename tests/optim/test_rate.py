"""Rates of optimisers that are tensors."""

from __future__ import annotations

import pytest

import clnet
from clnet.errors import ArgumentError, TraceError

pytestmark = pytest.mark.device


@pytest.mark.parametrize("name", ["SGD", "AdamW", "NAdam", "ASGD"])
@pytest.mark.parametrize("compiled", [False, True])
def test_a_rate_may_be_a_tensor_that_is_written_in_place(name, compiled):
    def trained(rate, write):
        w = clnet.nn.Parameter(clnet.tensor([1.0, -2.0]))
        optimizer = getattr(clnet.optim, name)([w], lr=rate)
        scheduler = clnet.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)

        def step():
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()

        run = clnet.compile(step) if compiled else step
        for k in range(5):
            run()
            scheduler.step()
            if k == 3:
                write(optimizer.param_groups[0])
        assert not compiled or run.num_traces == 1
        other = type(optimizer)([clnet.nn.Parameter(clnet.ones(2))], lr=rate)
        other.load_state_dict(optimizer.state_dict())
        return w.tolist(), float(other.param_groups[0]["lr"])

    rate = clnet.tensor(0.25)
    found = trained(rate, lambda group: group["lr"].fill_(0.125))
    assert found == trained(0.25, lambda group: group.update(lr=0.125))
    assert rate.item() == 0.125


def test_a_rate_is_not_written_before_the_step_in_a_compiled_function():
    w = clnet.nn.Parameter(clnet.ones(2))
    optimizer = clnet.optim.SGD([w], lr=clnet.tensor(0.5))

    @clnet.compile
    def step():
        optimizer.param_groups[0]["lr"].mul_(0.5)
        w.grad = clnet.ones(2)
        optimizer.step()

    with pytest.raises(TraceError, match="Write it behind the step"):
        step()
    with pytest.raises(ArgumentError, match="a tensor has one element"):
        clnet.optim.SGD([w], lr=clnet.ones(2))
