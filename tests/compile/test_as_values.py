"""Ops in place are fused as those out of place are, and change what they change in eager."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import clnet
from clnet import nn, ops
from clnet.compile.as_values import as_values
from clnet.compile.compiled import Compiled
from clnet.compile.record import record
from clnet.ops.machinery.pointwise import Overwrite

pytestmark = pytest.mark.device


def batch(*shape: int) -> clnet.Tensor:
    return clnet.tensor(np.random.default_rng(5).standard_normal(shape).astype(np.float32))


class Rectified(nn.Module):
    """ReLU by the tensor's method."""

    def forward(self, x):
        return x.relu_()


def network(relu: nn.Module) -> nn.Module:
    clnet.manual_seed(3)
    convolutions = [nn.Conv2d(16, 16, 3, padding=1) for _ in range(2)]
    return nn.Sequential(convolutions[0], relu, convolutions[1], relu)


def job(net: nn.Module, training: bool) -> Callable[[clnet.Tensor], clnet.Tensor]:
    """Ask the network, or walk back through it, too."""

    def step(x):
        with clnet.set_grad_enabled(training):
            y = net(x)
            if training:
                y.square().mean().backward()
            return y.detach()

    return step


def table(compiled: Compiled) -> list[list[str]]:
    """Phase, parts and kernels of each step."""
    rows = [line.split() for line in compiled.explain().splitlines()]
    return [row[1:4] for row in rows if row and row[0].isdigit()]


@pytest.mark.parametrize("training", [False, True], ids=["asked", "trained"])
@pytest.mark.parametrize("relu", [nn.ReLU(inplace=True), Rectified()], ids=["module", "method"])
def test_a_relu_in_place_is_fused_as_one_out_of_place(relu, training):
    plans, results = [], []
    for own in (nn.ReLU(), relu):
        net = network(own).train(training)
        compiled = clnet.compile(job(net, training))
        results.append(compiled(batch(2, 16, 8, 8)).numpy())
        plans.append(table(compiled))
        results.append(net[0].weight.grad.numpy() if training else 0)
    assert plans[0] == plans[1]
    assert any("conv2d+relu" in row for row in plans[1])
    np.testing.assert_array_equal(results[0], results[2])
    np.testing.assert_array_equal(results[1], results[3])


def stays(x, out):
    """Elements of an argument, and of what lies outside."""
    x.relu_()
    return x + out.exp_()


def views(x, out):
    """A part of what is overwritten is seen before and after."""
    y = x + 1
    row = y[0]
    y.mul_(2)
    row.add_(1)
    y.sub_(row)
    return y, row, y[1:], out


def converted(x, out):
    """Integers stored as floating numbers."""
    y = x * 1
    ops.add(ops.trunc(x).to(clnet.int32), 1, out=y)
    return y, y.relu_(), out


def filled(x, out):
    """Constants over an argument's memory, a part of it, and memory of the trace's own."""
    y = x + 1
    y.fill_(3)
    out[1].zero_()
    whole = (x > 0).fill_(True)
    return y * x, whole, out, x.zero_()


@pytest.mark.parametrize("function", [stays, views, converted, filled])
def test_what_is_changed_is_what_eager_changes(function):
    compiled = clnet.compile(function)
    for _ in range(3):
        told = []
        for run in (function, compiled):
            x, out = batch(3, 4), batch(3, 4) * 0.5
            results = run(x, out)
            told += [[t.numpy() for t in (*results, x, out)]]
        for mine, theirs in zip(*told, strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_constants_over_buffers_are_filled_at_every_replay():
    kinds = (clnet.float32, clnet.int64, clnet.bool)
    buffers = [clnet.ones(5, dtype=kind) for kind in kinds]

    @clnet.compile
    def reset(x):
        for k, buffer in enumerate(buffers):
            buffer.fill_(2 if k else 0)
        return x + 1

    for _ in range(3):
        reset(clnet.ones(2))
        assert [b.tolist() for b in buffers] == [[0.0] * 5, [2] * 5, [True] * 5]
        for buffer in buffers:
            buffer.fill_(1)


def test_random_numbers_over_own_memory_are_those_of_eager():
    def draw(x):
        y = x * 0
        return y.uniform_(), x + y.normal_()

    told = []
    for run in (draw, clnet.compile(draw)):
        clnet.manual_seed(7)
        told.append([t.numpy() for _ in range(2) for t in run(clnet.ones(9))])
    np.testing.assert_array_equal(np.concatenate(told[0]), np.concatenate(told[1]))


def test_only_what_is_the_traces_own_is_renewed():
    outside = clnet.ones(3)

    def function(x):
        outside.mul_(2)
        x.add_(outside)
        y = x * 2
        y[1:].neg_()
        y.exp_()
        return y.relu_()

    trace = record(function, [clnet.ones(3)], {}, outside.device).trace
    before = [step for _, step in trace.ops if isinstance(step.function, Overwrite)]
    after = [step for _, step in as_values(trace).ops if isinstance(step.function, Overwrite)]
    assert [len(before), len(after)] == [5, 3]
    assert [s.inputs[0].storage for s in after] == [s.inputs[0].storage for s in before[:3]]
