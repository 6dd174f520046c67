"""The wheel, installed outside the checkout, holds all of the package and runs the README."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.documents import python_blocks

pytestmark = pytest.mark.slow

CHECKOUT = Path(__file__).parents[1]


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command that sees nothing of the checkout, and return what it prints."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    pytest.importorskip("hatchling", reason="the dev extra installs what builds the wheel")
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet"]
    run(*pip, "--wheel-dir", folder, CHECKOUT, cwd=folder)
    (built,) = folder.glob("clnet-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The Python of a new environment that holds this wheel.

    Its dependencies are those of the running environment, found through a .pth file, so that
    nothing is downloaded. A .pth file that lies in a folder added this way is not read: that is
    what keeps an editable clnet of the running environment out.
    """
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--no-deps",
        "--quiet",
    ]
    run(*install, wheel, cwd=folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    here = sysconfig.get_paths()
    (packages / "dependencies.pth").write_text(f"{here['purelib']}\n{here['platlib']}\n")
    return python


def test_wheel_holds_the_whole_package(wheel):
    package = CHECKOUT / "clnet"
    there = {
        path.relative_to(CHECKOUT).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("clnet/")}
    assert packed == there
    assert "clnet/py.typed" in packed


def test_wheel_keeps_the_linker_executable(wheel):
    entries = zipfile.ZipFile(wheel).infolist()
    (linker,) = (each for each in entries if each.filename.startswith("clnet/device/linker/"))
    assert linker.external_attr >> 16 & 0o111 == 0o111


def test_import_comes_from_the_wheel(installed, tmp_path):
    file = run(installed, "-c", "import clnet; print(clnet.__file__)", cwd=tmp_path).strip()
    assert Path(file).is_relative_to(installed.parents[1])


@pytest.mark.device
def test_first_block_of_the_readme_runs(installed, tmp_path):
    blocks = python_blocks(CHECKOUT / "README.md")
    if not blocks:
        pytest.skip("the README has no Python block yet")
    (tmp_path / "block.py").write_text(blocks[0], encoding="utf-8")
    run(installed, "block.py", cwd=tmp_path)
