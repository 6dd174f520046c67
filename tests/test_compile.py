"""``clnet.compile``: traced once, replayed with the same bits, and never wrong in silence."""

from __future__ import annotations

import gc
import traceback

import numpy as np
import pytest

import clnet
from clnet import nn, ops
from clnet.autograd import grad
from clnet.errors import ArgumentError, GradientError, ShapeError, TraceError
from clnet.values import mode

pytestmark = pytest.mark.device


def batch(seed: int, *shape: int) -> clnet.Tensor:
    return clnet.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def network() -> nn.Sequential:
    """The same network, with the same weights, at every call."""
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
    with clnet.no_grad():
        for seed, p in enumerate(model.parameters()):
            p.copy_(batch(seed, *p.shape) * 0.3)
    return model


class Job:
    """A training step of its own network."""

    def __init__(self, **settings):
        self.model = network()
        self.optimizer = clnet.optim.SGD(
            self.model.parameters(), **{"lr": 0.1, "momentum": 0.9, **settings}
        )

    def step(self, x, target):
        self.optimizer.zero_grad()
        difference = self.model(x) - target
        loss = (difference * difference).mean()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    @property
    def num_steps(self) -> set[int]:
        """How often the weights were updated."""
        return {int(entry["step"]) for entry in self.optimizer.state_dict()["state"].values()}

    def state(self) -> bytes:
        """The bits of all weights."""
        return b"".join(p.detach().numpy().tobytes() for p in self.model.parameters())


def test_replays_equal_eager_bit_for_bit_while_the_rate_changes():
    eager, compiled = Job(), Job()
    step = clnet.compile(compiled.step)
    for i in range(20):
        for job in (eager, compiled):
            job.optimizer.param_groups[0]["lr"] = 0.1 / (1 + i)
        x, target = batch(i, 8, 6), batch(100 + i, 8, 3)
        assert eager.step(x, target).item() == step(x, target).item()
        assert eager.state() == compiled.state()
    assert step.num_traces == 1
    assert eager.num_steps == compiled.num_steps == {20}


def test_a_replay_launches_less_than_eager(device):
    class Count:
        profiling = False
        launches = 0

        def command(self, record):
            self.launches += record.kind == "kernel"

    job, count = Job(), Count()
    x, target = batch(0, 8, 6), batch(1, 8, 3)
    with device.queue.observe(count):
        job.step(x, target)
    step = clnet.compile(job.step)
    step(x, target)
    assert step.plans[0].num_launches < count.launches


def test_tracing_runs_nothing(device):
    x = batch(0, 4)
    seen = []

    class Watch:
        profiling = False

        def command(self, record):
            seen.append(record.op)

    def function(value):
        y = ops.exp(value)
        assert seen == []
        return y

    with device.queue.observe(Watch()):
        result = clnet.compile(function)(x)
    assert seen == ["exp"]
    assert np.array_equal(result.numpy(), ops.exp(x).numpy())


def test_another_signature_makes_another_plan():
    double = clnet.compile(lambda x, factor=2: x * factor)
    assert double(clnet.ones(3)).tolist() == [2, 2, 2]
    assert double(clnet.ones(4)).tolist() == [2] * 4
    assert double(clnet.ones(3, dtype=clnet.int64)).dtype is clnet.int64
    assert double(clnet.ones(3), factor=5).tolist() == [5, 5, 5]
    assert double(clnet.ones(3), 2.0).tolist() == [2, 2, 2]
    assert double.num_traces == 5
    for again in (clnet.ones(3), clnet.ones(4)):
        double(again)
    assert double.num_traces == 5


def test_modes_are_part_of_the_signature():
    x = clnet.ones(2)
    w = clnet.ones(2, requires_grad=True)
    recorded = clnet.compile(lambda v: clnet.tensor((v * w).requires_grad))
    assert recorded(x).item() is True
    with clnet.no_grad():
        assert recorded(x).item() is False
    assert recorded.num_traces == 2


