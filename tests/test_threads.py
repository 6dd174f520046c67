"""Threads: what they do at once is, bit for bit, what they do one after another.

``CLNET_THREADS_LONG=1`` runs the long version: 100,000 calls and 200 trainings.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.device.buffer_pool import BufferPool
from clnet.errors import GradientError
from clnet.values.arguments import Door, checked
from clnet.values.collector import collecting_what_is_new, known_objects, paused_collector
from tests import threads
from tests.threads import hasty, in_threads, mixed, model_of, numbers

pytestmark = pytest.mark.device
LONG = os.environ.get("CLNET_THREADS_LONG") == "1"
THREADS = 8


@pytest.mark.parametrize("job", threads.JOBS, ids=lambda job: job.__name__)
def test_a_kind_of_work_in_threads_of_its_own(job):
    expected = [job(number) for number in range(THREADS)]
    with hasty():
        assert in_threads(job, THREADS) == expected


def test_all_kinds_of_work_at_once():
    rounds = 10 if LONG else 1
    expected = [mixed(number, rounds) for number in range(THREADS)]
    with hasty():
        assert in_threads(lambda number: mixed(number, rounds), THREADS) == expected


def test_trainings_at_once():
    """The six models of the first report, and 200 of the long version."""
    turns = 13 if LONG else 1

    def work(number, *, compiled):
        seeds = range(number * turns, (number + 1) * turns)
        return [threads.Training(s, compiled=compiled).result() for s in seeds]

    for compiled in (False, True):
        expected = [work(number, compiled=compiled) for number in range(THREADS)]
        with hasty():
            assert in_threads(lambda n, c=compiled: work(n, compiled=c), THREADS) == expected


def test_trainings_at_the_interval_python_has():
    def work(number):
        return threads.Training(number, compiled=True, steps=15).result()

    expected = [work(number) for number in range(6)]
    for _ in range(3):
        assert in_threads(work, 6) == expected


def test_one_model_and_one_compiled_function_for_all():
    """Inference of a server: eager, compiled, of several shapes; the function is traced once each.

    The long version makes 100,000 calls.
    """
    model, calls = model_of(3).eval(), 12_500 if LONG else 40
    compiled = clnet.compile(model)
    xs = [clnet.tensor(numbers(i, 2 + i % 3, 6)) for i in range(9)]
    with clnet.no_grad():
        expected = [model(x).numpy().tobytes() for x in xs]
        fused = [clnet.compile(model)(x).numpy().tobytes() for x in xs]
    wrong: list[int] = []

    def work(number):
        with clnet.no_grad():
            for i in range(calls):
                at = (i + number) % len(xs)
                run, right = ((model, expected), (compiled, fused))[i % 2]
                if run(xs[at]).numpy().tobytes() != right[at]:
                    wrong.append(at)

    with hasty():
        in_threads(work, THREADS)
    assert not wrong
    assert compiled.num_traces == 3


def test_steps_of_one_compiled_training_follow_one_another():
    """Whoever asks: each step is a whole, so 8 threads get as far as one."""
    whole, shared = (threads.Training(4, compiled=True) for _ in range(2))
    x, y = (clnet.tensor(a) for a in whole.batches[0])
    expected = sorted(whole.run(x, y).item() for _ in range(48))
    with hasty():
        found = in_threads(lambda _: [shared.run(x, y) for _ in range(6)], THREADS)
    assert sorted(loss.item() for losses in found for loss in losses) == expected
    assert [p.tolist() for p in shared.model.parameters()] == [
        p.tolist() for p in whole.model.parameters()
    ]


def test_inference_beside_the_training_of_the_same_model():
    """What is packed once for all (constants of the plan) is packed anew after each step."""
    training = threads.Training(1, compiled=True)
    x, y = (clnet.tensor(a) for a in training.batches[0])
    infer = clnet.compile(training.model)
    stop = threading.Event()

    def work(number):
        if number == 0:
            for _ in range(30):
                training.run(x, y)
            stop.set()
        while not stop.is_set():
            with clnet.no_grad():
                infer(x)

    with hasty():
        in_threads(work, 4)
    with clnet.no_grad():
        assert infer(x).tolist() == clnet.compile(training.model)(x).tolist()


def test_threads_trace_while_others_replay():
    step = threads.Training(2, compiled=True)
    x, y = (clnet.tensor(a) for a in step.batches[0])
    expected = [threads.kernels_of_its_own(number) for number in range(THREADS)]
    with hasty():
        found = in_threads(
            lambda n: (
                threads.kernels_of_its_own(n) if n % 2 else [step.run(x, y) for _ in range(9)]
            ),
            THREADS,
        )
    assert found[1::2] == expected[1::2]


def test_a_trace_leaves_gradients_and_versions_alone():
    """Another thread may be using what a traced function changes."""
    training = threads.Training(0, compiled=False)
    x, y = (clnet.tensor(a) for a in training.batches[0])
    training.step(x, y)
    parameters = list(training.model.parameters())
    before = [(p.grad, p.array.storage.version) for p in parameters]
    seen = []

    def traced(x, y):
        loss = training.step(x, y)
        looking = threading.Thread(
            target=lambda: seen.extend((p.grad, p.array.storage.version) for p in parameters)
        )
        looking.start()
        looking.join()
        return loss

    clnet.compile(traced)(x, y)
    assert seen == before


def test_gradients_of_threads_add_up(monkeypatch):
    """Graphs of several threads share leaves: every gradient arrives, whole."""
    grad = clnet.Tensor.grad

    def read_slowly(self):
        found = grad.fget(self)
        time.sleep(0.001)
        return found

    monkeypatch.setattr(clnet.Tensor, "grad", property(read_slowly, grad.fset))
    w = clnet.zeros(5, requires_grad=True)

    def work(number):
        for i in range(10):
            (w * float(number + i)).sum().backward()

    with hasty():
        in_threads(work, THREADS)
    total = sum(n + i for n in range(THREADS) for i in range(10))
    assert w.grad.tolist() == [total] * 5


def test_one_graph_walked_by_threads():
    """Kept, it gives all of them the same; not kept, it is walked once, and the others are told."""
    x = clnet.tensor(numbers(0, 30)).requires_grad_()
    y = (x.exp() * x.sin()).sum()
    expected = clnet.autograd.grad(y, x, retain_graph=True)[0].tolist()
    with hasty():
        found = in_threads(
            lambda _: clnet.autograd.grad(y, x, retain_graph=True)[0].tolist(), THREADS
        )
    assert found == [expected] * THREADS

    def once(_):
        try:
            return clnet.autograd.grad(y, x)[0].tolist()
        except GradientError as error:
            return error.law

    with hasty():
        found = in_threads(once, THREADS)
    assert all(f == expected or "freed" in f for f in found)


def test_the_default_generator_gives_nothing_twice():
    clnet.manual_seed(7)
    with hasty():
        found = in_threads(lambda _: [clnet.rand(16).numpy() for _ in range(12)], THREADS)
    drawn = np.sort(np.concatenate([part for parts in found for part in parts]))
    clnet.manual_seed(7)
    expected = np.sort(np.concatenate([clnet.rand(16).numpy() for _ in range(12 * THREADS)]))
    np.testing.assert_array_equal(drawn, expected)
    clnet.manual_seed(7)
    source = clnet.Generator()
    with hasty():  # seed and place belong together
        pairs = in_threads(
            lambda n: [(source.manual_seed(k), source.take(4))[1] for k in range(n, 2000, THREADS)],
            THREADS,
        )
    assert all(start <= THREADS * 2000 for part in pairs for _, start in part)


def test_vmap_does_not_mind_what_other_threads_draw():
    clnet.manual_seed(7)
    found = []

    def doubled(x):
        with ThreadPoolExecutor(1) as pool:
            found.extend(pool.submit(lambda: clnet.rand(2).tolist()).result())
        return x * 2

    def read(x):  # one element after another
        return doubled(x) * float(x.sum() > 0)

    for f in (doubled, read):
        assert clnet.func.vmap(f)(clnet.ones(3, 2)).tolist() == [[2.0, 2.0]] * 3
    assert len(set(found)) == len(found) >= 8


def test_finalizers_run_under_the_lock(nothing_frozen):
    """Python's collector frees tensors wherever it runs: also in a thread that holds the lock."""
    device = clnet.device()

    class Circle:
        def __init__(self):
            self.me, self.tensor = self, clnet.ones(100)

    def work(number):
        for _ in range(10):
            Circle()
            with device.lock:
                gc.collect(number % 3)
                clnet.ones(100)

    with collecting_what_is_new():  # what other tests left goes first; what they keep stays
        held = clnet.memory_allocated()
        with hasty():
            in_threads(work, THREADS)
        gc.collect()
        assert clnet.memory_allocated() == held


