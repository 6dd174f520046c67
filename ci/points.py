#!/usr/bin/env python3
"""Compare every pointwise op, activation and loss with PyTorch where numbers are odd.

    python ci/points.py [--record] [--page] [--compiled] [OP ...]

Prints ops, points, differences and those that nothing explains; gives 1 if there is one.
``--record`` asks PyTorch for its answers anew; ``--page`` writes docs/special_points.md.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import clnet
from tests.points.answers import DTYPES, Answers, key, write
from tests.points.calls import UNSWEPT, points
from tests.points.check import check, kept
from tests.points.differences import DIFFERENCES
from tests.points.sweep import run
from tests.torchcase import without_onednn

PAGE = Path(__file__).parents[1] / "docs" / "special_points.md"
HEAD = """# Special points

Written by `python ci/points.py --page`. The test-suite calls every pointwise op, activation and
loss at 0, -0, 1, -1, its kinks, ties, in saturation, at the ends of the number line, at infinities
and NaN, and compares the result, its gradients and their gradients with PyTorch's
(`tests/points`; ops are found in the registry, so that a new one is swept, too).

NaN and infinities must be PyTorch's; finite numbers agree to 64 units in the last place or a few
roundings of 1; a result's zeros have PyTorch's sign. A gradient's zeros may have either: it follows
from the order of its factors. Second derivatives are compared at finite operands.

## What stays different

Calls, and of what (`y` is a result, `da` a gradient, `dab` a second one), as regular expressions:

"""
MIDDLE = """
## What is not swept

"""


def page() -> str:
    """The page's text."""
    rows = [entry(f"`{d.calls}`, `{d.quantities}`: {d.reason}.") for d in DIFFERENCES]
    reasons = [entry(f"`{op}`: {why}.") for op, why in sorted(UNSWEPT.items())]
    return HEAD + "\n".join(rows) + "\n" + MIDDLE + "\n".join(reasons) + "\n"


def entry(text: str) -> str:
    """An entry of a list, in lines of a page's width."""
    return textwrap.fill(
        f"- {text}", 118, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def record() -> None:
    """Write PyTorch's answers."""
    import torch  # noqa: PLC0415 - only here

    with without_onednn(torch):
        found: Answers = {
            key(point, dtype): run(torch, point, dtype)
            for point in points()
            for dtype in DTYPES
            if kept(point, dtype)
        }
    write(found, f"PyTorch {torch.__version__}")


def main() -> int:
    """Sweep, and print the sums."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--record", action="store_true", help="ask PyTorch for its answers")
    parser.add_argument("--page", action="store_true", help="write the page, sweep nothing")
    parser.add_argument("--compiled", action="store_true", help="compile each call")
    parser.add_argument("--without", nargs="*", default=(), help="ops to leave out")
    parser.add_argument("ops", nargs="*", help="only these ops")
    given = parser.parse_args()
    if given.record:
        record()
    if given.page:
        PAGE.write_text(page(), encoding="utf-8")
    if given.record or given.page:
        return 0
    ops, count, different, unlisted = set[str](), 0, 0, 0
    for point in points():
        if (given.ops and point.op not in given.ops) or point.op in given.without:
            continue
        for dtype in DTYPES[:1] if given.compiled else DTYPES:
            if kept(point, dtype):
                found = check(point, dtype, clnet.device(), compiled=given.compiled)
                ops.add(point.op)
                count, different = count + found.points, different + found.different
                unlisted += len(found.unlisted)
                for line in found.unlisted:
                    print(f"{point.text} {dtype} {line}", flush=True)
    print(f"{len(ops)} ops, {count:,} points, {different:,} differences, {unlisted} unlisted")
    return int(unlisted > 0)


if __name__ == "__main__":
    sys.exit(main())
