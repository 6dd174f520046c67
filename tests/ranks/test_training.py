"""Data parallel training in several processes."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from clnet import nn
from clnet.cli import main
from clnet.errors import DistributedError
from clnet.io import load_checkpoint
from tests.ranks.launch import CHECKOUT, passed, run

pytestmark = pytest.mark.device


def test_training_on_ranks_is_training_on_one(tmp_path):
    first, second = passed(2, "training", str(tmp_path))
    assert first.removeprefix("rank 0: ") == second.removeprefix("rank 1: ")


def test_processes_are_joined_before_a_model_is_wrapped():
    with pytest.raises(DistributedError, match=r"Call init_process_group\(\)"):
        nn.parallel.DistributedDataParallel(nn.Linear(1, 1))


def test_the_command_trains_in_processes_and_goes_on_in_one(tmp_path, capsys):
    """Losses are those of one process, which continues from the checkpoint of two."""
    common = ("train", "digits", "--model", "mlp", "--batch-size", "300", "--schedule", "constant")
    spread, alone = ("--checkpoint", str(tmp_path / "a")), ("--checkpoint", str(tmp_path / "b"))
    done = run(2, "-m", "clnet", *common, *spread, "--epochs", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("test accuracy") == 1
    assert "2 processes" in done.stdout
    assert main([*common, *spread, "--epochs", "2", "--resume"]) == 0
    assert main([*common, *alone, "--epochs", "2"]) == 0
    capsys.readouterr()
    states: list[Any] = [load_checkpoint(tmp_path / f / "last.safetensors") for f in "ab"]
    np.testing.assert_allclose(*(s["history"]["losses"] for s in states), rtol=1e-3)


def test_the_command_refuses_what_does_not_fit(capsys):
    assert main(["train", "digits", "--devices", "pocl:0,pocl:1", "--threads", "1"]) == 1
    assert "--devices goes without --device" in capsys.readouterr().err


def test_the_command_spreads_batches_over_devices():
    """Two devices of PoCL's, in a process of its own."""
    command = ("train", "digits", "--model", "mlp", "--epochs", "1", "--batch-size", "300")
    done = subprocess.run(
        [sys.executable, "-m", "clnet", *command, "--devices", "pocl:0,pocl:1"],
        capture_output=True,
        text=True,
        env={**os.environ, "POCL_DEVICES": "pthread pthread", "PYTHONPATH": str(CHECKOUT)},
        check=False,
    )
    if "not found" in done.stderr:
        pytest.skip("PoCL shows one device here")
    assert done.returncode == 0, done.stderr
    assert "test accuracy 0." in done.stdout
    assert "on pocl:0,pocl:1" in done.stdout
