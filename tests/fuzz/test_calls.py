"""Drawn calls, a few with fixed seeds; ``make fuzz`` draws many."""

from __future__ import annotations

import importlib.util
import re

import numpy as np
import pytest

import clnet
from tests.answers import pinned_torch

from . import calls, draw, known
from .evaluate import ACCEPTED, DIFFERS, Outcome, clnet_outcome, difference, is_named, settled
from .surface import surface

pytestmark = pytest.mark.device

COUNT = 40
ORACLE = importlib.util.find_spec("torch") is not None


@pytest.mark.parametrize("seed", [0])
def test_drawn_calls_end_in_a_result_or_a_clear_error(seed):
    found = [
        case for case in calls.run(draw.calls(seed, COUNT), alone=not ORACLE) if case.is_finding
    ]
    assert not found, "\n".join(f"{c.outcome.kind}: {c.text}: {c.outcome.detail}" for c in found)


@pytest.mark.slow
def test_many_drawn_calls_end_in_a_result_or_a_clear_error():
    cases = list(calls.run(draw.calls(7, 300), alone=not ORACLE))
    assert not [case for case in cases if case.is_finding]


def test_every_public_name_is_drawn():
    missing = set(surface())
    few = len(missing) / 100
    for text in draw.calls(0, 45_000):
        missing.discard(draw.name_of(text))
        if len(missing) < few:
            break
    assert len(missing) < few, sorted(missing)


def test_the_same_seed_draws_the_same_calls():
    assert list(draw.calls(5, 50)) == list(draw.calls(5, 50))
    assert list(draw.calls(5, 25, first=25)) == list(draw.calls(5, 50))[25:]


# The fuzzer can fail: each kind of finding is planted.


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("m.add(x, y)", "result"),
        ("m.add(x, 'a')", "refused"),
        ("m.add(x)", "refused"),
        ("nn.Linear('a', 3)", "refused"),
        ("[][3]", "refused"),
        ("m.checkpoint(lambda a: 1 / 0, x)", "refused"),
        ("m.func.jacrev(lambda a: a.cumsum(0))((x, y))", "refused"),
        ("__import__('json').loads('planted')", "internal"),
        ("m.checkpoint(__import__('json').loads, 'planted')", "internal"),
    ],
)
def test_an_outcome_is_told(text, kind):
    assert clnet_outcome(text, grad=False)[0].kind == kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("__import__('os').abort()", "crash"),
        ("__import__('time').sleep(1000)", "hang"),
    ],
)
def test_a_process_that_ends_or_hangs_is_seen(text, kind, monkeypatch):
    worker = calls.Worker(alone=True)
    worker._start()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(calls, "SECONDS", 0.5 if kind == "hang" else 20.0)
            assert worker.ask(text, grad=False).kind == kind
        assert worker.ask("m.is_grad_enabled()", grad=False).kind == "result", "it starts again"
    finally:
        worker.close()


def test_differences_are_seen():
    one = ("float32", clnet.ones(2).numpy())
    assert not difference([one, 1.0], [one, 1.0])
    assert "shape" in difference([one], [("float32", clnet.ones(3).numpy())])
    assert "float64" in difference([one], [("float64", one[1])])
    assert "elements" in difference([one], [("float32", clnet.zeros(2).numpy())])
    assert "results" in difference([one], [one, one])
    assert "1, not 2" in difference([1], [2])
    pair = [("complex64", np.array([value], np.complex64)) for value in (1 + 2j, 1 + 3j)]
    assert "elements" in difference(pair[:1], pair[1:])
    assert not difference(pair[:1], pair[:1])


def test_an_error_that_names_nothing_is_told():
    assert is_named("m.sum(x, 'a')", "DtypeError: sum: dim is a whole number; got dim='a'")
    assert is_named("run(nn.Hardsigmoid(), x)", "error: backward of hardsigmoid: it was changed")
    assert not is_named("m.sum(x, 'a')", "DtypeError: item: the tensor has one element")


# The list of differences that stay is honest: each entry still is one.


def test_reasons_are_of_findings_alone():
    assert {entry.kind for entry in known.KNOWN} <= {ACCEPTED, DIFFERS}
    assert not known.reason("m.add(x, y)", Outcome("internal", "anything"))
    assert not known.reason("m.add(x, y)", Outcome(DIFFERS, "result 0: 1 of 2 elements"))


@pytest.mark.parametrize("entry", known.KNOWN, ids=[entry.why[:60] for entry in known.KNOWN])
@pytest.mark.filterwarnings("ignore")
def test_what_is_listed_still_differs(entry):
    torch = pinned_torch()
    found = [settled(entry.example, torch, grad=grad) for grad in (False, True)]
    assert any(
        outcome.kind == entry.kind
        and re.search(entry.text, entry.example)
        and re.search(entry.detail, outcome.detail)
        for outcome in found
    ), found
