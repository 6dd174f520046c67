"""Memory plans: what lives when, what is overwritten in place, and that the peak is as foretold."""

from __future__ import annotations

import dataclasses
import gc

import numpy as np
import pytest

import clnet
from clnet import nn, ops
from clnet.compile import regions
from clnet.compile.passes import KEEPING_BITS
from clnet.compile.record import record
from clnet.compile.regions import MemoryPlan, lower, plan_memory
from clnet.nn import functional as F
from tests.kernels.launching import gpu_copying_directly

pytestmark = pytest.mark.device


def batch(seed: int, *shape: int) -> clnet.Tensor:
    return clnet.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def planned(function, *args, **traits) -> MemoryPlan:
    """The memory plan of a function as it was recorded, for the test device or one like it."""
    device = clnet.device()
    trace = record(function, args, {}, device).trace
    target = dataclasses.replace(device.target, traits=dataclasses.replace(device.traits, **traits))
    return plan_memory(trace, lower(trace, target), target)


def test_a_chain_of_pointwise_ops_stays_in_place():
    plan = planned(lambda x: ops.tanh(ops.exp(x * 2) + 1), batch(0, 50, 50))
    assert len(plan.regions) == 1
    assert plan.num_in_place == 2  # the last one makes what the caller gets
    assert plan.arenas == (50 * 50 * 4 // 256 * 256 + 256,)


def later(x):
    y = ops.exp(x)
    return (y + 1) * y + 1


def turned(x):
    y = ops.exp(x)
    return y + y.T


def narrowed(x):
    return ops.exp(x) > 1


def broadcast(x):
    return ops.exp(x[0]) + x


def kept(x):
    y = ops.exp(x)
    return y, y + 1


def argument(x):
    return ops.exp(x)


def viewed(x):
    y = ops.exp(x)
    return y[:4] + 1, y[4:] + 1


@pytest.mark.parametrize(
    ("function", "num_in_place"),
    [(later, 1), (turned, 0), (narrowed, 0), (broadcast, 0), (kept, 0), (argument, 0), (viewed, 0)],
)
def test_what_is_still_needed_is_not_overwritten(function, num_in_place):
    x = batch(0, 8, 8)
    assert planned(function, x).num_in_place == num_in_place
    expected, found = function(x), clnet.compile(function)(x)
    for a, b in zip(
        expected if isinstance(expected, tuple) else (expected,),
        found if isinstance(found, tuple) else (found,),
        strict=True,
    ):
        assert np.array_equal(a.numpy(), b.numpy())


def test_two_outputs_take_two_inputs():
    def gradients(x, w):
        a, b = ops.exp(x), ops.exp(w)
        product = clnet.tensor(0.0) + a.requires_grad_() * b.requires_grad_()
        return clnet.autograd.grad(product.sum(), [a, b])

    x, w = batch(0, 6, 7), batch(1, 6, 7)
    for a, b in zip(gradients(x, w), clnet.compile(gradients)(x, w), strict=True):
        assert np.array_equal(a.numpy(), b.numpy())


def test_a_device_with_small_buffers_gets_several_arenas():
    layers = [nn.Linear(64, 64) for _ in range(6)]

    def loss(x):
        x.requires_grad_()
        y = x
        for layer in layers:
            y = ops.tanh(layer(y))
        return clnet.autograd.grad(y.sum(), [x])

    x = batch(0, 64, 64)
    whole = planned(loss, x)
    parts = planned(loss, x, max_allocation_bytes=2 * 64 * 64 * 4)
    assert len(whole.arenas) == 1
    assert len(parts.arenas) > 1
    assert max(parts.arenas) <= 2 * 64 * 64 * 4
    assert sum(parts.arenas) <= 1.5 * sum(whole.arenas)


class Job:
    """A training step of a small convolutional network."""

    def __init__(self):
        self.model = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(8 * 64, 10),
        )
        with clnet.no_grad():
            for seed, p in enumerate(self.model.parameters()):
                p.copy_(batch(seed, *p.shape) * 0.1)
        self.optimizer = clnet.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)

    def step(self, x, target):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), target)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def images(seed: int) -> tuple[clnet.Tensor, clnet.Tensor]:
    return batch(seed, 16, 3, 16, 16), clnet.tensor(np.arange(16) % 10)


