"""What the environment said, read once at import; nobody else knows of environment variables."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path, user_config_path

from ..errors import ArgumentError
from .cache import private_folder

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def parse_bytes(text: str, name: str) -> int:
    """Bytes from ``"1073741824"``, ``"512M"`` or ``"8G"`` (binary units).

    Args:
        text: a number and an optional unit K, M, G or T.
        name: the variable, for the error.

    Returns:
        The number of bytes.

    Raises:
        ArgumentError: if the text is not of that form.
    """
    cleaned = text.strip().upper().removesuffix("IB").removesuffix("B")
    number, unit = (cleaned[:-1], cleaned[-1]) if cleaned[-1:] in set("KMGT") else (cleaned, "")
    try:
        value = float(number)
        if not 0 <= value < float("inf"):
            raise ValueError
        return int(value * _UNITS[unit])
    except ValueError:
        raise ArgumentError(
            name, "is a number of bytes", value=repr(text), remedy="Write it as 512M or 8G"
        ) from None


LOGS = ("conv",)  # which algorithm each convolution takes

# By which MPICH and Intel's MPI, and Open MPI, tell a process how many there are.
_LAUNCHERS = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")
_NUMBERS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK")
_NUMBERS_HERE = ("MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK")
_LAUNCHERS_HERE = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE")


@dataclass(frozen=True)
class Settings:
    """The environment's wishes.

    Attributes:
        device: ``CLNET_DEVICE``, the default device, as :func:`clnet.device` takes it.
        threads: ``CLNET_THREADS``, how many compute units of a CPU to use; None: all, divided among
            the ranks of this machine.
        simd_width: ``CLNET_SIMD_WIDTH``, how many floats the vectors of CPUs hold in kernels; None:
            as many as the driver compiles for.
        memory_limit: ``CLNET_MEMORY_LIMIT`` in bytes, a cap on each device's pool.
        build_processes: ``CLNET_BUILD_PROCESSES``, how many processes build a plan's kernels at the
            same time; 0 or 1: this one does.
        workspace_limit: ``CLNET_WORKSPACE_LIMIT`` in bytes, a cap on each queue's workspace.
        cache_dir: ``CLNET_CACHE_DIR``, where compiled kernels and downloads are kept.
        data_dir: ``CLNET_DATA``, where data sets are looked for before the cache.
        tunings_dir: ``CLNET_TUNINGS``, where measured choices of kernels' parameters are kept.
        tune: ``CLNET_TUNE``, whether what no choice was measured for is measured at first use.
        poison: ``CLNET_POISON``, whether memory is filled with NaN before it is written, so that a
            kernel that reads what nobody wrote shows; clnet's own tests set it.
        build_warnings: ``CLNET_BUILD_WARNINGS``, whether compilers' warnings are shown.
        guard: ``CLNET_GUARD``, whether kernels are compared with plainer ones at their first use;
            None: on platforms that clnet's tests do not run on.
        log: ``CLNET_LOG``, what is told on the standard error, of :data:`LOGS`.
        debug: ``CLNET_DEBUG``, whether ops that check their data wait for the answer.
        sums: ``CLNET_SUMS``, who adds up what ranks of a machine have, ``"host"`` or ``"device"``;
            None: devices with memory of their own, where they are measured to be faster.
        ranks: how many processes ``mpirun`` started together, as its variables say.
        rank: this one's number among them; None: no ``mpirun`` has started it.
        rank_here: ... among those of this machine.
        torchrun_ranks: how many ``torchrun`` did, or whoever sets ``WORLD_SIZE``.
        ranks_here: how many of them on this machine.
        icd_vendors: ``OCL_ICD_VENDORS``, where OpenCL's loader looks for drivers; for messages.
        pocl_cache: ``POCL_CACHE_DIR``, where PoCL compiles; None: in the user's cache.
    """

    device: str | None
    threads: int | None
    simd_width: int | None
    memory_limit: int | None
    workspace_limit: int | None
    build_processes: int | None
    cache_dir: Path
    data_dir: Path | None
    tunings_dir: Path
    tune: bool
    poison: bool
    debug: bool
    build_warnings: bool = False
    guard: bool | None = None
    sums: str | None = None
    ranks: int = 1
    ranks_here: int = 1
    rank: int | None = None
    rank_here: int | None = None
    torchrun_ranks: int = 1
    log: tuple[str, ...] = ()
    icd_vendors: str | None = None
    pocl_cache: Path | None = None

    @staticmethod
    def read(environ: Mapping[str, str]) -> Settings:
        """The settings a mapping of environment variables asks for.

        Args:
            environ: names to texts.

        Returns:
            The settings.

        Raises:
            ArgumentError: if a variable's text is not of its form.
        """
        given = _Variables(environ)
        cache, tunings = given.folder("CLNET_CACHE_DIR"), given.folder("CLNET_TUNINGS")
        return Settings(
            device=given.text("CLNET_DEVICE"),
            threads=given.count("CLNET_THREADS", 1),
            simd_width=given.width("CLNET_SIMD_WIDTH"),
            memory_limit=given.size("CLNET_MEMORY_LIMIT"),
            workspace_limit=given.size("CLNET_WORKSPACE_LIMIT"),
            build_processes=given.count("CLNET_BUILD_PROCESSES", 0),
            cache_dir=cache or _at_home(user_cache_path("clnet"), "CLNET_CACHE_DIR"),
            data_dir=given.folder("CLNET_DATA"),
            tunings_dir=tunings or _at_home(user_config_path("clnet") / "tunings", "CLNET_TUNINGS"),
            tune=given.switch("CLNET_TUNE"),
            build_warnings=given.switch("CLNET_BUILD_WARNINGS"),
            poison=given.switch("CLNET_POISON"),
            debug=given.switch("CLNET_DEBUG"),
            guard=None if given.text("CLNET_GUARD") is None else given.switch("CLNET_GUARD"),
            sums=_adder(given.text("CLNET_SUMS")),
            log=_logs(given.text("CLNET_LOG") or ""),
            icd_vendors=given.text("OCL_ICD_VENDORS"),
            pocl_cache=given.folder("POCL_CACHE_DIR") or user_cache_path("pocl") / "kcache",
            **_started(given),
            torchrun_ranks=_whole(given.text("WORLD_SIZE")),
        )


class _Variables:
    """Environment variables, by what their texts are of; None for one that is not set, or empty.

    Every method raises an ArgumentError for a text of another form.

    Args:
        environ: names to texts.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def text(self, name: str) -> str | None:
        """As it stands."""
        return self._environ.get(name) or None

    def size(self, name: str) -> int | None:
        """A number of bytes."""
        value = self.text(name)
        return None if value is None else parse_bytes(value, name)

    def count(self, name: str, least: int) -> int | None:
        """A whole number."""
        value = self.text(name)
        if value is None:
            return None
        if not value.isdecimal() or int(value) < least:
            raise ArgumentError(name, f"is a whole number, {least} or more", value=repr(value))
        return int(value)

    def width(self, name: str) -> int | None:
        """A number of lanes that OpenCL C has vectors of."""
        value = self.text(name)
        if value not in (None, "1", "2", "4", "8", "16"):
            raise ArgumentError(name, "is 1, 2, 4, 8 or 16", value=repr(value))
        return None if value is None else int(value)

    def folder(self, name: str) -> Path | None:
        """An absolute path: the process may change its folder."""
        value = self.text(name)
        try:
            return None if value is None else Path(value).expanduser().absolute()
        except RuntimeError as error:
            raise ArgumentError(name, "there is no such home folder", value=value) from error

    def switch(self, name: str) -> bool:
        """Whether it is on; off if it is not set."""
        value = self.text(name)
        if value not in (None, "0", "1"):
            raise ArgumentError(name, "is 0 or 1", value=repr(value))
        return value == "1"

    def first(self, names: Iterable[str], least: int) -> int | None:
        """The whole number that the first says of these that are set."""
        return next((n for name in names if (n := self.count(name, least)) is not None), None)


