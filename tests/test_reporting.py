"""What pytest says at the end, and what it gives each test to begin with."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import clnet
from tests import reporting
from tests.answers import ORACLE

DRAWN = np.random.default_rng(11)


def skipped(reason: str, name: str = "tests/x.py::test_y[a b]") -> SimpleNamespace:
    return SimpleNamespace(skipped=True, longrepr=("x.py", 3, f"Skipped: {reason}"), nodeid=name)


@pytest.mark.parametrize("reason", [ORACLE, "could not import 'torch': No module named 'torch'"])
def test_skips_for_want_of_pytorch_are_known(reason):
    assert reporting.asked_pytorch(skipped(reason))


def test_others_are_not():
    assert not reporting.asked_pytorch(skipped("needs two devices"))
    assert not reporting.asked_pytorch(SimpleNamespace(skipped=False, longrepr=None))


def test_their_names_are_written_one_a_line(tmp_path):
    plugin = reporting.Skipped(tmp_path / "asked")
    plugin.pytest_runtest_logreport(skipped(ORACLE))
    plugin.pytest_runtest_logreport(skipped("slow", "tests/z.py::test_z"))
    plugin.pytest_collectreport(skipped(ORACLE, "tests/q.py"))
    plugin.pytest_sessionfinish()
    assert (tmp_path / "asked").read_text().splitlines() == [
        "tests/x.py::test_y[a b]",
        "tests/q.py",
    ]


@pytest.mark.device
def test_the_closing_lines_say_where_and_how_to_go_on():
    traits = clnet.device().traits
    assert f"vectors of {traits.simd_width} floats" in reporting.where()
    assert reporting.again([]) == []
    lines = "\n".join(reporting.again(["tests/a.py::test_b[1]", "tests/c.py::test_d"]))
    assert "make test ARGS=\"-n 0 'tests/a.py::test_b[1]'\"" in lines


@pytest.mark.parametrize("turn", ["first", "second"])
def test_every_test_draws_what_it_draws_alone(turn):
    del turn
    assert DRAWN.random() == np.random.default_rng(11).random()
