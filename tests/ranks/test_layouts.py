"""Layers, tensors and optimisers in parts on several ranks."""

from __future__ import annotations

import importlib

import pytest

import clnet
from clnet.errors import DistributedError
from tests.ranks.launch import passed
from tests.ranks.sharded import Net

pytestmark = pytest.mark.device


def test_what_is_divided_computes_what_the_whole_does():
    """Losses within rounding; the same bits eager and compiled, and on every rank."""
    first, second = passed(2, "layouts")
    assert first.removeprefix("rank 0: ") == second.removeprefix("rank 1: ")


def test_parameters_in_parts_train_as_copies_do(tmp_path):
    """Eager and compiled in the same bits, freed between, and within rounding of copies."""
    first, second = passed(2, "sharded", str(tmp_path))
    assert first.removeprefix("rank 0: ") == second.removeprefix("rank 1: ")
    state = {"model": Net().state_dict(), "epoch": 0}
    clnet.distributed.checkpoint.load(state, checkpoint_id=tmp_path / "a")  # by one process
    clnet.distributed.checkpoint.format_utils.dcp_to_torch_save(tmp_path / "a", tmp_path / "one")
    whole = clnet.load(tmp_path / "one")
    assert state["epoch"] == whole["epoch"] == 3
    for name, value in state["model"].items():
        assert value.tolist() == whole[f"model.{name}"].tolist()


def test_stages_compute_what_the_whole_does():
    """Both schedules, eager and compiled, in the same bits; losses of one process."""
    first, second = passed(2, "stages")
    assert first.removeprefix("rank 0: ") == second.removeprefix("rank 1: ")


@pytest.mark.parametrize(
    "network",
    [
        "CNN",
        *(
            pytest.param(n, marks=pytest.mark.slow)
            for n in ("shallow LSTM", "shallow GPT", "shallow ResNet")
        ),
    ],
)
def test_every_way_agrees_with_one_process(network):
    """As in the table of docs/notes/processes.md: losses within rounding, bits of reruns the same.

    What is shallow here has two blocks of four or six, or one of a layer's three; its reruns are
    one, compiled.
    """
    (told,) = passed(2, "agreement", network, seconds=540, CLNET_THREADS="1")
    ways = dict(part.split() for part in told.partition(": ")[2].split(", "))
    absent = {way for way, off in ways.items() if off == "-"}
    assert absent == (set() if network in ("CNN", "shallow ResNet") else {"filter", "channel"})
    assert len(ways) == 8


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
