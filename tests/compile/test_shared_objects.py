"""Compiled functions of several threads that find the same objects, while one is being traced."""

from __future__ import annotations

import warnings
from threading import Event, Thread
from types import SimpleNamespace

import pytest

import clnet
from clnet import nn
from clnet.compile import Compiled
from clnet.compile.shared_objects import CLAIMS

pytestmark = pytest.mark.device


class Halted:
    """A point at which a function stands while another thread has its turn."""

    def __init__(self):
        self.reached, self.over, self.armed = Event(), Event(), False

    def stand(self, seconds=0.05):
        """Called by the function: the first time after ``armed`` was set, it stands."""
        if self.armed:
            self.armed = False
            self.reached.set()
            self.over.wait(seconds)

    def beside(self, first, *others):
        """Call ``first`` in a thread, and each of the others in one, while it stands."""
        self.armed, found = True, []

        def run(work):
            try:
                work()
            except Exception as error:
                found.append(error)

        threads = [Thread(target=run, args=(work,)) for work in (first, *others)]
        threads[0].start()
        assert self.reached.wait(10)
        for thread in threads[1:]:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        assert not found
        assert not CLAIMS


@pytest.mark.parametrize("other", ["replayed", "traced"])
def test_two_functions_count_with_one_counter(other):
    """While one is traced something else stands in the counter's place."""
    state, point = SimpleNamespace(at=0), Halted()

    def first(x):
        at = state.at + 1
        point.stand()
        state.at = at
        return x * at

    def second(x):
        state.at += 1
        return x + state.at

    f, g, x = clnet.compile(first), clnet.compile(second), clnet.ones(4)
    if other == "replayed":
        for _ in range(3):
            g(x)
    before, found = state.at, []
    point.beside(lambda: found.append(f(x)), lambda: found.append(g(x)))
    assert state.at == before + 2
    assert type(state.at) is int
    assert sorted(y.tolist()[0] for y in found) == [before + 1, before + 3]


def test_two_functions_assign_an_attribute_of_one_module():
    """While one is traced the attribute is a tensor without memory."""
    point = Halted()

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = clnet.zeros(3)

        def forward(self, x):
            self.last = self.last + x
            point.stand()
            return self.last * 1

    net, x = Net(), clnet.ones(3)
    f, g = clnet.compile(net), clnet.compile(lambda x: net(x).sum())
    found = []
    point.beside(lambda: found.append(f(x).tolist()), lambda: found.append(g(x).item()))
    assert found in ([[1.0] * 3, 6.0], [3.0, [2.0] * 3])
    assert net.last.tolist() == [2.0] * 3


def test_a_function_of_other_objects_waits_for_none():
    state, own, point = SimpleNamespace(at=0), SimpleNamespace(at=0), Halted()

    def first(x):
        state.at += 1
        point.stand(30)
        return x * state.at

    def second(x):
        own.at += 1
        return x + own.at

    f, g, x = clnet.compile(first), clnet.compile(second), clnet.ones(4)

    def beside():
        for _ in range(4):
            g(x)
        point.over.set()

    point.beside(lambda: f(x), beside)
    assert point.over.is_set()
    assert (state.at, own.at) == (1, 4)


class Lenient(Compiled):
    lenient = True


def test_calls_that_cannot_be_traced_wait_for_a_trace():
    """They would count what stands for a number while a call of another form is traced."""
    state, point = SimpleNamespace(at=0), Halted()

    def function(x, read):
        at = state.at + 1
        point.stand()
        state.at = at
        if read:
            return x.sum().item()
        return x * state.at

    f, x = Lenient(function), clnet.ones(4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert f(x, True) == 4
    before = state.at
    point.beside(lambda: f(x, False), lambda: f(x, True))
    assert state.at == before + 2
    assert [f(x, False)[0].item() for _ in range(3)] == [before + 3, before + 4, before + 5]


def test_no_trace_begins_beside_a_call_that_cannot_be_traced():
    state, point = SimpleNamespace(at=0), Halted()

    def function(x, read):
        state.at += 1
        if read:
            point.stand()
            return x.sum().item()
        return x * state.at

    f, x = Lenient(function), clnet.ones(4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        f(x, True)
    traces, found = f.num_traces, []
    point.beside(lambda: f(x, True), lambda: found.append(f(x, False).tolist()))
    assert f.num_traces == traces
    assert found == [[state.at] * 4]
    f(x, False)
    assert f.num_traces == traces + 1
