"""What pointwise steps make of a product's result is computed where the product stores it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import clnet
import clnet.nn.functional as F
from clnet import nn
from clnet.compile import record
from clnet.compile.fuse_into_products import fuse_into_products, unfused_pairs
from clnet.compile.fusion_obstacle import FusionObstacle
from clnet.compile.passes import PASSES, rewrite
from clnet.compile.tracer import Action, Step
from clnet.kernels.gemm import gemm_tiled
from clnet.ops.rewritten.finished import Finished
from tests.kernels.launching import in_small_tiles

pytestmark = pytest.mark.device

LISTED = gemm_tiled.TILINGS
BEFORE = tuple(p for p in PASSES[: PASSES.index(fuse_into_products)])


@pytest.fixture(autouse=True)
def local_memory(monkeypatch):
    """The device as one whose groups share a local memory, which is what tiles are for."""
    in_small_tiles(monkeypatch)
    device = clnet.device()
    if not device.traits.dedicated_local_memory:
        traits = replace(
            device.traits,
            dedicated_local_memory=True,
            simd_width=1,
            max_group_size=256,
            local_memory_bytes=49152,
        )
        monkeypatch.setattr(device, "traits", traits)
        monkeypatch.setattr(device, "target", replace(device.target, traits=traits))


def traced(function, *args):
    return rewrite(record(function, args, {}, clnet.device()).trace, BEFORE)


def finished(trace):
    steps = [s for s in fuse_into_products(trace).steps if isinstance(s, Step)]
    return [s.function for s in steps if isinstance(s.function, Finished)]


def refusals(trace):
    return {why for _, _, why in unfused_pairs(trace)}


def training(*, last, sizes=(300, 320, 272, 10), **options):
    """A network, and a step of training that forgets its gradients first or last."""
    clnet.manual_seed(0)
    layers = [part for n, m in pairwise(sizes) for part in (nn.Linear(n, m), nn.Sigmoid())]
    model = nn.Sequential(*layers[:-1])
    optimizer = clnet.optim.SGD(model.parameters(), 0.1, **options)

    def step(x, y):
        if not last:
            optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        if last:
            optimizer.zero_grad()
        return loss

    return model, step


def batch(rows=70, inputs=300):
    clnet.manual_seed(1)
    return clnet.randn(rows, inputs), clnet.randint(0, 10, (rows,))


@pytest.mark.parametrize("last", [False, True], ids=["gradients kept", "forgotten"])
def test_training_keeps_its_bits(last):
    x, y = batch()
    options = {"momentum": 0.9, "weight_decay": 1e-3}
    eager, step = training(last=last, **options)
    compiled, function = training(last=last, **options)
    replayed = clnet.compile(function)
    for _ in range(3):
        assert step(x, y).item() == replayed(x, y).item()
    for p, q in zip(eager.parameters(), compiled.parameters(), strict=True):
        np.testing.assert_array_equal(q.detach().numpy(), p.detach().numpy())
        assert (p.grad is None) == (q.grad is None) == last
        if p.grad is not None and q.grad is not None:
            np.testing.assert_array_equal(q.grad.numpy(), p.grad.numpy())
    names = replayed.explain()
    assert "linear+sigmoid " in names
    assert "linear_backward+sigmoid_backward " in names
    assert "linear_backward+sgd" in names


def test_gradients_that_are_forgotten_take_no_memory():
    x, y = batch()
    peaks: list[int] = []
    for last in (False, True):
        compiled = clnet.compile(training(last=last)[1])
        compiled(x, y)
        (plan,) = compiled.plans
        peaks.append(plan.peak_bytes)
    assert peaks[0] - peaks[1] >= 4 * 272 * 320


def test_the_rate_is_read_after_it_was_set():
    x, y = batch()
    model, function = training(last=True)
    twin, step = training(last=True)
    compiled = clnet.compile(function)
    for _ in range(2):
        step(x, y), compiled(x, y)
    # The action that counts steps stands before the first update.
    trace = fuse_into_products(traced(function, x, y))
    first = next(i for i, s in enumerate(trace.steps) if isinstance(s, Action))
    update = next(
        i
        for i, s in enumerate(trace.steps)
        if isinstance(s, Step) and isinstance(s.function, Finished) and s.function.changed
    )
    assert first < update
    for p, q in zip(twin.parameters(), model.parameters(), strict=True):
        np.testing.assert_array_equal(q.detach().numpy(), p.detach().numpy())


def test_what_the_host_does_later_keeps_nothing_back():
    x, y = batch()
    trace = traced(training(last=True)[1], x, y)
    actions = [s for s in trace.steps if isinstance(s, Action)]
    assert actions
    later = trace.with_steps([*(s for s in trace.steps if isinstance(s, Step)), *actions])
    changing = [sum(f.changed for f in finished(t)) for t in (trace, later)]
    assert changing[0] == changing[1] > 0
    assert fuse_into_products(later).steps[-len(actions) :] == tuple(actions)


def test_a_schedule_reaches_the_updates():
    x, y = batch()
    results = []
    for compiling in (False, True):
        clnet.manual_seed(0)
        model = nn.Linear(300, 300)
        optimizer = clnet.optim.SGD(model.parameters(), 0.5, momentum=0.5)
        schedule = clnet.optim.lr_scheduler.StepLR(optimizer, 1, 0.1)

        def step(x, y, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        run = clnet.compile(step) if compiling else step
        for _ in range(3):
            run(x, y)
            schedule.step()
        results.append(model.weight.detach().numpy())
    np.testing.assert_array_equal(*results)


def test_a_weight_that_is_read_again_is_updated_later():
    weight = nn.Parameter(clnet.randn(300, 300))
    optimizer = clnet.optim.SGD([weight], 0.1)

    def function(x):
        optimizer.zero_grad()
        y = x @ weight
        (gradient,) = clnet.autograd.grad(y.square().sum(), [weight])
        weight.grad = gradient
        z = (x * 2) @ weight
        optimizer.step()
        return z.detach()

    trace = traced(function, clnet.randn(40, 300))
    assert FusionObstacle.ORDER in refusals(trace)
    assert not any(f.changed for f in finished(trace))


def test_small_weights_are_left_to_the_one_update():
    x, y = batch(inputs=20)
    _, function = training(last=False, sizes=(20, 30, 10))
    trace = traced(function, x, y)
    assert FusionObstacle.MERGED in refusals(trace)
    assert not any(f.changed for f in finished(trace))


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda x, w, v: (x @ w) * v, FusionObstacle.SHAPE),
        (lambda x, w, v: (x @ w).T.exp() + 1, FusionObstacle.SHAPE),
        (lambda x, w, v: (x @ w).double().exp(), FusionObstacle.DTYPE),
    ],
    ids=["broadcast", "turned", "dtype"],
)
def test_what_is_left_to_a_kernel_of_its_own(function, why):
    args = clnet.randn(40, 50), clnet.randn(50, 64), clnet.randn(64)
    trace = traced(function, *args)
    assert refusals(trace) == {why}
    assert not finished(trace)


@pytest.mark.parametrize("size", [(1, 1, 1), (33, 66, 17), (130, 12, 2000)])
def test_results_beside_a_shortcut(size):
    m, n, k = size

    def function(x, w, shortcut):
        y = x @ w
        return (y * 2 + shortcut).tanh(), y

    clnet.manual_seed(2)
    args = clnet.randn(m, k), clnet.randn(k, n), clnet.randn(m, n)
    assert len(finished(traced(function, *args))) == 1
    for found, expected in zip(clnet.compile(function)(*args), function(*args), strict=True):
        np.testing.assert_array_equal(found.numpy(), expected.numpy())


def test_rows_of_more_axes():
    layer = nn.Linear(40, 24)
    x, shortcut = clnet.randn(3, 5, 40), clnet.randn(3, 5, 24)

    def function(x, shortcut):
        return F.relu(layer(x) + shortcut)

    with clnet.no_grad():
        assert len(finished(traced(function, x, shortcut))) == 1
        expected = function(x, shortcut).numpy()
        np.testing.assert_array_equal(clnet.compile(function)(x, shortcut).numpy(), expected)


def test_large_tiles_are_finished_with_little_only(monkeypatch):
    """Items with many sums wait for operands and functions; of short sums cheap ones pay."""
    monkeypatch.setattr(gemm_tiled, "TILINGS", LISTED)
    device = clnet.device()
    large = {"asynchronous_copies": True, "large_local_memory_bytes": 200_000, "compute_units": 132}
    traits = replace(device.traits, **large)
    monkeypatch.setattr(device, "target", replace(device.target, traits=traits))
    x, shortcut = clnet.empty(2048, 2048), clnet.empty(2048, 2048)

    def steps(function, k):
        trace = traced(function, clnet.empty(2048, k), clnet.empty(k, 2048), x, shortcut)
        return len(finished(trace)), refusals(trace)

    def little(a, b, x, shortcut):
        return a @ b * x

    def more(a, b, x, shortcut):
        return a @ b * x + shortcut

    def heavy(a, b, x, shortcut):
        return (a @ b).tanh()

    def medium(a, b, x, shortcut):
        return (a @ b).sigmoid()

    with clnet.abstract():
        assert steps(little, 2048) == (1, set())
        for function in (more, heavy, medium):
            assert steps(function, 2048) == (0, {FusionObstacle.UNSUITED})
        for k in (256, 64):
            assert [steps(f, k)[0] for f in (little, more, heavy, medium)] == [1, 1, 0, 1]
        few = traced(lambda a, b: (a @ b).tanh(), clnet.empty(64, 64), clnet.empty(64, 2048))
        assert len(finished(few)) == 1
