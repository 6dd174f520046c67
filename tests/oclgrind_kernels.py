"""Small cases of one family of kernels: ``python tests/oclgrind_kernels.py FAMILY narrow|wide``."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

if __name__ == "__main__":
    # This file's folder gives way to the project's: tests/io and tests/data are no modules of
    # Python's.
    sys.path[0] = str(Path(__file__).parents[1])
    harness = import_module("tests.oclgrind_cases.harness")
    harness.execute(import_module(f"tests.oclgrind_cases.{sys.argv[1]}"), sys.argv[2])
