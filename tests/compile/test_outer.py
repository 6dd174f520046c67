"""A compiled function sees what its globals and enclosing variables are now."""

from __future__ import annotations

import pytest

import clnet
from clnet.errors import TraceError

pytestmark = pytest.mark.device

FACTOR = 1


def scaled(x):
    return x * FACTOR


class Trainer:
    def __init__(self):
        self.rate = 1.0

        self.count = 0

    def step(self, x):
        self.count += 1
        return x * self.rate

    decorated = clnet.compile(step)


def test_numbers_and_containers(monkeypatch):
    shift, table = 1, {"scale": [1.0]}
    f = clnet.compile(lambda x: scaled(x) * table["scale"][0] + shift)
    assert f(clnet.ones(1)).item() == 2
    monkeypatch.setattr(f"{__name__}.FACTOR", 3)
    assert f(clnet.ones(1)).item() == 4
    table["scale"][0] = 2.0
    assert f(clnet.ones(1)).item() == 7
    shift = 5
    assert f(clnet.ones(1)).item() == 11
    assert f(clnet.ones(1)).item() == 11
    assert f.num_traces == 4


def test_tensors():
    """Gradient descent whose weights are other tensors after each step."""
    w = clnet.zeros(2, requires_grad=True)
    f = clnet.compile(lambda x: (w * x - 1).pow(2).sum())
    found = []
    for _ in range(3):
        loss = f(clnet.ones(2))
        (g,) = clnet.autograd.grad(loss, w)
        w = (w - 0.25 * g).detach().requires_grad_()
        found.append(loss.item())
    assert found == [2, 0.5, 0.125]
    w.data.add_(1)
    assert f(clnet.ones(2)).item() == pytest.approx(2 * 0.875**2)


def test_attributes_of_who_is_called():
    for named in ("step", "decorated"):
        trainer = Trainer()
        f = getattr(trainer, named)
        f = clnet.compile(f) if named == "step" else f
        assert f(clnet.ones(1)).item() == 1
        trainer.rate = 4.0
        assert f(clnet.ones(1)).item() == 4
        assert f(clnet.ones(1)).item() == 4
        assert trainer.count == 2  # traced twice


def test_attributes_of_a_name_that_a_global_has_are_not_it(monkeypatch):
    """``optimizer.step()`` inside, ``for step in range(n)`` outside."""
    f = clnet.compile(lambda x: x.add(scaled(x)))
    for k in range(3):
        monkeypatch.setattr(f"{__name__}.add", k, raising=False)
        f(clnet.ones(1))
    assert f.num_traces == 1


def test_what_the_function_changes_itself_is_no_reason_to_trace():
    calls, count = [], 0

    @clnet.compile
    def f(x):
        nonlocal count
        calls.append(1)
        count += 1
        return x + 1

    for _ in range(3):
        f(clnet.ones(1))
    assert (f.num_traces, len(calls), count) == (1, 1, 1)


@clnet.compile
def itself(x):
    return x if x.shape == (9,) else itself.__wrapped__(clnet.ones(9))


def test_a_function_that_names_itself_is_traced_once():
    itself(clnet.ones(1))
    itself(clnet.ones(1))
    assert itself.num_traces == 1


def test_a_tensor_left_outside_is_refused():
    mean, found, kept = None, [1], clnet.ones(1)

    def assigning(x):
        nonlocal mean
        mean = x.mean()
        return x

    for f in (assigning, lambda x: found.append(x * 2)):
        with pytest.raises(TraceError, match=r"leaves a tensor in a variable outside.*Return it"):
            clnet.compile(f)(clnet.ones(2))
    assert (mean, found) == (None, [1])
    written = clnet.compile(lambda x: kept.copy_(x.mean(0, keepdim=True)))
    written(clnet.full((2,), 3.0))
    assert kept.item() == 3
