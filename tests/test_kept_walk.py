"""Walks back that are kept: the bits of plain ones, and all that sends a walk the plain way."""

from __future__ import annotations

import gc
import sys
import threading

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.autodiff.kept_walk import Graph, KeptWalk, KeptWalks, Recorder
from clnet.device.op_sequence import OpSequence
from clnet.errors import GradientError, OutOfDeviceMemory
from clnet.nn import functional as F
from clnet.ops.machinery.function import Function
from clnet.values import mode

pytestmark = pytest.mark.device

TIMES = 6  # more than twice plainly and once recorded


@pytest.fixture(autouse=True)
def kept(device, monkeypatch):
    """How many walks went as kept ones, and why recorded ones were refused."""
    log = {"runs": 0, "refused": []}
    run, plan = KeptWalk.run, Recorder.plan

    def counted(self, *args, **given):
        found = run(self, *args, **given)
        log["runs"] += found is not None
        return found

    def told(self, found):
        made = plan(self, found)
        log["refused"].append(self.refused)
        return made

    monkeypatch.setattr(KeptWalk, "run", counted)
    monkeypatch.setattr(Recorder, "plan", told)
    device.target.walks.clear()
    return log


def drawn(*shape, grad=True):
    return clnet.randn(*shape).requires_grad_(grad)


def gradients(program, leaves, times=TIMES):
    """What so many calls leave in ``grad``, each with numbers of its own."""
    found = []
    for time in range(times):
        clnet.manual_seed(time)
        with clnet.no_grad():
            for x in leaves:
                x.normal_()
        for x in leaves:
            x.grad = None
        program()
        found += [None if x.grad is None else x.grad.numpy().tobytes() for x in leaves]
    return found


def compare(program, leaves, monkeypatch):
    """That the walks' bits are those of plain ones."""
    found = gradients(program, leaves)
    with monkeypatch.context() as patch:
        patch.setattr(KeptWalks, "looks", lambda self: False)
        assert found == gradients(program, leaves)


def recurrent():
    cell, x = nn.LSTMCell(3, 4), drawn(2, 5, 3)

    def program():
        state = (clnet.zeros(2, 4), clnet.zeros(2, 4))
        for each in x.unbind(1):  # whose gradients wait for each other
            state = cell(each, state)
        (state[0] * state[1]).sum().backward()

    return program, [x, *cell.parameters()]


def attending():
    layer, x = nn.TransformerEncoderLayer(8, 2, 8, batch_first=True), drawn(2, 3, 8)
    return lambda: layer(x).pow(2).mean().backward(), [x, *layer.parameters()]


def convolving():
    layers = [nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Dropout()]
    network, x = nn.Sequential(*layers, nn.Linear(32, 3)), drawn(2, 1, 6, 6, grad=False)
    y = clnet.tensor([0, 2])
    return lambda: F.cross_entropy(network(x), y).backward(), [*network.parameters()]


def several():
    """Leaves that come twice, sums in order, views, numbers, a gradient that is handed through."""
    x, y, one, alone = drawn(3, 4), drawn(3, 4), drawn(1), drawn(2)

    def program():
        a = x * y + x - 2 * y.expand(3, 4) * one
        b = clnet.cat([a[:, :2], x[:, 2:]], 1).t().reshape(3, 4)
        c = clnet.where(b > 0, a, b).half().float() + b.relu() + b
        loss = c.sum() + alone.clone().sum()
        loss.backward(clnet.tensor(0.5), retain_graph=True)
        loss.backward(retain_graph=True)
        clnet.autograd.backward([a * 2, b], [b.detach().clone(), clnet.ones(3, 4)])

    return program, [x, y, one, alone]


def resampling():
    """Maps whose tables no node saved, and views of complex numbers."""
    x, y = drawn(1, 2, 3, 4), drawn(3, 3)

    def program():
        larger = F.interpolate(F.pad(x, (1, 1, 0, 0), mode="reflect"), scale_factor=2)
        pairs = clnet.view_as_complex(larger.reshape(-1, 2))
        (pairs.real * pairs.imag).sum().backward()
        (y.diagonal() * clnet.view_as_real(pairs)[:3, 0].detach()).sum().backward()

    return program, [x, y]


