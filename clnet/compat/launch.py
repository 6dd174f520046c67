"""Several processes of one program, as PyTorch's programs expect to be started: by ``mpirun``."""

from __future__ import annotations

import io
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from ..values.settings import SETTINGS, inherited, provide

__all__ = ["environment", "mpirun", "print_lines", "tell_ranks", "variables"]


def mpirun() -> str | None:
    """The program that starts ranks: what mpi4py's MPI brought, or the first of the path.

    None: there is none, mpi4py is not installed, or this process is a rank itself.
    """
    if find_spec("mpi4py") is None or SETTINGS.rank is not None:
        return None
    beside = Path(sys.executable).with_name("mpirun")
    return str(beside) if beside.exists() else shutil.which("mpirun")


def environment() -> dict[str, str]:
    """What ``mpirun`` inherits where a program starts it, which asks for nothing of MPI's.

    Open MPI starts nothing as root, in a container or elsewhere, and no more ranks than cores.
    """
    willing = {f"{name}_ALLOW_RUN_AS_ROOT": "1" for name in ("OMPI", "PRTE")}
    willing |= {f"{name}_CONFIRM": "1" for name in willing}
    willing["OMPI_MCA_rmaps_base_oversubscribe"] = "1"
    willing["PRTE_MCA_rmaps_default_mapping_policy"] = ":oversubscribe"
    return willing | inherited()


def variables() -> dict[str, str]:
    """What ``torchrun`` sets for a process: here of what ``mpirun`` started, or of one alone."""
    numbers = {
        "RANK": SETTINGS.rank or 0,
        "LOCAL_RANK": SETTINGS.rank_here or 0,
        "WORLD_SIZE": SETTINGS.ranks,
        "LOCAL_WORLD_SIZE": SETTINGS.ranks_here,
        "MASTER_PORT": 29500,  # nobody listens there: programs hand it on
    }
    return {name: str(number) for name, number in numbers.items()} | {"MASTER_ADDR": "127.0.0.1"}


def tell_ranks() -> None:
    """Set the variables that ``torchrun`` sets, where ``mpirun`` has started this process.

    A program that knows by them whether it is one of several would else train alone in each.
    """
    if SETTINGS.rank is not None:
        provide(variables())
        print_lines()


def print_lines() -> None:
    """Let lines be seen as they are printed, each in one piece: ``mpirun`` reads from a pipe."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True, write_through=False)
