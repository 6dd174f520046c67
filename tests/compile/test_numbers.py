"""Numbers that a compiled function finds and that change from call to call: as in eager, kept."""

import datetime
import math
import pickle
import threading
from collections import deque
from collections.abc import Callable
from math import sqrt
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import clnet
from clnet.compile.numbers import Numbers, Slot
from clnet.compile.passes import KEEPING_BITS

NUMBERS = [2.0, -3.0]
turns = left = 0


def counts(body: Callable[[Any, Any], Any], **held: Any) -> Callable[[], tuple[Any, Any]]:
    """A maker of a function that has an object, and of that object."""

    def make() -> tuple[Any, Any]:
        own = SimpleNamespace(**{k: type(v)(v) if type(v) is list else v for k, v in held.items()})
        return (lambda x: body(own, x)), own

    return make


def by_branches(own, x):
    own.n += 1
    return x * own.n if own.n % 3 == 0 else x - own.n


def by_answers(own, x):
    own.n += 1
    own.n += own.n > 4
    return x * own.n


def by_cosine(own, x):
    rate = 0.5 * (1 + math.cos(math.pi * own.n / 20))
    own.n += 1
    return x * rate / sqrt(1 - 0.9**own.n)


def by_warmth(own, x):
    own.n += 1
    return x * min(1.0, own.n / 4) + np.sqrt(own.n)


def by_results(own, x):
    own.n += 1
    return x * own.n, {"n": own.n, "half": [own.n / 2]}


def by_containers(own, x):
    own.d["n"] += 1
    own.d["inner"][0] *= 0.5
    own.q.append(own.d["n"] * 0.5)
    return x * own.d["n"] * own.d["inner"][0] + own.q[0]


def by_turns(own, x):
    own.a, own.b = own.b, own.a * 0.5
    own.made = own.a + 1
    return x * own.a * own.made


def by_reset(own, x):
    own.n += 1
    if own.n >= 3:
        own.n = 0
    return x * own.n


def by_ops(own, x):
    own.n += 1
    t = own.n * 0.1
    y = x.clone().mul_(t).add_(x, alpha=t).addcmul_(x, x, value=t).lerp_(x, t)
    y = clnet.where(y > t, y.clamp(min=-t, max=3 * t), t) + (t - y) / t - t**y
    return y + clnet.full((2,), t) + clnet.tensor(t) + x.masked_fill(x > 0, t)


def unread(own, x):
    own.n += 1
    return x * 2


def container() -> Any:
    own = SimpleNamespace(d={"n": 0, "inner": [1.0, "text"]}, q=deque([0.0, 1.0], maxlen=2))
    return (lambda x: by_containers(own, x)), own


ONCE = {
    "cosine": counts(by_cosine, n=0),
    "results": counts(by_results, n=0),
    "ops": counts(by_ops, n=3),
    "unread": counts(unread, n=0),
}
TWICE = {
    "containers": container,
    "branches": counts(by_branches, n=0),
    "answers": counts(by_answers, n=0),
    "warmth": counts(by_warmth, n=0),
    "turns": counts(by_turns, a=1.0, b=2.0),
    "reset": counts(by_reset, n=0),
}


def alike(found: Any, expected: Any) -> bool:
    """Whether numbers are equal, and tensors but for roundings.

    GPUs round powers and quotients by what stands beside them.
    """
    if isinstance(expected, clnet.Tensor):
        return np.allclose(found.numpy(), expected.numpy(), rtol=1e-6, atol=0)
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(alike(found[k], expected[k]) for k in found)
    if isinstance(expected, tuple | list | deque):
        return len(found) == len(expected) and all(map(alike, found, expected))
    return type(found) is type(expected) and found == expected


@pytest.mark.parametrize("name", [*ONCE, *TWICE])
def test_what_a_function_counts_is_that_of_eager_and_traced_no_more(name):
    make = (ONCE | TWICE)[name]
    (f, own), (g, same) = make(), make()
    compiled = clnet.compile(g, passes=KEEPING_BITS)
    x = clnet.tensor(NUMBERS)
    for _ in range(8):
        assert alike(compiled(x), f(x))
        assert alike(vars(same), vars(own))
    assert compiled.num_traces == (1 if name in ONCE else 2)


def test_variables_of_functions_and_modules_are_counted():
    global turns
    count, turns = 0, 0

    @clnet.compile
    def f(x):
        nonlocal count
        global turns  # noqa: PLW0603
        count += 1
        turns += 2
        return x * count * turns

    assert [f(clnet.ones(1)).item() for _ in range(4)] == [2, 8, 18, 32]
    assert (f.num_traces, count, turns) == (1, 4, 8)


