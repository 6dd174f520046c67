"""Who holds memory: each block has one holder, and what grew is told by name and line."""

from __future__ import annotations

import gc
import sys

import pytest

import clnet
from clnet import nn, optim
from clnet.errors import ArgumentError
from clnet.profiling import memory

pytestmark = pytest.mark.device


def held(snapshot, kind):
    return {h.name: h.nbytes for h in snapshot.holders if h.kind == kind}


def test_a_training_step_s_memory_has_holders():
    class OfThisTest(nn.Sequential):
        """No other test's garbage has its name."""

    model = OfThisTest(nn.Linear(33, 7), nn.BatchNorm1d(7))
    optimizer = optim.Adam(model.parameters())
    model(clnet.ones(5, 33)).square().mean().backward()
    optimizer.step()
    found = clnet.memory_snapshot()
    assert held(found, "parameter")["OfThisTest.0.weight"] == 4 * 33 * 7
    assert held(found, "gradient")["OfThisTest.0.weight"] == 4 * 33 * 7
    assert held(found, "buffer")["OfThisTest.1.running_mean"] == 4 * 7
    states = [h for h in found.holders if h.name == "Adam.exp_avg"]
    assert 4 * 33 * 7 in [h.nbytes for h in states]
    assert all(h.kind == "optimiser state" for h in states)
    statistics = clnet.memory_stats()
    assert sum(h.nbytes for h in found.holders) <= statistics["allocated_bytes.all.current"]
    assert statistics["segment.all.current"] == sum(s.in_use + s.free for s in found.sizes)
    assert sum(s.capacity * s.in_use for s in found.sizes) == found.statistics.allocated
    assert "OfThisTest.0.weight" in str(found) or "of " in str(found)
    assert "<table>" in found._repr_html_()


def test_who_looks_makes_nothing(device):
    model = nn.Linear(3, 2)
    optimizer = optim.Adam(model.parameters())
    model(clnet.ones(5, 3)).sum().backward()
    optimizer.step()
    with clnet.profiling.profile() as seen:
        clnet.memory_snapshot()
    assert not seen.commands


def test_blocks_are_all_accounted_for(nothing_frozen):
    gc.collect()
    found = clnet.memory_snapshot()
    assert len(found.holders) == clnet.memory_stats()["allocation.all.current"]


def test_a_plan_s_arena_and_the_workspace_are_named():
    step = clnet.compile(lambda x: (x.exp() @ x.T).sum(0).cumsum(0))
    step(clnet.ones(40, 40))
    assert held(clnet.memory_snapshot(), "plan")


def test_what_grew_is_told_with_its_line():
    gc.collect()
    clnet.record_memory_history()
    try:
        before = clnet.memory_snapshot()
        kept = [clnet.zeros(300, 100) for _ in range(2)]
        line = f"{__file__}:{sys._getframe().f_lineno - 1}"
        after = clnet.memory_snapshot()
    finally:
        clnet.record_memory_history(False)
    (row,) = (r for r in after.since(before).splitlines() if "(300, 100) float32" in r)
    assert line in row
    assert row.split()[:3] == ["+234.4", "KiB", "+2"]
    assert clnet.device().pool.lines is None
    less = before.since(after)
    assert "-234.4 KiB" in less
    del kept


def test_a_summary_is_a_table_without_size_classes_if_asked():
    x = clnet.ones(64, 64)
    assert "in use    free" in clnet.memory_summary()
    assert "in use    free" not in clnet.memory_summary(abbreviated=True)
    assert f"memory of {x.device}" in clnet.cuda.memory_summary(x.device)


def test_what_is_not_made_yet_is_passed_over():
    class Interrupted(nn.Module):
        def __init__(self):
            kept.append(self)
            raise RuntimeError

    kept = [nn.LazyLinear(3), clnet.Tensor.__new__(clnet.Tensor)]
    with pytest.raises(RuntimeError):
        Interrupted()
    assert clnet.memory_snapshot().holders
    kept.clear()


def test_each_type_is_asked_once(monkeypatch):
    asked = []
    role = memory._role
    monkeypatch.setattr(memory, "_role", lambda kind: asked.append(id(kind)) or role(kind))
    clnet.memory_snapshot()
    assert len(asked) == len(set(asked)) > 0


def test_an_optimiser_of_a_user_is_one_and_functions_get_no_dictionaries():
    class Own:
        """Steps of its own, with nothing of :class:`clnet.optim.Optimizer`."""

        def __init__(self, parameter):
            self.param_groups = [{"params": [parameter]}]
            self.state = {parameter: {"speed": clnet.zeros(3, 11)}}

    own = Own(clnet.ones(3, 11, requires_grad=True))
    assert held(clnet.memory_snapshot(), "optimiser state")["Own.speed"] == 4 * 33
    assert memory._role(type(own)) is memory._Role.PERHAPS_OPTIMISER
    for kind in (type(held), type, type("Meta", (type,), {}), dict, int):
        assert memory._role(kind) is None


def test_snapshots_of_two_devices_are_not_compared():
    found = clnet.memory_snapshot()
    with pytest.raises(ArgumentError, match="of the same device"):
        found.since(clnet.memory_snapshot(clnet.device().split(2)[0]))
