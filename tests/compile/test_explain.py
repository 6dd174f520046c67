"""``explain``: a plan says what runs, where it lies and what it costs."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.compile import record
from clnet.compile.explain import as_text
from clnet.compile.explain_steps import reasons
from clnet.compile.fusion_obstacle import FusionObstacle
from clnet.compile.passes import rewrite
from clnet.device import Prepared
from clnet.errors import ArgumentError, TraceError
from clnet.kernels.conv.conv_obstacle import ConvObstacle
from clnet.kernels.conv_blocked.blocked_form import block_size
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
    text = as_text((), memory, Prepared(7, built=2, stored=4, seconds=1.5), (), "here")
    assert "kernels: 7 different; 4 from the cache; 2 built in 1.50 s" in text.splitlines()
    assert "kernels: 7 different" in as_text((), memory, Prepared(7), (), "here").splitlines()


def test_what_is_held_at_the_busiest_step_is_in_the_text():
    """Two results of 1 MiB that the third op reads, and what it makes: no fourth has come yet."""

    def function(x, y):
        first, second = x @ y, y @ x
        return (first @ second @ first).sum()

    compiled = clnet.compile(function)
    compiled(clnet.ones(512, 512), clnet.ones(512, 512))
    memory = compiled.plans[-1].memory
    line = next(x for x in compiled.explain().splitlines() if x.startswith("held at"))
    found = re.match(rf"held at #{memory.busiest[1]}, MiB: (.*)$", line)
    assert found is not None
    held = dict(each.rsplit(" ", 1) for each in found[1].split(", "))
    assert float(held["forward matmul"]) == 3.0
    assert sum(map(float, held.values())) == pytest.approx(memory.busiest[0] / 2**20, abs=0.01)


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
    assert text.endswith("\n\na is not fused into b: c")


def notes(function, *args):
    """What is said of a function of tensors of these shapes; nothing runs."""
    with clnet.no_grad():
        recorded = record(function, [clnet.ones(*shape) for shape in args], {}, clnet.device())
    return "\n".join(reasons(rewrite(recorded.trace)))


WEIGHT = clnet.ones(8, 8)


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda x: F.relu(F.linear(x, WEIGHT)), None),
        (lambda x: F.gelu(F.linear(x, WEIGHT)), FusionObstacle.ONLY_RELU),
        (lambda x: (F.relu(y := F.linear(x, WEIGHT)), y.sum()), FusionObstacle.READ_TWICE),
        (lambda x: (F.relu(y := F.linear(x, WEIGHT)), y), FusionObstacle.RETURNED),
        (lambda x: (x * 2).exp(), None),
        (lambda x: (x.int() * 2).exp(), FusionObstacle.DTYPE),
        (lambda x: (x * 2).sum(0), FusionObstacle.LOADED),
        (lambda x: (x.T.contiguous() * 2 + x @ x).T * 2, None),
        (lambda x: x.exp()[:, :1] * clnet.ones(8, 1 << 14), FusionObstacle.REPEATED),
        (lambda x: ((y := x.exp()) @ x, (y[:, :4] + 1) @ x[:4]), FusionObstacle.SHAPE),
        (lambda x: sum((x * i).exp() @ x for i in range(2, 20)), FusionObstacle.OPERANDS),
    ],
)
def test_why_steps_are_not_fused(function, why, monkeypatch):
    device = clnet.device()  # as a CPU: on others products finish what is behind them
    traits = replace(device.traits, dedicated_local_memory=False)
    monkeypatch.setattr(device, "target", replace(device.target, traits=traits))
    text = notes(function, (8, 8))
    found = re.findall(r"not fused \((.*?)\): ", text)
    assert found == ([] if why is None else [why.value]), text


def test_a_step_that_is_fused_names_its_parts():
    compiled = clnet.compile(lambda x: F.relu(F.linear((x * 2).exp(), WEIGHT)))
    compiled(clnet.ones(8, 8))
    assert re.search(r"0  forward  mul\+exp  .*\n1  forward  linear\+relu  ", compiled.explain())


@pytest.mark.parametrize(
    ("conv", "size", "why"),
    [
        ({"padding": 1}, 32, "blocked by {}, winograd4: #1 conv2d"),
        ({"padding": 1}, 8, ConvObstacle.PIXELS),
        ({"padding": 1, "stride": 2}, 64, ConvObstacle.FILTERS),
        ({"padding": 1, "groups": 2}, 32, "blocked by {}, grouped: #1 conv2d"),
        ({"in_channels": 48, "out_channels": 48, "groups": 16}, 32, ConvObstacle.GROUPS),
    ],
)
def test_why_a_convolution_is_computed_so(conv, size, why):
    lanes = block_size(clnet.device().traits)
    if lanes is None:
        pytest.skip("blocked arrays are for CPUs")
    layer = nn.Conv2d(**{"in_channels": 16, "out_channels": 16, "kernel_size": 3} | conv)
    text = notes(layer, (2, layer.in_channels, size, size))
    assert (why.format(lanes) if isinstance(why, str) else f"({why.value})") in text
    with clnet.no_winograd():
        text = notes(nn.Conv2d(16, 16, 3, padding=1), (2, 16, 32, 32))
    assert f"direct; not winograd4 ({ConvObstacle.FORBIDDEN.value}): #1 conv2d" in text


def test_why_a_gpu_sums_over_the_taps(monkeypatch):
    device = clnet.device()
    gpu = replace(device.traits, dedicated_local_memory=True)
    monkeypatch.setattr(device, "traits", gpu)
    monkeypatch.setattr(device, "target", replace(device.target, traits=gpu, workspace_limit=2**30))
    deep = nn.Conv2d(256, 256, 3, padding=1)
    assert "by winograd: #0 conv2d" in notes(deep, (64, 256, 14, 14))
    small = f"not winograd ({ConvObstacle.PIXELS.value}): #0 conv2d"
    assert small in notes(deep, (1, 256, 4, 4))


def test_passes_that_did_not_run_refuse_nothing():
    compiled = clnet.compile(lambda x: (x * 2).exp(), passes=())
    compiled(clnet.ones(8, 8))
    assert compiled.explain().endswith("\n\npasses: none")


def test_what_is_done_once_and_what_is_left_alone():
    weight = nn.Parameter(clnet.ones(300, 300))
    optimizer = clnet.optim.SGD([weight], 0.1)

    @clnet.compile
    def step(x):
        optimizer.zero_grad()
        ((x * clnet.arange(300).float().exp()) @ weight).sum().backward()
        optimizer.step()

    step(clnet.ones(2, 300))
    text = step.explain()
    assert re.search(r"\nonce, before the first replay: arange x1, ", text)
    alone = re.search(r"\na launch of its own, being large: #\d+ sgd$", text)
    finished = "matmul_backward+sgd" in text  # on devices with local memory
    assert bool(alone) != finished == clnet.device().traits.dedicated_local_memory


def test_long_lists_are_cut(step):
    assert max(map(len, step.explain().splitlines())) < 400


def test_what_cannot_be_explained(step):
    with pytest.raises(
        TraceError, match=r"there is no plan yet\. Call the compiled function first"
    ):
        clnet.compile(lambda x: x).explain()
    with pytest.raises(ArgumentError, match="shown as text, mermaid or graphviz; got form=svg"):
        step.explain("svg")
