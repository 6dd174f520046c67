"""ci/opencl.sh shows a program exactly the one OpenCL implementation that was asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

OPENCL_SH = Path(__file__).parents[1] / "ci" / "opencl.sh"
LIST_PLATFORMS = (
    "import pyopencl as cl\n"
    "for p in cl.get_platforms(): print(p.version, '|', p.name, '|', len(p.get_devices()))"
)


def opencl_sh(*arguments: str) -> subprocess.CompletedProcess[str]:
    # The script asks the python3 on the PATH what is installed: let it be the one of this test.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        [str(OPENCL_SH), *arguments],
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("implementation", "version", "name", "devices"),
    [
        ("pocl-pip", "PoCL 3.0", "Portable Computing Language", 1),
        ("two-devices", "PoCL 3.0", "Portable Computing Language", 2),
        ("pocl-debian", "PoCL", "Portable Computing Language", 1),
        ("intel", "OpenCL 3.", "Intel(R) OpenCL", 1),
        ("oclgrind", "Oclgrind", "Oclgrind", 1),
        ("rusticl", "OpenCL 3.0", "rusticl", 1),
    ],
)
def test_only_the_chosen_implementation_is_seen(
    implementation: str, version: str, name: str, devices: int
):
    run = opencl_sh(implementation, sys.executable, "-c", LIST_PLATFORMS)
    if run.returncode == 2 and "install it" in run.stderr:
        pytest.skip(run.stderr.strip())
    assert run.returncode == 0, run.stderr
    (line,) = run.stdout.splitlines()
    seen_version, seen_name, seen_devices = line.split(" | ")
    assert version in seen_version
    assert (seen_name, int(seen_devices)) == (name, devices)
    if implementation == "pocl-debian":
        assert "PoCL 3.0-rc2" not in seen_version, "this is PoCL from pip"


def test_an_inner_choice_replaces_an_outer_one():
    run = opencl_sh("two-devices", str(OPENCL_SH), "pocl-pip", sys.executable, "-c", LIST_PLATFORMS)
    if run.returncode == 2 and "install it" in run.stderr:
        pytest.skip(run.stderr.strip())
    assert run.stdout.strip().endswith("| 1")


@pytest.mark.parametrize("arguments", [(), ("pocl-pip",), ("no-such", "true")])
def test_wrong_usage_says_what_is_possible(arguments: tuple[str, ...]):
    run = opencl_sh(*arguments)
    assert run.returncode == 2
    assert "pocl-pip|pocl-debian|intel|oclgrind|rusticl|two-devices" in run.stderr


def test_absent_implementation_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("INTEL_OPENCL_PREFIX", "/nonexistent")
    run = opencl_sh("intel", "true")
    assert run.returncode == 2
    assert "pip install intel-opencl-rt intel-cmplr-lib-rt" in run.stderr
