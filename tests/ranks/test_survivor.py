"""A rank that is killed while it trains; ``python ci/survival.py ranks`` does it at length."""

from __future__ import annotations

import pytest

from tests.ranks.survivor import killed, undisturbed

pytestmark = pytest.mark.device


@pytest.mark.slow
def test_a_killed_training_is_resumed_to_the_same_weights(tmp_path):
    found = killed(tmp_path / "killed", 3, seed=3, doings=("collective", "checkpoint", "loading"))
    assert found.finished
    wanted = undisturbed(tmp_path / "undisturbed", dict(found.finished))
    assert all(wanted[way] == weights for way, weights in found.finished)
    assert max(found.ends) < 10
    assert (found.orphans, found.left, found.unnamed) == ([], set(), [])
