"""Run a Python script under Oclgrind and list what it finds wrong with the OpenCL kernels.

Oclgrind simulates an OpenCL device: every work-item of every kernel, every access to memory.
This runner turns on its checks of memory bounds, data races, diverging barriers and uninitialised
values. In a shell: ``python -m tests.oclgrind SCRIPT [ARGUMENTS...]``; the exit status is 1 if
there are findings or the script fails.

What to know when writing a script for it: about 300,000 simple operations per second, so keep
shapes tiny; OpenCL C 1.2 without half arithmetic (vload_half and vstore_half work), sub-groups
or work-group functions; 32 KB of local memory; work-groups of at most 1024.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

# -cl-opt-disable, because optimised code has lost the very accesses that are wrong: a read of an
# uninitialised private variable, or an out-of-bounds store to local memory that nobody reads.
# In one thread: several take a tenth more of the cores, which other tests want, too.
OPTIONS = ("--data-races", "--build-options", "-cl-opt-disable", "--num-threads", "1")

# Oclgrind counts every occurrence and stops reporting here: high enough for all kinds to be seen.
MAX_ERRORS = 100_000

# What an outer run chose for itself: another OpenCL loader, another device.
FOREIGN_VARIABLES = ("LD_PRELOAD", "OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "CLNET_DEVICE")


class Finding(NamedTuple):
    """One kind of mistake at one place.

    Attributes:
        message: Oclgrind's first line, without the address.
        kernel: the kernel's name, or an empty text.
        place: file, line and source text, or an empty text.
        times: how often it was met (work-items, loop turns).
    """

    message: str
    kernel: str
    place: str
    times: int

    def __str__(self) -> str:
        where = f" in kernel {self.kernel}" if self.kernel else ""
        return f"{self.message}{where}, {self.times} times\n    {self.place}"


class Report(NamedTuple):
    """The outcome of one run.

    Attributes:
        findings: what Oclgrind found, in the order of first sight.
        returncode: the script's exit status; Oclgrind's findings do not change it.
        output: what the script printed, both streams.
    """

    findings: tuple[Finding, ...]
    returncode: int
    output: str


def available() -> bool:
    """Whether Oclgrind is installed."""
    return shutil.which("oclgrind") is not None


def parse(log: str) -> tuple[Finding, ...]:
    """The findings in an Oclgrind log, equal ones counted.

    An entry is one or more lines at the margin (the message), then indented details.

    Args:
        log: the file that ``oclgrind --log`` wrote.

    Returns:
        The findings.
    """
    counts: Counter[tuple[str, str, str]] = Counter()
    for entry in re.findall(r"((?:^\S.*\n)+)((?:^[ \t].*\n)*)", log + "\n", re.MULTILINE):
        message, details = (part.strip() for part in entry)
        message = re.sub(
            r" (at|to|from) (\S+ )*memory address 0x[0-9a-f]+", r" \1 \2memory", message
        )
        kernel = re.search(r"Kernel:\s*(\S+)", details)
        place = re.search(r"At line (\d+).* of (.*):\n\s*(.*)", details)
        where = f"{place[2]}:{place[1]}: {place[3].strip()}" if place else ""
        counts[" ".join(message.split()), kernel[1] if kernel else "", where] += 1
    return tuple(Finding(*key, times) for key, times in counts.items())


def check(
    script: str | Path,
    *arguments: str,
    options: Sequence[str] = (),
    uninitialized: bool = True,
    timeout: float = 600,
) -> Report:
    """Run a Python script under Oclgrind with its checks.

    The script sees one platform, the simulator, and empty caches: a program from a cache could
    be one that was built without the checks' options. A child process that computes must have a
    log of its own, beside the script's (``OCLGRIND_LOG`` and something behind it).

    Args:
        script: the Python file.
        arguments: its arguments.
        options: further options of Oclgrind, as ``--uniform-writes``.
        uninitialized: with the check for uninitialised values, too.
        timeout: seconds after which the run is killed.

    Returns:
        The findings, the exit status and the output.

    Raises:
        subprocess.TimeoutExpired: if it takes longer.
    """
    with tempfile.TemporaryDirectory(prefix="oclgrind-") as folder:
        log = Path(folder, "log")
        environment = {k: v for k, v in os.environ.items() if k not in FOREIGN_VARIABLES}
        environment |= {"CLNET_CACHE_DIR": str(Path(folder, "cache")), "PYOPENCL_NO_CACHE": "1"}
        # It finds what nobody wrote by itself, and takes what is filled for unwritten.
        environment["CLNET_POISON"] = "0"
        checks = [*OPTIONS, "--max-errors", str(MAX_ERRORS), "--log", str(log), *options]
        if uninitialized:
            checks.append("--uninitialized")
        run = subprocess.run(
            ["oclgrind", *checks, sys.executable, str(script), *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )
        logs = "\n".join(path.read_text() for path in sorted(Path(folder).glob("log*")))
        return Report(parse(logs), run.returncode, run.stdout)


def main(arguments: Sequence[str]) -> int:
    """Check one script and print the findings.

    Args:
        arguments: the script and its arguments.

    Returns:
        0 if the script succeeded without findings, 1 otherwise.
    """
    if not arguments:
        sys.exit("usage: python -m tests.oclgrind SCRIPT [ARGUMENTS...]")
    if not available():
        sys.exit("no oclgrind; install it: ci/install-opencl.sh oclgrind")
    report = check(*arguments)
    print(report.output, end="")
    print(*report.findings, f"{len(report.findings)} findings", sep="\n")
    if report.returncode:
        print(f"the script failed with exit status {report.returncode}")
    return int(bool(report.findings or report.returncode))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
