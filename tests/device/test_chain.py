"""Launches that become one: the same bits, whoever draws the groups, and who is told of them."""

from __future__ import annotations

import threading
from importlib import import_module
from math import prod

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.device import Chaining, HostScalar, Launch, Storage, are_short
from clnet.device.chain import renamed
from clnet.errors import ClnetError
from tests.chains import USUALLY_AFTER
from tests.device.test_program import Source

pytestmark = [
    pytest.mark.usefixtures("all_optimised"),  # kernels of other options are in no chain
    pytest.mark.device,
    pytest.mark.skipif(not clnet.device().chains, reason="launches are not chained here"),
]

# Two texts that give the same names to different things.
ADD = """#define STEP 1
typedef int number;
inline number more(const number x) { return x + STEP; }
__kernel void add(__global int *restrict y, const long y_offset,
    __global const int *restrict x, const long x_offset, const int n)
{
    const int i = get_global_id(0);
    if (i < n)
        y[y_offset + i] = more(x[x_offset + i]);
}
"""
# Each group of one turns a row around in memory of its own, and counts where it is.
TURN = """#define STEP 3
typedef float number;
inline number more(const number x) { return x * STEP; }
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void turn(__global int *restrict y, const long y_offset,
    __global const int *restrict x, const long x_offset, const int16 sizes,
    const double scale, const float shift)
{
    __local int row[64] __attribute__((aligned(64)));
    const int n = sizes.s0, at = (get_group_id(2) * get_num_groups(1) + get_group_id(1)) * n;
    for (int i = 0; i < n; i++)
        row[i] = x[x_offset + at + i];
    for (int i = 0; i < n; i++)
        y[y_offset + at + i] = (int)(more(row[n - 1 - i]) * scale) + (int)shift * get_global_id(1);
}
"""


@pytest.fixture
def at_once(monkeypatch):
    """Plans make chains when they run a second time."""
    monkeypatch.setattr(import_module("clnet.compile.replay"), "_CHAINED_AT", 1)


def bound_chains(device, parts):
    return Chaining(device, parts).bound()


def memory(*numbers):
    """A storage with whole numbers."""
    held = np.array(numbers, np.int32)
    storage = Storage(clnet.device(), held.nbytes)
    storage.materialize()
    clnet.device().queue.upload(storage, held)
    return storage


