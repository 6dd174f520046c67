"""Layers, tensors and optimisers in parts on several ranks."""

from __future__ import annotations

import importlib

import pytest

import clnet
from clnet.errors import DistributedError
from tests.ranks.launch import passed

pytestmark = pytest.mark.device


def test_what_is_divided_computes_what_the_whole_does():
    """Losses within rounding; the same bits eager and compiled, and on every rank."""
    first, second = passed(2, "layouts")
    assert first.removeprefix("rank 0: ") == second.removeprefix("rank 1: ")


def test_stages_compute_what_the_whole_does():
    """Both schedules, eager and compiled, in the same bits; losses of one process."""
    first, second = passed(2, "stages")
    assert first.removeprefix("rank 0: ") == second.removeprefix("rank 1: ")


def test_they_have_pytorchs_names():
    for module, name in (
        ("distributed.tensor", "DTensor"),
        ("distributed.tensor", "Shard"),
        ("distributed.tensor.parallel", "parallelize_module"),
        ("distributed.pipelining", "Schedule1F1B"),
        ("distributed.optim", "ZeroRedundancyOptimizer"),
        ("distributed.device_mesh", "init_device_mesh"),
    ):
        assert callable(getattr(importlib.import_module(f"clnet.{module}"), name))


def test_ranks_are_joined_before_they_are_laid_out():
    with pytest.raises(DistributedError, match=r"Call init_process_group\(\)"):
        clnet.distributed.init_device_mesh("cpu", (1,))
