"""Small cases of kernels: ``python tests/oclgrind_kernels.py FAMILY [FAMILY...] narrow|wide``."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

if __name__ == "__main__":
    # This file's folder gives way to the project's: tests/io and tests/data are no modules of
    # Python's.
    sys.path[0] = str(Path(__file__).parents[1])
    harness = import_module("tests.oclgrind_cases.harness")
    *families, shapes = sys.argv[1:]
    modules = [import_module(f"tests.oclgrind_cases.{family}") for family in families]
    harness.execute(*modules, shapes=shapes)
