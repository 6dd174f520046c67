"""Anomaly mode: the op, the layer and the line that the first NaN comes from."""

from __future__ import annotations

import pytest

import clnet
from clnet import nn
from clnet.errors import DataDomainError, GradientError

pytestmark = pytest.mark.device


class Rooted(nn.Module):
    """Its gradient is 0 / 0 where its input is 0."""

    def forward(self, x):
        return (x * x).sum(1).sqrt()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.root = Rooted()

    def forward(self, x):
        return self.root(self.first(x) * 0)


def step(net, x):
    net.zero_grad()
    loss = (net(x) * 1).sum()
    loss.backward()
    return loss


@pytest.fixture(params=["eager", "compiled"])
def run(request):
    return step if request.param == "eager" else clnet.compile(step)


def line_of(text: str) -> int:
    with open(__file__, encoding="utf-8") as file:
        return next(k for k, line in enumerate(file, 1) if text in line)


def test_backward_names_the_op_its_layer_and_the_line(run):
    net, x = Net(), clnet.ones(2, 3)
    run(net, x)  # as users meet it: without
    assert net.first.weight.grad.isnan().any()
    with clnet.autograd.detect_anomaly(), pytest.raises(GradientError) as raised:
        run(net, x)
    error = raised.value
    line = line_of("return (x * x).sum(1)" + ".sqrt()")
    assert error.op == "backward of mul"  # inf of the root, times 0
    assert "holds NaN" in error.law
    assert error.values["line"] == f"{__file__}:{line}"
    assert "root" in error.module
    assert "made by mul" in str(error.values["first_nan"])
    assert "backward" in str(error.values["first_nan"])


def test_a_nan_of_forward_is_named_in_the_error_of_backward():
    x = clnet.tensor([-1.0, 4.0], requires_grad=True)
    with clnet.autograd.detect_anomaly(), pytest.raises(GradientError) as raised:
        (x.sqrt() * 2).sum().backward()
    told = str(raised.value.values["first_nan"])
    assert told.startswith("made by sqrt (forward) at ")
    assert told.endswith(f":{line_of('(x.sqrt() ' + '* 2)')}")


def test_a_nan_that_was_given_is_not_blamed_on_the_op():
    x = clnet.tensor([float("nan"), 4.0], requires_grad=True)
    with clnet.autograd.detect_anomaly(), pytest.raises(GradientError) as raised:
        (x * x).sum().backward()
    assert str(raised.value.values["first_nan"]).startswith("among the operands of mul")


def test_forward_raises_where_that_is_asked_for(run):
    class Logarithm(nn.Module):
        def forward(self, x):
            return x.log()

    net, x = nn.Sequential(nn.Linear(3, 4), Logarithm()), clnet.ones(2, 3)
    net[0].bias.detach().fill_(-100)
    with clnet.autograd.detect_anomaly(forward=True), pytest.raises(DataDomainError) as raised:
        run(net, x)
    assert raised.value.op == "log"
    assert raised.value.module == "Sequential.1"
    assert raised.value.values["line"].endswith(f":{line_of('return x' + '.log()')}")


def test_what_has_no_nan_gives_the_same_gradients(run):
    net, x = nn.Linear(3, 4), clnet.ones(2, 3)
    run(net, x)
    expected = net.weight.grad.numpy()
    with clnet.autograd.detect_anomaly(forward=True):
        run(net, x)
    assert (net.weight.grad.numpy() == expected).all()


def test_without_check_nan_nothing_is_looked_at():
    x = clnet.zeros(2, requires_grad=True)
    with clnet.autograd.detect_anomaly(check_nan=False):
        (x.sqrt() * 0).sum().backward()
    assert x.grad.isnan().all()


def test_contexts_end_and_switches_hold():
    assert not clnet.is_anomaly_enabled()
    assert clnet.is_anomaly_check_nan_enabled()
    with clnet.autograd.detect_anomaly(check_nan=False):
        assert not clnet.is_anomaly_check_nan_enabled()
    with clnet.autograd.detect_anomaly():
        assert clnet.is_anomaly_enabled()
        with clnet.autograd.set_detect_anomaly(False):
            assert not clnet.is_anomaly_enabled()
        assert clnet.is_anomaly_enabled()
    assert not clnet.is_anomaly_enabled()
    try:
        clnet.autograd.set_detect_anomaly(True)
        assert clnet.is_anomaly_enabled()
    finally:
        clnet.autograd.set_detect_anomaly(False)
    assert not clnet.is_anomaly_enabled()


@pytest.mark.parametrize("dtype", [clnet.float16, clnet.float64, clnet.complex64])
def test_every_floating_dtype_is_looked_at(dtype):
    x = clnet.tensor([0.0, 1.0]).to(dtype)
    with clnet.autograd.detect_anomaly(forward=True), pytest.raises(DataDomainError, match="div"):
        x / x


def test_forward_is_looked_at_where_gradients_are_not():
    x = clnet.tensor([-1.0])
    looking = clnet.autograd.detect_anomaly(check_nan=False, forward=True)
    with looking, pytest.raises(DataDomainError, match="log"):
        x.log()


def test_what_an_op_overwrites_is_looked_at():
    x = clnet.tensor([-1.0, float("nan"), 1.0])
    with clnet.autograd.detect_anomaly(forward=True):
        x.log_()  # there was one before
        with pytest.raises(DataDomainError, match="log"):
            clnet.tensor([-1.0]).log_()
        clnet.ones(3).add_(x)  # it was given
