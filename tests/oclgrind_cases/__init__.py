"""Small cases of every kernel, for a run under Oclgrind: one module per family of kernels.

``python tests/oclgrind_kernels.py FAMILY narrow`` runs one on whatever device there is; under
Oclgrind, tests/test_oclgrind_kernels.py runs them all. Each case checks its numbers as well: a
kernel that computes the wrong elements need not touch any memory that it may not.
"""

from __future__ import annotations

from pathlib import Path

FAMILIES = tuple(sorted(path.stem for path in Path(__file__).parent.glob("*_cases.py")))