def test_what_is_left_in_tuples_objects_and_globals_is_that_of_the_call():
    global left
    own, left = SimpleNamespace(n=0), 0

    @clnet.compile
    def f(x):
        global left  # noqa: PLW0603
        own.n += 1
        own.pair = (own.n, [own.n * 0.5])
        own.made = SimpleNamespace(half=own.n / 2)
        left = own.n * 3
        return x * own.n

    for k in range(1, 6):
        assert f(clnet.ones(1)).item() == k
        assert alike((own.pair, own.made.half, left), ((k, [k * 0.5]), k / 2, k * 3))
    assert f.num_traces <= 3


class Counting(clnet.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls, self.factor = 0, 1.0

    def forward(self, x):
        self.calls += 1
        return x * self.calls * self.factor


def test_a_module_counts_its_calls_and_others_see_it():
    network = clnet.nn.Sequential(Counting(), Counting())
    f = clnet.compile(network)
    asked = clnet.compile(lambda x: x + network[0].calls)
    x = clnet.ones(1)
    for k in range(1, 5):
        assert f(x).item() == k * k
        assert asked(x).item() == 1 + k
    assert (network[0].calls, f.num_traces, asked.num_traces) == (4, 1, 1)
    for k in range(5, 9):
        network[1].factor = float(k)
        assert f(x).item() == k * k * k
    assert f.num_traces <= 3


def test_numbers_among_arguments_vary_but_those_that_shapes_follow():
    f = clnet.compile(lambda x, n, *, rate: x[:n] * rate)
    x = clnet.tensor([1.0, 2.0, 3.0])
    for k in range(9):
        n, rate = k % 3 + 1, 0.5 * k
        assert f(x, n, rate=rate).tolist() == [rate * v for v in (1.0, 2.0, 3.0)[:n]]
    assert f.num_traces <= 6


def test_numbers_among_arguments_vary_where_forms_take_turns():
    f = clnet.compile(lambda x, n: x * n)
    for n in range(1, 7):
        for size in (1, 2, 3):
            assert f(clnet.ones(size), n).tolist() == [n] * size
    assert f.num_traces == 6


def test_what_python_must_know_is_a_condition():
    """A text of a number, a size, a type: a plan for each, as if it did not vary."""
    own = SimpleNamespace(n=0, texts=[])

    def f(x):
        own.n = own.n % 3 + 1
        if own.n == 2:
            own.texts.append(f"{own.n}")
        return x[: own.n] * own.n

    compiled = clnet.compile(f)
    x = clnet.ones(3)
    assert [compiled(x).sum().item() for _ in range(6)] == [1, 4, 9] * 2
    assert own.texts == ["2", "2"]
    typed = SimpleNamespace(n=0)

    @clnet.compile
    def g(x):
        typed.n += 1
        return x * typed.n if type(typed.n) is int else x

    assert [g(clnet.ones(1)).item() for _ in range(4)] == [1, 2, 3, 4]


def test_a_type_that_is_asked_of_an_argument_that_varied():
    """The plan is for one number then, and others make others."""
    f = clnet.compile(lambda x, n: x * n if type(n) is int else x - n)
    found = [f(clnet.ones(1), n).item() for n in (2, 3, 4, 5, 2.0, 3.0, 4.0)]
    assert found == [2, 3, 4, 5, -1, -2, -3]


def test_a_counter_beside_a_type_that_is_asked():
    own = SimpleNamespace(n=0, m=0)

    @clnet.compile
    def f(x, n):
        own.n += 1  # unread
        own.m += 1
        return x * own.m if type(n) is int else x

    assert [f(clnet.ones(1), 1).item() for _ in range(4)] == [1, 2, 3, 4]
    assert (own.n, own.m) == (4, 4)


def test_a_trace_calls_the_function_once():
    """What it prints or writes to files is there once for each trace, never twice for a call."""
    own, calls = SimpleNamespace(n=0, kept=[1.0]), []
    noted = iter(lambda: calls.append(None), 0)  # what no trace takes back

    @clnet.compile
    def counting(x):
        next(noted)
        own.n += 1
        setattr(own, "k" + "ept", [own.kept[0] * 0.5])
        return x * own.n * own.kept[0]

    for k in range(1, 6):
        assert counting(clnet.ones(1)).item() == k * 0.5**k
        assert len(calls) == counting.num_traces or k > 2
    calls.clear()

    @clnet.compile
    def sized(x, n):
        next(noted)
        if n > 3:
            raise ValueError("many")
        return x[:n]

    for n in range(1, 6):
        before = len(calls)
        try:
            assert sized(clnet.ones(9), n).shape == (n,)
        except ValueError:
            assert n > 3
        assert len(calls) == before + 1


def test_what_refuses_a_number_that_varies_is_called_twice_at_most_once():
    calls: list[int] = []
    noted = iter(lambda: calls.append(1), 0)

    @clnet.compile
    def f(x, n):
        next(noted)
        return x * float(datetime.timedelta(n).days)

    assert [f(clnet.ones(1), n).item() for n in range(6)] == [*range(6)]
    assert len(calls) == f.num_traces + 1


def test_errors_and_backward_are_of_the_numbers_of_their_call():
    own, w = SimpleNamespace(n=0), clnet.ones(1, requires_grad=True)

    @clnet.compile
    def f(x):
        own.n += 1
        if own.n == 4:
            raise ValueError("four")
        return (w * x * own.n).sum()

    losses = [f(clnet.ones(1)) for _ in range(3)]
    with pytest.raises(ValueError, match="four"):
        f(clnet.ones(1))
    for loss, expected in zip(losses, (1, 2, 3), strict=True):
        w.grad = None
        loss.backward()
        assert w.grad.item() == expected
    own.n = 9
    assert f(clnet.ones(1)).item() == 10


def test_groups_are_read_and_written_where_a_function_does():
    def rates(*, compiled):
        w = clnet.nn.Parameter(clnet.ones(1))
        optimizer = clnet.optim.SGD([w], lr=1.0)

        def step(x, factor):
            for group in optimizer.param_groups:
                group["lr"] *= factor
            loss = (w * x).sum() * optimizer.param_groups[0]["lr"]
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            optimizer.param_groups[0]["lr"] *= 0.5
            return loss

        f = clnet.compile(step, passes=KEEPING_BITS) if compiled else step
        found = [f(clnet.ones(1), 1 / (1 + k)).item() for k in range(6)]
        if compiled:
            assert f.num_traces == 2
        return found, w.item(), optimizer.param_groups[0]["lr"]

    assert rates(compiled=True) == rates(compiled=False)


def test_other_threads_see_pythons_numbers_while_a_function_is_traced():
    own, seen, stop = SimpleNamespace(n=1), set[type](), threading.Event()

    def look():
        while not stop.is_set():
            seen.add(type(own.n * 2 + math.sqrt(own.n)))

    thread = threading.Thread(target=look)
    thread.start()

    @clnet.compile
    def f(x):
        for _ in range(20):
            x = x * own.n
        own.n += 1
        return x

    try:
        for _ in range(20):
            f(clnet.ones(1))
    finally:
        stop.set()
        thread.join()
    assert seen == {float}
    assert math.sqrt.__class__ is type(len)  # put back


def test_other_threads_find_pythons_functions_while_a_function_is_traced():
    own, root, pickled = SimpleNamespace(n=1), math.sqrt, []
    seen: list[Any] = []

    @clnet.compile
    def f(x):
        own.n += 1
        thread = threading.Thread(target=lambda: seen.append(math.sqrt))
        thread.start()
        thread.join()
        seen.append({root: "root"}[sqrt])  # a name of this module, which is everybody's
        pickled.append(pickle.loads(pickle.dumps(sqrt)))
        return x * math.sqrt(own.n) * sqrt(own.n)

    assert [round(f(clnet.ones(1)).item(), 4) for _ in range(3)] == [2, 3, 4]
    assert (f.num_traces, seen) == (1, [root, "root"])
    assert seen[0] is pickled[0] is sqrt is root
    assert type(math) is type(threading)


def test_numbers_that_fail_to_hold_are_no_plans():
    table = {"a": 1, "b": 1}
    numbers = Numbers()
    numbers.vary([Slot(table, "a"), Slot(table, "b")])
    numbers.release()
    assert numbers.hold()
    for changed in ({"a": 2}, {"a": 1.0, "b": 1.0}, {"a": True, "b": True}, {"a": None}):
        table.update({"a": 1, "b": 1} | changed)
        assert not numbers.hold()
    table.update(a=5, b=5)
    assert numbers.hold()
    del table["a"]
    assert not numbers.hold()


class Counted:
    """Counts, from the first call on, in an attribute that the object has not yet."""

    n = 0


@pytest.mark.parametrize("schedule", ["ExponentialLR", "StepLR"])
def test_a_schedule_and_a_counter_in_one_step_are_told_apart(schedule):
    """The schedule's numbers vary before the function is known to have others."""

    def made():
        weight, own = clnet.ones(2, requires_grad=True), Counted()
        optimizer = clnet.optim.SGD([weight], lr=0.5)
        given = {"StepLR": {"step_size": 3}, "ExponentialLR": {"gamma": 0.9}}[schedule]
        scheduler = getattr(clnet.optim.lr_scheduler, schedule)(optimizer, **given)

        def step(x):
            own.n += 1
            optimizer.zero_grad()
            loss = (weight * x).sum() * (1 + own.n % 3)
            loss.backward()
            optimizer.step()
            scheduler.step()
            return loss

        return step, optimizer, scheduler

    (eager, same, _), (step, optimizer, scheduler) = made(), made()
    compiled, x = clnet.compile(step), clnet.tensor(NUMBERS)
    for _ in range(7):
        assert compiled(x).item() == pytest.approx(eager(x).item(), rel=1e-6)
        (group,), (expected,) = optimizer.param_groups, same.param_groups
        left = {k: v for k, v in group.items() if k != "params"}
        assert {k: (type(v), v) for k, v in left.items()} == {
            k: (type(expected[k]), expected[k]) for k in left
        }
        assert type(scheduler.last_epoch) is int
