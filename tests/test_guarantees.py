"""docs/guarantees.md: every promise has tests, and they are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
ITEM = re.compile(r"^(\d+)\. `(tests/[\w/]+\.py)(?:::(\w+))?`$", re.MULTILINE)


def promises(page: str) -> list[tuple[str, list[int]]]:
    """The rows of the tables: what is promised, and the numbers of its tests."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.splitlines()
        if line.startswith("|") and not line.startswith("| ---")
    ]
    titles = [row for row in rows if row[-1] == "held by"]
    return [
        (" ".join(row[:-1]), [int(number) for number in re.findall(r"\d+", row[-1])])
        for row in rows
        if row not in titles
    ]


def complaints(page: str, root: Path) -> list[str]:
    """What is wrong with the page."""
    listed = {int(number): (file, name) for number, file, name in ITEM.findall(page)}
    bad = [f"{number} is no list's" for number in listed if number > len(listed)]
    for file, name in listed.values():
        if not (root / file).is_file():
            bad.append(f"there is no {file}")
        elif name and name not in functions(root / file):
            bad.append(f"{file} has no {name}")
    found = promises(page)
    for promise, numbers in found:
        if not numbers and not promise.endswith(" no"):
            bad.append(f"nothing holds: {promise}")
        bad += [f"{promise}: there is no test {n}" for n in numbers if n not in listed]
    body = page.partition("## The tests")[0]
    bad += [f"nobody needs test {n}" for n in listed if not re.search(rf"\b{n}\b", body)]
    return bad


def functions(path: Path) -> set[str]:
    """The functions of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_promise_is_held_by_tests_that_are_there():
    page = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    assert len(promises(page)) > 25
    assert complaints(page, ROOT) == []


def test_a_promise_without_a_test_and_a_test_that_is_gone_are_told():
    page = """
| between | the same bits | held by |
| --- | --- | --- |
| a and b | yes | 1 |
| c and d | yes | |
| e and f | no | |
| g and h | yes | 7 |

## The tests

1. `tests/test_guarantees.py::test_that_was_renamed`
2. `tests/test_that_went.py`
"""
    assert complaints(page, ROOT) == [
        "tests/test_guarantees.py has no test_that_was_renamed",
        "there is no tests/test_that_went.py",
        "nothing holds: c and d yes",
        "g and h yes: there is no test 7",
        "nobody needs test 2",
    ]
