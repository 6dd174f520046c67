"""Programs written for PyTorch, run by its processes or by clnet's: what they print."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.ranks.launch import SOON, environment, mpirun

_SECONDS = 400
_FOLDER = Path(__file__).parent


def clnets(program: str, ranks: int) -> dict[str, Any]:
    """What a program of this folder prints as JSON between ``<<`` and ``>>``."""
    mpirun()
    return _printed(program, "clnet.torchrun", "--nproc-per-node", str(ranks))


def pytorchs(program: str, ranks: int) -> dict[str, Any]:
    """The same by PyTorch's processes; the test is skipped where PyTorch is not installed."""
    pytest.importorskip("torch", reason="the answers are PyTorch's")
    command = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    return _printed(program, *command)


def _printed(program: str, *command: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", *command, str(_FOLDER / program)],
        capture_output=True,
        text=True,
        env=environment(**SOON),
        timeout=_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (told,) = re.findall("<<(.*)>>", done.stdout)
    return json.loads(told)


def near(found: Any, wanted: Any) -> bool:
    """Whether numbers, in lists, are the same within rounding."""
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(near, found, wanted))
    return found == wanted or math.isclose(found, wanted, rel_tol=1e-4, abs_tol=1e-5)