def test_few_plans_are_kept():
    negate = clnet.compile(lambda x: -x)
    for n in range(1, 40):
        negate(clnet.ones(n))
    assert negate.num_traces == 39
    assert len(negate.plans) == 16


def test_a_batch_of_another_size_shares_the_weights():
    eager, compiled = Job(), Job()
    step = clnet.compile(compiled.step)
    for i, n in enumerate((8, 8, 3, 8, 3)):
        x, target = batch(i, n, 6), batch(9 + i, n, 3)
        assert eager.step(x, target).item() == step(x, target).item()
    assert eager.state() == compiled.state()
    assert step.num_traces == 2


def test_two_compiled_functions_share_parameters():
    job = Job()
    train, evaluate = clnet.compile(job.step), clnet.compile(clnet.no_grad()(job.model))
    x, target = batch(0, 8, 6), batch(1, 8, 3)
    seen = []
    for _ in range(4):
        with clnet.no_grad():
            expected = job.model(x)
        seen.append(evaluate(x))
        assert np.array_equal(seen[-1].numpy(), expected.numpy())
        train(x, target)
    assert len({y.numpy().tobytes() for y in seen}) == 4
    assert (train.num_traces, evaluate.num_traces) == (1, 1)


def test_results_are_not_overwritten_by_later_calls():
    square = clnet.compile(lambda x: (x * x, {"sum": x + x, "same": x}))
    first = square(clnet.full((3,), 2.0))
    second = square(clnet.full((3,), 5.0))
    assert first[0].tolist() == [4, 4, 4]
    assert first[1]["sum"].tolist() == [4, 4, 4]
    assert first[1]["same"].tolist() == [2, 2, 2]
    assert second[0].tolist() == [25, 25, 25]


def test_results_may_be_views():
    turned = clnet.compile(lambda x: (x.T, x[1:], x.expand(2, 2, 3)))
    x = batch(0, 2, 3)
    for _ in range(2):
        transposed, tail, expanded = turned(x)
        assert np.array_equal(transposed.numpy(), x.numpy().T)
        assert np.array_equal(tail.numpy(), x.numpy()[1:])
        assert np.array_equal(expanded.numpy(), np.broadcast_to(x.numpy(), (2, 2, 3)))


def test_arguments_may_be_views_and_are_not_changed():
    double = clnet.compile(lambda x: x * 2)
    x = batch(0, 4, 6)
    for view in (x.T, x[1:, ::2], x[:1].expand(4, 6), x[0:0]):
        before = view.numpy()
        assert np.array_equal(double(view).numpy(), before * 2)
        assert np.array_equal(view.numpy(), before)


def test_arguments_that_are_changed_in_place_change():
    def function(x, y):
        x.mul_(2)
        return x + y

    compiled = clnet.compile(function)
    for view in (batch(0, 4, 4), batch(0, 4, 4).T, batch(0, 8, 4)[::2]):
        twin, y = view.clone(), batch(1, 4, 4)
        version = view.array.storage.version
        expected = function(twin, y)
        assert np.array_equal(compiled(view, y).numpy(), expected.numpy())
        assert np.array_equal(view.numpy(), twin.numpy())
        assert view.array.storage.version > version
    x = batch(0, 4, 4)
    with pytest.raises(TraceError, match=r"two arguments share memory; .* Pass a clone\(\) of one"):
        compiled(x, x.T)


def test_without_passes_every_op_is_a_launch():
    plain = clnet.compile(lambda x: x * 2 + 1, passes=())
    fused = clnet.compile(lambda x: x * 2 + 1)
    assert plain(clnet.ones(2)).tolist() == fused(clnet.ones(2)).tolist() == [3, 3]
    assert [c.plans[0].num_launches for c in (plain, fused)] == [2, 1]


def test_plain_results_are_those_of_the_trace():
    function = clnet.compile(lambda x: (x, 3, "text", None, [x]))
    result = function(clnet.ones(1))
    assert result[1:4] == (3, "text", None)
    assert type(result[4]) is list


