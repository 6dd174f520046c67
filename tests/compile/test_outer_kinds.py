"""A compiled function sees what others than plain objects hold: decorators, partials, classes."""

from __future__ import annotations

import functools
import random
import sys
import weakref
from collections import ChainMap, UserDict
from contextvars import ContextVar
from operator import attrgetter, methodcaller
from types import MappingProxyType, MethodType, ModuleType, SimpleNamespace

import numpy as np
import pytest

import clnet
import clnet.nn.functional as functional
from clnet.compat.dynamo import Lenient

pytestmark = pytest.mark.device


class Rate:
    is_ = 1.0

    def of(self, x):
        return x * self.is_


def rated(rate):
    """A decorator; what it makes has the same code each time."""

    def around(f):
        @functools.wraps(f)
        def run(x):
            return f(x) * rate["is"]

        return run

    return around


def a_decorator():
    rates = [{"is": 1.0}, {"is": 1.0}]
    first, second = (rated(rate)(clnet.relu) for rate in rates)
    return lambda x: first(x) * second(x), lambda v: rates[1].update({"is": v})


def a_decorated_function():
    rate = {"is": 1.0}
    return rated(rate)(clnet.relu), lambda v: rate.update({"is": v})


def a_partial():
    rate = {"is": 1.0}
    run = functools.partial(lambda x, rate: x * rate["is"], rate=rate)
    return lambda x: run(x), lambda v: rate.update({"is": v})


def a_partials_keyword():
    run = functools.partial(lambda x, rate: x * rate, rate=1.0)
    return lambda x: run(x), lambda v: run.keywords.update(rate=v)


def a_bound_method():
    rate = Rate()
    run = MethodType(lambda self, x: x * self.is_, rate)
    return lambda x: run(x), lambda v: setattr(rate, "is_", v)


def a_method_that_is_hidden():
    rate = Rate()
    return lambda x: rate.of(x), lambda v: setattr(rate, "of", lambda x: x * v)


def an_attribute_of_a_subclass():
    class Own(Rate):
        pass

    rate = Own()
    return lambda x: x * rate.is_, lambda v: setattr(Own, "is_", v)


def an_object_in_a_class():
    class Holder:
        inner = SimpleNamespace(rate=1.0)

    holder = Holder()
    return lambda x: x * holder.inner.rate, lambda v: setattr(Holder.inner, "rate", v)


def an_attribute_of_a_function():
    def run(x):
        return x * run.rate

    run.rate = 1.0
    return lambda x: run(x), lambda v: setattr(run, "rate", v)


def one_of_several_by_type():
    rate = Rate()

    @functools.singledispatch
    def run(rate, x):
        return x

    @run.register
    def _(rate: float, x):
        return x * rate

    run.register(Rate, lambda rate, x: x * rate.is_)
    return lambda x: run(rate, x), lambda v: setattr(rate, "is_", v)


def a_variable_of_the_context():
    rate = ContextVar("rate", default=1.0)
    return lambda x: x * rate.get(), lambda v: rate.set(v)


def a_weak_reference():
    rate = Rate()
    at = weakref.ref(rate)
    return lambda x: x * at().is_, lambda v: setattr(rate, "is_", v)


def a_module_made_by_hand():
    made = ModuleType("made_by_hand")
    made.RATE = 1.0
    return lambda x: x * made.RATE, lambda v: setattr(made, "RATE", v)


def a_module_imported_inside(name="made_for_an_import"):
    made = sys.modules[name] = ModuleType(name)
    made.RATE = 1.0

    def run(x):
        from made_for_an_import import RATE  # noqa: PLC0415

        return x * RATE

    return run, lambda v: setattr(made, "RATE", v)


def other_mappings():
    inner, user = {"is": 1.0}, UserDict(rate=1.0)
    seen, chained = MappingProxyType(inner), ChainMap({}, {"rate": 1.0})

    def change(v):
        inner["is"] = user["rate"] = chained["rate"] = v ** (1 / 3)

    return lambda x: x * seen["is"] * user["rate"] * chained["rate"], change


def bytes_that_change():
    held = bytearray([1])
    return lambda x: x * held[0], lambda v: held.__setitem__(0, int(v))


def a_descriptor():
    class Fixed:
        value = 1.0

        def __get__(self, owner, kind=None):
            return self.value

    class Holder:
        rate = Fixed()

    holder = Holder()
    return lambda x: x * holder.rate, lambda v: setattr(vars(Holder)["rate"], "value", v)


def a_dict_in_a_layer():
    layer = clnet.nn.Identity()
    layer.rates = {"is": 1.0}
    return lambda x: layer(x) * layer.rates["is"], lambda v: layer.rates.update({"is": v})


RATE = 1.0


def a_global_by_its_text():
    globals()["RATE"] = 1.0
    return lambda x: x * globals()["RATE"], lambda v: globals().update(RATE=v)


class Settings(dict):
    __getattr__ = dict.__getitem__  # fails with a KeyError


def settings_by_attributes():
    settings = Settings(inner=Settings(rate=1.0))
    return lambda x: x * settings.inner.rate, lambda v: settings.inner.update(rate=v)


class Doubled(type):
    @property
    def rate(cls):
        return cls.half * 2


def a_property_of_a_metaclass():
    class Settings(metaclass=Doubled):
        half = 0.5

    return lambda x: x * Settings.rate, lambda v: setattr(Settings, "half", v / 2)


