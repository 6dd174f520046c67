"""Data parallel training on every rank, beside one process that has the whole batch.

Run by ``mpirun`` with 2 ranks or more; prints the bits of the weights.
"""

from __future__ import annotations

import hashlib
import re
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import clnet
from clnet import distributed as dist
from clnet import nn, optim
from clnet.compile import record
from clnet.compile.as_values import as_values
from clnet.compile.passes import KEEPING_BITS, rewrite
from clnet.compile.simplify import simplify
from clnet.compile.trace import Trace
from clnet.compile.tracer import Action, Step
from clnet.compile.wait_late import wait_late
from clnet.compile.work_first import work_first
from clnet.errors import ArgumentError, DistributedError, TraceError

DDP = nn.parallel.DistributedDataParallel
Join = dist.algorithms.join.Join


class KeptBits:
    """A step that is compiled for a module and optimiser, by passes that keep every bit."""

    def __init__(self) -> None:
        self.compiled: Any = None

    def __call__(
        self, m: nn.Module, o: optim.Optimizer, x: clnet.Tensor, t: clnet.Tensor
    ) -> clnet.Tensor:
        if self.compiled is None:
            self.compiled = clnet.compile(lambda x, t: whole_step(m, o, x, t), passes=KEEPING_BITS)
        return self.compiled(x, t)


def main() -> None:
    dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()
    eager, again = (data_parallel(rank, size, compiled=False) for _ in range(2))
    assert eager == again
    compiled = data_parallel(rank, size, compiled=True)
    whole, again = (data_parallel(rank, size, compiled=False, step=KeptBits()) for _ in range(2))
    assert whole == again == eager
    forward_alone(rank, size)
    beside_backward()
    normalized_in_a_plan(rank, size)
    waits_come_late()
    exchanges_keep_their_order(rank, size)
    accumulated(rank, size)
    hooked(size)
    unused(rank)
    uneven(rank, size)
    normalized(rank, size)
    own_buffers(rank)
    scaled(rank)
    refused(rank)
    resumed(rank, Path(sys.argv[1]))
    print(f"<rank {rank}: {eager} {compiled}>")


def waits_come_late() -> None:
    """A bucket's updates follow its own wait, and nothing changes places that must not."""
    clnet.manual_seed(0)
    parts = nn.Linear(6, 40), nn.BatchNorm1d(40), nn.Linear(40, 40), nn.Linear(40, 3)
    model = DDP(nn.Sequential(*parts), bucket_cap_mb=0.0005)
    o = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, t = (clnet.tensor(v) for v in batch(1))

    def step(x: clnet.Tensor, t: clnet.Tensor) -> None:
        o.zero_grad()
        nn.functional.cross_entropy(model(x), t).backward()
        o.step()

    recorded = record(step, (x, t), {}, clnet.device()).trace
    trace = rewrite(recorded, (as_values, simplify))
    late = wait_late(trace)
    names = [s.function.name if isinstance(s, Step) else "" for s in late.steps]
    waits = [i for i, name in enumerate(names) if name == "all_reduce_wait"]
    assert len(waits) > 2
    for here, there in pairwise(waits):
        assert any(name.startswith("sgd") for name in names[here:there])
    assert names.index("broadcast_many_wait") > names.index("linear")
    keeps_what_depends(trace, late)
    first = work_first(late)
    keeps_what_depends(late, first)
    names = [s.function.name if isinstance(s, Step) else "" for s in first.steps]
    assert names.index("linear") < names.index("broadcast_many") < names.index("all_reduce")
    steps = tuple(s for s in trace.steps if not (isinstance(s, Step) and s.function.waits))
    without = replace(trace, steps=steps)
    assert wait_late(without) is without
    begins = [s for s in trace.steps if not (isinstance(s, Step) and s.function.begins)]
    without = trace.with_steps(begins)
    assert work_first(without) is without


def keeps_what_depends(before: Trace, after: Trace, early: str = "") -> None:
    """What changes places may do so; exchanges of the name ``early`` may come before others."""
    assert set(map(id, before.steps)) == set(map(id, after.steps))
    place = {id(one): i for i, one in enumerate(after.steps)}
    for k, one in enumerate(before.steps):
        for other in before.steps[k + 1 :]:
            if place[id(one)] > place[id(other)]:
                assert may_change_places(one, other, early)


