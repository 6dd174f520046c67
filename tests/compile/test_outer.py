"""A compiled function sees what its globals and enclosing variables are now."""

from __future__ import annotations

import dataclasses
import gc
import itertools
import os
import random
from collections import OrderedDict
from enum import Enum
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.compile.compiled import Compiled
from clnet.device import AbsentDevice, size_class
from clnet.errors import TraceError
from clnet.values import mode

pytestmark = pytest.mark.device

FACTOR = 1
ACTIVATION = clnet.relu
SCALE = {"is": 2.0}


def scaled(x):
    return x * FACTOR


class Trainer:
    def __init__(self):
        self.rate = 1.0

        self.count = 0

    def step(self, x):
        self.count += 1
        return x * self.rate

    decorated = clnet.compile(step)


def test_numbers_and_containers(monkeypatch):
    shift, table = 1, {"scale": [1.0]}
    f = clnet.compile(lambda x: scaled(x) * table["scale"][0] + shift)
    assert f(clnet.ones(1)).item() == 2
    monkeypatch.setattr(f"{__name__}.FACTOR", 3)
    assert f(clnet.ones(1)).item() == 4
    table["scale"][0] = 2.0
    assert f(clnet.ones(1)).item() == 7
    shift = 5
    assert f(clnet.ones(1)).item() == 11
    assert f(clnet.ones(1)).item() == 11
    assert f.num_traces == 4


@pytest.mark.parametrize(
    "iterator",
    [
        lambda: iter([1.0, 2.0, 4.0]),
        lambda: (x for x in (1.0, 2.0, 4.0)),
        lambda: map(float, itertools.chain([1, 2], [4])),
        lambda: itertools.islice(itertools.count(1), 3),
    ],
)
def test_iterators_that_lie_outside_go_on(iterator):
    ours, theirs = iterator(), iterator()
    f = clnet.compile(lambda x: x * next(ours))
    assert [f(clnet.ones(1)).item() for _ in range(3)] == [*theirs]


@pytest.mark.parametrize("draw", [lambda: random.random(), lambda: np.random.rand()])
def test_random_numbers_of_other_modules_are_drawn_at_each_call(draw):
    f = clnet.compile(lambda x: x * draw())
    assert len({f(clnet.ones(1)).item() for _ in range(3)}) == 3
    chosen = clnet.compile(lambda x: x * (1 if x.ndim else draw()))
    for _ in range(3):
        chosen(clnet.ones(1))
        draw()
    assert chosen.num_traces == 1


def test_the_environment(monkeypatch):
    f = clnet.compile(lambda x: x * float(os.environ.get("CLNET_TEST_FACTOR", "1")))
    g = clnet.compile(lambda x: x * float(os.getenv("CLNET_TEST_FACTOR", "1")))
    for factor in ("2", "2", "3"):
        monkeypatch.setenv("CLNET_TEST_FACTOR", factor)
        assert f(clnet.ones(1)).item() == g(clnet.ones(1)).item() == float(factor)
    assert f.num_traces == g.num_traces == 2


def test_tensors():
    """Gradient descent whose weights are other tensors after each step."""
    w = clnet.zeros(2, requires_grad=True)
    f = clnet.compile(lambda x: (w * x - 1).pow(2).sum())
    found = []
    for _ in range(3):
        loss = f(clnet.ones(2))
        (g,) = clnet.autograd.grad(loss, w)
        w = (w - 0.25 * g).detach().requires_grad_()
        found.append(loss.item())
    assert found == [2, 0.5, 0.125]
    w.data.add_(1)
    assert f(clnet.ones(2)).item() == pytest.approx(2 * 0.875**2)


def test_attributes_of_who_is_called():
    for named in ("step", "decorated"):
        trainer = Trainer()
        f = getattr(trainer, named)
        f = clnet.compile(f) if named == "step" else f
        assert f(clnet.ones(1)).item() == 1
        trainer.rate = 4.0
        assert f(clnet.ones(1)).item() == 4
        assert f(clnet.ones(1)).item() == 4
        assert trainer.count == 3  # as in eager execution


