"""Data parallel training in several processes."""

from __future__ import annotations

import pytest

from clnet import nn
from clnet.errors import DistributedError
from tests.ranks.launch import passed

pytestmark = pytest.mark.device


def test_training_on_ranks_is_training_on_one(tmp_path):
    first, second = passed(2, "training", str(tmp_path))
    assert first.removeprefix("rank 0: ") == second.removeprefix("rank 1: ")


def test_processes_are_joined_before_a_model_is_wrapped():
    with pytest.raises(DistributedError, match=r"Call init_process_group\(\)"):
        nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
