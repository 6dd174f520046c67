"""Cross entropies of 16-bit scores: the same bits, without scores and gradients of float32."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import clnet
import clnet.nn.functional as F
from clnet.compile.narrow_losses import narrow_losses
from clnet.compile.passes import KEEPING_BITS
from tests.compile.test_layout import kinds, traced
from tests.kernels.launching import cpu_shaped, gpu_shaped

pytestmark = pytest.mark.device
WIDENED = ("WidenedCrossEntropy", "WidenedCrossEntropyBackward")


def drawn(*shape, dtype):
    numbers = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    return clnet.tensor(numbers).to(dtype)


@pytest.fixture
def groups(device, monkeypatch):
    """A device whose work-items run in groups."""
    monkeypatch.setattr(device, "target", gpu_shaped(device))


@pytest.mark.parametrize("dtype", [clnet.float16, clnet.bfloat16])
@pytest.mark.parametrize(
    ("shape", "settings"),
    [
        ((19, 37), {}),
        ((19, 700), {"label_smoothing": 0.1, "reduction": "sum"}),
        ((5, 7, 3, 2), {"reduction": "none", "ignore_index": 2}),
        ((6, 11), {"weight": True}),
    ],
    ids=str,
)
def test_losses_and_gradients_keep_their_bits(groups, dtype, shape, settings):
    x = drawn(*shape, dtype=dtype)
    x[0, 1], x[1, 0], x[2] = np.inf, -np.inf, np.nan
    x.requires_grad_()
    classes = np.random.default_rng(4).integers(0, shape[1], (shape[0], *shape[2:]))
    target = clnet.tensor(classes)
    if "weight" in settings:
        settings = {"weight": clnet.linspace(0.5, 2, shape[1])}

    def function(x):
        loss = F.cross_entropy((x * 2).float(), target, **settings)
        return loss, clnet.autograd.grad(loss.sum(), x)[0]

    trace = narrow_losses(traced(function, x))
    found = kinds(trace)
    assert [found[kind] for kind in WIDENED] == [1, 1]
    steps = {type(step.function).__name__: step for _, step in trace.ops}
    assert steps[WIDENED[1]].outputs[0].dtype is dtype
    compiled = clnet.compile(function, passes=KEEPING_BITS)
    for narrow, wide in zip(compiled(x), function(x), strict=True):
        assert narrow.dtype is wide.dtype
        np.testing.assert_array_equal(
            narrow.detach().float().numpy(), wide.detach().float().numpy()
        )


def test_a_gradient_that_is_read_twice_stays_wide(groups):
    x, target = drawn(8, 9, dtype=clnet.bfloat16), clnet.arange(8)

    def function(x):
        wide = x.float().requires_grad_()
        gradient = clnet.autograd.grad(F.cross_entropy(wide, target), wide)[0]
        return gradient.bfloat16(), gradient

    trace = narrow_losses(traced(function, x))
    assert kinds(trace)[WIDENED[1]] == 1
    for narrow, wide in zip(clnet.compile(function)(x), function(x), strict=True):
        assert narrow.dtype is wide.dtype
        np.testing.assert_array_equal(narrow.float().numpy(), wide.float().numpy())


def test_what_changes_in_between_is_read_before(groups):
    target = clnet.arange(8)

    def function(x):
        wide = x.float()
        x += 1
        return F.cross_entropy(wide, target), x * 2

    x = drawn(8, 9, dtype=clnet.float16)
    wanted = F.cross_entropy(x.float(), target)
    assert clnet.compile(function)(x.clone())[0].item() == wanted.item()


def test_a_target_that_is_no_class_is_reported(groups):
    x, target = drawn(8, 9, dtype=clnet.float16), clnet.full((8,), 9)
    with pytest.raises(clnet.errors.DataBoundsError, match="cross_entropy"):
        clnet.compile(lambda x: F.cross_entropy(x.float(), target))(x).item()


def test_where_items_do_not_run_in_groups_it_stays(device, monkeypatch):
    traits = dataclasses.replace(cpu_shaped(device).traits)
    monkeypatch.setattr(device, "target", dataclasses.replace(device.target, traits=traits))
    x, target = drawn(8, 9, dtype=clnet.float16), clnet.arange(8)
    found = kinds(narrow_losses(traced(lambda x: F.cross_entropy(x.float(), target), x)))
    assert found["CrossEntropy"] == 1


def test_a_model_in_autocast(groups):
    """Its scores are never float32, nor their gradient; what it learns keeps its bits."""
    ends = []
    for passes in (KEEPING_BITS, tuple(p for p in KEEPING_BITS if p is not narrow_losses)):
        clnet.manual_seed(0)
        model = clnet.nn.Linear(16, 41)
        optimizer = clnet.optim.SGD(model.parameters(), lr=0.1)

        def step(x, target, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            with clnet.autocast(dtype=clnet.bfloat16):
                loss = F.cross_entropy(model(x), target)
            loss.backward()
            optimizer.step()
            return loss.detach()

        compiled = clnet.compile(step, passes=passes)
        x, target = clnet.linspace(-1, 1, 24 * 16).view(24, 16), clnet.arange(24)
        losses = [compiled(x, target).item() for _ in range(3)]
        ends.append((losses, model.weight.detach().numpy().tobytes()))
    assert ends[0] == ends[1]