def may_change_places(a: Step | Action, b: Step | Action, early: str = "") -> bool:
    if isinstance(a, Action) or isinstance(b, Action):
        return any(isinstance(s, Step) and s.function.waits for s in (a, b))
    apart = not set(a.writes) & set(b.storages) and not set(a.storages) & set(b.writes)
    if early and b.function.name.startswith(early) and not a.function.name.startswith(early):
        return apart
    begun = [s for s in (a, b) if s.function.reports and not s.function.waits]
    return apart and len(begun) < 2 and not (a.function.waits and b.function.waits)


def exchanges_keep_their_order(rank: int, size: int) -> None:
    """Ranks begin them alike, though what one depends on comes later than another's."""

    def both(x: clnet.Tensor) -> tuple[clnet.Tensor, clnet.Tensor]:
        first, second = x + 1, x * 2
        dist.all_reduce(first)
        tripled = first * 3  # behind the wait
        dist.all_reduce(tripled)
        dist.all_reduce(second)  # needs no wait
        return tripled, second

    recorded = record(both, (clnet.ones(5),), {}, clnet.device()).trace
    trace = rewrite(recorded, (as_values, simplify))
    orders = [
        [s.inputs[0].storage for _, s in t.ops if s.function.reports and not s.function.waits]
        for t in (trace, wait_late(trace))
    ]
    assert len(orders[0]) == 3
    assert orders[0] == orders[1]
    compiled = clnet.compile(both)
    for turn in range(3):
        tripled, second = compiled(clnet.full((5,), float(rank + turn)))
        total = size * (size - 1) // 2 + size * turn
        assert tripled.tolist() == [3.0 * size * (total + size)] * 5
        assert second.tolist() == [2.0 * total] * 5


def net(seed: int) -> nn.Module:
    clnet.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(6, 40), nn.Tanh(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 3)
    )


def batch(size: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(3)
    x = generator.standard_normal((8 * size, 6)).astype(np.float32)
    return x, generator.integers(0, 3, 8 * size)


def bits(module: nn.Module) -> str:
    whole = b"".join(p.detach().numpy().tobytes() for p in module.parameters())
    return hashlib.sha256(whole).hexdigest()[:16]


def same_everywhere(text: str) -> None:
    found = [None] * dist.get_world_size()
    dist.all_gather_object(found, text)
    assert set(found) == {text}, found


def data_parallel(rank: int, size: int, *, compiled: bool, step: Any = None) -> str:
    """Losses and weights of ranks with a part of the batch each are those of one with all."""
    x, t = (clnet.tensor(a) for a in batch(size))
    alone, inner = net(1), net(rank + 1)  # which begin as rank 0's
    # Buckets of some KiB: there are several, in reverse order.
    model = DDP(clnet.compile(inner) if compiled else inner, bucket_cap_mb=0.0005)
    assert len(model._reduced._buckets) > 2
    assert [*model.state_dict()] == [f"module.{name}" for name in alone.state_dict()]
    mine = slice(8 * rank, 8 * rank + 8)
    optimizers = [optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (alone, model)]
    for _ in range(4):
        losses = [
            (step if step is not None and m is model else whole_step)(m, o, x[at], t[at])
            for m, o, at in zip((alone, model), optimizers, (slice(None), mine), strict=True)
        ]
        dist.all_reduce(losses[1], dist.ReduceOp.AVG)
        np.testing.assert_allclose(losses[1].item(), losses[0].item(), rtol=1e-5)
    for p, q in zip(alone.parameters(), model.parameters(), strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=2e-4, atol=1e-5)
    same_everywhere(bits(model))
    return bits(model)


def beside_backward() -> None:
    """A plan begins with the first bucket before it has computed the gradients of the last."""
    model = DDP(net(1), bucket_cap_mb=0.0005)
    step = KeptBits()
    x, t = (clnet.tensor(a) for a in batch(1))
    step(model, optim.SGD(model.parameters(), lr=0.1), x, t)
    ops = re.findall(r"^ *\d+ +\w+ +(\S+)", step.compiled.explain(), re.MULTILINE)
    assert ops.count("all_reduce") == ops.count("all_reduce_wait") == len(model._reduced._buckets)
    last = len(ops) - ops[::-1].index("linear_backward")
    assert ops.index("all_reduce") < last < ops.index("all_reduce_wait")


def normalized_in_a_plan(rank: int, size: int) -> None:
    """Exchanges of forward and backward are steps as well; with convolutions and all passes."""
    x = clnet.tensor(np.random.default_rng(5).standard_normal((4 * size, 3, 8, 8)).astype("f"))
    part = x[4 * rank : 4 * rank + 4]
    found = []
    for kind in (lambda f: f, clnet.compile):
        clnet.manual_seed(1)
        inner = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten())
        model = DDP(nn.SyncBatchNorm.convert_sync_batchnorm(inner))
        sgd = optim.SGD(model.parameters(), lr=0.1)

        @kind
        def step(x: clnet.Tensor, model: Any = model, sgd: Any = sgd) -> clnet.Tensor:
            sgd.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            sgd.step()
            return loss

        losses = [step(part).item() for _ in range(3)]
        state = [t.numpy().sum() for t in model.state_dict().values()]
        found.append([*losses, *state])
        same_everywhere(bits(model))
    np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-5)


