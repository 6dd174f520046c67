"""What a compiled function finds outside, once its calls look at identities alone."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest

import clnet
from clnet.compile.outer import Outer


class Config:
    rate = 2.0

    def __init__(self):
        self.scale, self.names = 3.0, ["relu", "cos"]


CONFIG = Config()
SHIFT = 1.0
TABLE: dict[str, Any] = {"relu": clnet.relu, "cos": clnet.cos, "times": 2.0}
ORDER: OrderedDict[str, Any] = OrderedDict(first=1.0)
NESTED = {"inner": [1.0, {"deep": 2.0}]}


def twice(x, by=2.0):
    return x * by


def named(x, *, by=2.0):
    return x * by


def holding():
    held = 3.0

    def inside(x):
        return x + held

    def change(value):
        nonlocal held
        held = value

    return inside, change


INSIDE, CHANGE = holding()


def step(x):
    y = twice(x) + named(x) + INSIDE(x) + SHIFT + CONFIG.scale * CONFIG.rate
    for name in CONFIG.names:
        y = TABLE[name](y)
    return y * TABLE["times"] + ORDER["first"] + NESTED["inner"][0] * NESTED["inner"][1]["deep"]


def thrice(x, by=2.0):
    return x * by * 3


CHANGES = {
    "global": lambda put: put.setitem(globals(), "SHIFT", 5.0),
    "function": lambda put: put.setitem(globals(), "twice", thrice),
    "code": lambda put: put.setattr(twice, "__code__", thrice.__code__),
    "default": lambda put: put.setattr(twice, "__defaults__", (7.0,)),
    "keyword's default": lambda put: put.setitem(named.__kwdefaults__, "by", 7.0),
    "closure": lambda put: CHANGE(9.0),
    "attribute": lambda put: put.setattr(CONFIG, "scale", 4.0),
    "class's": lambda put: put.setattr(Config, "rate", 4.0),
    "list": lambda put: put.setattr(CONFIG, "names", ["relu"]),
    "part of a list": lambda put: CONFIG.names.__setitem__(1, "relu"),
    "dict": lambda put: put.setitem(TABLE, "times", 3.0),
    "function in a dict": lambda put: put.setitem(TABLE, "cos", clnet.sin),
    "ordered dict": lambda put: put.setitem(ORDER, "first", 3.0),
    "deep": lambda put: put.setitem(NESTED["inner"][1], "deep", 3.0),
}


@pytest.fixture
def settled():
    """The function, compiled and called until it looks at identities alone."""
    CHANGE(3.0)
    CONFIG.names[:] = ["relu", "cos"]
    x, compiled = clnet.tensor([0.1, -0.2, 0.3]), clnet.compile(step)
    for _ in range(4):
        assert compiled(x).tolist() == pytest.approx(step(x).tolist())
    return x, compiled


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_changes_behind_many_calls_is_seen(settled, monkeypatch, change):
    x, compiled = settled
    before = step(x).tolist()
    change(monkeypatch)
    assert step(x).tolist() != pytest.approx(before)
    for _ in range(3):
        assert compiled(x).tolist() == pytest.approx(step(x).tolist())


def test_calls_ask_for_no_fingerprints(settled, monkeypatch):
    x, compiled = settled
    asked, version = [], Outer._clnet_version.fget
    monkeypatch.setattr(Outer, "_clnet_version", property(lambda o: asked.append(1) or version(o)))
    compiled(x)
    assert not asked
    # Another object that is equal: compared once by value, from then on always, and no new plan.
    monkeypatch.setitem(globals(), "SHIFT", float("1.0"))
    monkeypatch.setitem(TABLE, "times", float("2.0"))
    want = step(x).tolist()
    for _ in range(4):
        assert compiled(x).tolist() == pytest.approx(want)
    assert len(asked) == 1
    monkeypatch.setitem(globals(), "SHIFT", 2.0)
    assert compiled(x).tolist() == pytest.approx(step(x).tolist())
