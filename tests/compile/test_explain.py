"""``explain``: a plan says what runs, where it lies and what it costs."""

from __future__ import annotations

import re

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.compile.explain import as_text
from clnet.device import Prepared
from clnet.errors import ArgumentError, TraceError
from clnet.nn import functional as F

pytestmark = pytest.mark.device


@pytest.fixture(scope="module")
def step():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5))
    optimizer = clnet.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def train(x, target):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    compiled = clnet.compile(train)
    images = np.random.default_rng(0).standard_normal((6, 3, 8, 8)).astype(np.float32)
    compiled(clnet.tensor(images), clnet.tensor(np.arange(6) % 5))
    return compiled


def test_every_launch_and_every_cost_is_in_the_text(step):
    plan, text = step.plans[-1], step.explain()
    head, *lines = text.splitlines()
    found = re.match(r"plan on \S+: (\d+) launches of (\d+) ops, (\d+) host actions", head)
    assert found is not None
    assert int(found[1]) == plan.num_launches
    assert int(found[2]) + int(found[3]) == len(plan.entries)
    assert f"peak {plan.peak_bytes / 2**20:,.2f} MiB" in lines[0]
    kernels = {x.kernel for e in plan.entries for x in getattr(e, "launches", ())}
    told = re.search(r"^kernels: (\d+) different", text, re.MULTILINE)
    assert told is not None
    assert int(told[1]) == plan.prepared.kernels >= len(kernels) > 5
    table = [line for line in lines if re.match(r" *\d+  ", line)]
    assert len(table) == len(plan.entries)
    assert any("conv2d" in line and "forward" in line for line in table)
    assert any("float32[6,5]" in line for line in table)
    assert any("update" in line and "changed" in line for line in table)


def test_what_kernels_took_is_in_the_text(step):
    memory = step.plans[-1].memory
    text = as_text((), memory, Prepared(7, built=2, loaded=4, seconds=1.5), (), "here")
    assert "kernels: 7 different; 2 built, 4 from the cache in 1.50 s" in text.splitlines()
    assert "kernels: 7 different" in as_text((), memory, Prepared(7), (), "here").splitlines()


def test_offsets_are_those_of_the_memory_plan(step):
    memory, text = step.plans[-1].memory, step.explain()
    for region, place in zip(memory.regions, memory.places, strict=True):
        assert region.nbytes == 0 or f"{place.arena}+{place.offset:,}" in text


@pytest.mark.parametrize(
    ("form", "first", "edge"),
    [("mermaid", "flowchart TD", r"n\d+ -->\|.*\| n\d+"), ("graphviz", "digraph", r"n\d+ -> n\d+")],
)
def test_pictures(step, form, first, edge):
    picture = step.explain(form)
    assert picture.startswith(first)
    ops = sum(1 for e in step.plans[-1].entries if hasattr(e, "launches"))
    assert len(re.findall(r"^  n\d+ ?\[", picture, re.MULTILINE)) == ops
    assert len(re.findall(edge, picture)) >= ops // 2


def test_views_show_their_strides():
    compiled = clnet.compile(lambda x: x.T.contiguous() @ x)
    compiled(clnet.ones(3, 4))
    assert "float32[4,3]" in compiled.explain()


def test_notes_are_shown():

    compiled = clnet.compile(lambda x: x + 1)
    compiled(clnet.ones(3))
    plan = compiled.plans[-1]
    text = as_text(plan.entries, plan.memory, plan.prepared, ["a is not fused into b: c"], "here")
    assert text.endswith("note: a is not fused into b: c")


def test_what_cannot_be_explained(step):
    with pytest.raises(
        TraceError, match=r"there is no plan yet\. Call the compiled function first"
    ):
        clnet.compile(lambda x: x).explain()
    with pytest.raises(ArgumentError, match="shown as text, mermaid or graphviz; got form=svg"):
        step.explain("svg")
