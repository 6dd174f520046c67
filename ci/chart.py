"""The picture in README.md, of the figures in docs/performance.md: ``python ci/chart.py``.

A training step's speed beside PyTorch's default, on two cores and on an H200, network by network.
It writes docs/steps.svg.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "steps.svg"
_ROW = re.compile(
    r"^([\w&. -]+?) +2 cores .* ([\d.]+)\n.* 16 cores .* [\d.]+\n.* H200 .* ([\d.]+)$", re.MULTILINE
)
_COLOURS = ("#4c78a8", "#f58518")


def figures(page: str) -> dict[str, tuple[float, float]]:
    """By network, PyTorch's time over clnet's: on two cores, and on the H200.

    Args:
        page: docs/performance.md, whose chart in letters has them.
    """
    return {name: (float(cpu), float(gpu)) for name, cpu, gpu in _ROW.findall(page)}


def draw(found: dict[str, tuple[float, float]], path: Path) -> None:
    """Write the picture; the same figures give the same file."""
    mpl.rcParams.update({"svg.hashsalt": "clnet", "svg.fonttype": "none", "font.size": 9})
    figure = Figure(figsize=(7.2, 3.6), layout="constrained")
    axes = figure.subplots()
    for which, (place, colour) in enumerate(zip(("two CPU cores", "H200"), _COLOURS, strict=True)):
        places = [row + 0.38 * (which - 0.5) for row in range(len(found))]
        widths = [values[which] for values in found.values()]
        bars = axes.barh(places, widths, 0.36, label=place, color=colour)
        axes.bar_label(bars, fmt="%.2f", padding=3, fontsize=8)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(range(len(found)), [*found])
    axes.invert_yaxis()
    axes.set_xlabel("training steps a second beside PyTorch's (float32, eager): above 1 is faster")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper right")
    figure.savefig(path, format="svg", metadata={"Date": None})


def main() -> int:
    """Write it."""
    draw(figures((ROOT / "docs" / "performance.md").read_text(encoding="utf-8")), PICTURE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