def overwriting():
    """Writes into what lies on the tape: whole, in rows, on a diagonal, computed."""
    x, y = drawn(3, 3), drawn(3)

    def program():
        a = x * 2
        a[0] = y
        a[:, 1] *= 3
        a.diagonal().mul_(y)
        b = a + 1
        b.mul_(a.sum())
        b[1:].zero_()
        a.copy_(y.expand(3, 3))
        (a * b).sum().backward()

    return program, [x, y]


@pytest.mark.parametrize(
    "make", [recurrent, attending, convolving, several, resampling, overwriting]
)
def test_bits_are_those_of_plain_walks(make, kept, monkeypatch):
    program, leaves = make()
    compare(program, leaves, monkeypatch)
    assert not any(kept["refused"])
    assert kept["runs"] >= TIMES - 3


def test_graphs_that_look_alike_are_told_apart(kept, monkeypatch):
    """By who shares a node or a leaf, by numbers and the signs of zeros, by what is wanted."""
    x, y = drawn(4), drawn(4)
    programs = [
        lambda: (x.exp() + x.exp()).sum(),
        lambda: (lambda a: (a + a).sum())(x.exp()),
        lambda: (x * y).sum(),
        lambda: (x * x).sum(),
        lambda: (y * x).sum(),
        lambda: (x * y.detach()).sum(),
        *(lambda s=s: (1 / (x * s)).sum() for s in (2, 3, 0.0, -0.0)),
        lambda: (x * y * y).sum(),
        lambda: (x.reshape(2, 2)[0] * y.reshape(2, 2)[1]).sum(),
        lambda: (x.reshape(2, 2)[1] * y.reshape(2, 2)[1]).sum(),
    ]
    for program in programs:
        compare(lambda program=program: program().backward(), [x, y], monkeypatch)
    assert kept["runs"] >= len(programs) * (TIMES - 3)


def test_results_computed_aside_know_how_they_lie(kept, monkeypatch):
    x = drawn(3, 4)
    for view in (lambda: x * 1, lambda: (x * 1).t().contiguous().t()):
        compare(lambda view=view: view().logsumexp(1).sum().backward(), [x], monkeypatch)
    assert kept["runs"] >= 2 * (TIMES - 3)


def test_the_leaves_that_are_asked_for_are_found(kept):
    x, y = drawn(3), drawn(3)
    for _ in range(TIMES):
        loss = (x * y + y).sum()
        (gy,) = clnet.autograd.grad(loss, y, retain_graph=True)
        gx, gy_too, none = clnet.autograd.grad(loss, [x, y, drawn(1)], allow_unused=True)
        np.testing.assert_array_equal(gx.numpy(), y.detach().numpy())
        np.testing.assert_array_equal(gy.numpy(), x.detach().numpy() + 1)
        np.testing.assert_array_equal(gy_too.numpy(), gy.numpy())
        assert none is None
    assert kept["runs"] == 2 * (TIMES - 3)


def test_gradients_add_up_and_belong_to_the_leaf(kept):
    x = drawn(4)
    given = clnet.ones(4)
    for time in range(1, TIMES + 1):
        (x + 0).backward(given)
        x.grad.mul_(1.0)  # what the caller gave is not written to
        np.testing.assert_array_equal(x.grad.numpy(), np.full(4, time, np.float32))
    np.testing.assert_array_equal(given.numpy(), 1)
    assert kept["runs"] == TIMES - 3


def again(loss, device, kept):
    """Have a loss's walk kept."""
    for _ in range(TIMES):
        loss().backward()
    assert kept["runs"]
    kept["runs"] = 0


def test_what_was_changed_or_freed_is_an_error_as_ever(device, kept):
    x = drawn(4)

    def loss():
        return (x.exp() * 2).sum()

    again(loss, device, kept)
    twice = loss()
    twice.backward()
    with pytest.raises(GradientError, match="freed by an earlier backward"):
        twice.backward()
    y = x.exp()
    changed = (y * 2).sum()
    with clnet.no_grad():
        y.add_(1)
    with pytest.raises(GradientError, match="changed in place since"):
        changed.backward()


