"""The tables of docs/benchmarks.md: ``python ci/paper_page.py`` writes them.

The paper's figures are ``clnet/bench/paper.py``'s, ours those of docs/performance.md.
"""

from __future__ import annotations

import re
from pathlib import Path

from clnet.bench import paper

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
FIGURES = ROOT / "docs" / "performance.md"
_PARTS = re.compile(r"<!-- (ours|paper) -->\n.*?<!-- end -->", re.DOTALL)


def ours(page: str) -> dict[str, tuple[float, float, float]]:
    """Seconds a mini-batch by network: on two cores, with 14 threads, on the H200.

    Args:
        page: the text of docs/performance.md.
    """
    parts = page.split("## A training step, network by network")[1].split("\n| ")
    found: dict[str, list[float]] = {net: [] for net in paper.NETS}
    for row in parts:
        cells = [cell.strip() for cell in row.split("|")]
        net = cells[0].split(", batch")[0]
        larger = cells[0] in ("ResNet-50, batch 64", "AlexNet-S, batch 128")
        if net in found and len(found[net]) < 3 and not larger:
            found[net].append(float(cells[1]))
    return {net: (two, many, ms / 1000) for net, (two, many, ms) in found.items()}


def beside(page: str) -> str:
    """A row for each network: the paper's fastest, and ours."""
    heads = "2 threads: paper|clnet|any processor: paper|clnet, 14 threads|a GPU: paper|clnet, H200"
    rows = [
        f"| |{heads}|",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for net, own in ours(page).items():
        columns = (paper.equal_threads(2), paper.COLUMNS[:10], paper.COLUMNS[10:])
        best = [paper.best(net, names) for names in columns]
        cells = [
            text
            for entry, seconds in zip(best, own, strict=True)
            for text in ("-" if entry is None else entry.text(), f"{seconds:.3g}")
        ]
        rows.append(f"| {net} | {' | '.join(cells)} |")
    return "\n".join(rows)


def published() -> str:
    """The paper's 35 rows."""
    rows = [f"| |{'|'.join(paper.COLUMNS)}|", f"| --- |{'|'.join(['---:'] * len(paper.COLUMNS))}|"]
    for net in paper.NETS:
        rows.append(f"| **{net}** |{'|' * len(paper.COLUMNS)}")
        for tool in paper.TOOLS:
            cells = {e.column: e for e in paper.TABLE if (e.net, e.tool) == (net, tool)}
            flag = " (!)" if (net, tool) in paper.NOT_COMPARABLE else ""
            texts = [f"{cells[c].seconds:.3f}" if c in cells else "-" for c in paper.COLUMNS]
            rows.append(f"| {tool}{flag} |{'|'.join(texts)}|")
    return "\n".join(rows)


def written(page: str, figures: str) -> str:
    """The page with its two tables anew.

    Args:
        page: the text of docs/benchmarks.md.
        figures: the text of docs/performance.md.
    """
    tables = {"ours": beside(figures), "paper": published()}
    return _PARTS.sub(lambda part: f"<!-- {part[1]} -->\n\n{tables[part[1]]}\n\n<!-- end -->", page)


if __name__ == "__main__":
    text = written(PAGE.read_text(encoding="utf-8"), FIGURES.read_text(encoding="utf-8"))
    PAGE.write_text(text, encoding="utf-8")
