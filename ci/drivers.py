"""The table of drivers in docs/guide/install.md, from what the doctor wrote of each.

``ci/opencl.sh rusticl clnet doctor --json rusticl.json``, on every implementation at hand, then
``python ci/drivers.py *.json``.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from clnet.doctor import Report, read


def row(report: Report) -> str:
    """A driver's line."""
    traits, wrong = report.traits, len(report.failed) + len(report.complaints)
    right = f"{len(report.outcomes) - wrong} of {len(report.outcomes) + len(report.not_asked)}"
    lacks = [
        name
        for name, there in (
            ("float64", traits["float64"]),
            ("float16", traits["float16"]),
            ("matrix units", traits["matrix_units"]),
        )
        if not there
    ]
    cells = (
        report.device,
        report.identity["name"],
        report.identity["driver"],
        f"{traits['compute_units']}, {traits['simd_width']}",
        right,
        ", ".join(lacks) or "-",
    )
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Print the table."""
    print("| name | device | driver | units, vectors | right | without |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in sys.argv[1:]:
        print(row(read(Path(name))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
