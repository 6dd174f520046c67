"""Recomputation in backward: the same bits, less held; norms in two steps compute what one did."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.compile.passes import PASSES, rewrite
from clnet.compile.record import record
from clnet.compile.regions import lower, memory_is_short, plan_memory
from clnet.compile.rematerialize import recompute, recompute_beside
from clnet.compile.simplify import simplify
from clnet.compile.split_batch_norm import split
from clnet.nn import functional as F
from tests.kernels.launching import in_small_tiles

pytestmark = pytest.mark.device


class Residual(nn.Module):
    """Blocks of convolution, norm and ReLU with a short cut."""

    def __init__(self, channels: int):
        super().__init__()
        self.conv1 = nn.Conv2d(3, channels, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(channels, channels, 3, padding=1),
                nn.BatchNorm2d(channels),
                nn.ReLU(),
                nn.Conv2d(channels, channels, 3, padding=1),
                nn.BatchNorm2d(channels, affine=i > 0),
            )
            for i in range(4)
        )
        self.last = nn.Linear(channels, 5)

    def forward(self, x):
        x = self.conv1(x)
        for block in self.blocks:
            x = F.relu(x + block(x))
        return self.last(x.mean((2, 3)))


class Job:
    """A training step."""

    def __init__(self, channels: int):
        self.model = Residual(channels)
        generator = np.random.default_rng(0)
        with clnet.no_grad():
            for p in self.model.parameters():
                p.copy_(clnet.tensor(generator.standard_normal(p.shape).astype(np.float32) * 0.2))
        self.optimizer = clnet.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)

    def step(self, x, target):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), target)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def bits(self) -> dict[str, bytes]:
        return {n: t.detach().numpy().tobytes() for n, t in self.model.state_dict().items()}


def batch(seed: int):
    images = np.random.default_rng(seed).standard_normal((16, 3, 12, 12)).astype(np.float32)
    return clnet.tensor(images), clnet.tensor(np.arange(16) % 5)


@pytest.mark.parametrize("channels", [8, 16])
def test_training_keeps_its_bits(channels):
    found = []
    for saving in (False, True):
        job = Job(channels)
        step = clnet.compile(job.step, recompute=saving)
        losses = [step(*batch(i)).item() for i in range(3)]
        found.append((losses, job.bits()))
    assert found[0] == found[1]


def test_norms_in_two_steps_are_eagers_bit_for_bit():
    eager, job = Job(8), Job(8)
    step = clnet.compile(job.step, passes=(split,))
    for i in range(3):
        assert step(*batch(i)).item() == eager.step(*batch(i)).item()
    assert eager.bits() == job.bits()


@pytest.mark.parametrize("channels", [8, 16])
def test_less_is_held(channels):
    arenas = []
    for saving in (False, True):
        step = clnet.compile(Job(channels).step, recompute=saving)
        step(*batch(0))
        arenas.append(step.plans[0].memory.busiest[0])
    assert arenas[1] < 0.85 * arenas[0]


def test_what_is_made_again_is_made_of_what_is_there():
    device = clnet.device()
    trace = rewrite(record(Job(16).step, batch(0), {}, device).trace, PASSES)
    after = recompute(trace)
    assert sum(1 for _ in after.ops) > sum(1 for _ in trace.ops)
    known = {s for step in after.setup for s in step.made} | after.given
    for _, step in after.ops:
        for x in step.inputs:
            assert x.storage in known or x.storage.buffer is not None
        known.update(step.writes)
    before = plan_memory(trace, lower(trace, device.target), device.target)
    assert plan_memory(after, lower(after, device.target), device.target).busiest < before.busiest


class Tripled(clnet.autograd.Function):
    """A value whose gradient is made of what was saved alone."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sum()

    @staticmethod
    def backward(ctx, g):
        return ctx.saved_tensors[0] * 3


def test_a_step_reads_what_is_made_again_also_where_it_reads_nothing_else():
    def function(x, w):
        loss = Tripled.apply(x * 2)
        z = w
        for _ in range(6):
            z = (z @ w).tanh()
        return loss.detach(), *clnet.autograd.grad(loss + z.sum(), (x, w))

    x, w = clnet.rand(64, 1024).requires_grad_(), clnet.eye(16).requires_grad_()
    trace = rewrite(record(function, (x, w), {}, clnet.device()).trace, (simplify,))
    after = recompute(trace)
    doubled = next(step for _, step in after.ops if step.outputs[0].shape == x.shape)
    readers = after.readers[doubled.outputs[0].storage]
    assert [after.steps[r].phase for r in readers] == ["forward"]
    compiled = clnet.compile(function, passes=(simplify, recompute))
    for found, expected in zip(compiled(x, w), function(x, w), strict=True):
        assert found.tolist() == expected.tolist()


