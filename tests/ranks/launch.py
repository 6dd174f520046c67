"""Programs of this folder, run by several ranks of MPI on this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.children import ending_soon

SECONDS = 120
CHECKOUT = Path(__file__).parents[2]
SOON = {"PYTHONPATH": ending_soon(str(CHECKOUT))}
"""For ranks whose end is not what is asked."""


def mpirun() -> str:
    """The program that starts ranks; the test is skipped without it."""
    if find_spec("mpi4py") is None:
        pytest.skip("mpi4py is not installed: pip install 'clnet[mpi]'")
    beside = Path(sys.executable).with_name("mpirun")
    found = str(beside) if beside.exists() else shutil.which("mpirun")
    if found is None:
        pytest.skip("there is no mpirun: pip install 'clnet[mpi]'")
    return found


def environment(**variables: str) -> dict[str, str]:
    """The environment of ``mpirun``: programs find this checkout, in whatever folder they are."""
    here = {**os.environ, "PYTHONPATH": str(CHECKOUT), "CLNET_BUILD_PROCESSES": "0", **variables}
    # mpi4py looks beside its own Python, which may see MPI in another environment.
    library = Path(mpirun()).parents[1] / "lib" / "libmpi.so.12"
    if library.exists():
        here["MPI4PY_LIBMPI"] = str(library)
    # Open MPI starts nothing as root, in a container or elsewhere, and no more ranks than cores.
    here |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return here | {"OMPI_MCA_rmaps_base_oversubscribe": "1"}


def run(
    ranks: int, *command: str, seconds: int = SECONDS, **variables: str
) -> subprocess.CompletedProcess[str]:
    """What ``mpirun -n ranks python command`` did; a job that hangs is a failure."""
    return subprocess.run(
        [mpirun(), "-n", str(ranks), sys.executable, *command],
        capture_output=True,
        text=True,
        timeout=seconds,
        env=environment(**variables),
        cwd=CHECKOUT,
        check=False,
    )


def passed(
    ranks: int, name: str, *args: str, seconds: int = SECONDS, **environment: str
) -> list[str]:
    """What a program of this folder prints between ``<`` and ``>``, sorted; it ends well.

    What ranks print may come out one within the other's lines.
    """
    done = run(ranks, "-m", f"tests.ranks.{name}", *args, seconds=seconds, **SOON, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(re.findall("<(.*?)>", done.stdout))
