"""README.md's picture tells the figures of docs/performance.md."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "ci"))

import chart  # noqa: E402


def labels(picture: str) -> list[str]:
    """The figures at the ends of its bars."""
    return sorted(re.findall(r">(\d\.\d\d)</text>", picture))


def test_the_picture_is_of_the_pages_figures(tmp_path):
    found = chart.figures((ROOT / "docs" / "performance.md").read_text(encoding="utf-8"))
    assert len(found) == 8
    expected = sorted(f"{value:.2f}" for pair in found.values() for value in pair)
    kept = chart.PICTURE.read_text(encoding="utf-8")
    assert labels(kept) == expected, "run ci/chart.py"
    chart.draw(found, tmp_path / "steps.svg")
    assert labels((tmp_path / "steps.svg").read_text(encoding="utf-8")) == expected
    assert all(name.replace("&", "&amp;") in kept for name in found)
