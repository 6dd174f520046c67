"""What passes ask a trace: who writes, who reads, what may be moved and what stays in order."""

from __future__ import annotations

import pytest

import clnet
from clnet import nn, ops
from clnet.compile import record
from clnet.compile.tracer import Action, Step

pytestmark = pytest.mark.device


def traced(function, *args):
    return record(function, args, {}, clnet.device()).trace


def test_values_arguments_and_results():
    trace = traced(lambda x: ops.exp(x + 1).T, clnet.ones(2, 3))
    add, exp, turn = (step for step in trace.steps if isinstance(step, Step))
    x, total, result = trace.arguments[0].storage, add.outputs[0].storage, exp.outputs[0].storage
    assert trace.results[0].storage is turn.outputs[0].storage is result
    assert trace.writers == {total: [0], result: [1]}
    assert trace.readers == {x: [0], total: [1], result: [2]}
    assert trace.last_use == {x: 0, total: 1, result: 2}
    assert [trace.is_value(s) for s in (x, total, result)] == [False, True, True]
    assert [trace.outlives(s) for s in (x, total, result)] == [False, False, True]
    assert trace.producer(total) == 0
    assert trace.producer(x) is None
    assert turn.writes == ()


def test_what_is_changed_in_place_is_a_variable():
    weight = clnet.ones(3)

    def function(x):
        y = x * 2
        y.add_(1)
        weight.add_(y)
        return y

    trace = traced(function, clnet.ones(3))
    y = trace.results[0].storage
    assert trace.writers == {y: [0, 1], weight.array.storage: [2]}
    assert not trace.is_value(y)
    assert not trace.is_value(weight.array.storage)
    assert not trace.is_value(y)
    assert trace.outlives(weight.array.storage)


def test_gradients_are_kept_and_host_actions_stay():
    model = nn.Linear(3, 2)
    optimizer = clnet.optim.SGD(model.parameters(), 0.1)

    def step(x):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    recorded = record(step, (clnet.ones(4, 3),), {}, clnet.device())
    grads = [grad.array.storage for _, grad in recorded.tracer.grads_after.values()]
    assert list(recorded.trace.kept) == grads
    assert all(recorded.trace.outlives(g) for g in grads)
    assert sum(isinstance(s, Action) for s in recorded.trace.steps) == 1
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("grad", [False, True])
def test_tensors_given_by_name_are_those_of_their_names(grad):
    def function(x, scale=1.0, *, mask=None, **further):
        return x * scale, mask + 1, further["last"] - x.sum()

    x, mask, last = clnet.tensor([1.0, 2.0, 3.0]), clnet.ones(2), clnet.zeros(1)
    x.requires_grad_(grad)
    compiled = clnet.compile(function)
    for _ in range(2):  # traced, then replayed
        found = compiled(x, last=last, mask=mask, scale=2.0)
        assert [t.tolist() for t in found] == [[2, 4, 6], [2, 2], [-6]]
    assert [t.tolist() for t in compiled(mask=mask, last=last, x=x)] == [[1, 2, 3], [2, 2], [-6]]
    assert compiled.num_traces == 2
    if grad:
        compiled(x, mask=mask, last=last, scale=x.detach())[0].sum().backward()
        assert x.grad.tolist() == [1, 2, 3]
