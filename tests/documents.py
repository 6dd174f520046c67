"""The Python blocks of a Markdown page, run as a reader would: one after the other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def python_blocks(page: Path) -> list[str]:
    """The fenced Python blocks, each preceded by empty lines: its line numbers are the page's."""
    text = page.read_text(encoding="utf-8")
    return ["\n" * text.count("\n", 0, m.start(1)) + m[1] for m in BLOCK.finditer(text)]


def run_page(page: Path) -> dict[str, Any]:
    """Run all blocks in one namespace, and return it; an error's traceback names page and line."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in python_blocks(page):
        exec(compile(block, str(page), "exec"), namespace)
    return namespace
