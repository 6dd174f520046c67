"""Programs that say ``import torch``, run by ``python -m clnet.torch_compat``: as with PyTorch."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from tests.answers import torch

scripts = importlib.import_module("ci.scripts")
pytestmark = pytest.mark.device


def test_a_program_gives_pytorchs_losses():
    assert torch.nn  # skipped where it is not installed
    verdict, count, most, why = scripts.compare(scripts.SCRIPTS / "gcn.py")
    assert (verdict, why) == ("right", ""), most
    assert count >= 4


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("import torch; print('loss', 1.0 if 'clnet' in repr(torch.Tensor) else 1.1)", "wrong"),
        ("import torch; print('loss 1') if 'clnet' in repr(torch.Tensor) else print('-')", "wrong"),
        ("import torch; print('loss 1'); torch.no_such_name_2", "fails"),
    ],
    ids=["another number", "no number", "an error"],
)
def test_what_differs_is_told(tmp_path, text, verdict):
    assert torch.nn
    script = tmp_path / "planted.py"
    script.write_text(text)
    assert scripts.compare(script)[0] == verdict


def test_losses_are_found():
    assert scripts.losses("step 0 loss 1.5 test loss -2e-3\nloss nan")[:2] == [1.5, -0.002]


def test_every_script_stands_on_the_page():
    page = scripts.PAGE.read_text()
    found = sorted(scripts.SCRIPTS.glob("*.py"))
    assert len(found) >= 20
    for script in found:
        assert f"| {script.stem} | {scripts.title(script)} |" in page


def test_a_program_is_named():
    done = subprocess.run(
        [sys.executable, "-m", "clnet.torch_compat"], capture_output=True, text=True
    )
    assert done.returncode
    assert "python -m clnet.torch_compat [--cuda DEVICE] SCRIPT" in done.stderr