def test_a_value_whose_source_changes_stays():
    state = clnet.ones(64, 1024)

    def function(x, w):
        with clnet.no_grad():
            scaled = state * 1.0
        y = F.relu(x * scaled) * w
        with clnet.no_grad():
            state.copy_(state * 2)
        z = (y * y * w).sum()
        for _ in range(12):
            z = (z * 1.5).sin()
        return clnet.autograd.grad(z, w)[0]

    x, w = clnet.rand(64, 1024), clnet.rand(64, 1024).requires_grad_()
    results = []
    for saving in (False, True):
        with clnet.no_grad():
            state.fill_(1)
        compiled = clnet.compile(function, recompute=saving)
        results.append([compiled(x, w).numpy() for _ in range(2)])
    for one, other in zip(*results, strict=True):
        assert np.array_equal(one, other)


def test_it_is_done_where_memory_is_short(device):
    plain, short = Job(16), Job(16)
    step = clnet.compile(plain.step)
    step(*batch(0))
    limit, device.pool.limit = device.pool.limit, step.plans[0].peak_bytes - 1
    try:
        trace = rewrite(record(short.step, batch(0), {}, device).trace, PASSES)
        assert memory_is_short(trace)
        device.pool.limit = step.plans[0].peak_bytes
        assert not memory_is_short(trace)
    finally:
        device.pool.limit = limit


@pytest.fixture
def local_memory(device, monkeypatch):
    """The device as one whose groups share a local memory, as a GPU's do."""
    in_small_tiles(monkeypatch)
    if not device.traits.dedicated_local_memory:
        small = {"simd_width": 1, "max_group_size": 256, "local_memory_bytes": 49152}
        traits = replace(device.traits, dedicated_local_memory=True, **small)
        monkeypatch.setattr(device, "traits", traits)
        monkeypatch.setattr(device, "target", replace(device.target, traits=traits))


class Mixed(nn.Module):
    """What is saved twice elsewhere: norms before ReLU6 and SiLU, gates, GELUs between products."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1)
        self.norms = nn.ModuleList(nn.BatchNorm2d(16) for _ in range(2))
        self.gate = nn.Linear(16, 16)
        self.parts = nn.ModuleList(nn.Linear(*sizes) for sizes in ((16, 48), (48, 16), (16, 5)))

    def forward(self, x):
        x = F.relu6(self.norms[0](self.conv(x)))
        x = F.silu(self.norms[1](x * 1.5))
        x = x * self.gate(x.mean((2, 3))).sigmoid()[:, :, None, None]
        first, second, last = self.parts
        x = x.flatten(2).transpose(1, 2)
        x = x + second(F.gelu(first(x)))
        return last(x.mean(1))


def mixed_job() -> Job:
    clnet.manual_seed(0)
    job = Job(8)
    job.model = Mixed()
    job.optimizer = clnet.optim.SGD(job.model.parameters(), lr=0.05, momentum=0.9)
    return job


@pytest.mark.usefixtures("local_memory")
@pytest.mark.parametrize("make", [lambda: Job(16), mixed_job], ids=["residual", "mixed"])
def test_backward_makes_again_what_a_step_of_its_own_gives_beside(make):
    found, busiest, steps = [], [], []
    for left_out in ((recompute_beside,), ()):
        job = make()
        step = clnet.compile(job.step, passes=[p for p in PASSES if p not in left_out])
        found.append(([step(*batch(i)).item() for i in range(2)], job.bits()))
        busiest.append(step.plans[0].memory.busiest[0])
        steps.append(len(step.plans[0].entries))
    assert found[0] == found[1]
    assert busiest[1] < 0.9 * busiest[0]
    assert steps[1] <= steps[0]  # none has a launch of its own


@pytest.mark.usefixtures("local_memory")
def test_what_forward_does_not_read_is_not_stored():
    """Of a norm and a ReLU6 the norm's result is backward's alone, which makes it again."""
    trace = rewrite(record(mixed_job().step, batch(0), {}, clnet.device()).trace, PASSES)
    assert trace.passes.count("recompute_beside") == 1
    norms = [step for _, step in trace.ops if "relu6" in step.function.name]
    forward, backward = (s for s in norms if s.phase in ("forward", "backward"))
    assert len(forward.outputs) == 1
    assert "batch_norm" in backward.function.name


def test_no_step_is_a_host_on_devices_without_local_memory(device):
    if device.traits.dedicated_local_memory:
        pytest.skip("where groups have local memory they are")
    trace = rewrite(record(Job(16).step, batch(0), {}, device).trace, PASSES)
    assert recompute_beside(trace) is trace