def test_a_block_comes_back_while_the_pool_is_busy_elsewhere():
    """A finalizer waits for nobody: else two threads could wait for each other."""
    pool = BufferPool(create=lambda n: object(), finish=lambda: None, max_block=2**20, limit=None)
    block = pool.take(512)
    with pool.lock:
        thread = threading.Thread(target=pool.give_back, args=((block, 512),), daemon=True)
        thread.start()
        thread.join(10)
        assert not thread.is_alive()
    assert pool.statistics().allocated == 0
    assert pool.take(512) is block


def test_a_block_that_comes_back_is_poisoned_by_who_holds_the_lock():
    """A finalizer enqueues nothing; nobody is given the block before it is poisoned."""
    filled: list[tuple[object, int]] = []
    pool = BufferPool(
        create=lambda n: SimpleNamespace(release=lambda: None),
        finish=lambda: None,
        max_block=2**20,
        limit=None,
        poison=lambda block, nbytes: filled.append((block, nbytes)),
    )
    block = pool.take(500)
    assert filled == [(block, 512)]
    pool.give_back((block, 500))
    assert len(filled) == 1
    assert pool.take(500) is block
    assert filled == [(block, 512)] * 2
    pool.give_back((block, 500))
    pool.empty_cache()  # it goes to the device: a fill would keep it
    assert len(filled) == 2