def test_attributes_of_a_name_that_a_global_has_are_not_it(monkeypatch):
    """``optimizer.step()`` inside, ``for step in range(n)`` outside."""
    f = clnet.compile(lambda x: x.add(scaled(x)))
    for k in range(3):
        monkeypatch.setattr(f"{__name__}.add", k, raising=False)
        f(clnet.ones(1))
    assert f.num_traces == 1


def test_what_the_function_changes_itself_is_no_reason_to_trace():
    """Numbers are counted at every call; what is appended is so at the trace alone."""
    calls, count = [], 0

    @clnet.compile
    def f(x):
        nonlocal count
        calls.append(1)
        count += 1
        return x + 1

    for _ in range(3):
        f(clnet.ones(1))
    assert (f.num_traces, len(calls), count) == (1, 1, 3)


@clnet.compile
def itself(x):
    return x if x.shape == (9,) else itself.__wrapped__(clnet.ones(9))


def test_a_function_that_names_itself_is_traced_once():
    itself(clnet.ones(1))
    itself(clnet.ones(1))
    assert itself.num_traces == 1


def test_a_tensor_left_outside_is_refused():
    mean, found, kept = None, [1], clnet.ones(1)

    def assigning(x):
        nonlocal mean
        mean = x.mean()
        return x

    for f in (assigning, lambda x: found.append(x * 2)):
        with pytest.raises(TraceError, match=r"leaves a tensor in a variable outside.*Return it"):
            clnet.compile(f)(clnet.ones(2))
    assert (mean, found) == (None, [1])
    written = clnet.compile(lambda x: kept.copy_(x.mean(0, keepdim=True)))
    written(clnet.full((2,), 3.0))
    assert kept.item() == 3


class Link:
    def __init__(self, depth):
        self.rate, self.below = 1.0, Link(depth - 1) if depth else None


def test_long_containers_and_what_lies_deep():
    numbers, table, array, link = (
        [1.0] * 100,
        dict.fromkeys(range(100), 1.0),
        np.ones(9999),
        Link(6),
    )
    x = clnet.ones(1)

    def f(x):
        deep = link.below.below.below.below.below.below
        return x * deep.rate + sum(numbers) + table[50] + float(array[5000])

    compiled = clnet.compile(f)
    changes = [
        lambda: setattr(link.below.below.below.below.below.below, "rate", 2.0),
        lambda: numbers.__setitem__(50, 3.0),
        lambda: table.update({50: 4.0}),
        lambda: array.__setitem__(5000, 5.0),
        lambda: numbers.__setitem__(slice(None), [float(str(v)) for v in numbers]),
    ]
    for change in (lambda: None, *changes):
        change()
        assert compiled(x).item() == f(x).item()
    assert compiled.num_traces == len(changes)  # the last gives equal numbers


def test_results_that_are_given_once_are_refused():
    def giving(x):
        yield x * 2

    for f in (giving, lambda x: [map(clnet.relu, [x])], lambda x: {x * 2}):
        with pytest.raises(TraceError, match=r"results are tensors, and tuples.*Return a list"):
            clnet.compile(f)(clnet.ones(1))


class Rated:
    rate = 1.0

    def run(self, x):
        return x * self.rate * getattr(self, "share", 1.0) + hasattr(self, "shift")


class RatedLayer(Rated, nn.Module):
    def forward(self, x):
        return self.run(x)


@pytest.mark.parametrize("way", [Rated, RatedLayer])
def test_attributes_that_come_and_go(way):
    """They hide their class's, or a default, and let it be seen again."""
    rated, x = way(), clnet.ones(1)
    f = clnet.compile(rated.run)
    for name, value in (("rate", 2.0), ("share", 3.0), ("shift", 5.0)):
        assert f(x).item() == rated.run(x).item()
        setattr(rated, name, value)
        assert f(x).item() == rated.run(x).item()
        delattr(rated, name)
    assert f(x).item() == 1


class Slots:
    __slots__ = ("__hidden", "rate", "spare")

    def __init__(self):
        self.rate, self.__hidden = 1.0, 2.0

    def hide(self, value):
        self.__hidden = value

    @property
    def total(self):
        return self.rate + self.__hidden


class Mode(Enum):
    PLUS = 1
    MINUS = -1


