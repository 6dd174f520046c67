"""The tutorial's kernels on images of few pixels: ``python tests/oclgrind_own_kernel.py``."""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parents[1]
sys.path.insert(0, str(CHECKOUT))
# A child that compiles would write over Oclgrind's log; what a first use compares takes minutes.
os.environ |= {"CLNET_BUILD_PROCESSES": "0", "CLNET_GUARD": "0"}
TUTORIAL = CHECKOUT / "docs" / "tutorials" / "own_kernel.py"


def kernels(source: str) -> dict[str, Any]:
    """What a tutorial defines before it draws its numbers."""
    tree = ast.parse(source)
    ends = [n for n, node in enumerate(tree.body) if isinstance(node, ast.Expr)]
    namespace: dict[str, Any] = {}
    first = ast.Module(tree.body[: ends[0]], type_ignores=[])
    exec(compile(first, "own_kernel", "exec"), namespace)
    return namespace


def main() -> None:
    """Both kernels: results are numpy's; the last items of rows and columns move back."""
    import numpy as np  # noqa: PLC0415 - after the environment

    import clnet  # noqa: PLC0415

    found = kernels(TUTORIAL.read_text(encoding="utf-8"))
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 2, 6, 12), np.float32)
    w = rng.standard_normal((2, 2, 3, 3), np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    expected = np.einsum("nchwrs,ocrs->nohw", windows, w)
    for call in (found["plain"], found["tuned"](2, 3, window=3)):
        result = call(clnet.tensor(x), clnet.tensor(w)).numpy()
        np.testing.assert_allclose(result, expected, atol=1e-4)
    print("right")


if __name__ == "__main__":
    main()