def test_pauses_of_the_collector_overlap():
    assert gc.isenabled()
    first, second = paused_collector(), paused_collector()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()

    def work(number):
        for _ in range(300):
            with paused_collector():
                assert not gc.isenabled()

    with hasty():
        in_threads(work, THREADS)
    assert gc.isenabled()


def test_profiles_of_threads_overlap():
    """Each sees its own work, and nobody looks on when the last has ended."""
    device, names = clnet.device(), count()
    first, second = clnet.profile(), clnet.profile()
    first.__enter__()
    other = second.__enter__()
    first.__exit__(None, None, None)
    clnet.ones(3).exp()
    second.__exit__(None, None, None)
    assert other.totals(lambda c: c.op)["exp"].calls == 1
    assert device.queue._watch.observers == ()

    def work(number):
        for _ in range(4):
            with clnet.profile() as p:
                (clnet.ones(7) * next(names)).sum().item()
            assert p.totals(lambda c: c.op)["sum"].calls >= 1

    with hasty():
        in_threads(work, 4)
    assert device.queue._watch.observers == ()


def test_two_devices(part_of_device):
    """Each with work of its own, and tensors that go to and fro; no order of locks can matter."""
    devices = [clnet.device(), part_of_device]

    def work(number):
        here, there = devices[number % 2], devices[1 - number % 2]
        x = clnet.tensor(numbers(number, 16), device=here)
        for _ in range(6):
            x = (x * 1.5).to(there).exp().log().to(here)
        return x.numpy().tobytes(), threads.Training(
            number, compiled=number % 4 < 2, steps=4, device=here
        ).result()

    expected = [work(number) for number in range(THREADS)]
    with hasty():
        assert in_threads(work, THREADS) == expected


def test_first_use_by_all_threads():
    """Devices, programs and caches are made by whoever comes first."""
    program = (
        "import sys, threading; sys.setswitchinterval(1e-6)\n"
        "import clnet\n"
        "from tests.threads import in_threads, kernels_of_its_own\n"
        "found = in_threads(lambda n: (id(clnet.device()), kernels_of_its_own(1)), 8)\n"
        "assert all(f == found[0] for f in found)\n"
    )
    root = str(Path(__file__).parents[1])
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([root, *sys.path])}
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300, env=environ)


def test_a_first_call_is_not_seen_half_done_by_another(monkeypatch):
    """What fits is found for one parameter after the other; meanwhile another calls, too."""

    @checked
    def scaled(x: clnet.Tensor, other: clnet.Tensor) -> clnet.Tensor:
        return x * other

    x, found, own = clnet.full((2,), 3.0), list[list[float]](), Door.fitting

    def fitting(door, name):
        if name == "other" and not found:
            found.append([])
            found.append(scaled(x, x).tolist())
        return own(door, name)

    monkeypatch.setattr(Door, "fitting", fitting)
    assert scaled(x, x).tolist() == found[1] == [9, 9]


def test_a_module_called_by_threads_keeps_names_apart():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))

    def work(number):
        width = 4 + number % 2
        try:
            for _ in range(20):
                model(clnet.ones(2, width))
        except clnet.errors.ShapeError as error:
            return error.module
        return None

    with hasty():
        found = in_threads(work, THREADS)
    assert found == [None, "Sequential.0, Linear"] * (THREADS // 2)


CONTEXTS = {
    "no_grad": (clnet.no_grad, lambda: not clnet.is_grad_enabled()),
    "autocast": (
        lambda: clnet.autocast("cpu", dtype=clnet.bfloat16),
        lambda: clnet.is_autocast_enabled("cpu"),
    ),
    "hooks": (
        lambda: clnet.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x),
        lambda: clnet.values.mode.current().saved_hooks is not None,
    ),
}


@pytest.mark.parametrize(("make", "inside"), CONTEXTS.values(), ids=CONTEXTS)
def test_a_context_made_once_is_entered_by_threads_at_once(make, inside):
    context = make()

    def work(number):
        found = []
        for _ in range(20):
            with context:
                found.append(inside())
                with context:
                    found.append(inside())
                found.append(inside())
            found.append(not inside())
        return all(found)

    with hasty():
        assert in_threads(work, THREADS) == [True] * THREADS


@pytest.mark.parametrize("way", ["all", "referrers"])
def test_what_the_collector_knows_takes_no_tuple_from_who_makes_it(way):
    """A tuple that others hold cannot get its length: who was making it got a SystemError."""
    begun, going, mine = threading.Event(), threading.Event(), [way]
    made = list[Any]()

    def parts():
        yield from (mine, 1, 2)
        begun.set()
        going.wait(10)
        yield 3

    thread = threading.Thread(target=lambda: made.append(tuple(parts())))
    holder = {"mine": mine}
    thread.start()
    assert begun.wait(10)
    find = known_objects(gc.get_objects) if way == "all" else known_objects(gc.get_referrers, mine)
    going.set()
    thread.join()
    assert made == [(mine, 1, 2, 3)]
    assert any(each is holder for each in find)
