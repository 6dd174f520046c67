"""Processes of tests that end soon."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.children import ending_soon

# Whether the last search for garbage finds a circle that was there to the end.
PROGRAM = """
import importlib.util
class Circle:
    def __del__(self, told=print):
        told("found")
circle = Circle()
circle.own = circle
print(importlib.util.find_spec("clnet") is not None)
"""


@pytest.mark.parametrize("soon", [False, True])
def test_a_process_that_ends_soon_looks_for_no_garbage(soon):
    path = ending_soon() if soon else os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["True", *(["found"] * (not soon))]
