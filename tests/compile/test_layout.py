"""The layout pass: whole steps give eager's results, and reorders stand only at the edges."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import clnet
import clnet.nn.functional as F
from clnet import nn
from clnet.compile import record
from clnet.compile.layout import layout
from clnet.compile.passes import rewrite
from clnet.compile.tracer import Step
from tests.syntax import facts

pytestmark = pytest.mark.device

RNG = np.random.default_rng(5)


class Residual(nn.Module):
    """Two convolutions, norms and a shortcut, with a stride or without."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.one = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
        self.two = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(after), nn.BatchNorm2d(after)])
        shortcut = [nn.Conv2d(before, after, 1, stride=stride, bias=False), nn.BatchNorm2d(after)]
        self.shortcut = nn.Sequential(*shortcut) if before != after else nn.Identity()

    def forward(self, x):
        y = F.relu(self.norms[0](self.one(x)))
        return F.relu(self.norms[1](self.two(y)) + self.shortcut(x))


class Concatenating(nn.Module):
    """Branches that are joined, one with a number of channels that is no whole number of blocks."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Conv2d(16, 16, 1), nn.Conv2d(16, 32, 3, padding=1)
        self.odd, self.back = nn.Conv2d(48, 12, 1), nn.Conv2d(12, 16, 3, padding=1)

    def forward(self, x):
        y = clnet.cat([self.left(x), F.avg_pool2d(self.right(x), 3, 1, 1)], 1)
        return F.hardswish(self.back(self.odd(y)))


def residual():
    stem = [nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    blocks = [Residual(16, 16, 1), Residual(16, 32, 2)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 5))


def plain():
    """As VGG: biases, no norms, a head on several pixels."""
    sizes = [(3, 16), (16, 32), (32, 32)]
    body = [m for i, o in sizes for m in (nn.Conv2d(i, o, 3, padding=1), nn.ReLU())]
    pools = [nn.MaxPool2d(2), nn.AdaptiveAvgPool2d((3, 2)), nn.Dropout(0.0), nn.Flatten()]
    return nn.Sequential(*body, *pools, nn.Linear(32 * 6, 5))


def concatenating():
    stem = [nn.Conv2d(3, 16, 5, stride=2), nn.Tanh()]
    return nn.Sequential(*stem, Concatenating(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(400, 5))


class Squeezing(nn.Module):
    """A convolution of groups whose channels are weighted by what the image has of them."""

    def __init__(self, channels, stride, each=1):
        super().__init__()
        self.spread = nn.Conv2d(16, channels, 1, bias=False)
        self.inside = nn.Conv2d(
            channels, channels, 3, stride, 1, groups=channels // each, bias=False
        )
        self.norms = nn.ModuleList([nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)])
        self.weights = nn.Conv2d(channels, channels, 1)
        self.back = nn.Conv2d(channels, 16, 1, bias=False)

    def forward(self, x):
        y = F.relu6(self.norms[1](self.inside(F.hardswish(self.norms[0](self.spread(x))))))
        return self.back(y * F.hardsigmoid(self.weights(F.adaptive_avg_pool2d(y, 1))))


def squeezing():
    """As mobile networks."""
    stem = [nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), Squeezing(48, 1), Squeezing(32, 2)]
    stem.append(Squeezing(16, 2, each=4))
    return nn.Sequential(*stem, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5))


MODELS = {
    "residual": residual,
    "plain": plain,
    "concatenating": concatenating,
    "squeezing": squeezing,
}


def images(n=4, size=24):
    x = RNG.standard_normal((n, 3, size, size)).astype(np.float32)
    return clnet.tensor(x), clnet.tensor(RNG.integers(0, 5, n))


def training(make, batches, *, compiled):
    """Losses, and the parameters and buffers after some steps."""
    clnet.manual_seed(0)
    model = make()
    optimizer = clnet.optim.SGD(model.parameters(), 0.05, momentum=0.9)

    def step(x, target):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = clnet.compile(step) if compiled else step
    losses = [run(*batch).item() for batch in batches]
    return losses, [t.detach().numpy() for t in (*model.parameters(), *model.buffers())]


def kinds(trace):
    return Counter(type(s.function).__name__ for s in trace.steps if isinstance(s, Step))


def traced(function, *args):
    return record(function, args, {}, clnet.device()).trace


@pytest.mark.parametrize("name", MODELS)
def test_training_steps_are_eager_ones(name):
    batches = [images() for _ in range(3)]
    expected, before = training(MODELS[name], batches, compiled=False)
    found, after = training(MODELS[name], batches, compiled=True)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    for one, other in zip(before, after, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-3, atol=1e-4 * max(1, abs(one).max()))


@pytest.mark.parametrize("name", MODELS)
def test_inference_and_what_is_returned_are_eager_ones(name):
    model, (x, _) = MODELS[name](), images()
    model.eval()

    def function(x):
        inner = model[:2](x) if name != "concatenating" else model[:3](x)
        return inner, model(x), inner[:, 3:5] * 2, inner > 0, clnet.where(inner > 1, inner, 1.0)

    with clnet.no_grad():
        for found, expected in zip(clnet.compile(function)(x), function(x), strict=True):
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-4, atol=1e-4)


def test_gradients_of_arguments_and_of_frozen_parameters():
    conv, (x, _) = nn.Conv2d(3, 32, 3), images(2, 9)
    second = nn.Conv2d(32, 16, 3, stride=2)
    conv.requires_grad_(False)

    def function(x):
        y = F.max_pool2d(second(conv(x)), 2) * 3
        return clnet.autograd.grad(y.square().sum(), [x, second.weight, second.bias])

    x.requires_grad_(True)
    for found, expected in zip(clnet.compile(function)(x), function(x), strict=True):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-4, atol=1e-3)


needs_blocks = pytest.mark.skipif(
    "clnet.device().traits.dedicated_local_memory", reason="blocked arrays are for CPUs"
)


@needs_blocks
def test_reorders_stand_only_at_the_edges():
    one, two = nn.Conv2d(16, 32, 3, bias=False), nn.Conv2d(32, 16, 3, bias=False)
    norm = nn.BatchNorm2d(32)

    def function(x):
        y = two(F.relu(norm(one(x))) + 1)
        return clnet.autograd.grad(F.avg_pool2d(y, 2).square().sum(), [x, one.weight])

    x = clnet.ones(2, 16, 9, 9).requires_grad_(True)
    found = kinds(layout(traced(function, x)))
    assert found["BlockedMoments"] == found["BlockedSums"] == 1
    assert found["Conv2d"] == found["BatchNorm"] == found["AvgPool"] == 0
    assert found["Reorder"] == 2  # x in, its gradient out


@needs_blocks
@pytest.mark.parametrize(
    ("pads", "axes"),
    [((1, 2, 0, 1), 5), ((-1, 0, 2, -2), 5), ((0, 0, 0, 0, 16, 0), 5), ((0, 0, 0, 0, 3, 13), 4)],
    ids=["pixels", "cut", "blocks of channels", "parts of blocks"],
)
def test_what_is_put_among_zeros_between_convolutions_stays_in_blocks(pads, axes):
    """Pads forward and, of what is cut, backward; not where a block would be divided."""
    clnet.manual_seed(0)
    one, two = nn.Conv2d(16, 16, 3, padding=1), nn.Conv2d(32 if len(pads) > 4 else 16, 16, 1)
    x = clnet.randn(2, 16, 9, 7, requires_grad=True)

    def function(x):
        y = two(F.pad(one(x), pads))
        return y, *clnet.autograd.grad(y.square().sum(), [x, one.weight])

    for found, expected in zip(clnet.compile(function)(x), function(x), strict=True):
        there, wanted = found.detach().numpy(), expected.detach().numpy()
        np.testing.assert_allclose(there, wanted, rtol=1e-4, atol=1e-3)
    steps = [s for s in rewrite(traced(function, x), (layout,)).steps if isinstance(s, Step)]
    put = [s for s in steps if type(s.function).__name__ in ("ConstantPad", "SliceBackward")]
    assert put
    assert {s.outputs[0].ndim for s in put} == {axes}


@needs_blocks
@pytest.mark.parametrize("each", [1, 4, 16])
def test_convolutions_of_groups_and_weights_of_channels_stay_between_blocks(each):
    model = Squeezing(48, 2, each)
    parameters = list(model.parameters())

    def function(x):
        return clnet.autograd.grad(model(x).square().sum(), [x, *parameters])

    x = clnet.ones(2, 16, 9, 9).requires_grad_(True)
    found = kinds(layout(traced(function, x)))
    assert found["Conv2d"] == found["ConvInputGrad"] == found["ConvWeightGrad"] == 0
    assert found["Reorder"] == 2  # x in, its gradient out


@needs_blocks
def test_shortcuts_are_added_by_convolutions():
    model = nn.Sequential(Residual(16, 16, 1), Residual(16, 48, 2)).eval()
    x = clnet.tensor(RNG.standard_normal((3, 16, 9, 7), dtype=np.float32))
    with clnet.no_grad():
        found = kinds(rewrite(traced(model, x)))
        compiled = clnet.compile(model)
        compiled(x)
        np.testing.assert_allclose(compiled(x).numpy(), model(x).numpy(), rtol=1e-4, atol=1e-4)
    assert found["BlockedConv2d"] == 5
    assert found["Pointwise"] == found["Fused"] == 0
    assert compiled.explain().count("  conv2d+add+relu  ") == 2


@needs_blocks
@pytest.mark.parametrize(
    ("function", "added"),
    [
        (lambda conv, x: conv(x) + x, True),
        (lambda conv, x: x + conv(x), True),
        (lambda conv, x: F.relu(conv(x)) + x, False),
        (lambda conv, x: conv(x) + x[:1], False),
        (lambda conv, x: conv(x) - x, False),
        (lambda conv, x: (y := conv(x)) + y, False),
        (lambda conv, x: ((y := conv(x)) + x, y), False),
        (lambda conv, x: (y := conv(x)) + x * y.mean(), False),
    ],
)
def test_what_a_convolution_adds(function, added):
    conv = nn.Conv2d(16, 16, 3, padding=1)
    x = clnet.tensor(RNG.standard_normal((2, 16, 5, 7), dtype=np.float32))
    with clnet.no_grad():
        steps = rewrite(traced(lambda x: function(conv, x), x)).steps
        (found,) = [s.function for s in steps if type(s.function).__name__ == "BlockedConv2d"]
        results = clnet.compile(lambda x: function(conv, x))(x), function(conv, x)
    assert found.added is added
    got, expected = (r[0] if isinstance(r, tuple) else r for r in results)
    np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-4, atol=1e-4)


@needs_blocks
def test_filters_are_packed_once_for_each_direction():
    conv = nn.Conv2d(16, 16, 3, padding=1)

    def function(x):
        return clnet.autograd.grad(conv(conv(conv(x))).sum(), [conv.weight, x])

    x = clnet.ones(1, 16, 8, 8).requires_grad_(True)
    found = kinds(layout(traced(function, x)))
    assert found["PackFilters"] == 2
    assert found["BlockedConv2d"] == found["BlockedConvInputGrad"] == 3


@needs_blocks
def test_filters_that_change_are_packed_again():
    conv = nn.Conv2d(16, 16, 3, padding=1)

    def function(x):
        y = conv(x)
        conv.weight.mul_(2)
        return conv(y)

    with clnet.no_grad():
        assert kinds(layout(traced(function, clnet.ones(1, 16, 8, 8))))["PackFilters"] == 2


@needs_blocks
def test_a_trace_without_convolutions_between_blocks_stays_as_it_is():
    trace = traced(lambda x: F.max_pool2d(F.relu(x), 2), clnet.ones(1, 16, 8, 8))
    assert layout(trace) is trace
    odd = nn.Conv2d(3, 5, 3)
    with clnet.no_grad():
        trace = traced(odd, clnet.ones(1, 3, 8, 8))
    assert layout(trace) is trace


@needs_blocks
def test_winograd_may_be_forbidden():
    conv = nn.Conv2d(16, 16, 3, padding=1, bias=False)

    def function(x):
        y = conv(x)
        return y.detach(), *clnet.autograd.grad(y.sum(), [x, conv.weight])

    x = clnet.tensor(RNG.standard_normal((4, 16, 32, 32)).astype(np.float32), requires_grad=True)
    compiled = clnet.compile(function)
    coarse = compiled(x)
    assert compiled.explain().count("conv_blocked_winograd") == 3
    with clnet.no_winograd():
        fine = compiled(x)
        assert compiled.num_traces == 2
        assert "conv_blocked_winograd" not in compiled.explain()
    compiled(x)
    assert compiled.num_traces == 2
    assert "conv_blocked_winograd" in compiled.explain()
    for a, b in zip(coarse, fine, strict=True):
        assert not np.array_equal(a.numpy(), b.numpy())
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-3)


@needs_blocks
def test_gradients_are_computed_as_their_convolution():
    """Also where the gradient is asked for outside, and where a checkpoint runs it again."""
    conv = nn.Conv2d(16, 16, 3, padding=1, bias=False)

    def plainly(x):
        with clnet.no_winograd():
            y = conv(x)
        return clnet.autograd.grad(y.sum(), [x, conv.weight])

    @clnet.no_winograd()
    def again(x):
        return clnet.checkpoint(conv, x)

    def checkpointed(x):
        return clnet.autograd.grad(again(x).sum(), [x, conv.weight])

    x = clnet.ones(4, 16, 32, 32).requires_grad_(True)
    for function in (plainly, checkpointed):
        compiled = clnet.compile(function)
        compiled(x)
        assert "conv2d_weight_grad" in compiled.explain()
        assert "conv_blocked_winograd" not in compiled.explain()


def test_a_gpu_keeps_plain_values(monkeypatch):
    device = clnet.device()
    with clnet.no_grad():
        trace = traced(nn.Conv2d(16, 16, 3), clnet.ones(1, 16, 8, 8))
    monkeypatch.setattr(device, "traits", replace(device.traits, dedicated_local_memory=True))
    assert layout(trace) is trace


def test_no_other_pass_asks_how_wide_vectors_are():
    """Narrower vectors are tried with this file alone, and networks (``narrow`` of ci/check.sh)."""
    asking = {"simd_width", "block_size"}
    files = Path(clnet.__file__).with_name("compile").glob("*.py")
    names = {path.stem: {n.name for n in facts(path.read_text("utf-8")).names} for path in files}
    assert {stem for stem, named in names.items() if named & asking} == {"layout"}