def _started(given: _Variables) -> dict[str, Any]:
    """What ``mpirun`` told this process."""
    return {
        "ranks": given.first(_LAUNCHERS, 1) or 1,
        "ranks_here": given.first(_LAUNCHERS_HERE, 1) or 1,
        "rank": given.first(_NUMBERS, 0),
        "rank_here": given.first(_NUMBERS_HERE, 0),
    }


def _whole(text: str | None) -> int:
    """A number that others write; 1: there is none."""
    return int(text) if text is not None and text.isdecimal() else 1


def _adder(text: str | None) -> str | None:
    if text not in (None, "host", "device"):
        raise ArgumentError("CLNET_SUMS", "is host or device", value=repr(text))
    return text


def _logs(text: str) -> tuple[str, ...]:
    wanted = tuple(part.strip() for part in text.split(",") if part.strip())
    if not set(wanted) <= set(LOGS):
        law = f"is of {', '.join(LOGS)}, with commas between"
        raise ArgumentError("CLNET_LOG", law, value=repr(text))
    return wanted


def _at_home(folder: Path, variable: str) -> Path:
    """A folder in the user's home; a user without a home ("~" stays "~") has a private one."""
    if folder.is_absolute():
        return folder
    private = private_folder()
    warnings.warn(
        f"{variable}: there is no home folder; {private} is used instead", RuntimeWarning, 2
    )
    return private / folder.name


# What drivers are told unless the user tells them. PoCL compiles a kernel for its size of group,
# and for any size as well when its binary is wanted. Kernels of clnet run as fast from the second
# (docs/performance.md), which the binary holds: so they are compiled once.
_TOLD = {"POCL_WORK_GROUP_SPECIALIZATION": "0"}
for _name, _value in _TOLD.items():
    os.environ.setdefault(_name, _value)


def _spare_pyopencl() -> None:
    """Pyopencl keeps no files where it cannot: without a folder to write it makes no kernel.

    It asks the environment when it is imported, and again in every process that builds.
    """
    folder = user_cache_path("pytools", "pytools")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        writable = False
    else:
        writable = os.access(folder, os.W_OK)
    if not writable:
        os.environ["PYOPENCL_NO_CACHE"] = "1"


def inherited() -> dict[str, str]:
    """What a process that is started now inherits; who starts it may change this copy."""
    return dict(os.environ)


def environment() -> dict[Any, Any]:
    """The environment, to compare it with a later one; as bytes, since decoding takes 100 us."""
    return dict(vars(os.environ).get("_data", os.environ))


def provide(variables: Mapping[str, str]) -> None:
    """Set variables that programs look for, where nobody has.

    Args:
        variables: names to texts.
    """
    for name, value in variables.items():
        os.environ.setdefault(name, value)


SETTINGS = Settings.read(os.environ)
_spare_pyopencl()