class Settings:
    scale = 1.0

    def __init__(self):
        self.inner = SimpleNamespace(shift=0.0, mode=Mode.PLUS, parts=[SimpleNamespace(k=1.0)])
        self.few, self.table, self.numbers = {1}, OrderedDict(a=1.0), np.ones(2)
        self.slots, self.meter = Slots(), SimpleNamespace(sum=0.0)


SETTINGS = Settings()
CHANGES = {
    "a slot": lambda s: setattr(s.slots, "rate", 5.0),
    "a slot's hidden name, read by a property": lambda s: s.slots.hide(7.0),
    "an object within an object": lambda s: setattr(s.inner, "shift", 3.0),
    "an enum": lambda s: setattr(s.inner, "mode", Mode.MINUS),
    "an object in a list": lambda s: setattr(s.inner.parts[0], "k", 4.0),
    "a set": lambda s: s.few.add(2),
    "an ordered dict": lambda s: s.table.update(a=6.0),
    "an array": lambda s: s.numbers.__setitem__(1, 8.0),
    "another object": lambda s: setattr(
        s, "inner", SimpleNamespace(**vars(s.inner) | {"shift": 2})
    ),
    "a class": lambda s: setattr(type(s), "scale", 9.0),
}


def described(x, s):
    y = x * s.scale * s.inner.parts[0].k * s.inner.mode.value + s.inner.shift + s.slots.total
    return y + len(s.few) + s.table["a"] + float(s.numbers[1])


class Described(nn.Module):
    def __init__(self):
        super().__init__()
        self.settings, self.factors = Settings(), [1.0]

    def forward(self, x):
        return described(x, self.settings) * self.factors[0]


@pytest.mark.parametrize("way", ["global", "argument", "module", "named module"])
@pytest.mark.parametrize("change", CHANGES)
def test_objects_are_asked_as_deep_as_the_code_looks(monkeypatch, way, change):
    model, x = Described(), clnet.ones(1)
    monkeypatch.setattr(f"{__name__}.SETTINGS", model.settings)
    monkeypatch.setattr(Settings, "scale", 1.0)
    f = {
        "global": clnet.compile(lambda x: described(x, SETTINGS)),
        "argument": partial(clnet.compile(described), s=model.settings),
        "module": clnet.compile(model),
        "named module": clnet.compile(lambda x: model(x)),
    }[way]
    assert f(x).item() == described(x, model.settings).item()
    CHANGES[change](model.settings)
    assert f(x).item() == described(x, model.settings).item()


def test_what_the_code_does_not_look_at_is_no_reason_to_trace():
    settings = Settings()
    f = clnet.compile(lambda x: described(x, settings))
    for _ in range(3):
        settings.meter.sum += f(clnet.ones(1)).item()
    assert f.num_traces == 1


class Looping:
    """What a trainer keeps beside its step, which does not read it, and what the step reads."""

    def __init__(self):
        self.losses, self.epoch, self.best, self.hidden, self.table = [], 0, None, None, {}
        self.factor = 1.0
        self.run = clnet.compile(self.step)

    def step(self, x):
        return x * self.factor


AFTER = {
    "numbers": lambda t, y: t.losses.append(y.item()),
    "tensors": lambda t, y: t.losses.append(y),
    "a count": lambda t, y: setattr(t, "epoch", t.epoch + 1),
    "a result": lambda t, y: setattr(t, "best", y),
    "a state": lambda t, y: setattr(t, "hidden", (y, y + 1)),
    "a table": lambda t, y: t.table.update({len(t.table): y.item()}),
}


@pytest.mark.parametrize("after", AFTER)
def test_what_lies_beside_a_step_is_no_reason_to_trace(after):
    trainer, x = Looping(), clnet.ones(1)
    for _ in range(3):
        AFTER[after](trainer, trainer.run(x))
    assert trainer.run.num_traces == 1
    trainer.factor = 3.0
    assert trainer.run(x).item() == 3


class Looking(Looping):
    def step(self, x):
        return x * vars(self)["fac" + "tor"]


class AskingAtWill(Looping):
    def step(self, x):
        return x * sum(getattr(self, name) for name in ("fac" + "tor",))


class Composing(Looping):
    def step(self, x, end="tor"):
        return x * getattr(self, "fac" + end)