def forward_alone(rank: int, size: int) -> None:
    """A wrapped module that is compiled itself: backward is outside, and averages."""
    model = DDP(nn.Linear(2, 1, bias=False))
    compiled = clnet.compile(model)
    for number in range(3):
        model.zero_grad()
        if number == 1:
            with model.no_sync():
                compiled(clnet.full((1, 2), float(rank))).sum().backward()
            assert model.module.weight.grad.tolist() == [[rank] * 2]
        else:
            compiled(clnet.full((1, 2), float(rank))).sum().backward()
            assert model.module.weight.grad.tolist() == [[(size - 1) / 2] * 2]


def whole_step(m: nn.Module, o: optim.Optimizer, x: clnet.Tensor, t: clnet.Tensor) -> clnet.Tensor:
    o.zero_grad()
    loss = nn.functional.cross_entropy(m(x), t)
    loss.backward()
    nn.utils.clip_grad_norm_(m.parameters(), 0.5)
    o.step()
    return loss.detach().clone()


def accumulated(rank: int, size: int) -> None:
    """``no_sync`` adds up here; the next pass averages the sum."""
    model = DDP(nn.Linear(2, 1, bias=False))
    weight = model.module.weight
    with model.no_sync():
        model(clnet.full((1, 2), float(rank))).sum().backward()
        assert weight.grad.tolist() == [[rank, rank]]
    model(clnet.full((1, 2), 1.0)).sum().backward()
    assert weight.grad.tolist() == [[1 + (size - 1) / 2] * 2]
    model.zero_grad()
    model.eval()  # which says nothing of gradients
    y = model(clnet.full((1, 2), float(rank)))
    y.sum().backward(retain_graph=True)
    assert weight.grad.tolist() == [[(size - 1) / 2] * 2]
    y.sum().backward()  # of no forward pass that averages: as in PyTorch, added here
    assert weight.grad.tolist() == [[(size - 1) / 2 + rank] * 2]
    model.zero_grad()
    (model(clnet.ones(1, 2)) + model(clnet.full((1, 2), float(rank)))).sum().backward()
    assert weight.grad.tolist() == [[1 + (size - 1) / 2] * 2]


def thin(power: Any) -> None:
    """A product of thin matrices; what it leaves out of one step comes in those behind."""
    rank = dist.get_rank()
    layer = nn.Linear(30, 20)
    model = DDP(layer)
    state = power.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2)
    model.register_comm_hook(state, power.powerSGD_hook)
    x = clnet.tensor(np.random.default_rng(rank).standard_normal((8, 30)), dtype=clnet.float32)
    found = list[np.ndarray]()
    for _ in range(40):
        model.zero_grad()
        (model(x).sin() ** 2).sum().backward()
        found.append(layer.weight.grad.numpy().copy())
        if len(found) > 2:
            assert np.linalg.matrix_rank(found[-1], tol=1e-3) <= 2
    assert (found[0] == found[1]).all()
    left = np.abs(np.mean(found[2:], 0) - found[0]).max()
    assert 0 < left < 0.5 * np.abs(found[2] - found[0]).max()
    for given in ({"start_powerSGD_iter": 1}, {"matrix_approximation_rank": 0}):
        with pytest.raises(ArgumentError, match="PowerSGDState"):
            power.PowerSGDState(None, **given)


