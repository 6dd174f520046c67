"""Every pointwise op, activation and loss at its special points, against PyTorch's answers."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

from clnet.ops import PUBLIC_OPS
from tests.points.answers import DTYPES, key, read
from tests.points.calls import UNSWEPT, belonging, points
from tests.points.check import check, kept
from tests.points.differences import DIFFERENCES
from tests.points.sweep import differs, run

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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
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


def test_differences_name_calls():
    texts = [p.text for p in points()]
    for line in DIFFERENCES:
        assert any(re.search(line.calls, text) for text in texts), line.calls