class Formatting(Looping):
    def step(self, x, end="tor"):
        return x * getattr(self, f"fac{end}", 1)


@pytest.mark.parametrize("kind", [Looking, AskingAtWill, Composing, Formatting])
def test_code_that_reads_what_it_does_not_name(kind):
    trainer, x = kind(), clnet.ones(1)
    assert trainer.run(x).item() == 1
    trainer.factor = 3.0
    assert trainer.run(x).item() == 3


class Stateful(Looping):
    def step(self, x):
        return x + self.hidden


def test_a_state_that_is_another_at_each_call_is_told():
    """Not where calls between find their plan."""
    stateful, x = Stateful(), clnet.ones(1)
    for k in range(20):
        stateful.hidden = clnet.full((1,), float(k))
        assert [stateful.run(x).item() for _ in range(2)] == [k + 1] * 2

    def turn():
        for k in range(10):
            stateful.hidden = clnet.full((1,), float(k))
            stateful.run(x)

    with pytest.warns(RuntimeWarning, match=r"traced anew.*outside.*changed=hidden") as told:
        turn()
    assert {each.filename for each in told} == {__file__}


def test_objects_of_libraries_may_read_what_they_do_not_name():
    class OfALibrary(Looping, clnet.utils.data.Dataset):
        pass

    trainer, x = OfALibrary(), clnet.ones(1)
    for epoch in range(3):
        trainer.epoch = epoch
        trainer.run(x)
    assert trainer.run.num_traces == 2  # from the second value on it varies


def test_containers_of_modules_are_asked():
    model = Described()
    f = clnet.compile(model)
    before = f(clnet.ones(1)).item()
    model.factors[0] = 3.0
    assert f(clnet.ones(1)).item() == 3 * before


def test_functions_are_told_by_their_code(monkeypatch):
    monkeypatch.setattr(f"{__name__}.ACTIVATION", clnet.relu)
    f = clnet.compile(lambda x: ACTIVATION(x))
    assert f(-clnet.ones(1)).item() == 0
    monkeypatch.setattr(f"{__name__}.ACTIVATION", clnet.square)
    assert f(-clnet.ones(1)).item() == 1
    for k in (2.0, 2.0, 3.0):
        monkeypatch.setattr(f"{__name__}.ACTIVATION", lambda x, k=k: x * k + FACTOR)
        assert f(clnet.ones(1)).item() == k + 1
    assert f.num_traces == 4


class Agent:
    """Learns for two steps, then copies what it has learned."""

    def __init__(self):
        self.steps, self.log, self.size = 0, [], None
        self.network, self.target = clnet.zeros(1), clnet.zeros(1)

    def learn(self, x):
        self.steps += 1
        self.log.append(self.steps)
        self.network.add_(x)
        if self.steps % 3 == 0:
            self.target.copy_(self.network)
        return self.target * 1

    def begin(self, x):
        if self.size is None:
            self.size = x.shape[0]
            self.network.fill_(10.0)
        return self.network + x * self.size

    def ask(self, x):
        self.steps += 1
        self.log.append(self.steps)
        return x * self.steps if x.sum().item() > 0 else x


def test_a_counter_that_is_read_is_that_of_eager():
    agent, compiled = Agent(), Agent()
    f = clnet.compile(compiled.learn)
    expected = [agent.learn(clnet.ones(1)).item() for _ in range(10)]
    with pytest.warns(RuntimeWarning, match=r"traced anew.*changed=steps.*Pass it as an argument"):
        assert [f(clnet.ones(1)).item() for _ in range(10)] == expected
    assert (compiled.steps, compiled.log) == (agent.steps, agent.log)


def test_what_is_made_at_the_first_call_is_not_made_again():
    agent = Agent()
    f = clnet.compile(agent.begin)
    assert [f(clnet.ones(2)).sum().item() for _ in range(3)] == [24, 24, 24]
    agent.network.fill_(0.0)
    assert f(clnet.ones(2)).sum().item() == 4
    assert f.num_traces == 2


def test_what_cannot_be_traced_leaves_counters_as_they_were():
    agent = Agent()
    with pytest.raises(TraceError):
        clnet.compile(agent.ask)(clnet.ones(1))
    assert (agent.steps, agent.log) == (0, [])


