"""Corners of numbers against PyTorch; what differs is listed in ci/ops_notes.py."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import clnet
from tests import cornercases
from tests.answers import pinned_torch

pytestmark = pytest.mark.device

ROUNDING = {"float16": 2e-3, "bfloat16": 1e-2}


def listed():
    """What is known to differ, and why: the dict that the page of ops prints."""
    path = Path(__file__).parents[2] / "ci" / "ops_notes.py"
    spec = importlib.util.spec_from_file_location("ops_notes", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.CORNERS


def results(package, call):
    """Dtype and values of all results, or the error: at once, or once they are read."""
    try:
        found = call(package)
        return [_read(y) for y in (found if isinstance(found, tuple) else (found,))]
    except Exception as error:  # any error is an answer
        return error


def _read(y):
    name = str(y.dtype).split(".")[-1]
    y = y.detach()
    return name, np.asarray((y.float() if name == "bfloat16" else y).numpy())


def difference(ours, theirs):
    """What differs, in words; empty if nothing does, or PyTorch refuses the call."""
    if isinstance(theirs, Exception):
        return ""
    if isinstance(ours, Exception):
        return f"{type(ours).__name__}: {ours}"
    for (dtype, y), (wanted, expected) in zip(ours, theirs, strict=True):
        if dtype != wanted or y.shape != expected.shape:
            return f"{dtype} {y.shape}, not {wanted} {expected.shape}"
        if y.dtype.kind != "f":
            if not np.array_equal(y, expected):
                return f"{y.tolist()}, not {expected.tolist()}"
            continue
        y, expected = y.astype(np.float64), expected.astype(np.float64)
        finite = np.abs(expected[np.isfinite(expected)]).max(initial=0)
        rounding = ROUNDING.get(dtype, 1e-5)
        close = np.isclose(y, expected, rtol=rounding, atol=1e-6 * finite + 1e-37, equal_nan=True)
        if not close.all():
            return f"{y.tolist()}, not {expected.tolist()}"
    return ""


@pytest.mark.filterwarnings("ignore")  # PyTorch warns of corners
@pytest.mark.parametrize("family", cornercases.FAMILIES, ids=lambda f: f.__name__)
def test_corners(family):
    torch = pinned_torch()
    known = listed()
    cases = list(family())
    names = [name for name, _ in cases]
    assert len(set(names)) == len(names)
    found = {name: difference(results(clnet, call), results(torch, call)) for name, call in cases}
    wrong = [f"{name}: {words}" for name, words in found.items() if words and name not in known]
    assert not wrong, "\n".join(wrong)
    stale = [name for name in names if name in known and not found[name]]
    assert not stale, f"no longer different: {stale}"


def test_there_are_enough_of_them():
    names = [name for family in cornercases.FAMILIES for name, _ in family()]
    assert len(names) >= 750
    assert set(listed()) <= set(names)


def test_a_difference_is_told():
    assert difference([("float32", np.ones(2))], [("float32", np.array([1, 1.1]))])
    assert difference([("float32", np.ones(2))], [("float64", np.ones(2))])
    assert difference([("float32", np.array([np.nan]))], [("float32", np.ones(1))])
    assert difference(ValueError("no"), [("float32", np.ones(1))])
    assert not difference([("float32", np.array([np.nan]))], [("float32", np.array([np.nan]))])
