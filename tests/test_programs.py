"""The script that runs programs written for PyTorch: it tells right, wrong and failing ones."""

from __future__ import annotations

import importlib
import sys

import pytest

pytestmark = pytest.mark.device

PACKAGE = """
import torch
from torch.optim.optimizer import Optimizer

class Plain(Optimizer):
    def __init__(self, params, lr=0.1):
        super().__init__(params, dict(lr=lr))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.add_(p.grad, alpha=-group["lr"] * self.factor())

    def factor(self):
        return 1.0

class Differing(Plain):
    def factor(self):
        return 1.0 if not hasattr(torch, "empty_cache") else 1.01

class Missing(Plain):
    def factor(self):
        return 1.0 if not hasattr(torch, "empty_cache") else torch.no_such_name

class Net(torch.nn.Sequential):
    def __init__(self, factor=1.0):
        super().__init__(torch.nn.Linear(4, 3), torch.nn.GELU(), torch.nn.Linear(3, 2))
        self.factor = 1.0 if not hasattr(torch, "empty_cache") else factor

    def forward(self, x):
        return super().forward(x) * self.factor

class Broken(Plain):
    def factor(self):
        raise ValueError("it does not run")
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")
    found = importlib.import_module("ci.programs")
    (tmp_path / "planted_programs.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(found, "PACKAGES", {*found.PACKAGES, "planted_programs"})
    return found


@pytest.mark.parametrize(
    ("name", "verdict", "why"),
    [
        ("Plain", "right", ""),
        ("Differing", "wrong", "a after step 1: differs by"),
        ("Missing", "fails", "no_such_name"),
        ("Broken", "absent", "with PyTorch: ValueError: it does not run"),
    ],
)
def test_verdicts(script, name, verdict, why):
    torch = importlib.import_module("torch")
    before = {n: m for n, m in sys.modules.items() if n.partition(".")[0] == "torch"}
    found = script.outcome(script.optimiser("planted_programs", name), trace=False)
    assert found[0] == verdict
    assert why in found[1]
    assert sys.modules["torch"] is torch
    assert {n: sys.modules.get(n) for n in before} == before


@pytest.mark.parametrize(
    ("factor", "verdict", "why"), [(1.0, "right", ""), (1.01, "wrong", "output 0: differs by")]
)
def test_verdicts_of_models(script, factor, verdict, why):
    program = script.model("planted_programs", "Net", (5, 4), factor=factor)
    found = script.outcome(program, trace=False)
    assert found[0] == verdict
    assert why in found[1]


def test_what_is_not_installed_is_absent(script):
    found = script.outcome(script.optimiser("no_such_package", "Any"), trace=False)
    assert found == ("absent", "No module named 'no_such_package'")


def test_the_share_is_printed(script, monkeypatch, capsys):
    programs = [script.optimiser("planted_programs", n) for n in ("Plain", "Missing")]
    monkeypatch.setattr(script, "PROGRAMS", programs)
    monkeypatch.setattr(sys, "argv", ["programs.py"])
    assert script.main() == 0
    assert "1 of 2 run unchanged and are right (50%)" in capsys.readouterr().out
    monkeypatch.setattr(script, "PROGRAMS", [script.optimiser("planted_programs", "Differing")])
    assert script.main() == 1