def getters():
    own = SimpleNamespace(inner=SimpleNamespace(a=1.0), rate=Rate(), get=attrgetter("inner.a"))
    by_name, called = attrgetter("inner"), methodcaller("of", 1.0)

    def change(v):
        own.inner.a = own.rate.is_ = v ** (1 / 3)

    return lambda x: x * by_name(own).a * own.get(own) * called(own.rate), change


def what_lies_deep():
    first = last = SimpleNamespace()
    for _ in range(20):
        last.following = SimpleNamespace()
        last = last.following
    last.rate = 1.0

    def f(x):
        each = first
        while hasattr(each, "following"):
            each = each.following
        return x * each.rate

    return f, lambda v: setattr(last, "rate", v)


KINDS = (
    a_decorator, a_decorated_function, a_partial, a_partials_keyword, a_bound_method,
    a_method_that_is_hidden, an_attribute_of_a_subclass, an_object_in_a_class,
    an_attribute_of_a_function, one_of_several_by_type, a_variable_of_the_context,
    a_weak_reference, a_module_made_by_hand, a_module_imported_inside, other_mappings,
    bytes_that_change, settings_by_attributes, a_descriptor, a_dict_in_a_layer,
    a_global_by_its_text, a_property_of_a_metaclass, getters, what_lies_deep,
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_changes_is_seen_and_what_stays_is_no_reason_to_trace(kind):
    (f, change), x = kind(), clnet.ones(1)
    compiled = clnet.compile(f)
    for _ in range(2):
        assert compiled(x).item() == 1
    assert compiled.num_traces == 1
    for v in (8.0, 27.0):
        change(v)
        assert compiled(x).item() == pytest.approx(v)


def test_functions_of_clnet_that_a_program_replaces_are_seen(monkeypatch):
    f = clnet.compile(lambda x: functional.relu(x) + clnet.exp(x))
    x = clnet.zeros(1)
    assert f(x).item() == 1
    with monkeypatch.context() as replaced:
        replaced.setattr(functional, "relu", lambda x: x + 7)
        assert f(x).item() == 8
        replaced.setattr("clnet.exp", lambda x: x)
        assert f(x).item() == 7
    assert [f(x).item() for _ in range(2)] == [1, 1]
    assert f.num_traces == 4


def test_times_that_a_decorator_notes_are_no_reason_to_trace():
    times = {"count": 0, "all": []}

    def timed(f):
        @functools.wraps(f)
        def run(x):
            times["count"] += 1
            y = f(x)
            times["all"].append(y.shape)
            return y

        return run

    compiled = clnet.compile(timed(lambda x: x * 2))
    for _ in range(3):
        assert compiled(clnet.ones(1)).item() == 2
    assert compiled.num_traces == 1


def test_entries_of_long_containers():
    """Each by its value, containers within them too; a number of another type is another."""
    rows, table = [[1.0, 2.0] for _ in range(100)], {i: float(i) for i in range(5000)}
    f = clnet.compile(lambda x: x * rows[3][0] * table[4500])
    x = clnet.ones(1)
    assert f(x).item() == 4500
    rows[3][0] = 2.0
    assert f(x).item() == 9000
    table[4500] = 3.0
    assert [f(x).item() for _ in range(2)] == [6, 6]
    table[4500] = 3
    assert f(x).item() == 6
    assert f.num_traces == 4


def test_what_is_too_much_to_compare_is_told(monkeypatch):
    many, objects = dict.fromkeys(range(2**17 + 1), 1.0), [SimpleNamespace(v=2.0)] * 5
    f, g = clnet.compile(lambda x: x * many[5]), clnet.compile(lambda x: x * objects[3].v)
    with pytest.warns(RuntimeWarning, match="does not see changes of entries of many"):
        assert f(clnet.ones(1)).item() == 1
    assert g(clnet.ones(1)).item() == 2
    objects += [SimpleNamespace(v=3.0) for _ in range(4200)]
    assert g(clnet.ones(1)).item() == 2
    objects[3] = objects[4204]
    assert g(clnet.ones(1)).item() == 3
    objects[4204].v = 4.0
    assert g(clnet.ones(1)).item() == 4
    for module in ("reachable", "outer"):
        monkeypatch.setattr(sys.modules[f"clnet.compile.{module}"], "MOST_OBJECTS", 100)
    objects += [SimpleNamespace()]
    with pytest.warns(RuntimeWarning, match="objects beyond the first 100"):
        assert g(clnet.ones(1)).item() == 4


@pytest.mark.parametrize("way", ["module", "object", "numpy", "argument"])
def test_random_numbers_of_python_are_those_of_eager(way):
    def numbers(compiled):
        random.seed(3)
        own, generator = random.Random(3), np.random.default_rng(3)
        draws = {"module": lambda: random, "object": lambda: own, "numpy": lambda: generator}
        f = compiled(lambda x, r=None: x * (r or draws[way]()).random())
        args = (own,) if way == "argument" else ()
        found = [f(clnet.ones(1), *args).item() for _ in range(4)]
        return [*found, random.random(), own.random(), generator.random()]

    assert numbers(clnet.compile) == numbers(lambda f: f)


def test_random_numbers_are_drawn_once_where_a_call_runs_uncompiled():
    def f(x):
        return x * random.random() * x.sum().item()

    random.seed(3)
    with pytest.warns(RuntimeWarning, match="runs uncompiled"):
        found = Lenient(f)(clnet.ones(1)).item()
    random.seed(3)
    assert found == f(clnet.ones(1)).item()


def test_a_list_that_lies_in_itself():
    root = [2.0]
    root.append(root)
    f = clnet.compile(lambda x: x * root[1][0])
    assert [f(clnet.ones(1)).item() for _ in range(2)] == [2, 2]