def test_what_lies_otherwise_by_now_is_read_where_it_lies(device, kept):
    w, x = drawn(3, 3), drawn(3, 3, grad=False)

    def loss():
        return (x @ w).pow(2).sum()

    again(loss, device, kept)
    late, before = loss(), x.numpy()
    x.data = clnet.randn(3, 3).t()
    w.grad = None
    late.backward()
    assert kept["runs"] == 0
    host, at = x.numpy(), w.detach().numpy()
    wanted = host.T @ (2 * before @ at)
    np.testing.assert_allclose(w.grad.numpy(), wanted, rtol=1e-5, atol=1e-5)


def test_hooks_and_second_gradients_go_the_plain_way(device, kept):
    x = drawn(4)
    heard = []

    def loss(hook=lambda y: None):
        y = x.exp()
        hook(y)
        return (y * 2).sum()

    again(loss, device, kept)
    loss(lambda y: y.register_hook(lambda g: heard.append(g.tolist()))).backward()
    loss(lambda y: y.retain_grad()).backward()
    loss(lambda y: y.node.register_hook(lambda after, before: heard.append(1))).backward()
    with clnet.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        packed = loss()
    packed.backward()
    (g,) = clnet.autograd.grad(loss(), x, create_graph=True)
    g.sum().backward()
    with clnet.autograd.detect_anomaly():
        loss().backward()
    with clnet.debug():
        loss().backward()
    handle = x.register_post_accumulate_grad_hook(lambda t: heard.append(2))
    loss().backward()
    handle.remove()
    assert heard == [[2.0] * 4, 1, 2]
    assert kept["runs"] == 0
    x.register_hook(lambda g: g * 10)  # of a leaf: called behind the walk
    x.grad = None
    loss().backward()
    assert kept["runs"] == 1
    np.testing.assert_allclose(x.grad.numpy(), 20 * np.exp(x.detach().numpy()), rtol=1e-6)


def test_users_functions_and_checkpoints_are_walked_plainly(kept):
    class Double(clnet.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3

    x = drawn(4)
    for _ in range(TIMES):
        x.grad = None
        (Double.apply(x) + 1).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), 3)
        clnet.checkpoint(clnet.exp, x).sum().backward()
    assert kept["runs"] <= TIMES  # of what a checkpoint walks inside


def test_who_observes_sees_every_launch(device, kept):
    x = drawn(4)

    def loss():
        return (x.exp() * 2).sum()

    again(loss, device, kept)
    with clnet.profile() as seen:
        loss().backward()
    assert kept["runs"] == 0
    assert any(row.op == "exp_backward" for row in seen.commands)


def test_other_precisions_walk_otherwise(kept):
    x, w = drawn(4, 4), drawn(4, 4)
    for precision in ("highest", "high") * 3:
        with mode.using(float32_precision=precision):
            (x @ w).sum().backward()
    assert kept["runs"] == 0


def test_no_more_memory_is_taken_and_all_of_it_comes_back(device, kept, monkeypatch):
    network = nn.Sequential(*(nn.Linear(64, 64) for _ in range(4)))
    x = drawn(256, 64, grad=False)

    def peak():
        network.zero_grad()
        gc.collect()
        clnet.reset_peak_memory_stats()
        network(x).relu().sum().backward()
        return clnet.max_memory_allocated()

    with monkeypatch.context() as patch:
        patch.setattr(KeptWalks, "looks", lambda self: False)
        plain = [peak() for _ in range(2)][-1]
    last = [peak() for _ in range(TIMES)][-1]
    assert kept["runs"]
    assert last <= plain
    held = clnet.memory_allocated()

    def none(nbytes):
        raise OutOfDeviceMemory("out of device memory", "there is no room")

    loss, taken = network(x).relu().sum(), []
    with monkeypatch.context() as patch:
        take = device.pool.take
        patch.setattr(
            device.pool,
            "take",
            lambda n: (taken.append(n), take(n))[1] if len(taken) < 5 else none(n),
        )
        with pytest.raises(OutOfDeviceMemory, match="asked_by="):
            loss.backward()
    del loss
    gc.collect()
    assert clnet.memory_allocated() == held
    peak()
    assert clnet.memory_allocated() == held