def test_training_and_evaluation_trace_apart():
    model = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5))
    forward = clnet.compile(model)
    x = batch(0, 16, 6)
    with clnet.no_grad():
        dropped = forward(x).numpy()
        model.eval()
        whole = forward(x).numpy()
        assert (dropped == 0).any()
        assert np.array_equal(whole, model(x).numpy())
        model.train()
        assert (forward(x).numpy() == 0).any()
    assert forward.num_traces == 3


def test_running_statistics_advance_as_in_eager():
    eager, compiled = nn.BatchNorm1d(4), nn.BatchNorm1d(4)
    forward = clnet.compile(compiled)
    with clnet.no_grad():
        for i in range(5):
            x = batch(i, 8, 4)
            assert np.array_equal(eager(x).numpy(), forward(x).numpy())
    for a, b in zip(eager.buffers(), compiled.buffers(), strict=True):
        assert np.array_equal(a.numpy(), b.numpy())
    assert forward.num_traces == 1


def test_random_numbers_advance_as_in_eager():
    x = clnet.ones(64)
    eager = ops.dropout
    with mode.using(generator=clnet.Generator().manual_seed(7)):
        expected = [eager(x, 0.5).numpy() for _ in range(4)]
    compiled = clnet.compile(lambda v: ops.dropout(v, 0.5))
    with mode.using(generator=(generator := clnet.Generator().manual_seed(7))):
        found = [compiled(x).numpy() for _ in range(4)]
    assert all(np.array_equal(a, b) for a, b in zip(expected, found, strict=True))
    assert len({f.tobytes() for f in found}) == 4
    assert generator.offset == 4 * 16
    assert compiled.num_traces == 1


def test_gradients_accumulate_outside():
    eager, compiled = Job(), Job()

    def gradients(job):
        def run(x, target):
            difference = job.model(x) - target
            (difference * difference).mean().backward()

        return run

    accumulate = clnet.compile(gradients(compiled))
    for i in range(6):
        x, target = batch(i, 8, 6), batch(9 + i, 8, 3)
        gradients(eager)(x, target)
        accumulate(x, target)
        if i % 3 == 2:
            for job in (eager, compiled):
                job.optimizer.step()
                job.optimizer.zero_grad()
        for a, b in zip(eager.model.parameters(), compiled.model.parameters(), strict=True):
            assert (a.grad is None) == (b.grad is None)
            assert a.grad is None or np.array_equal(a.grad.numpy(), b.grad.numpy())
    assert eager.state() == compiled.state()
    assert accumulate.num_traces == 2


def test_gradients_of_arguments_are_returned():
    slope = clnet.compile(lambda x: grad((x * x * x).sum(), x)[0])
    x = clnet.tensor([1.0, 2.0], requires_grad=True)
    for _ in range(2):
        assert slope(x).tolist() == [3, 12]
    assert x.grad is None


def test_gradients_of_arguments_cannot_be_collected():
    collect = clnet.compile(lambda x: (x * x).sum().backward())
    with pytest.raises(
        TraceError,
        match=r"gradient of an argument, .* clnet.autograd.grad and return it; .* x = x.detach",
    ):
        collect(clnet.ones(2, requires_grad=True))


def test_an_argument_may_become_a_gradient():
    p = clnet.ones(3, requires_grad=True)

    def keep(g):
        p.grad = g

    compiled = clnet.compile(keep)
    others, expected = [], np.zeros(3, np.float32)
    for seed in range(3):
        g = batch(seed, 3)
        compiled(g)
        expected = g.numpy()
        del g
        others = [clnet.zeros(3) for _ in range(4)]
        assert np.array_equal(p.grad.numpy(), expected)
    del compiled, others
    others = [clnet.zeros(3) for _ in range(4)]
    assert np.array_equal(p.grad.numpy(), expected)
    assert len({t.array.storage.buffer.int_ptr for t in (p, p.grad, *others)}) == 6


def test_compiled_functions_are_parts_of_others():
    inner = clnet.compile(lambda x: x + 1)
    outer = clnet.compile(lambda x: inner(x) * 2)
    assert outer(clnet.ones(2)).tolist() == [4, 4]
    assert outer(clnet.zeros(2)).tolist() == [2, 2]
    assert (outer.num_traces, inner.num_traces) == (1, 0)


