"""What ``import clnet`` brings at once, and what it brings when it is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest


def told(script: str) -> str:
    """What a fresh process prints."""
    run = [sys.executable, "-c", f"import clnet, sys\n{script}"]
    return subprocess.run(run, capture_output=True, text=True, check=True).stdout


def test_importing_clnet_leaves_out_what_a_step_does_without():
    later = ("mako", "tqdm", "clnet.train", "clnet.data", "clnet.io", "clnet.models")
    assert told(f"print([m for m in {later} if m in sys.modules])") == "[]\n"


@pytest.mark.parametrize("name", ["plan", "train", "data", "io"])
def test_what_was_left_out_is_there_when_asked_for(name):
    assert told(f"clnet.{name}\nprint(clnet.{name} is vars(clnet)[{name!r}])") == "True\n"


def test_what_is_not_there_is_an_error():
    script = "try: clnet.nothing\nexcept AttributeError as error: print(error)"
    assert told(script) == "module 'clnet' has no attribute 'nothing'\n"
