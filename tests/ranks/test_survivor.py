"""A rank that is killed while it trains; ``python ci/survival.py ranks`` does it at length."""

from __future__ import annotations

import pytest

from tests.ranks.survivor import killed, undisturbed

pytestmark = pytest.mark.device


@pytest.mark.slow
def test_a_killed_training_is_resumed_to_the_same_weights(tmp_path):
    found = killed(tmp_path / "killed", 2, seed=1)
    assert set(found.finished) == {undisturbed(tmp_path / "undisturbed")}
    assert max(found.ends) < 10
    assert (found.orphans, found.left) == ([], set())
