"""Tensors that a compiled function assigns to attributes of modules, or gives back as they came."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.errors import ArgumentError, TraceError

pytestmark = pytest.mark.device


class Running(nn.Module):
    """Keeps a mean in a buffer, two states that take turns, and what it saw last."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", clnet.zeros(()))
        self.first, self.second, self.last = clnet.zeros(2), clnet.ones(2), None
        self.weight = nn.Parameter(clnet.tensor([2.0, -1.0]))

    def forward(self, x):
        before = self.mean
        self.mean = self.mean * 0.5 + x.mean()
        self.first, self.second = self.second, self.first + x
        self.last = x * self.weight
        return self.last - self.mean, before, self.first * 1


def states(run, model):
    found = []
    for k in range(4):
        results = run(clnet.tensor([1.0, k]))
        kept = (model.mean, model.first, model.second, model.last)
        found += [t.detach().numpy() for t in (*results, *kept)]
        if k == 2:
            model.second = clnet.tensor([7.0, 8.0])
    return found


def test_state_that_is_assigned_is_that_of_eager():
    eager, model = Running(), Running()
    compiled = clnet.compile(model)
    expected = states(eager, eager)
    for found, wanted in zip(states(compiled, model), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert list(model.state_dict()) == list(eager.state_dict())


def test_who_holds_a_state_keeps_what_it_was():
    class Plain:
        mean = None

    def held(*, compiled):
        model, plain = Running(), Plain()
        plain.mean = clnet.zeros(())

        def forget(x):
            plain.mean = plain.mean * 0.5 + x.sum()
            return plain.mean * 1

        runs = [clnet.compile(f) if compiled else f for f in (model, forget)]
        kept, seen = [], set()
        for k in range(6):
            if k % 2:
                kept += [model.mean, model.first, model.second, plain.mean]
            for run in runs:
                run(clnet.tensor([1.0, k]))
            seen |= {id(model.mean), id(plain.mean)}
        return [x.tolist() for x in kept], runs, len(seen)

    found, runs, seen = held(compiled=True)
    assert found == held(compiled=False)[0]
    assert [run.num_traces for run in runs] == [2, 1]  # no tensor is the last one at first
    assert seen == 8  # others only where somebody holds one


def test_who_holds_a_view_of_a_state_keeps_what_it_was():
    def held(*, compiled):
        model = Running()
        model.first, model.tied, model.part = clnet.zeros(2), model.mean, model.second[:1]
        run = clnet.compile(model) if compiled else model
        kept, traces = [model.first[:1], model.mean.detach()], []
        for k in range(6):
            run(clnet.tensor([1.0, k]))
            if k in (1, 3):
                kept += [model.mean.view(1), model.mean.data, *model.state_dict().values()]
                kept += [model.first.view(1, 2), next(iter(model.buffers()))]
            kept += [model.tied.clone(), model.part.clone()]
            traces += [run.num_traces] if compiled else []
        return [x.tolist() for x in kept], traces

    found, traces = held(compiled=True)
    assert found == held(compiled=False)[0]
    assert traces[1:] == [traces[1]] * 5


def test_a_state_on_the_tape_stays_what_it_was():
    model = Running()

    def step(x):
        model(x)[0].sum().backward()

    compiled = clnet.compile(step)
    compiled(clnet.tensor([1.0, 2.0]))
    model(clnet.tensor([3.0, 4.0]))  # in eager: what it leaves is on the tape
    held = model.last
    compiled(clnet.tensor([5.0, 6.0]))
    assert held.tolist() == [6, -4]
    model.weight.grad = None
    held.sum().backward()
    assert model.weight.grad.tolist() == [3, 4]


def test_state_of_another_form_is_assigned_anew():
    class Lazy(nn.Module):
        state = None

        def forward(self, x):
            if self.state is None or self.state.shape != x.shape:
                self.state = clnet.zeros_like(x)
            self.state = self.state * 0.5 + x
            return self.state * 2

    eager, model = Lazy(), Lazy()
    compiled = clnet.compile(model)
    for size in (2, 2, 2, 3, 3, 2):
        assert compiled(clnet.ones(size)).tolist() == eager(clnet.ones(size)).tolist()
        assert model.state.tolist() == eager.state.tolist()
    traces = compiled.num_traces
    compiled(clnet.ones(2))
    compiled(clnet.ones(2))
    assert compiled.num_traces <= traces + 1


def test_state_is_as_it_was_when_the_function_fails():
    class Fails(nn.Module):
        def __init__(self):
            super().__init__()
            self.state = clnet.ones(2)

        def forward(self, x):
            self.state, self.other = self.state + x, x
            raise KeyError("on purpose")

    model = Fails()
    with pytest.raises(KeyError):
        clnet.compile(model)(clnet.ones(2))
    assert model.state.tolist() == [1, 1]
    assert not hasattr(model, "other")


def test_results_share_memory_with_what_they_are_views_of():
    kept = clnet.tensor([1.0, 2.0])
    compiled = clnet.compile(lambda x: (x, x[0], x.T, kept, kept[1:], x * 2))
    for _ in range(2):
        x = clnet.ones(2, 2)
        same, row, turned, outside, part, other = compiled(x)
        assert same is x
        x[0, 1] = 5
        assert (row.tolist(), turned.tolist()) == ([1, 5], [[1, 1], [5, 1]])
        part.mul_(0)
        assert (outside.tolist(), kept.tolist(), other.tolist()) == ([1, 0], [1, 0], [[2, 2]] * 2)
        kept[1] = 2
    turned = clnet.ones(3, 2).T
    assert compiled(turned)[0] is turned
    leaf = clnet.ones(2, 2, requires_grad=True)
    compiled(leaf)[0].sum().backward()
    assert leaf.grad.tolist() == [[1, 1], [1, 1]]
    with clnet.no_grad():
        assert compiled(leaf)[0] is leaf


class Agent:
    """A plain object: what :class:`Running` does, and an attribute that was not there."""

    def __init__(self):
        self.first, self.second, self.last = clnet.zeros(2), clnet.ones(2), None

    def act(self, x):
        before = self.first
        self.first, self.second = self.second, self.first * 0.5 + x
        self.last = x * 2
        self.seen = self.last
        return self.last, before, self.second * 1

    __call__ = act
    decorated = clnet.compile(act)


@pytest.mark.parametrize("way", ["method", "decorated", "called", "closure"])
def test_state_of_plain_objects_is_that_of_eager(way):
    eager, agent = Agent(), Agent()
    run = {
        "method": clnet.compile(agent.act),
        "decorated": agent.decorated,
        "called": clnet.compile(agent),
        "closure": clnet.compile(lambda x: agent.act(x)),
    }[way]
    results = []
    for k in range(5):
        x = clnet.tensor([1.0, k])
        results.append((run(x), eager.act(x)))
        if k == 2:
            agent.second, eager.second = clnet.full((2,), 7.0), clnet.full((2,), 7.0)
        for name in ("first", "second", "last", "seen"):
            assert getattr(agent, name).tolist() == getattr(eager, name).tolist(), (k, name)
    for found, wanted in results:  # what was given is not written by later calls
        assert [t.tolist() for t in found] == [t.tolist() for t in wanted]


def test_an_object_has_its_attributes_back_when_tracing_fails():
    agent = Agent()
    first = agent.first

    def failing(x):
        agent.first = agent.seen = x * 2
        raise KeyError("half-way")

    with pytest.raises(KeyError):
        clnet.compile(failing)(clnet.ones(2))
    assert agent.first is first
    assert not hasattr(agent, "seen")


@pytest.mark.parametrize("given", [False, True])
def test_what_a_module_keeps_is_its_own(given):
    class Keeping(nn.Module):
        def forward(self, x):
            self.last = x if given else x * 2
            return self.last if not given else x + 1

    model, xs = Keeping(), [clnet.full((2,), float(k)) for k in range(1, 4)]
    run = clnet.compile(model)
    results = [run(x) for x in xs]
    assert [x[0].item() for x in xs] == [1.0, 2.0, 3.0]
    assert [y[0].item() for y in results] == ([2.0, 3.0, 4.0] if given else [2.0, 4.0, 6.0])


def test_tensors_of_objects_within_objects():
    class Trainer:
        def __init__(self):
            self.agent, self.itself = Agent(), self

        def step(self, x):
            return self.agent.act(x)[2] + self.agent.seen

    eager, trainer = Trainer(), Trainer()
    run = clnet.compile(trainer.step)
    for k in range(5):
        x = clnet.tensor([1.0, k])
        if k == 3:
            eager.agent.second, trainer.agent.second = clnet.ones(2), clnet.ones(2)
        assert run(x).tolist() == eager.step(x).tolist()
        assert trainer.agent.seen.tolist() == eager.agent.seen.tolist()
    assert run.num_traces <= 3


def test_an_attribute_that_is_not_used_may_be_another():
    class Trainer:
        loss = None

        def step(self, x):
            return x * 2

    trainer = Trainer()
    run = clnet.compile(trainer.step)
    for k in range(5):
        trainer.loss = run(clnet.full((2,), float(k)))
    assert trainer.loss.tolist() == [8.0, 8.0]
    assert run.num_traces == 1


class Remembering(nn.Module):
    """Reads its state where backward will ask for it, and overwrites it."""

    def __init__(self):
        super().__init__()
        self.cell, self.state = nn.GRUCell(2, 3), clnet.ones(1, 3)
        for p in self.parameters():
            p.data.fill_(0.3)

    def forward(self, x):
        before = self.state.detach()
        self.state = self.cell(x, before)
        return self.state * before


def test_backward_reads_a_state_as_it_was():
    found = []
    for compiled in (False, True):
        model = Remembering()
        run = clnet.compile(model) if compiled else model
        results = [run(clnet.full((1, 2), k)) for k in (1.0, 2.0, 3.0)]
        for k, y in enumerate(results):  # after later calls, too
            (y * (k + 1)).sum().backward()
        found.append([p.grad.numpy() for p in model.parameters()])
    for eager, other in zip(*found, strict=True):
        np.testing.assert_allclose(other, eager, rtol=1e-5)


class Auxiliary(nn.Module):
    """Keeps a second loss for who adds losses up outside."""

    def __init__(self, first):
        super().__init__()
        self.linear, self.loss = nn.Linear(3, 3), first
        for p in self.parameters():
            p.data.fill_(0.3)

    def forward(self, x):
        y = self.linear(x)
        self.loss = (y * y).mean()
        return y.sum(1)


@pytest.mark.parametrize("first", [None, "zeros"])
@pytest.mark.parametrize("wanted", ["both", "auxiliary", "result"])
def test_what_a_module_keeps_has_gradients(first, wanted):
    found = []
    for compiled in (False, True):
        model = Auxiliary(None if first is None else clnet.zeros(()))
        run = clnet.compile(model) if compiled else model
        optimizer, losses = clnet.optim.SGD(model.parameters(), lr=0.1), []
        for k in range(4):
            parts = {"result": run(clnet.full((2, 3), k + 1.0)).mean(), "auxiliary": model.loss}
            loss = sum(parts.values()) if wanted == "both" else parts[wanted]
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        if compiled:
            assert run.num_traces <= 2
        found.append(losses)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)