def test_threads_share_what_is_kept(kept):
    """Each thread's graph is its own; the launches of one walk stay together."""
    w = clnet.arange(4.0)
    wrong = []

    def work(scale):
        for _ in range(40):
            x = clnet.full((4,), float(scale), requires_grad=True)
            (x * x * w).sum().backward()
            if x.grad.tolist() != (2 * scale * np.arange(4.0)).tolist():
                wrong.append(x.grad.tolist())

    work(1)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(2, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert kept["runs"] > 40


def test_what_is_kept_is_bounded_and_new_graphs_are_looked_at_seldom(device, kept, monkeypatch):
    """Of more graphs than there is room for some are kept, and none is recorded for nothing."""
    monkeypatch.setattr("clnet.autodiff.kept_walk._MOST_LAUNCHES", 16)
    x = drawn(3)

    def walk(scale):
        (x.exp() * scale).sum().backward()

    for _ in range(10):
        for scale in range(1, 12):
            walk(scale)
    (walks,) = device.target.walks
    assert 8 <= walks.num_launches <= 16
    recorded, runs = len(kept["refused"]), kept["runs"]
    assert runs >= 7 * recorded
    for _ in range(200):  # those that are kept are let go for what is used now
        walk(100)
    assert len(kept["refused"]) == recorded + 1
    assert kept["runs"] > runs
    assert walks.num_launches <= 16
    fresh = KeptWalks()
    assert [fresh.looks() for _ in range(128)].count(True) == 63 + 5


def test_ops_say_what_their_gradients_follow_from():
    """Who leaves fields out of what repeats says which of them the gradient needs."""

    def below(kind):
        return {kind, *(deep for each in kind.__subclasses__() for deep in below(each))}

    own = {k.__name__ for k in below(Function) if "repeat_key" in vars(k) and not k.mutates}
    gradient = {k.__name__ for k in below(Function) if "gradient_key" in vars(k)}
    numbers_alone = {"Function", "Paired", "Placed"}  # and a name
    all_fields = {"Arange", "ConstantPad", "Full", "Padded", "Place"}
    no_gradient = {"DrawnFrom", "Fused", "MakeInto", "Overwrite", "UpdateMany"}
    assert own - gradient <= numbers_alone | all_fields | no_gradient


def test_kinds_are_one_for_each_op_that_is_kept(device):
    drawn(3, 4).exp().sum().backward()
    outputs = [each.outputs for each in device.target.launches.values() if hasattr(each, "outputs")]
    forms = [form for each in outputs for form in each]
    assert len({id(form) for form in forms}) == len(forms) > 0


def test_what_another_thread_lets_go_meanwhile_is_told(kept, monkeypatch):
    x = drawn(5)
    for _ in range(TIMES):
        clnet.autograd.grad((x.exp() * x.sin()).sum(), x)
    before, intact = kept["runs"], Graph.intact

    def let_go(graph):
        found = intact(graph)
        for node in graph.nodes:
            node.release()
        return found

    assert before
    monkeypatch.setattr(Graph, "intact", let_go)
    with pytest.raises(GradientError, match="freed by an earlier backward"):
        clnet.autograd.grad((x.exp() * x.sin()).sum(), x)
    assert kept["runs"] == before


def test_a_block_comes_back_once_from_a_walk_that_is_interrupted(kept, device, monkeypatch):
    """Ctrl-C is heard behind a call: a block that came back twice was two tensors' later."""
    x = drawn(3000)

    def walk():
        return clnet.autograd.grad((x.exp().sin() * x.cos()).sum(), x)[0]

    expected = walk().tolist()
    for _ in range(TIMES):
        walk()
    before, give_back = kept["runs"], device.pool.give_back

    def interrupted(block):
        give_back(block)
        if sys._getframe(1).f_code is OpSequence.run.__code__:  # not a tensor's finalizer
            raise KeyboardInterrupt

    loss = (x.exp().sin() * x.cos()).sum()
    with monkeypatch.context() as patch:
        patch.setattr(device.pool, "give_back", interrupted)
        with pytest.raises(KeyboardInterrupt):
            clnet.autograd.grad(loss, x)
    assert before
    del loss
    held = [clnet.empty(3000) for _ in range(12)]
    places = [y.array.storage.buffer.int_ptr for y in held]
    assert len({*places}) == len(places)
    assert walk().tolist() == expected
