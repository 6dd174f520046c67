"""Every example runs: it is imported, and ``main(steps=2)`` called in an empty folder.

Of those that have epochs two are run, the first and the last.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from clnet.data import source
from tests.pictures import write_cifar10

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_example(path: Path, steps: int) -> None:
    main = getattr(load(path), "main", None)
    assert callable(main), f"{path.name} has no main()"
    taken = inspect.signature(main).parameters
    assert "steps" in taken, f"{path.name}: main() takes no `steps`"
    main(steps=steps, **({"epochs": 2} if "epochs" in taken else {}))


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(path)])
    if "CIFAR10" in path.read_text(encoding="utf-8"):
        write_cifar10(tmp_path / "cifar10", each=130)
        monkeypatch.setattr(source, "SETTINGS", replace(source.SETTINGS, data_dir=tmp_path))
    run_example(path, steps=2)


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("x = 1", "has no main"),
        ("def main(): pass", "takes no `steps`"),
        ("def main(steps=None):\n    assert steps != 2, 'it ran'", "it ran"),
    ],
)
def test_unfit_example_fails(source, complaint, tmp_path):
    path = tmp_path / "example.py"
    path.write_text(source, encoding="utf-8")
    with pytest.raises(AssertionError, match=complaint):
        run_example(path, steps=2)
