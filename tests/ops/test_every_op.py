"""An op without a test case fails the test-suite."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

from clnet.ops import PUBLIC_OPS

FOLDER = Path(__file__).parent


def covered(module: ModuleType) -> set[str]:
    """The public ops a test module covers.

    Those of the cases in ``CASES``, and those in ``OTHERWISE_TESTED``: ops whose results cannot be
    compared element by element (random numbers), with the name of the test of each.
    """
    otherwise: dict[str, str] = getattr(module, "OTHERWISE_TESTED", {})
    missing = [test for test in otherwise.values() if not callable(getattr(module, test, None))]
    assert not missing, f"{module.__name__} has no {missing}"
    return {case.op for case in getattr(module, "CASES", [])} | set(otherwise)


def test_every_op_has_a_case():
    stems = [path.stem for path in FOLDER.glob("test_*.py") if path != Path(__file__)]
    modules = [importlib.import_module(f"tests.ops.{stem}") for stem in stems]
    names = set[str]().union(*map(covered, modules))
    assert not (bare := sorted(PUBLIC_OPS.keys() - names)), f"no OpCase for {bare}"
    assert not (unknown := sorted(names - PUBLIC_OPS.keys())), f"OpCase for no public op: {unknown}"