def test_the_peak_is_known_before_it_runs(device):
    gc.collect()
    before = clnet.memory_allocated()
    job, given = Job(), images(0)
    step = clnet.compile(job.step)
    step(*given)
    gc.collect()
    clnet.reset_peak_memory_stats()
    loss = step(*given)
    plan = step.plans[0]
    assert clnet.max_memory_allocated() - before == plan.peak_bytes
    assert loss.shape == ()
    assert plan.held_bytes < plan.peak_bytes


@pytest.mark.parametrize("also", ["views", "its argument", "a parameter"])
def test_memory_of_several_results_counts_once(device, also):
    weight = nn.Parameter(clnet.ones(512, 256))

    def several(x):
        y = x * weight.detach()
        if also == "views":
            return y, y.reshape(-1), y[:10]
        return (y, x) if also == "its argument" else (y, weight.detach())

    gc.collect()
    before = clnet.memory_allocated() - weight.numel() * 4
    step, x = clnet.compile(several), batch(1, 512, 256)
    step(x)
    gc.collect()
    clnet.reset_peak_memory_stats()
    results = step(x)
    assert clnet.max_memory_allocated() - before == step.plans[0].peak_bytes
    assert results[0].shape == (512, 256)


def test_planned_memory_is_less_than_eager_needs(device):
    eager, job, given = Job(), Job(), images(0)
    eager.step(*given)
    before = clnet.memory_allocated()
    clnet.reset_peak_memory_stats()
    eager.step(*given)
    on_top = clnet.max_memory_allocated() - before
    step = clnet.compile(job.step, passes=KEEPING_BITS)
    step(*given)
    memory = step.plans[0].memory
    assert memory.arena_bytes < on_top + device.queue.workspace.nbytes
    assert sum(memory.arenas) <= 1.1 * memory.busiest[0]


def test_workspaces_shared_cost_less_than_separate_ones():
    job = Job()
    plan = planned(job.step, *images(0))
    cost = plan.workspace_bytes
    assert len(plan.workspaces) > 1
    assert cost["separate"] == sum(plan.workspaces.values())
    assert cost["shared"] == max(plan.workspaces.values())
    assert cost["planned"] <= cost["shared"] < cost["separate"]


def test_steps_of_a_plan_do_not_use_the_queues_workspace(device):
    job, given = Job(), images(0)
    step = clnet.compile(job.step)
    clnet.empty_cache()
    step(*given)
    assert device.queue.workspace.nbytes == 0


def test_gradients_outlive_the_plan():
    eager, job, given = Job(), Job(), images(0)
    eager.step(*given)
    step = clnet.compile(job.step, passes=KEEPING_BITS)
    step(*given)
    del step
    gc.collect()
    clnet.empty_cache()
    noise = [clnet.full((n,), 9.0) for n in (8, 216, 576, 5120)]
    for a, b in zip(eager.model.parameters(), job.model.parameters(), strict=True):
        assert np.array_equal(a.grad.numpy(), b.grad.numpy())
    assert noise[0][0].item() == 9


def test_replays_while_inputs_and_results_are_in_use():
    job, eager = Job(), Job()
    step = clnet.compile(job.step, passes=KEEPING_BITS)
    given = [images(seed) for seed in range(6)]
    found = [step(*pair) for pair in given]  # nothing is waited for in between
    expected = [eager.step(*pair) for pair in given]
    assert [x.item() for x in found] == [x.item() for x in expected]


def test_arguments_are_read_where_they_are(device):
    class Copies:
        profiling = False
        seen = 0

        def command(self, record):
            self.seen += record.kind == "copy"

    double = clnet.compile(lambda x: x * 2)
    x = batch(0, 6, 4)
    copies = Copies()
    with device.queue.observe(copies):
        for view, expected in ((x, 0), (x[:3], 0), (x[3:], 1), (x, 0)):
            copies.seen = 0
            assert np.array_equal(double(view).numpy(), view.numpy() * 2)
            assert copies.seen == expected


def test_an_argument_that_is_changed_outside_meanwhile():
    """The same memory as argument and as captured, updated tensor: the argument is copied."""
    w = clnet.ones(4)

    def function(x):
        y = x + 1
        with clnet.no_grad():
            w.copy_(w * 3)
        return y * x

    compiled = clnet.compile(function)
    assert compiled(w).tolist() == [2] * 4
    assert w.tolist() == [3] * 4
    assert compiled(w).tolist() == [12] * 4
    assert compiled(clnet.full((4,), 2.0)).tolist() == [6] * 4
    assert w.tolist() == [27] * 4