def hooked(size: int) -> None:
    """What a hook gives for a bucket are its gradients: PyTorch's hooks, and one by hand."""
    hooks = dist.algorithms.ddp_comm_hooks.default_hooks
    x, t = (clnet.tensor(a) for a in batch(size))
    mine = slice(8 * dist.get_rank(), 8 * dist.get_rank() + 8)
    seen: list[tuple[int, bool]] = []

    def halved(state: float, bucket: dist.GradBucket) -> clnet.futures.Future:
        assert bucket.buffer().shape == (sum(p.numel() for p in bucket.parameters()),)
        shapes = [g.shape for g in bucket.gradients()]
        assert shapes == [p.shape for p in bucket.parameters()]
        seen.append((bucket.index(), bucket.is_last()))
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        return work.get_future().then(lambda done: done.value()[0] * state)

    def gradients(state: Any, hook: Any) -> list[Any]:
        model = DDP(net(1), bucket_cap_mb=0.0005)
        if hook is not None:
            model.register_comm_hook(state, hook)
            with pytest.raises(ArgumentError, match="a hook is registered once"):
                model.register_comm_hook(state, hook)
        nn.functional.cross_entropy(model(x[mine]), t[mine]).backward()
        return [p.grad for p in model.parameters()]

    wanted = gradients(None, None)
    for state, hook, rtol in (
        (0.5 / size, halved, None),
        (None, hooks.allreduce_hook, 1e-5),
        (dist.group.WORLD, hooks.fp16_compress_hook, 2e-3),
        (None, hooks.bf16_compress_hook, 2e-2),
        (None, hooks.fp16_compress_wrapper(hooks.allreduce_hook), 2e-3),
        (None, hooks.bf16_compress_wrapper(hooks.allreduce_hook), 2e-2),
    ):
        found = gradients(state, hook)
        factor, rtol = (1, rtol) if rtol else (0.5, 1e-5)
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a.numpy(), factor * b.numpy(), rtol=rtol, atol=rtol / 10)
    power = dist.algorithms.ddp_comm_hooks.powerSGD_hook
    keeps_all = power.PowerSGDState(None, 99, 0, 0, use_error_feedback=False, warm_start=False)
    for a, b in zip(gradients(keeps_all, power.powerSGD_hook), wanted, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-3, atol=1e-5)
    assert keeps_all.iter == 1
    thin(power)
    assert len(seen) > 2
    assert seen == [(i, i == len(seen) - 1) for i in range(len(seen))]
    done = clnet.futures.Future()
    done.set_result(clnet.ones(3))
    with pytest.raises(DistributedError, match="a tensor of the bucket's elements"):
        gradients(None, lambda _, __: done)
    with pytest.raises(DistributedError, match=r"gives a future, as work\.get_future"):
        gradients(None, lambda _, bucket: bucket.buffer())
    model = DDP(nn.Linear(2, 1))
    with pytest.raises(ArgumentError, match="hook can be called"):
        model.register_comm_hook(None, 1)  # pyrefly: ignore[bad-argument-type]
    step = clnet.compile(lambda x: model(x).sum().backward())
    with model.no_sync():
        step(clnet.ones(1, 2))
    model.register_comm_hook(None, hooks.allreduce_hook)
    with pytest.raises(TraceError, match="a communication hook is called in each"):
        step(clnet.ones(1, 2))  # what was planned in no_sync is no plan for it


