"""PyTorch, the oracle, where it is installed; elsewhere the answers that it gave, from a file.

A case of ``tests/ops`` whose reference asks PyTorch keeps what it was told: results, and
differences along the directions that its checks draw. So a checkout without PyTorch checks every
op, forward and backward, against the same numbers. Where PyTorch is installed it is asked, and must
say what the file says. ``python -m tests.answers`` writes the file anew; it needs PyTorch, and no
kernel runs.
"""

from __future__ import annotations

import hashlib
import importlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ORACLE = 'the oracle is PyTorch: make test TORCH=1, or pip install "clnet[torch]"'
ROOT = Path(__file__).parents[1]
FILE = Path(__file__).parent / "answers.npz"
WRITE = "python -m tests.answers"


class _Oracle:
    """PyTorch, imported when a test asks it for something; a test that does is skipped without it.

    So a module whose tests ask it now and then is collected without it, and its other tests run.

    Attributes:
        asked: how often it was asked.
    """

    asked = 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what collectors ask of every name in a module
            raise AttributeError(name)
        self.asked += 1
        return getattr(pytest.importorskip("torch", reason=ORACLE), name)


torch: Any = _Oracle()


def pinned_torch() -> Any:
    """PyTorch for what is kept of one version (pages, lists of differences); skips with another."""
    found = pytest.importorskip("torch", reason=ORACLE)
    (pinned,) = re.findall(r'"torch==([\d.]+)"', (ROOT / "pyproject.toml").read_text())
    if found.__version__.partition("+")[0] != pinned:
        pytest.skip(f"what is kept is of PyTorch {pinned}; this is {found.__version__}")
    return found


class Answers:
    """What the oracle said, by question.

    Args:
        path: the file.

    Attributes:
        writing: whether answers are collected for the file, and nothing is compared with clnet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: dict[str, np.ndarray] | None = None
        self._new: dict[str, np.ndarray] = {}
        self.writing = False

    def ask(self, question: str, compute: Callable[[], Sequence[np.ndarray]]) -> list[np.ndarray]:
        """What a reference gives.

        Args:
            question: tells it from all other questions.
            compute: asks the reference, which may ask PyTorch.

        Returns:
            Its answer; without PyTorch the one that was kept.
        """
        before = torch.asked
        try:
            given = list(compute())
        except pytest.skip.Exception:
            kept = self._recall(question)
            if kept is None:
                raise
            return kept
        if torch.asked != before:
            self._note(question, given)
        return given

    def write(self) -> None:
        """Write the file anew."""
        np.savez_compressed(self._path, **self._new)

    def _note(self, question: str, given: Sequence[np.ndarray]) -> None:
        if self.writing:
            for name, value in zip(_names(question, len(given)), given, strict=True):
                same = self._new.setdefault(name, value)
                assert np.array_equal(same, value, equal_nan=True), f"two answers to {question}"
            return
        kept = self._recall(question)
        assert kept is not None, f"{question}: no answer is kept; run {WRITE}"
        for value, before in zip(given, kept, strict=True):
            np.testing.assert_allclose(
                value, before, rtol=1e-6, atol=1e-7, err_msg=f"{question} is stale; run {WRITE}"
            )

    def _recall(self, question: str) -> list[np.ndarray] | None:
        if self._kept is None:
            with np.load(self._path) as file:
                self._kept = dict(file)
        first = self._kept.get(f"{_digest(question)}.0")
        if first is None:
            return None
        found = [first]
        while (value := self._kept.get(f"{_digest(question)}.{len(found)}")) is not None:
            found.append(value)
        return found


def _digest(question: str) -> str:
    return hashlib.sha256(question.encode()).hexdigest()[:16]


def _names(question: str, count: int) -> list[str]:
    return [f"{_digest(question)}.{i}" for i in range(count)]


ANSWERS = Answers(FILE)


def main() -> None:
    """Ask PyTorch for everything that the cases of all ops want to know."""
    opcase = importlib.import_module("tests.opcase")
    device = importlib.import_module("clnet").device()
    opcase.ANSWERS.writing = True
    for path in sorted((Path(__file__).parent / "ops").glob("test_*.py")):
        module = importlib.import_module(f"tests.ops.{path.stem}")
        for parameter in opcase.every_check(getattr(module, "CASES", [])):
            case, check = parameter.values
            check(case, device)
    opcase.ANSWERS.write()
    print(f"{FILE}: {FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
