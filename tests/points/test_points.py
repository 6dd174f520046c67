"""Every pointwise op, activation and loss at its special points, against PyTorch's answers."""

from __future__ import annotations

import re

import numpy as np
import pytest

import clnet
from clnet.autograd import grad
from clnet.nn import functional as F
from clnet.ops import PUBLIC_OPS
from clnet.tensor import tensor
from tests.points.answers import DTYPES, key, read
from tests.points.calls import UNSWEPT, belonging, points
from tests.points.check import check, kept
from tests.points.differences import DIFFERENCES
from tests.points.sweep import differs, run
from tests.torchcase import without_onednn

pytestmark = pytest.mark.device


@pytest.mark.parametrize("point", points(), ids=str)
def test_special_points(point, device):
    assert not check(point, "float32", device).unlisted


@pytest.mark.slow
@pytest.mark.parametrize("point", points(), ids=str)
def test_special_points_of_compiled_functions(point, device):
    assert not check(point, "float32", device, compiled=True).unlisted


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES[1:])
@pytest.mark.parametrize("point", [p for p in points() if kept(p, "float64")], ids=str)
def test_special_points_of_other_dtypes(point, dtype, device):
    if dtype == "float64" and not device.traits.float64:
        pytest.skip("the device has no double precision")
    if not kept(point, dtype):
        pytest.skip("a conversion to float64 has no 16-bit points")
    assert not check(point, dtype, device).unlisted


def test_every_op_is_swept_or_says_why_not():
    swept = {point.op for point in points()}
    bare = sorted(belonging().keys() - swept - UNSWEPT.keys())
    assert not bare, f"no call at special points of {bare}: write one in tests/points/calls.py"
    assert not (both := swept & UNSWEPT.keys()), f"swept and excused: {both}"
    assert not (unknown := UNSWEPT.keys() - PUBLIC_OPS.keys()), f"excused and no op: {unknown}"


def test_answers_are_there_for_every_call():
    answers = read()[1]
    wanted = {key(p, d) for p in points() for d in DTYPES if kept(p, d)}
    assert wanted == answers.keys(), "run python ci/points.py --record, with PyTorch"


@pytest.mark.parametrize("point", points(), ids=str)
def test_answers_are_pytorchs(point):
    torch = pytest.importorskip("torch", reason="the answers are PyTorch's")
    stored = read()[1][key(point, "float32")]
    with without_onednn(torch):
        found = run(torch, point, "float32")
    hosts, _ = point.inputs("float32")
    for name, want in stored.items():
        wrong = differs(name, found[name].reshape(-1), want, "float32", hosts)
        # Another processor's vectors, or another version, may round or treat some points otherwise.
        assert wrong.mean() < 0.05, f"{name}: run python ci/points.py --record"


def test_a_planted_error_is_found(device):
    point = next(p for p in points() if p.text == "F.softplus(a)")
    stored = read()[1][key(point, "float32")]
    for name, at in (("y", 0), ("da", 0), ("daa", 0)):
        hosts, _ = point.inputs("float32")
        for other in (np.nan, np.inf, stored[name][at] + 1e-4):
            broken = stored[name].copy()
            broken[at] = other
            assert differs(name, broken, stored[name], "float32", hosts).sum() == 1
    assert differs("y", np.float32([-0.0]), np.float32([0.0]), "float32", [np.ones(1)]).all()
    assert check(point, "float32", device).points > 500


@pytest.mark.parametrize("pos_weight", [None, 3.0])
def test_a_head_that_begins_with_zeros_learns(pos_weight):
    factor = None if pos_weight is None else tensor(np.full(3, pos_weight, np.float32))
    x = tensor(np.zeros(3, np.float32)).requires_grad_()
    target = tensor(np.array([0, 0.5, 1], np.float32))
    loss = F.binary_cross_entropy_with_logits(x, target, pos_weight=factor, reduction="sum")
    loss.backward()
    wanted = [0.5, 0.25 - 0.25 * (pos_weight or 1), -0.5 * (pos_weight or 1)]
    np.testing.assert_allclose(x.grad.numpy(), wanted, atol=1e-7)


def test_certain_probabilities_have_gradients():
    x = tensor(np.array([0, 1, 0, 1], np.float32)).requires_grad_()
    target = tensor(np.array([0, 1, 1, 0], np.float32))
    F.binary_cross_entropy(x, target, reduction="sum").backward()
    np.testing.assert_allclose(x.grad.numpy(), [0, 0, -1e12, 1e12], rtol=1e-6)


def test_losses_of_nothing():
    nothing = tensor(np.zeros((0, 3), np.float32)).requires_grad_()
    for loss in (F.mse_loss, F.l1_loss, F.huber_loss, F.smooth_l1_loss, F.kl_div):
        assert loss(nothing, nothing.detach(), reduction="sum").item() == 0
        assert np.isnan(loss(nothing, nothing.detach(), reduction="mean").item())
        assert loss(nothing, nothing.detach(), reduction="none").shape == (0, 3)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize(
    "point", [p for p in points() if "'none').flatten()" in p.text and not p.fixed], ids=str
)
def test_reductions_are_of_the_losses(point, reduction):
    hosts, _ = point.inputs("float32")
    keep = np.all([np.isfinite(h) & (np.abs(h) < 50) for h in hosts], axis=0)
    leaves = [tensor(h[keep]).requires_grad_() for h in hosts]
    names = {"m": clnet, "F": F, **dict(zip("abc", leaves, strict=False))}
    each = eval(point.text, names)
    whole = eval(point.text.replace("'none').flatten()", f"'{reduction}')"), names)
    share = 1 if reduction == "sum" else 1 / each.numel()
    total = np.asarray(each.detach().numpy(), np.float64).sum() * share
    np.testing.assert_allclose(whole.item(), total, rtol=1e-5)
    found = grad(whole, leaves)
    wanted = grad(each, leaves, clnet.full_like(each.detach(), share))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)


def test_differences_name_calls():
    texts = [p.text for p in points()]
    for line in DIFFERENCES:
        assert any(re.search(line.calls, text) for text in texts), line.calls