class Lenient(Compiled):
    lenient = True


class Caching(nn.Module):
    """Keeps what it has seen, in one of many forms."""

    def __init__(self, form):
        super().__init__()
        self.form, self.cache, self.held = form, None, SimpleNamespace(cache=None)

    def forward(self, x):
        owner = self.held if self.form == "object" else self
        before = getattr(owner, "later" if self.form == "later" else "cache", None)
        if before is not None:
            x = x + (before.state if self.form == "state" else before[0])
        kept = {"list": [x], "state": SimpleNamespace(state=x)}.get(self.form, (x, 1))
        setattr(owner, "later" if self.form == "later" else "cache", kept)
        return x * 2


@pytest.mark.parametrize("form", ["tuple", "list", "state", "object", "later"])
def test_caches_of_tensors_are_those_of_eager_or_refused(form):
    eager, model = Caching(form), Caching(form)
    f = clnet.compile(model)
    for _ in range(2):
        with pytest.raises(TraceError, match="leaves a tensor in a variable outside"):
            f(clnet.ones(1))
        assert (model.cache, model.held.cache, hasattr(model, "later")) == (None, None, False)
    f = Lenient(model)
    with pytest.warns(RuntimeWarning, match="runs uncompiled"):
        found = [f(clnet.ones(1)).item() for _ in range(3)]
    assert found == [eager(clnet.ones(1)).item() for _ in range(3)]


class Averaged(nn.Module):
    """Weights' mean, whose share follows a count; its method is called, not the module."""

    def __init__(self):
        super().__init__()
        self.count, self.mean = 0, clnet.zeros(1)

    def update(self, x):
        self.count += 1
        self.mean.mul_(1 - 1 / self.count).add_(x, alpha=1 / self.count)


def test_a_count_of_a_module_whose_method_is_called():
    eager, model = Averaged(), Averaged()
    f = clnet.compile(lambda x: model.update(x))
    for k in range(4):
        f(clnet.full((1,), float(k)))
        eager.update(clnet.full((1,), float(k)))
        assert (model.mean.item(), model.count) == (pytest.approx(eager.mean.item()), k + 1)


class Asking:
    """Leaves its answer where the compiled method could find it."""

    def __init__(self):
        self.last = None
        self.run = clnet.compile(self.double)

    def double(self, x):
        return x * 2

    def step(self, x):
        self.last = self.run(x)


def test_what_a_step_left_is_not_held_by_its_plan():
    asking, x = Asking(), clnet.ones(1000)
    gc.collect()  # of what other tests left
    before = clnet.memory_allocated()
    for _ in range(4):
        asking.step(x)
    assert asking.run.num_traces == 1
    assert clnet.memory_allocated() - before == size_class(4000)
    assert asking.last.numpy().sum() == 2000


def test_a_function_may_find_itself_by_name():
    def power(x, n):
        return x if n == 0 else power(x * 2, n - 1)

    run, x = clnet.compile(power), clnet.ones(2)
    assert [run(x, n).tolist() for n in (3, 1, 3)] == [[8, 8], [2, 2], [8, 8]]


def test_a_plan_goes_before_another_takes_its_place(monkeypatch):
    """So the copies that a plan makes of weights are there once, also while it is made anew."""
    traits = dataclasses.replace(clnet.device().traits, dedicated_local_memory=True, simd_width=1)
    absent = AbsentDevice(traits)
    with mode.using(device=absent):
        net = nn.Sequential(nn.Conv2d(64, 64, 3), nn.BatchNorm2d(64)).eval()
        run, x = clnet.compile(lambda x: net(x) * SCALE["is"]), clnet.ones(1, 64, 3, 3)
        with clnet.no_grad():
            run(x)
            before = absent.pool.statistics().allocated
            absent.pool.reset_peak()
            monkeypatch.setitem(SCALE, "is", 3.0)
            run(x)
            figures = absent.pool.statistics()
        (plan,) = run.plans
        assert run.num_traces == 2
        assert plan.peak_parts["constants"] > 64 * 64 * 9 * 4
        assert (figures.allocated, figures.peak_allocated) == (before, before + size_class(4 * 64))