def test_new_parameters_in_an_optimiser_are_seen():
    job = Job()
    extra = nn.Parameter(clnet.ones(3))

    def step(x, target):
        job.optimizer.zero_grad()
        difference = job.model(x) * extra - target
        (difference * difference).mean().backward()
        job.optimizer.step()

    compiled = clnet.compile(step)
    x, target = batch(0, 8, 6), batch(1, 8, 3)
    compiled(x, target)
    assert extra.tolist() == [1, 1, 1]
    extra.grad = None
    job.optimizer.add_param_group({"params": [extra], "lr": 0.5})
    compiled(x, target)
    assert extra.tolist() != [1, 1, 1]
    assert compiled.num_traces == 2


# What is refused.


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.item(),
        lambda x: x.numpy(),
        lambda x: x.tolist(),
        lambda x: bool(x > 0),
        lambda x: float(x),
        lambda x: np.asarray(x),
        lambda x: x.map(),
    ],
    ids=["item", "numpy", "tolist", "bool", "float", "asarray", "map"],
)
@pytest.mark.parametrize("whose", ["argument", "captured"])
def test_a_value_read_inside_is_refused(read, whose):
    captured = clnet.ones(1)
    function = clnet.compile(lambda x: x * read(x if whose == "argument" else captured))
    with pytest.raises(
        TraceError, match=r"a value is read on the host inside a function that clnet.compile traces"
    ):
        function(clnet.ones(1))


def test_the_error_leads_to_the_users_line():
    def step(x):
        y = x * 2
        if y.sum() > 0:  # the line
            y = y + 1
        return y

    with pytest.raises(TraceError) as raised:
        clnet.compile(step)(clnet.ones(2))
    lines = [frame.line for frame in traceback.extract_tb(raised.tb) if frame.name == "step"]
    assert lines == ["if y.sum() > 0:  # the line"]


def test_a_graph_leaves():
    w = clnet.ones(2, requires_grad=True)
    clnet.compile(lambda x: x * w)(clnet.ones(2) * 3).sum().backward()
    assert w.grad.tolist() == [3, 3]


@pytest.mark.parametrize("argument", [{clnet.float32}, [1, {2}], {"a": (1, np.ones(2))}])
def test_arguments_that_cannot_be_compared_are_refused(argument):
    law = "arguments are tensors, hashable values, and tuples, lists and dicts of these"
    with pytest.raises(TraceError, match=f"{law}; got argument=1, type={type(argument).__name__}"):
        clnet.compile(lambda x, y: x)(clnet.ones(2), argument)
    with pytest.raises(TraceError, match=r"type=ndarray. Pass clnet.tensor\(x\)"):
        clnet.compile(lambda x: x)(np.ones(2))


def test_tensors_may_lie_in_containers():
    def f(batch, pair=()):
        return {"sum": batch["x"][0] + batch["x"][1] * batch["k"], "rest": [t * 2 for t in pair]}

    compiled = clnet.compile(f)
    x, y = clnet.tensor([1.0, 2.0]), clnet.tensor([3.0, 4.0], requires_grad=True)
    for k, pair in ((2, ()), (3.0, ()), (2, (x,)), (2, [x, x])):
        batch = {"x": [x, y], "k": k}
        found, expected = compiled(batch, pair=pair), f(batch, pair)
        assert found["sum"].tolist() == expected["sum"].tolist()
        assert [t.tolist() for t in found["rest"]] == [t.tolist() for t in expected["rest"]]
    assert compiled.num_traces == 4
    compiled({"x": [y, x], "k": 2})["sum"].sum().backward()
    assert y.grad.tolist() == [1, 1]


@pytest.mark.parametrize("change", [lambda d: d.pop("x"), lambda d: d["y"].append(d["x"])])
def test_a_container_that_the_function_changes_is_told(change):
    with pytest.raises(TraceError, match="changes a list or dict that it was given"):
        clnet.compile(change)({"x": clnet.ones(2), "y": []})