class Branches(nn.Module):
    """Uses one of its layers, or the other; a third never."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other, self.never = nn.Linear(2, 1), nn.Linear(2, 1), nn.Linear(2, 1)

    def forward(self, x: clnet.Tensor, which: bool) -> clnet.Tensor:
        return (self.one if which else self.other)(x)


def unused(rank: int) -> None:
    model = DDP(Branches(), find_unused_parameters=True)
    model(clnet.ones(1, 2), rank == 0).sum().backward()
    size = dist.get_world_size()
    assert model.module.one.weight.grad[0].tolist() == pytest.approx([1 / size] * 2)
    assert model.module.other.weight.grad[0].tolist() == pytest.approx([1 - 1 / size] * 2)
    assert model.module.never.weight.grad is None
    without(rank)
    used_while_adding(rank, size)
    strict = DDP(Branches())
    with pytest.raises(DistributedError, match=r"without_gradient=\['never.bias', .*find_unused"):
        strict(clnet.ones(1, 2), True).sum().backward()


def used_while_adding(rank: int, size: int) -> None:
    """What one rank used in a pass that only added up is averaged by the next."""
    model = DDP(Branches(), find_unused_parameters=True)
    with model.no_sync():
        model(clnet.ones(1, 2), rank == 0).sum().backward()
    model(clnet.ones(1, 2), True).sum().backward()
    assert model.module.other.weight.grad[0].tolist() == pytest.approx([1 - 1 / size] * 2)
    model.zero_grad()
    model(clnet.ones(1, 2), True).sum().backward()
    assert model.module.other.weight.grad is None


class Holding:
    """A result that holds itself."""

    def __init__(self, y: clnet.Tensor) -> None:
        self.y, self.whole = y, self


class Sometimes(Branches):
    """Uses a layer on one rank alone."""

    def forward(self, x: clnet.Tensor, which: bool) -> Holding | dict[str, clnet.Tensor]:
        return Holding(self.one(x)) if which else {"y": x * 2}


def without(rank: int) -> None:
    """A rank that uses no parameter at all takes part, with gradients of 0."""
    model = DDP(Sometimes(), find_unused_parameters=True)
    weight = model.module.one.weight
    for _ in range(2):
        model.zero_grad()
        result = model(clnet.ones(1, 2), rank == 0)
        (result.y if rank == 0 else result["y"]).sum().backward()
        assert weight.grad[0].tolist() == pytest.approx([1 / dist.get_world_size()] * 2)
        assert model.module.other.weight.grad is None


def uneven(rank: int, size: int) -> None:
    """Rank 0 has one batch, rank 1 two ...; its absence counts as gradients of 0, or not at all."""
    for by_all in (True, False):
        m = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3).eval(), nn.Linear(3, 1))
        ddp = DDP(m, find_unused_parameters=by_all)
        x = clnet.ones(1, 2)
        with Join([ddp], divide_by_initial_world_size=by_all):
            for turn in range(rank + 1):
                m[1].num_batches_tracked.fill_(10 * rank + turn)
                ddp.zero_grad()
                ddp(x).sum().backward()
                there = size - turn
                wanted = there / size if by_all else 1.0
                assert abs(m[2].bias.grad.item() - wanted) < 1e-6
                with clnet.no_grad():
                    m[2].bias -= 1
        same_everywhere(bits(ddp))
        assert m[1].num_batches_tracked.item() == 11 * (size - 1)

    def strict() -> None:
        with ddp.join(throw_on_early_termination=True):
            for _ in range(rank + 1):
                ddp(x).sum().backward()

    with pytest.raises(DistributedError, match="join: all ranks have as many batches"):
        strict()
    step = clnet.compile(lambda x: ddp(x).sum().backward())
    step(x)
    with pytest.raises(TraceError, match="join: a step that is compiled"), ddp.join():
        step(x)
    with ddp.join(enable=False):
        step(x)
    with pytest.raises(ArgumentError, match="joinables are modules that average gradients"):
        Join([optim.SGD(ddp.parameters(), lr=0.1)])
    broken = SimpleNamespace(join=lambda **given: 1 / 0)
    with pytest.raises(ZeroDivisionError), Join([ddp, broken]):
        pass
    step(x)  # the first has left its block


def normalized(rank: int, size: int) -> None:
    """Synchronised statistics are those of the whole batch, also of uneven parts."""
    x = clnet.tensor(np.random.default_rng(5).standard_normal((4 * size, 3, 5)).astype(np.float32))
    parts = x[:3] if rank == 0 else x[3 + (rank - 1) * 4 :][: 4 + (rank == size - 1)]
    alone = nn.BatchNorm1d(3)
    synced = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.BatchNorm1d(3)))
    start = 0 if rank == 0 else 3 + (rank - 1) * 4
    weights = clnet.arange(x.numel()).reshape(x.shape).float().sin()
    whole, part = x.clone().requires_grad_(), parts.clone().requires_grad_()
    (alone(whole) * weights).sum().backward()
    y = synced(part)
    (y * weights[start : start + len(parts)]).sum().backward()
    close = {"rtol": 1e-4, "atol": 1e-5}
    np.testing.assert_allclose(
        part.grad.numpy(), whole.grad.numpy()[start : start + len(parts)], **close
    )
    np.testing.assert_allclose(synced[0].running_mean.numpy(), alone.running_mean.numpy(), **close)
    np.testing.assert_allclose(synced[0].running_var.numpy(), alone.running_var.numpy(), **close)
    gradient = synced[0].weight.grad.clone()
    dist.all_reduce(gradient)
    np.testing.assert_allclose(gradient.numpy(), alone.weight.grad.numpy(), **close)
    # A rank may have nothing of the batch.
    synced = nn.SyncBatchNorm(3)
    y = synced(x[:0] if rank else x)
    assert y.shape == (0 if rank else len(x), 3, 5)
    mean = 0.1 * x.numpy().mean((0, 2))
    np.testing.assert_allclose(synced.running_mean.numpy(), mean, **close)
    # In evaluation there is no exchange, without running statistics, too.
    alone = nn.BatchNorm1d(3, track_running_stats=False).eval()
    synced = nn.SyncBatchNorm(3, track_running_stats=False).eval()
    np.testing.assert_allclose(synced(parts).detach().numpy(), alone(parts).detach().numpy())
    # Buffers of other ranks give way to the first one's.
    model = DDP(nn.Sequential(nn.BatchNorm1d(3)))
    model.module[0].running_mean.fill_(rank + 1.0)
    model.eval()
    model(x)
    assert model.module[0].running_mean.tolist() == [1] * 3


def scaled(rank: int) -> None:
    """An overflow on one rank is skipped on all."""
    model = DDP(nn.Linear(2, 1))
    before = bits(model)
    scaler, sgd = clnet.amp.GradScaler(init_scale=4.0), optim.SGD(model.parameters(), lr=1.0)
    loss = model(clnet.full((1, 2), float("inf") if rank == 1 else 1.0)).sum()
    scaler.scale(loss).backward()
    scaler.step(sgd)
    scaler.update()
    assert (scaler.get_scale(), bits(model)) == (2, before)


def own_buffers(rank: int) -> None:
    """Ranks keep their own from the beginning, or from the first step on."""
    for given, begins in (("broadcast_buffers", rank), ("forward_sync_buffers", 0)):
        bare = nn.BatchNorm1d(2, momentum=None)
        bare.running_mean.fill_(rank)
        model: Any = DDP(bare, **{given: False})
        assert bare.running_mean.tolist() == [begins] * 2
        with model.join():
            model(clnet.tensor([[1.0, 2.0], [3.0, 2.0]]) * (rank + 1)).sum().backward()
        assert bare.running_mean.tolist() == [2 * (rank + 1)] * 2


def refused(rank: int) -> None:
    with pytest.raises(ArgumentError, match="parameters that require a gradient"):
        DDP(nn.ReLU())
    with pytest.raises(DistributedError, match="all ranks have the same parameters"):
        DDP(nn.Linear(2, 1 + rank))
    model = DDP(nn.Linear(2, 1))

    model.find_unused_parameters = True

    @clnet.compile
    def step(x: clnet.Tensor) -> clnet.Tensor:
        loss = model(x).sum()
        loss.backward()
        return loss

    with pytest.raises(TraceError, match=r"which parameters no rank uses is not known"):
        step(clnet.ones(1, 2))


def resumed(rank: int, folder: Path) -> None:
    """A checkpoint of rank 0 goes on with the same bits as training that was not interrupted."""

    def steps(model: nn.Module, adam: optim.Optimizer, first: int) -> None:
        for step in range(first, first + 2):
            adam.zero_grad()
            model(clnet.full((2, 6), step + rank / 2)).square().mean().backward()
            adam.step()

    model = DDP(net(1))
    adam = optim.Adam(model.parameters(), lr=0.01)
    steps(model, adam, 0)
    if rank == 0:
        clnet.save({"model": model.state_dict(), "adam": adam.state_dict()}, folder / "state")
    dist.barrier()
    steps(model, adam, 2)
    again = DDP(net(7))
    other = optim.Adam(again.parameters(), lr=0.01)
    state = clnet.load(folder / "state")
    again.load_state_dict(state["model"])
    other.load_state_dict(state["adam"])
    steps(again, other, 2)
    assert bits(again) == bits(model)


if __name__ == "__main__":
    main()