def test_seeds_and_forks_of_the_generator_are_those_of_eager():
    def drawn():
        with clnet.random.fork_rng():
            clnet.manual_seed(3)
            inside = clnet.rand(2)
        return inside, clnet.rand(2)

    found = []
    for way in (drawn, clnet.compile(drawn)):
        clnet.manual_seed(5)
        found.append([[x.tolist() for x in way()] for _ in range(3)])
    assert found[0] == found[1]
    with pytest.raises(ArgumentError, match="seed"):
        clnet.compile(lambda: clnet.manual_seed(2**65))()


class Spiking(nn.Module):
    """Its forward begins anew; it ends without a state where it is told to forget."""

    def __init__(self, forgets):
        super().__init__()
        self.memory, self.forgets = None, forgets

    def forward(self, x):
        self.memory = None
        for _ in range(3):
            self.memory = x if self.memory is None else self.memory * 0.5 + x
        y = self.memory * 2
        if self.forgets:
            self.memory = None
        return y


@pytest.mark.parametrize("forgets", [False, True])
def test_a_state_that_forward_resets_is_no_reason_to_trace(forgets):
    model = Spiking(forgets)
    f = clnet.compile(model)
    for k in range(5):
        assert f(clnet.full((2,), float(k))).numpy().tolist() == [3.5 * k] * 2
        assert model.memory is None if forgets else model.memory.tolist() == [1.75 * k] * 2
    assert f.num_traces <= 2
    model.memory = None  # by the program, between calls
    assert f(clnet.ones(2)).numpy().tolist() == [3.5] * 2
    model.memory, model.forgets = clnet.ones(2), True
    assert f(clnet.ones(2)).numpy().tolist() == [3.5] * 2
    assert model.memory is None


