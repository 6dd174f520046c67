"""What pytest says at the end: where it ran, how to go on, and which tests asked PyTorch."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import clnet
from clnet.errors import ClnetError
from clnet.values.settings import SETTINGS

ASKED = "CLNET_TESTS_ASKED_PYTORCH"
"""The environment variable that names the file for tests that were skipped for want of PyTorch."""


def asked_pytorch(report: Any) -> bool:
    """Whether a test, or a module, was skipped because PyTorch is not installed."""
    if not report.skipped or not isinstance(report.longrepr, tuple):
        return False
    return re.search("torch", str(report.longrepr[-1]), re.IGNORECASE) is not None


def where() -> str:
    """The device that tests run on, in one line."""
    try:
        device = clnet.device()
    except ClnetError as error:
        return f"device: {error}"
    identity = device.identity
    poison = "on" if SETTINGS.poison else "off"
    return (
        f"device {device.name}: {identity.name}; {identity.platform_version or identity.platform}, "
        f"driver {identity.driver}; vectors of {device.traits.simd_width} floats, "
        f"{device.traits.compute_units} units; poison {poison}"
    )


def again(failed: Sequence[str]) -> list[str]:
    """How to run what failed again, by the names of tests."""
    if not failed:
        return []
    return [
        "",
        f"""again, this one alone:  make test ARGS="-n 0 '{failed[0]}'\"""",
        'again, all that failed: make test ARGS="--lf"   (CLNET_POISON=0 leaves the poison out)',
        "A report to the authors needs the lines above, from the device on.",
    ]


class Skipped:
    """A pytest plugin that keeps the names of tests that asked PyTorch in vain.

    Args:
        path: of the file, one name a line, as ``pytest @file`` reads it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names: list[str] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        """A test was skipped, perhaps."""
        self._note(report)

    def pytest_collectreport(self, report: Any) -> None:
        """A module was skipped, perhaps."""
        self._note(report)

    def pytest_sessionfinish(self) -> None:
        """Write them down."""
        self._path.write_text("".join(f"{n}\n" for n in dict.fromkeys(self._names)), "utf-8")

    def _note(self, report: Any) -> None:
        if asked_pytorch(report):
            self._names.append(report.nodeid)


def pytest_configure(config: Any) -> None:
    """Keep the names where that is asked for; workers of xdist tell their controller."""
    path = os.environ.get(ASKED)
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Skipped(Path(path)))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The closing lines."""
    stats = terminalreporter.stats
    failed = [r.nodeid for kind in ("failed", "error") for r in stats.get(kind, ())]
    for line in (where(), *again(failed)):
        terminalreporter.write_line(line)
