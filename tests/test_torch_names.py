"""The script that counts PyTorch's names: it tells agreement from difference, on a few calls."""

from __future__ import annotations

import importlib
import sys

import pytest

pytestmark = pytest.mark.device

SOME = [
    *("m.add(x, v, alpha=2)", "m.einsum('bij,kj->bik', t, x)", "x.cumsum(1)", "i & 3", "~i"),
    *("nn.Linear(4, 5) | x", "optim.SGD(weights, lr=0.1)", "schedule.StepLR(o, 3)"),
]


@pytest.fixture(scope="module")
def script():
    pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")
    return importlib.import_module("ci.torch_names")


def comparison(script, text):
    """What compares a call, by what it begins with."""
    by_prefix = {
        "nn.": script.compare_layer,
        "optim.": script.compare_optimiser,
        "schedule.": script.compare_scheduler,
    }
    return next((f for p, f in by_prefix.items() if text.startswith(p)), script.compare_call)


@pytest.mark.parametrize("text", SOME)
def test_these_calls_agree(script, text):
    comparison(script, text)(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("m.zeros(2, 3 if m.__name__ == 'torch' else 4)", r"shape \(2, 4\), not \(2, 3\)"),
        ("x.to(m.int64 if m.__name__ == 'torch' else m.int32)", "int32, not torch.int64"),
        ("x * (1 if m.__name__ == 'torch' else 1.01)", "Not equal to tolerance"),
        ("x + (y if m.__name__ == 'torch' else y.detach())", "gradient to y: "),
    ],
)
def test_a_difference_is_found(script, text, message):
    with pytest.raises(AssertionError, match=message):
        script.compare_call(text)


def test_every_call_names_what_it_is_a_call_of(script):
    known = {(g.title, name) for g in script.GROUPS for name in g.names.split()}
    unknown = {(c.group, c.name, c.text) for c in script.every_case()}
    assert not (bad := sorted(u for u in unknown if u[:2] not in known)), bad


def test_the_lists_name_what_pytorch_has(script):
    torch = importlib.import_module("torch")
    wanted = [(g, name) for g in script.GROUPS for name in g.names.split()]
    assert not (bad := [name for g, name in wanted if not script.exists(torch, g, name)]), bad


def test_names_are_counted_and_missing_ones_listed(script, capsys):
    group = script.Group("functions", "", "add mul no_such_name from_file")
    found = {("functions", "add"): [], ("functions", "mul"): ["m.mul(x, y): it differs"]}
    assert script.report(group, found) == script.Count(wanted=3, exist=2, agree=1)
    printed = capsys.readouterr().out.splitlines()
    assert printed == [
        "  differs   functions: m.mul(x, y): it differs",
        "  missing   functions: from_file (not written)",
    ]


def test_what_a_call_raises_is_reported(script):
    case = script.Case("functions", "add", "m.add(x, nothing)", script.compare_call)
    found = script.failures([case])
    assert found["functions", "add"] == [
        "m.add(x, nothing): NameError: name 'nothing' is not defined"
    ]


def test_too_little_agreement_fails(script, monkeypatch, capsys):
    monkeypatch.setattr(script, "every_case", lambda: iter(()))
    monkeypatch.setattr(sys, "argv", ["torch_names.py"])
    assert script.main() == 1
    assert "agree" in capsys.readouterr().out
