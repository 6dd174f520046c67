"""Compiled functions and modules that are pickled, copied and saved, and lenient ones."""

from __future__ import annotations

import copy
import pickle

import pytest

import clnet
from clnet.compat import dynamo
from clnet.errors import TraceError

pytestmark = pytest.mark.device


@clnet.compile
def doubled(x):
    return x * 2


class Net(clnet.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = clnet.nn.Linear(3, 2)

    @clnet.compile
    def forward(self, x):
        return self.linear(x)


def test_a_decorated_function_goes_by_its_name():
    assert pickle.loads(pickle.dumps(doubled)) is doubled
    assert copy.deepcopy(doubled) is not doubled
    x = clnet.ones(1, 3)
    net = Net()
    assert pickle.loads(pickle.dumps(net))(x).tolist() == net(x).tolist()


@pytest.mark.parametrize("compiling", [clnet.compile, dynamo.compile], ids=["clnet", "torch"])
def test_a_compiled_module(compiling, tmp_path):
    x, made = clnet.ones(1, 3), compiling(clnet.nn.Linear(3, 2))
    clnet.save(made, tmp_path / "made.pt")
    again = clnet.load(tmp_path / "made.pt", weights_only=False)
    with pytest.raises(clnet.errors.CheckpointError, match="weights_only is not False"):
        clnet.load(tmp_path / "made.pt", weights_only=True)
    for other in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made), again):
        assert isinstance(other, clnet.nn.Linear)
        assert list(other.state_dict()) == list(made.state_dict())
        assert other(x).tolist() == made(x).tolist()
        with clnet.no_grad():
            other.weight.zero_()
        assert other(x).tolist() != made(x).tolist()


def branching(x):
    return x * 2 if x.sum().item() > 0 else -x


def test_what_cannot_be_traced_runs_as_it_is():
    f = dynamo.compile(branching)
    with pytest.warns(RuntimeWarning, match="branching runs uncompiled, .*read on the host"):
        assert f(clnet.ones(2)).tolist() == [2, 2]
    assert f(-clnet.ones(2)).tolist() == [1, 1]
    assert f.num_traces == 0
    for strict in (dynamo.compile(branching, fullgraph=True), clnet.compile(branching)):
        with pytest.raises(TraceError, match="read on the host"):
            strict(clnet.ones(2))
