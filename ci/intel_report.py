"""Compiles the kernels that an Intel GPU would run, for GPUs that are not there: bytes spilled.

    python ci/intel_report.py [--devices skl dg2] [--only gemm] [--jobs 2]

The kernels are those of ``ci/amd_report.py``, chosen by the traits of such a GPU (256 items a
group, 64 KiB of local memory, 128 registers an item). ``ocloc`` compiles them without a GPU
(Debian 12: intel-opencl-icd); what it spills stands in the assembly that it leaves. Exit code 1 if
a kernel does not compile or spills.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from amd_report import FAMILIES, chosen

from clnet.device import Launch

DEVICES = ("skl", "dg2")
REGISTERS = 128


def spilled(launch: Launch, device: str) -> int | str:
    """Bytes of a thread that are spilled, or what the compiler said."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "k.cl").write_text(launch.kernel.text(), encoding="utf-8")
        options = ["-options", "-cl-std=CL1.2", "-output", "k", "-out_dir", "out"]
        dumps = {"IGC_ShaderDumpEnable": "1", "IGC_DumpToCustomDir": str(place / "dump")}
        done = subprocess.run(
            ["ocloc", "compile", "-file", "k.cl", "-device", device, *options],
            cwd=place,
            env={**os.environ, **dumps},
            capture_output=True,
            text=True,
        )
        # Where registers were too few it compiles again: the last is the one.
        made = sorted(place.glob("dump/*.asm"), key=lambda path: path.stat().st_mtime_ns)
        if done.returncode or not made:
            return (done.stdout + done.stderr).strip()[-400:] or "nothing came out"
        text = made[-1].read_text(errors="replace")
        return sum(map(int, re.findall(r"\.spill size (\d+)", text)))


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line for each kernel that spills or is refused, and how many there are."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--devices", nargs="+", default=DEVICES)
    parser.add_argument("--only", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(argv)
    launches = chosen(options.only, sizes=(65536,), item_registers=REGISTERS)
    bad = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for device in options.devices:
            found = pool.map(lambda launch, d=device: spilled(launch, d), launches.values())
            for origin, result in zip(launches, found, strict=True):
                if result:
                    bad += 1
                    print(f"{device}: {result} | {origin}", flush=True)
    print(f"{len(launches)} kernels for {len(options.devices)} GPUs, {bad} problems")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