@pytest.mark.parametrize(
    "numbers", [(0.0, -0.0), (1, 1.0, True), ((2,), (2.0,), (True,)), (np.float32(0), 1j * 0, 0)]
)
def test_equal_numbers_of_other_kinds_or_signs_are_told_apart(numbers):
    def f(x, k):
        return x * (k[0] if isinstance(k, tuple) else k)

    compiled, x = clnet.compile(f), clnet.tensor([1, -1])
    for k in (*numbers, *numbers):
        found, expected = compiled(x, k), f(x, k)
        assert found.dtype is expected.dtype
        assert found.numpy().tobytes() == expected.numpy().tobytes()
    assert compiled.num_traces == len(numbers)


def test_one_nan_is_as_another():
    compiled = clnet.compile(lambda x, k: x * k)
    for _ in range(3):
        assert np.isnan(compiled(clnet.ones(1), float("nan")).item())
    assert compiled.num_traces == 1


def test_a_function_without_tensors_runs_on_the_current_device():
    made = clnet.compile(lambda n: clnet.ones(n) * 2)
    assert made(3).tolist() == made(3).tolist() == [2, 2, 2]
    assert made.num_traces == 1


def test_an_exception_while_tracing_leaves_everything_as_it_was():
    job = Job()
    x, target = batch(0, 8, 6), batch(1, 8, 3)
    job.step(x, target)
    weight = next(job.model.parameters())
    outside = (weight * weight).sum()
    state, grads = job.state(), [p.grad for p in job.model.parameters()]

    def fails(x, target):
        job.step(x, target)
        return x @ target

    compiled = clnet.compile(fails)
    before = mode.current()
    for _ in range(2):
        with pytest.raises(ShapeError):
            compiled(x, target)
        assert mode.current() == before
        assert job.state() == state
        assert all(p.grad is g for p, g in zip(job.model.parameters(), grads, strict=True))
        assert job.num_steps == {1}
    outside.backward()  # the weights it saved were not changed
    assert compiled.num_traces == 0
    assert compiled.plans == []


def test_a_replayed_update_is_seen_by_graphs_outside():
    job = Job()
    step = clnet.compile(job.step)
    x, target = batch(0, 8, 6), batch(1, 8, 3)
    step(x, target)
    weight = next(job.model.parameters())
    outside = (weight * weight).sum()
    step(x, target)
    with pytest.raises(GradientError, match="a tensor it saved was changed in place since"):
        outside.backward()


def test_memory_does_not_grow_with_replays():
    step = clnet.compile(Job().step)
    x, target = batch(0, 8, 6), batch(1, 8, 3)
    step(x, target)
    gc.collect()  # what the trace left in cycles
    held = clnet.memory_allocated()
    for _ in range(50):
        step(x, target)
    assert clnet.memory_allocated() == held


def test_a_dropped_plan_gives_its_memory_back():
    gc.collect()  # else what other tests left in cycles may go in between
    before = clnet.memory_allocated()
    double = clnet.compile(lambda x: ops.exp(x * 2).sum() + x)  # the sum is the plan's
    double(clnet.ones(1000))
    assert clnet.memory_allocated() > before
    assert double.plans[0].held_bytes > 0
    del double
    assert clnet.memory_allocated() == before


def test_a_compiled_module_gives_the_module_as_pytorchs_does():
    module = clnet.nn.Linear(2, 2)
    assert clnet.compile(module)._orig_mod is module
    with pytest.raises(AttributeError, match="_orig_mod"):
        clnet.compile(lambda x: x)._orig_mod  # noqa: B018 - asked for


def test_modes_are_those_of_pytorch():
    assert clnet.compile(mode="reduce-overhead")(lambda x: x + 1)(clnet.ones(1)).tolist() == [2.0]
    for disable in (False, True):
        with pytest.raises(ArgumentError, match=r"mode is one of default, .*got mode=.*mean"):
            clnet.compile(lambda x: x, mode="mean", disable=disable)
