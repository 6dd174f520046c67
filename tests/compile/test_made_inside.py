"""What a compiled function makes anew at every call, and objects that it returns."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.compat.dynamo import Lenient
from clnet.errors import TraceError

pytestmark = pytest.mark.device

MAKERS = [
    lambda x: clnet.tensor([0.0, 0.0]),
    lambda x: x.new_tensor([0.0, 0.0]),
    lambda x: clnet.empty(2).zero_(),
    lambda x: clnet.empty_like(x).fill_(0),
]


@pytest.mark.parametrize("make", MAKERS, ids=["tensor", "new_tensor", "empty", "empty_like"])
def test_a_sum_begins_anew_at_every_call(make):
    @clnet.compile
    def f(x):
        total = make(x)
        total += x.detach()
        on_tape = make(x)
        on_tape += x * 2
        return total, on_tape

    x = clnet.ones(2).requires_grad_()
    assert [y.tolist() for y in f(x)] == [[1, 1], [2, 2]]
    total, on_tape = f(x)
    assert (total.tolist(), on_tape.tolist()) == ([1, 1], [2, 2])
    on_tape.sum().backward()
    assert x.grad.tolist() == [2, 2]


@pytest.mark.parametrize("make", [lambda: clnet.rand(2), lambda: clnet.tensor([1.0, 2.0])])
def test_results_are_the_callers(make):
    f = clnet.compile(make)
    first = f()
    before = first.tolist()
    f().add_(1)
    assert first.tolist() == before
    assert f().max().item() <= 2


def test_a_constant_that_nobody_changes_is_not_copied():
    f = clnet.compile(lambda x: x * clnet.tensor([2.0, 3.0]))
    assert f(clnet.ones(2)).tolist() == [2, 3]
    assert f.plans[-1].num_launches == 1


@dataclass
class Output:
    loss: clnet.Tensor
    parts: list[clnet.Tensor]
    name: str = ""


class Kept(dict):
    """A dict that shows its items as attributes, too, as models' outputs do."""

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        setattr(self, key, value)


def test_objects_are_returned_with_tensors_of_the_call():
    @clnet.compile
    def f(x):
        kept = Kept()
        kept["sum"] = x.sum()
        both = clnet.distributions.Normal(x, x + 1)
        return Output(x.sum(), [x * 2], "name"), kept, SimpleNamespace(y=x * 3), both

    earlier = f(clnet.ones(2))
    output, kept, space, normal = f(clnet.full((2,), 2.0))
    assert (output.loss.item(), output.parts[0].tolist(), output.name) == (4, [4, 4], "name")
    assert (type(kept), kept["sum"].item(), kept.sum.item()) == (Kept, 4, 4)
    assert (space.y.tolist(), normal.scale.tolist()) == ([6, 6], [3, 3])
    assert earlier[0].loss.item() == 2


def test_a_state_whose_graph_was_freed_goes_from_call_to_call():
    """Truncated backpropagation through time."""
    cell = nn.RNN(2, 3)

    def step(x, h):
        y, h = cell(x, h.detach())
        cell.zero_grad()
        y.sum().backward()
        return h

    compiled, h, expected = clnet.compile(step), clnet.zeros(1, 1, 3), clnet.zeros(1, 1, 3)
    x = clnet.ones(2, 1, 2)
    for _ in range(2):
        h, expected = compiled(x, h), step(x, expected)
    assert h.tolist() == expected.tolist()


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_pass_over_data_inside(shuffle):
    data = clnet.utils.data.TensorDataset(clnet.arange(6.0))
    loader = clnet.utils.data.DataLoader(data, batch_size=2, shuffle=shuffle)

    def f(x):
        for (batch,) in loader:
            x = x * 2 + batch
        return x

    def called(compiled):
        clnet.manual_seed(3)
        found = [compiled(clnet.zeros(2)).tolist() for _ in range(3)]
        return found, clnet.rand(1).item()

    if shuffle:
        with pytest.raises(TraceError, match="drawn on the host"):
            clnet.compile(f)(clnet.zeros(2))
        with pytest.warns(RuntimeWarning, match="runs uncompiled"):
            assert called(Lenient(f)) == called(f)
    else:
        assert called(clnet.compile(f)) == called(f)


def test_a_pass_over_data_of_the_host_is_refused():
    loader = clnet.data.DataLoader(
        clnet.data.ArrayDataset(np.zeros((4, 1), np.float32)), batch_size=2
    )
    with pytest.raises(TraceError, match="pass over the data"):
        clnet.compile(lambda x: [x + batch[0] for batch in loader])(clnet.zeros(1))