def test_a_gradient_as_argument_of_the_step_that_overwrites_it():
    w = clnet.ones(4, requires_grad=True)

    def function(x):
        w.grad = None
        y = ops.exp(x) * w
        (y * y).sum().backward()
        return y.detach() + x

    compiled = clnet.compile(function)
    compiled(clnet.full((4,), 0.5))
    for _ in range(3):
        before = w.grad.detach()
        expected = function(clnet.tensor(before.numpy())).numpy()
        np.testing.assert_array_equal(compiled(before).numpy(), expected)


def test_plans_share_what_lasts_no_longer_than_a_replay(device):
    gc.collect()
    before = clnet.memory_allocated()
    job = Job()
    step = clnet.compile(job.step, passes=KEEPING_BITS)
    forward = clnet.compile(clnet.no_grad()(job.model), passes=KEEPING_BITS)
    x, target = images(0)
    eager = Job()
    expected = [eager.step(x, target).item() for _ in range(2)]
    assert step(x, target).item() == expected[0]
    alone = clnet.memory_allocated() - before
    gradients = [p.grad.numpy() for p in job.model.parameters()]
    with clnet.no_grad():
        known = eager.model(x)
    assert forward(x).shape == known.shape
    assert clnet.memory_allocated() - before < alone + 20_000
    for p, known in zip(job.model.parameters(), gradients, strict=True):
        assert np.array_equal(p.grad.numpy(), known)
    assert step(x[:8], target[:8]).shape == ()
    step(x, target)


def test_the_gradient_of_scores_takes_their_place():
    """Of a network with many classes nothing is larger."""
    layer = clnet.nn.Linear(8, 300)
    x, classes = clnet.randn(50, 8), clnet.arange(50)

    def gradients(x, classes):
        loss = clnet.nn.functional.cross_entropy(layer(x), classes, label_smoothing=0.1)
        return clnet.autograd.grad(loss, list(layer.parameters()))

    compiled = clnet.compile(gradients)
    found = compiled(x, classes)
    (line,) = [s for s in compiled.explain().splitlines() if " cross_entropy_backward " in s]
    assert "in place" in line
    for got, wanted in zip(found, gradients(x, classes), strict=True):
        np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-5, atol=1e-7)


def transformed(monkeypatch, share: float, algorithm: str = "winograd"):
    """Two convolutions by Winograd's transforms, as on a GPU: the compiled function and results.

    Args:
        share: of the time that further launches may take.
    """
    gpu_copying_directly(monkeypatch)
    monkeypatch.setattr(regions, "_MOST_SHARE", share)
    clnet.manual_seed(0)
    layers = [nn.Conv2d(8, 8, 3, padding=1) for _ in range(2)]
    net, x = nn.Sequential(layers[0], nn.ReLU(), layers[1]), batch(0, 8, 8, 12, 12)
    run = clnet.compile(lambda x: net(x), passes=KEEPING_BITS)
    with clnet.no_grad(), clnet.convolution_algorithm(algorithm):
        return run, run(x).numpy(), net(x).numpy()


def test_what_makes_the_peak_has_less_scratch_memory_in_more_launches(monkeypatch):
    """To the byte: transforms of 8 images, of which 9 tiles each are 6x6 numbers, become 4's."""
    image, filters = 2 * 36 * 8 * 9 * 4, 36 * 8 * 8 * 4
    whole, before, eager = transformed(monkeypatch, 0.0)
    parts, found, _ = transformed(monkeypatch, 1e9)
    assert np.array_equal(found, eager)
    assert np.array_equal(found, before)
    assert [p.plans[0].num_launches for p in (whole, parts)] == [8, 14]
    told = "in more launches, for less scratch memory at the peak: #0 conv2d, #1 conv2d"
    assert told in parts.explain()
    assert "in more launches" not in whole.explain()
    for run, images in ((whole, 8), (parts, 4)):
        memory = run.plans[0].memory
        assert set(memory.workspaces.values()) == {images * image + filters}
        assert memory.arenas == (images * image + filters + 8 * 8 * 12 * 12 * 4,)


def test_scratch_memory_that_an_algorithm_needs_is_left(monkeypatch):
    """It cannot do with half; and what launches would cost is not spent where they cost much."""
    whole, *_ = transformed(monkeypatch, 0.0, "im2col")
    parts, found, eager = transformed(monkeypatch, 1e9, "im2col")
    assert np.array_equal(found, eager)
    assert parts.plans[0].num_launches >= whole.plans[0].num_launches
    least, *_ = transformed(monkeypatch, 1e-9)
    assert least.plans[0].num_launches == 8
