"""The tables of docs/benchmarks.md are the paper's, and ours of docs/performance.md."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from clnet.bench import paper

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "ci"))

import paper_page  # noqa: E402


@pytest.fixture
def page():
    return paper_page.PAGE.read_text(encoding="utf-8")


@pytest.fixture
def figures():
    return paper_page.FIGURES.read_text(encoding="utf-8")


def test_the_page_has_the_tables_of_today(page, figures):
    assert paper_page.written(page, figures) == page, "run ci/paper_page.py"


def test_all_35_rows_and_every_figure_are_there(page):
    rows = [line for line in page.splitlines() if line.startswith(("| Caffe", "| CNTK", "| TF"))]
    rows += [line for line in page.splitlines() if line.startswith(("| MXNet", "| Torch"))]
    assert len(rows) == 35
    cells = [cell for row in rows for cell in row.split("|")[2:-1]]
    assert sorted(float(c) for c in cells if c != "-") == sorted(e.seconds for e in paper.TABLE)


def test_ours_are_of_the_networks_of_the_paper(figures):
    found = paper_page.ours(figures)
    assert tuple(found) == paper.NETS
    assert found["ResNet-50"] == (1.86, 0.457, 0.0157)  # of the batches of 16


def test_a_figure_that_was_changed_is_seen(page, figures):
    assert paper_page.written(page.replace("|57.831|", "|57.8|"), figures) == page
    assert paper_page.written(page, figures.replace("| FCN-S | 0.056 |", "| FCN-S | 0.1 |")) != page
