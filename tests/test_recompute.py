"""``clnet.checkpoint``: the same bits with less memory, eager and compiled."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

import clnet
from clnet import nn, ops
from clnet.autograd import grad
from clnet.errors import ArgumentError, GradientError
from clnet.nn import functional as F
from clnet.values import mode

pytestmark = pytest.mark.device


def batch(seed: int, *shape: int) -> clnet.Tensor:
    return clnet.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


class Network(nn.Module):
    """Blocks with dropout and batch norm, each checkpointed or not."""

    def __init__(self, checkpointed: bool, depth: int = 4):
        super().__init__()
        self.checkpointed = checkpointed
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Linear(32, 32), nn.BatchNorm1d(32), nn.Tanh(), nn.Dropout(0.2), nn.Tanh()
            )
            for _ in range(depth)
        )
        self.last = nn.Linear(32, 5)
        with clnet.no_grad():
            for seed, p in enumerate(self.parameters()):
                p.copy_(batch(seed, *p.shape) * 0.3)

    def forward(self, x):
        for block in self.blocks:
            x = clnet.checkpoint(block, x) if self.checkpointed else block(x)
        return self.last(x)


class Job:
    """A training step with random numbers of its own."""

    def __init__(self, model: nn.Module):
        self.model = model
        self.optimizer = clnet.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(self, x, target):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), target)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def bits(self) -> dict[str, bytes]:
        found = {n: t.detach().numpy().tobytes() for n, t in self.model.state_dict().items()}
        return found | {
            f"{n}.grad": p.grad.numpy().tobytes() for n, p in self.model.named_parameters()
        }


@pytest.mark.parametrize("compiled", [False, True])
def test_training_is_the_same_bit_for_bit(compiled):
    jobs = [Job(Network(False)), Job(Network(True))]
    found = []
    for job, compile_it in zip(jobs, (False, compiled), strict=True):
        step = clnet.compile(job.step) if compile_it else job.step
        with mode.using(generator=clnet.Generator().manual_seed(3)) as now:
            losses = []
            for i in range(4):
                x, target = batch(i, 16, 32), clnet.tensor(np.arange(16) % 5)
                losses.append(step(x, target).item())
            found.append((losses, job.bits(), now.generator.offset))
    assert found[0] == found[1]


def peak(model: nn.Module, x: clnet.Tensor) -> int:
    target = clnet.tensor(np.arange(len(x)) % 5)
    model.zero_grad()
    before = clnet.memory_allocated()
    clnet.reset_peak_memory_stats()
    F.cross_entropy(model(x), target).backward()
    return clnet.max_memory_allocated() - before


def test_less_memory_is_held():
    x = batch(0, 2048, 32)
    whole, saved = Network(False, 12), Network(True, 12)
    for model in (whole, saved):
        peak(model, x)  # the workspace grows
    assert peak(saved, x) < 0.5 * peak(whole, x)


def test_compiled_plans_hold_less_as_well():
    x, target = batch(0, 2048, 32), clnet.tensor(np.arange(2048) % 5)
    peaks = []
    for checkpointed in (False, True):
        step = clnet.compile(Job(Network(checkpointed, 12)).step)
        step(x, target)
        peaks.append(step.plans[0].memory.arena_bytes)
    assert peaks[1] < 0.6 * peaks[0]


def test_several_arguments_and_results():
    def function(a, scale, b):
        return ops.exp(a) * scale, [a * b][0], (a > 0)

    def gradients(wrap):
        a, b = batch(0, 3, 4).requires_grad_(), batch(1, 3, 4).requires_grad_()
        x, y, z = wrap(function, a, 3.0, b)
        assert not z.requires_grad
        (x * y).sum().backward()
        return a.grad.numpy(), b.grad.numpy()

    plain = gradients(lambda f, *args: f(*args))
    for one, other in zip(plain, gradients(clnet.checkpoint), strict=True):
        assert np.array_equal(one, other)


def test_arguments_on_the_tape_and_unused_ones():
    w = batch(0, 4).requires_grad_()
    unused = batch(1, 4).requires_grad_()
    y = clnet.checkpoint(lambda a, _: a * a, w * 2, unused)
    y.sum().backward()
    assert np.array_equal(w.grad.numpy(), 8 * w.detach().numpy())
    assert unused.grad is None


def test_checkpoints_inside_checkpoints():
    layer = nn.Linear(6, 6)

    def inner(x):
        return ops.dropout(ops.tanh(layer(x)), 0.3)

    def run(wrap):
        layer.zero_grad()
        x = batch(0, 5, 6).requires_grad_()
        with mode.using(generator=clnet.Generator().manual_seed(1)):
            wrap(lambda v: wrap(inner, wrap(inner, v)), x).sum().backward()
        return x.grad.numpy(), layer.weight.grad.numpy()

    plain = run(lambda f, *args: f(*args))
    for one, other in zip(plain, run(clnet.checkpoint), strict=True):
        assert np.array_equal(one, other)


def test_gradients_of_gradients():
    w = batch(0, 4).requires_grad_()

    def second(wrap):
        x = batch(1, 4).requires_grad_()
        y = wrap(lambda v: ops.tanh(v * w) * v, x * 1.5)
        (first,) = grad(y.sum(), x, create_graph=True)
        return [g.numpy() for g in grad((first * first).sum(), [x, w])]

    plain = second(lambda f, *args: f(*args))
    for one, other in zip(plain, second(clnet.checkpoint), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_a_generator_of_its_own():
    generator = clnet.Generator().manual_seed(9)
    x = clnet.ones(64, requires_grad=True)
    y = clnet.checkpoint(lambda v: ops.dropout(v, 0.5, generator=generator), x)
    y.sum().backward()
    assert np.array_equal(x.grad.numpy(), y.detach().numpy())
    assert generator.offset == 16


def test_without_gradients_it_is_a_call():
    calls = []

    def function(x):
        calls.append(1)
        return x + 1

    with clnet.no_grad():
        assert clnet.checkpoint(function, clnet.ones(1, requires_grad=True)).item() == 2
    assert clnet.checkpoint(function, clnet.ones(1)).node is None
    assert len(calls) == 2


@pytest.mark.parametrize("segments", [1, 2, 5])
def test_a_row_in_segments(segments):
    layers = nn.Sequential(*(nn.Linear(6, 6) for _ in range(5)))
    x = batch(0, 3, 6)
    layers(x).sum().backward()
    expected = [p.grad.numpy() for p in layers.parameters()]
    layers.zero_grad()
    clnet.checkpoint_sequential(layers, segments, x).sum().backward()
    for p, known in zip(layers.parameters(), expected, strict=True):
        assert np.array_equal(p.grad.numpy(), known)


def test_a_row_of_pairs():
    def crossed(pair):
        a, b = pair
        return b.sin(), a * b

    x = clnet.ones(3, requires_grad=True)
    a, b = clnet.checkpoint_sequential([crossed] * 3, 2, (x, x * 2))
    (found,) = clnet.autograd.grad((a + b).sum(), x)
    pair = (x, x * 2)
    for _ in range(3):
        pair = crossed(pair)
    (wanted,) = clnet.autograd.grad((pair[0] + pair[1]).sum(), x)
    assert np.array_equal(found.numpy(), wanted.numpy())


# What is refused.


@pytest.mark.parametrize("order", [1, 2])
def test_captured_tensors_on_the_tape(order):
    """As ``checkpoint(lambda x: block(x, embedding), x)``; views and what is given back, too."""
    found = []
    for run in (lambda f, *args: f(*args), clnet.checkpoint):
        leaf, weight = batch(1, 3, 3).requires_grad_(), batch(2, 3, 3).requires_grad_()
        captured, x = leaf.exp(), batch(3, 3, 3).requires_grad_()
        one = captured.split(1)[1]

        def function(x, captured=captured, one=one, weight=weight):
            return (x * captured + one).tanh() @ weight * one, captured, x

        y, same, given = run(function, x * 2)
        assert same is captured
        loss = (y * y).sum() + (same * given).sum()
        leaves = (leaf, weight, x)
        grads = grad(loss, leaves, create_graph=order == 2)
        if order == 2:
            grads = grad(sum((g * g).sum() for g in grads), leaves)
        found.append([g.numpy() for g in grads])
    for plain, checkpointed in zip(*found, strict=True):
        np.testing.assert_allclose(checkpointed, plain, rtol=1e-5, atol=1e-5)


@dataclass
class Given:
    x: Any
    factor: float = 2.0


def structured(x, given, *, scale, table):
    y = x * given.factor + given.x
    return {"sum": y.exp() * scale, "parts": (y * table["shift"], "text", None), "given": given}


def test_tensors_in_structures():
    """Arguments and results, by position and name, in dicts, tuples and data classes."""
    found = []
    for run in (structured, partial(clnet.checkpoint, structured)):
        x, inner, scale, shift = (
            clnet.full((3,), k, requires_grad=True) for k in (0.1, 0.2, 3.0, 4.0)
        )
        made = run(x * 1, Given(inner * 1), scale=scale, table={"shift": shift})
        assert made["parts"][1:] == ("text", None)
        (made["sum"] * made["parts"][0] + made["given"].x).sum().backward()
        found.append([t.grad.numpy() for t in (x, inner, scale, shift)])
    np.testing.assert_array_equal(*found)


def test_what_is_no_tensor_is_given_back():
    assert clnet.checkpoint(lambda x: x.shape, clnet.ones(2, requires_grad=True)) == (2,)


@pytest.mark.parametrize("segments", [0, 4])
def test_segments_that_do_not_fit(segments):
    with pytest.raises(
        ArgumentError, match=r"segments lies between .* got segments=., functions=3"
    ):
        clnet.checkpoint_sequential([ops.exp] * 3, segments, clnet.ones(1))


def test_a_parameter_changed_in_between():
    w = clnet.ones(2, requires_grad=True)
    y = clnet.checkpoint(lambda x: x * w, clnet.ones(2))
    with clnet.no_grad():
        w.copy_(w * 2)
    with pytest.raises(GradientError, match="a tensor it saved was changed in place since"):
        y.sum().backward()


def test_a_function_that_draws_more_the_second_time():
    calls = []

    def function(x):
        calls.append(1)
        return ops.dropout(x if len(calls) == 1 else ops.dropout(x, 0.5), 0.5)

    y = clnet.checkpoint(function, clnet.ones(8, requires_grad=True))
    with pytest.raises(GradientError, match="the function draws as many random numbers when it"):
        y.sum().backward()
