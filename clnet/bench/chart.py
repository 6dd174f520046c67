"""Bars of seconds per mini-batch, ours beside PyTorch's and the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from ..errors import ArgumentError
from . import paper
from .side import TORCH_MODES

_COLORS = {"clnet": "#3b76b8", "paper": "#b9bec9"}
_PEER_COLORS = ("#d9822b", "#e8b27a", "#a85d14", "#7a3f08")


def write(found: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw the figures into a PNG file.

    Args:
        found: what the contests found.
        path: the file.

    Raises:
        ArgumentError: if matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra
    except ImportError:
        raise ArgumentError(
            "chart", "matplotlib is not installed", remedy="pip install clnet[plot]"
        ) from None
    columns = list(dict.fromkeys(f["threads"] for f in found))
    figure = Figure(figsize=(11, 3.6 * len(columns)), layout="constrained")
    for place, threads in enumerate(columns):
        axes = figure.add_subplot(len(columns), 1, place + 1)
        _panel(axes, [f for f in found if f["threads"] == threads], threads)
    figure.savefig(path, dpi=120, format="png")


def _panel(axes: Any, rows: list[dict[str, Any]], threads: int | None) -> None:
    """One number of threads: a group of bars for each network, on a logarithmic axis."""
    series: dict[str, tuple[str, list[float | None]]] = {
        "clnet": (_COLORS["clnet"], [r["seconds"] for r in rows])
    }
    for torch_mode, color in zip(TORCH_MODES, _PEER_COLORS, strict=True):
        values = [r["peers"].get(torch_mode) for r in rows]
        timed = [v if isinstance(v, float) else None for v in values]
        if any(v is not None for v in timed):
            series[f"PyTorch, {torch_mode}"] = (color, timed)
    # Equal threads beside equal threads: a processor with more would make ours look slow.
    fastest = [paper.best(r["title"], paper.equal_threads(threads)) for r in rows]
    if any(fastest):
        where = "on a GPU" if threads is None else "with as many threads"
        published = [None if e is None else e.seconds for e in fastest]
        series[f"Shi et al. 2016, the fastest {where}"] = (_COLORS["paper"], published)
    width = 0.8 / len(series)
    for number, (name, (color, values)) in enumerate(series.items()):
        at = [i + (number - (len(series) - 1) / 2) * width for i in range(len(rows))]
        kept = [(x, v) for x, v in zip(at, values, strict=True) if v is not None]
        xs, heights = [x for x, _ in kept], [v for _, v in kept]
        bars = axes.bar(xs, heights, width, color=color, label=name)
        axes.bar_label(bars, fmt="{:.3g}", fontsize=7, padding=3, rotation=90)
    axes.set_yscale("log")
    axes.margins(x=0.02, y=0.25)
    axes.set_xticks(range(len(rows)), [fill(r["title"], 14) for r in rows])
    axes.set_ylabel("seconds a mini-batch")
    axes.set_title("" if threads is None else f"{threads} threads" if threads > 1 else "1 thread")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False, ncols=len(series))
