"""The Python blocks of a Markdown page, run as a reader would: one after the other.

Blocks that are called ``py`` run in processes of their own: tests/ranks/test_pages.py.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any


def python_blocks(page: Path, language: str = "python") -> list[str]:
    """The fenced blocks, each preceded by empty lines: its line numbers are the page's.

    Args:
        page: the file.
        language: what stands behind the fence.
    """
    text = page.read_text(encoding="utf-8")
    block = re.compile(rf"^ *```{language}\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
    return [
        "\n" * text.count("\n", 0, m.start(1)) + textwrap.dedent(m[1]) for m in block.finditer(text)
    ]


def run_page(page: Path) -> dict[str, Any]:
    """Run all blocks in one namespace, and return it; an error's traceback names page and line."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in python_blocks(page):
        exec(compile(block, str(page), "exec"), namespace)
    return namespace
