"""Stages that come round to each process several times."""

from __future__ import annotations

import pytest

from tests.ranks.both import clnets, near, pytorchs

pytestmark = pytest.mark.device

PROGRAM = "looped_program.py"


@pytest.mark.parametrize("ranks", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_stages_that_come_round_train_as_the_whole_does(ranks):
    """By as many parts as ranks, more, fewer, and rounds of more than ranks; both schedules."""
    found = clnets(PROGRAM, ranks)
    wanted = found.pop("whole")
    assert len(found) == 2 * len({ranks, 2 * ranks, 1, 6})
    assert [name for name, own in found.items() if not near(own, wanted)] == []
    assert wanted[0][2] < wanted[0][0] - 1e-3


@pytest.mark.slow
def test_pytorchs_schedules_train_alike():
    wanted, found = pytorchs(PROGRAM, 2), clnets(PROGRAM, 2)
    assert found.keys() == wanted.keys()
    assert [name for name in wanted if not near(found[name], wanted[name])] == []
