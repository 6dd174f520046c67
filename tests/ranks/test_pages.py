"""Blocks of pages that need a process of their own, called ``py``, run as they are printed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.documents import python_blocks
from tests.ranks.launch import CHECKOUT, SOON, run

pytestmark = pytest.mark.device
GUIDE = CHECKOUT / "docs" / "guide" / "several-devices.md"
README = CHECKOUT / "README.md"


def blocks(page: Path) -> str:
    """A page's blocks as one program."""
    return "\n".join(python_blocks(page, "py"))


def test_the_guide_to_several_processes_runs_with_two(tmp_path):
    script = tmp_path / "page.py"
    folder = f"folder = {str(tmp_path / 'checkpoint')!r}\n"
    script.write_text(folder + blocks(GUIDE), encoding="utf-8")
    done = run(2, str(script), **SOON)
    assert done.returncode == 0, done.stdout + done.stderr


def test_clnet_takes_the_place_of_torch_as_the_readme_says(tmp_path):
    script = tmp_path / "page.py"
    text = blocks(README) + "\nimport torch\nprint(type(torch.ones(2)).__module__)\n"
    script.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, cwd=CHECKOUT
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "clnet.tensor"


def test_no_other_page_has_such_blocks():
    pages = [README, *(CHECKOUT / "docs").rglob("*.md")]
    assert {page for page in pages if python_blocks(page, "py")} == {GUIDE, README}