def read(storage):
    found = np.zeros(storage.nbytes // 4, np.int32)
    clnet.device().queue.download(found, storage)
    return found


def steps(x, y, n):
    """``add`` and ``turn`` by turns, from one storage to the other and back."""
    add, turn = Source(ADD, "add", alone=False), Source(TURN, "turn")
    sizes = np.array([5, *[0] * 15], np.int32).tobytes()

    def added(to, of):
        size = -(-n // 64) * 64
        return Launch(add, (size,), (64,), (to, 0, of, 0, n), flops=n, bytes=8 * n)

    def turned(to, of):
        grid = (1, 3, n // 15)
        args = (to, 0, of, 0, sizes, 0.5, 2.0)
        return Launch(turn, grid, (1, 1, 1), args, flops=n, bytes=8 * n)

    return [added(y, x), turned(x, y), added(y, x), turned(x, y), added(y, x)]


def stepped(values):
    """What they make of numbers."""
    places = (np.arange(len(values)) // 5 % 3).astype(np.int32)
    for turn in (False, True, False, True, False):
        if turn:
            rows = values.reshape(-1, 5)[:, ::-1].reshape(-1)
            values = (rows * 3 * 0.5).astype(np.int32) + 2 * places
        else:
            values = values + 1
    return values


@pytest.mark.parametrize("patience", [1, 10**6])
def test_launches_of_a_chain_come_one_after_the_other(patience, monkeypatch):
    """Also where groups leave at once if they would have to wait."""
    monkeypatch.setattr(import_module("clnet.device.chain"), "_PATIENCE", patience)
    n = 900
    device = clnet.device()
    values = np.arange(n, dtype=np.int32) % 97
    x, y = memory(*values), memory(*[0] * n)
    ((bound,),) = bound_chains(device, [steps(x, y, n)])
    assert len(bound.enqueues) == 1
    assert [launch.kernel.name for launch in bound.launches] == ["add", "turn"] * 2 + ["add"]
    for _ in range(20):
        device.queue.upload(x, values)
        device.queue.replay(bound)
        np.testing.assert_array_equal(read(y), stepped(values))


def test_parts_are_apart_and_short_ones_no_chains():
    x, y = memory(*range(15)), memory(*[0] * 15)
    launches = steps(x, y, 15)
    first, second = bound_chains(clnet.device(), [launches[:2], launches[2:]])
    assert [len(bound.enqueues) for bound in (*first, *second)] == [2, 1]
    for bound in (*first, *second):
        clnet.device().queue.replay(bound)
    np.testing.assert_array_equal(read(y), stepped(np.arange(15, dtype=np.int32)))


def test_numbers_that_change_are_in_no_chain():
    x, y = memory(*range(15)), memory(*[0] * 15)
    launches = steps(x, y, 15)
    launches[2].args = (*launches[2].args[:-1], HostScalar(15))
    (parts,) = bound_chains(clnet.device(), [launches])
    assert [len(bound.launches) for bound in parts] == [2, 1, 2]
    assert all(len(bound.enqueues) == len(bound.launches) for bound in parts)


def test_long_launches_are_in_no_chain():
    x, y = memory(*range(15)), memory(*[0] * 15)
    launches = steps(x, y, 15)
    launches[0].flops = 10**10
    (parts,) = bound_chains(clnet.device(), [launches])
    assert [(len(b.launches), len(b.enqueues)) for b in parts] == [(1, 1), (4, 1)]


def test_a_launch_of_few_groups_is_as_long_as_one_unit_takes_for_it():
    x, y = memory(*range(15)), memory(*[0] * 15)
    launches = steps(x, y, 15)
    assert prod(launches[1].global_size) > 1
    launches[0].flops = launches[1].flops = 150_000_000  # 2.5 ms of one unit
    (parts,) = bound_chains(clnet.device(), [launches])
    assert [(len(b.launches), len(b.enqueues)) for b in parts] == [(1, 1), (4, 1)]


ASKS = """int me() { return get_global_id(0); }
__kernel void asks(__global int *restrict y, const long y_offset,
    __global const int *restrict x, const long x_offset)
{
    y[y_offset + me()] = x[x_offset + me()] + 1;
}
"""


def test_kernels_whose_functions_ask_where_they_are_stay_apart():
    """In a chain they would be told where the chain's group is."""
    x, y = memory(*range(15)), memory(*[0] * 15)
    source = Source(ASKS, "asks")
    pairs = ((y, x), (x, y)) * 2
    launches = [Launch(source, (15,), (1,), (a, 0, b, 0), flops=1, bytes=1) for a, b in pairs]
    (parts,) = bound_chains(clnet.device(), [launches])
    for bound in parts:
        clnet.device().queue.replay(bound)
    np.testing.assert_array_equal(read(x), np.arange(15) + 4)


def test_users_kernels_stay_apart(at_once):
    """Nobody knows how long they take."""
    more = clnet.kernel(
        "__kernel void more(__global const float *x, __global float *y)"
        "{ y[get_global_id(0)] = x[get_global_id(0)] + 1; }"
    )
    plan = clnet.compile(lambda x: more(more(more(more(x, local_size=1)))))
    for _ in range(3):
        plan(clnet.zeros(6))
    assert plan(clnet.zeros(6)).tolist() == [4.0] * 6
    assert sum(len(bound.enqueues) for bound in plan.plans[-1]._replay._ready) == 4


@pytest.mark.parametrize("fails", ["compiler", "memory", "threads"])
def test_a_plan_whose_chains_cannot_be_made_goes_on_and_says_so(fails, at_once, monkeypatch):
    device, net, x = clnet.device(), network(), clnet.randn(2, 3, 18, 18)
    monkeypatch.setattr(type(device.programs), "builds_beside", property(lambda self: True))

    def fail(self, *given, **named):
        raise OSError("no room")

    if fails == "compiler":
        monkeypatch.setattr(type(device.programs), "get_beside", fail)
    with clnet.no_grad():
        plan = clnet.compile(net)
        expected = plan(x).numpy()
        if fails == "threads":
            monkeypatch.setattr(threading.Thread, "start", refuse)
        if fails == "memory":
            monkeypatch.setattr(type(device.queue), "create", fail)
        with pytest.warns(RuntimeWarning, match="stay apart"):
            run_until_settled(plan, x)
        np.testing.assert_array_equal(plan(x).numpy(), expected)


def run_until_settled(plan, x):
    while plan.plans[-1]._replay._chained:
        plan(x)


def refuse(self):
    raise RuntimeError("can't start new thread")


def test_other_kernels_are_built_while_a_chain_is(at_once, monkeypatch):
    """Its compiler is another process; who needs a kernel meanwhile waits for none of it."""
    device, asked, gate = clnet.device(), threading.Event(), threading.Event()

    class Slow:
        def ask(self, request):
            asked.set()
            assert gate.wait(60)

        def build(self, requests, done):
            return [None] * len(requests)

    net, x = network(), clnet.randn(2, 3, 18, 18)
    with clnet.no_grad():
        plan = clnet.compile(net)
        plan(x)
        monkeypatch.setattr(device.programs, "_ahead", Slow())
        chaining = Chaining(device, [plan.plans[-1]._replay.launches])
        monkeypatch.setattr(device.programs._shelf, "holds", lambda key: False)
        chaining.build()
        assert asked.wait(60)
        monkeypatch.setattr(device.programs, "_ahead", None)
        source = Source(ADD.replace("STEP 1", f"STEP {id(gate)}L"), "add", alone=False)
        assert device.programs.get(source) is not None
        assert not chaining.ready
    gate.set()
    chaining._building.join()


def test_all_names_of_a_text_are_renamed():
    text = """#define PASTE(a) give_##a
typedef int8 __attribute__((aligned(4))) line;
typedef struct pair { int one; } pair_of_numbers;
__constant float table[2] = {1.0f, 2.0f};
inline int give_line(const line x) { for (int i = 0; i < 2; i++) {} if (x.s0) { return 1; } }
__attribute__((noinline)) void body(int one) { pair_of_numbers p; PASTE(line)(0); table[0]; }
"""
    changed = renamed(text, "_k7")
    for name in ("PASTE", "line", "pair", "pair_of_numbers", "table", "give_line", "body"):
        assert f"{name}_k7" in changed
    for name in ("for_k7", "if_k7", "int_k7", "__attribute___k7", "x_k7"):
        assert name not in changed
    assert "PASTE_k7(a) give_##a" in changed


def network():
    clnet.manual_seed(3)
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.SiLU(), nn.Conv2d(16, 16, 3, padding=1, groups=16),
        nn.MaxPool2d(2), nn.Conv2d(16, 24, 1), nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.LayerNorm(24), nn.Linear(24, 10), nn.Softmax(-1),
    )  # fmt: skip
    return net.eval()


def test_plans_that_run_again_become_chains_with_the_same_bits(at_once):
    net = network()
    inputs = [clnet.randn(2, 3, 18, 18) for _ in range(3)]
    with clnet.no_grad():
        plan = clnet.compile(net)
        expected = [plan(x).numpy() for x in inputs[:1]] + [net(x).numpy() for x in inputs[1:]]
        results = [plan(x) for x in inputs for _ in range(2)]
    made = plan.plans[-1]._replay._ready
    assert sum(len(bound.enqueues) for bound in made) < plan.plans[-1].num_launches
    np.testing.assert_array_equal(results[0].numpy(), expected[0])
    for i, y in enumerate(results):
        np.testing.assert_array_equal(y.numpy(), results[i // 2 * 2].numpy())
        np.testing.assert_allclose(y.numpy(), expected[i // 2], rtol=1e-5, atol=1e-6)


def test_plans_that_ran_often_become_chains(monkeypatch):
    monkeypatch.setattr(import_module("clnet.compile.replay"), "_CHAINED_AT", USUALLY_AFTER)
    net, x = network(), clnet.randn(2, 3, 18, 18)
    with clnet.no_grad():
        plan = clnet.compile(net)
        expected = plan(x).numpy()
        replay = plan.plans[-1]._replay
        apart = []
        for _ in range(USUALLY_AFTER + 1):
            apart.append(replay._chained)
            np.testing.assert_array_equal(plan(x).numpy(), expected)
    assert 4 < USUALLY_AFTER < 100
    assert apart == [True] * USUALLY_AFTER + [False]
    assert sum(len(bound.enqueues) for bound in replay._ready) < plan.plans[-1].num_launches


def test_chains_are_built_beside_what_runs(at_once, monkeypatch):
    """The plan goes on as it is until they are there; the same bits then."""
    net, x = network(), clnet.randn(2, 3, 18, 18)
    programs = type(clnet.device().programs)
    monkeypatch.setattr(programs, "builds_beside", property(lambda self: True))
    gate, get = threading.Event(), programs.get

    def slowly(self, source):
        if source.name == "chain" and threading.current_thread().name == "clnet-chains":
            assert gate.wait(60)
        return get(self, source)

    monkeypatch.setattr(programs, "get", slowly)
    with clnet.no_grad():
        plan = clnet.compile(net)
        expected = plan(x).numpy()
        replay = plan.plans[-1]._replay
        for _ in range(4):
            np.testing.assert_array_equal(plan(x).numpy(), expected)
        building = replay._chaining._building
        assert building.is_alive()
        gate.set()
        building.join()
        for _ in range(3):
            np.testing.assert_array_equal(plan(x).numpy(), expected)
    assert replay._chaining is None
    assert sum(len(bound.enqueues) for bound in replay._ready) < plan.plans[-1].num_launches


def test_trainings_of_long_launches_have_no_chains(at_once, monkeypatch):
    """There is little to gain, and loaders compute beside them."""
    monkeypatch.setattr(import_module("clnet.device.chain"), "_SHORT_S", 0.0)
    net = network().train()
    optimizer = clnet.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    @clnet.compile
    def step(x, y):
        optimizer.zero_grad()
        loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    x, y = clnet.randn(4, 3, 18, 18), clnet.randn(4, 10)
    for _ in range(4):
        step(x, y)
    made = [b for b in step.plans[-1]._replay._ready if hasattr(b, "enqueues")]
    assert sum(len(bound.enqueues) for bound in made) == step.plans[-1].num_launches


def test_who_looks_on_sees_every_launch(at_once):
    net, x = network(), clnet.randn(1, 3, 18, 18)
    with clnet.no_grad():
        plan = clnet.compile(net)
        for _ in range(3):
            plan(x)
        with clnet.profile() as seen:
            plan(x)
    kernels = [c for c in seen.commands if c.kind == "kernel"]
    assert len(kernels) == plan.plans[-1].num_launches
    assert "chain" not in {c.name for c in kernels}


def test_checks_of_data_are_told_of_a_chain(at_once):
    table = clnet.randn(5, 8)

    @clnet.compile
    def rows(i):
        return clnet.nn.functional.embedding(i, table).sum(-1).softmax(0) * 2

    good, bad = clnet.tensor([0, 1, 4]), clnet.tensor([0, 5, 1])
    expected = rows(good).numpy()
    for _ in range(3):
        rows(good)
    with pytest.raises(ClnetError, match="5"):
        rows(bad).numpy()
    np.testing.assert_array_equal(rows(good).numpy(), expected)


def trained(kept, wrap=lambda f: f):
    """Losses of steps of a small network with Adam, its parameters, and the compiled step."""
    clnet.manual_seed(5)
    net = nn.Sequential(nn.Linear(12, 40), nn.Tanh(), nn.LayerNorm(40), nn.Linear(40, 3))
    optimizer = clnet.optim.Adam(net.parameters(), lr=0.01)
    x, y = clnet.randn(70, 12), clnet.randn(70, 3)

    @wrap
    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    losses = [float(step(x, y)) for _ in range(kept)]
    return losses, [p.detach().numpy() for p in net.parameters()], step


def test_a_training_step_of_short_launches_becomes_chains_with_the_same_bits(at_once):
    chained = trained(8, clnet.compile)
    plan = chained[2].plans[-1]
    made = [bound for bound in plan._replay._ready if hasattr(bound, "enqueues")]
    assert sum(len(bound.enqueues) for bound in made) < plan.num_launches
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(import_module("clnet.compile.replay"), "_CHAINED_AT", 2**60)
        apart = trained(8, clnet.compile)
    assert chained[0] == apart[0]
    for one, other in zip(chained[1], apart[1], strict=True):
        np.testing.assert_array_equal(one, other)


def test_launches_are_short_beside_what_lies_between_them():
    source = Source(ADD, "add", alone=False)

    def launch(nbytes):
        return Launch(source, (64,), (64,), (), flops=0, bytes=nbytes)

    assert are_short([launch(10_000)] * 20, units=2)
    assert not are_short([launch(10_000)] * 2, units=2)  # too few for a chain
    assert not are_short([launch(10_000)] * 9 + [launch(100_000_000)], units=2)