@pytest.mark.parametrize("left", [3, None])
def test_a_state_may_end_as_no_tensor(left):
    class Ending(nn.Module):
        def forward(self, x):
            self.kept = x + 1
            y = self.kept * 2
            self.kept = left
            return y

    model = Ending()
    f = clnet.compile(model)
    for _ in range(3):
        assert f(clnet.ones(1)).item() == 4
        assert model.kept is left
    assert left is not None or f.num_traces <= 2


@pytest.mark.parametrize("persistent", [True, False])
def test_a_buffer_that_the_first_call_registers(persistent):
    class Lazy(nn.Module):
        def forward(self, x, fails=False):
            if not hasattr(self, "seen"):
                self.register_buffer("seen", x * 0, persistent)
            if fails:
                raise KeyError
            self.seen = self.seen + x
            return self.seen * 1

    eager, model = Lazy(), Lazy()
    f = clnet.compile(model)
    with pytest.raises(KeyError):
        f(clnet.ones(2), True)
    assert not hasattr(model, "seen")
    for k in range(4):
        x = clnet.full((2,), k + 1.0)
        assert f(x).tolist() == eager(x).tolist() == model.seen.tolist()
    assert [*model.state_dict()] == [*eager.state_dict()]
    assert [name for name, _ in model.named_buffers()] == ["seen"]
    assert f.num_traces == 2


