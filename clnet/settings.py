"""What the environment said, read once at import; nobody else knows of environment variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_path, user_config_path

from .errors import ArgumentError

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
            name, "is a number of bytes", value=repr(text), remedy="write it as 512M or 8G"
        ) from None


@dataclass(frozen=True)
class Settings:
    """The environment's wishes.

    Attributes:
        device: ``CLNET_DEVICE``, the default device, as :func:`clnet.device` takes it.
        threads: ``CLNET_THREADS``, how many compute units of a CPU to use.
        memory_limit: ``CLNET_MEMORY_LIMIT`` in bytes, a cap on each device's pool.
        build_processes: ``CLNET_BUILD_PROCESSES``, how many processes build a plan's kernels at the
            same time; 0 or 1: this one does.
        workspace_limit: ``CLNET_WORKSPACE_LIMIT`` in bytes, a cap on each queue's workspace.
        cache_dir: ``CLNET_CACHE_DIR``, where compiled kernels and downloads are kept.
        data_dir: ``CLNET_DATA``, where data sets are looked for before the cache.
        tunings_dir: ``CLNET_TUNINGS``, where measured choices of kernels' parameters are kept.
        tune: ``CLNET_TUNE``, whether what no choice was measured for is measured at first use.
        debug: ``CLNET_DEBUG``, whether ops that check their data wait for the answer.
    """

    device: str | None
    threads: int | None
    memory_limit: int | None
    workspace_limit: int | None
    build_processes: int | None
    cache_dir: Path
    data_dir: Path | None
    tunings_dir: Path
    tune: bool
    debug: bool

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

        def text(name: str) -> str | None:
            return environ.get(name) or None

        def size(name: str) -> int | None:
            value = text(name)
            return None if value is None else parse_bytes(value, name)

        def count(name: str, least: int) -> int | None:
            value = text(name)
            if value is None:
                return None
            if not value.isdecimal() or int(value) < least:
                raise ArgumentError(name, f"is a whole number, {least} or more", value=repr(value))
            return int(value)

        cache, data, tunings = map(text, ("CLNET_CACHE_DIR", "CLNET_DATA", "CLNET_TUNINGS"))

        def switch(name: str) -> bool:
            value = text(name)
            if value not in (None, "0", "1"):
                raise ArgumentError(name, "is 0 or 1", value=repr(value))
            return value == "1"

        return Settings(
            device=text("CLNET_DEVICE"),
            threads=count("CLNET_THREADS", 1),
            memory_limit=size("CLNET_MEMORY_LIMIT"),
            workspace_limit=size("CLNET_WORKSPACE_LIMIT"),
            build_processes=count("CLNET_BUILD_PROCESSES", 0),
            cache_dir=user_cache_path("clnet") if cache is None else Path(cache),
            data_dir=None if data is None else Path(data),
            tunings_dir=user_config_path("clnet") / "tunings" if tunings is None else Path(tunings),
            tune=switch("CLNET_TUNE"),
            debug=switch("CLNET_DEBUG"),
        )


# What drivers are told unless the user tells them. PoCL compiles a kernel for its size of group,
# and for any size as well when its binary is wanted. Kernels of clnet run as fast from the second
# (docs/performance.md), which the binary holds: so they are compiled once.
_TOLD = {"POCL_WORK_GROUP_SPECIALIZATION": "0"}
for _name, _value in _TOLD.items():
    os.environ.setdefault(_name, _value)

SETTINGS = Settings.read(os.environ)