def test_a_parameter_that_the_first_call_makes_is_refused():
    class Lazy(nn.Module):
        def forward(self, x):
            if not hasattr(self, "weight"):
                self.weight = nn.Parameter(x * 0 + 2)
            return self.weight * x

    model = Lazy()
    f = clnet.compile(model)
    with pytest.raises(TraceError, match="gives a module a parameter"):
        f(clnet.ones(2))
    model(clnet.ones(2))
    assert f(clnet.ones(2)).tolist() == [2, 2]


async def doubled(x):
    return x * 2


@pytest.mark.parametrize("function", [doubled, lambda x: x[x > 0], lambda x: [x[x > 0] * 2]])
def test_results_that_later_calls_cannot_give(function):
    with pytest.raises(TraceError):
        clnet.compile(function)(clnet.ones(3))


def test_the_mode_that_a_function_leaves():
    f = clnet.compile(lambda x: (x * 2, clnet.set_grad_enabled(False))[0])
    for _ in range(2):
        with clnet.enable_grad():
            f(clnet.ones(1))
            assert not clnet.is_grad_enabled()
    assert clnet.is_grad_enabled()
    assert f.num_traces == 1


def test_a_number_that_becomes_a_tensor():
    meter = SimpleNamespace(total=0.0, n=0)

    def f(x):
        meter.total += x.sum()
        meter.n += len(x)
        return x * 2

    f = clnet.compile(f)
    for k in range(1, 5):
        f(clnet.ones(2))
        assert (float(meter.total), meter.n) == (2 * k, 2 * k)
    assert f.num_traces == 2
