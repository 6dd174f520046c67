"""The docstring of a large room is its map: it names each module, and nothing that is not there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

CLNET = Path(__file__).parents[1] / "clnet"
ROOMS = ("autodiff", "compile", "device", "ops/machinery", "values")


def unlike(room: Path) -> set[str]:
    """Modules of a room that its map does not name, and names in its map that are no modules."""
    text = ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8"))) or ""
    named = set(re.findall(r"(?<!`)`(\w+)`(?!`)", text))
    return named ^ {path.stem for path in room.glob("[!_]*.py")}


@pytest.mark.parametrize("room", ROOMS)
def test_a_map_names_all_modules_of_its_room(room):
    assert not unlike(CLNET / room)


def test_what_is_missing_and_what_is_gone_is_told(tmp_path):
    (tmp_path / "__init__.py").write_text('"""Rooms: ``x.y``, `here` and `gone`."""\n')
    for name in ("here", "forgotten"):
        (tmp_path / f"{name}.py").touch()
    assert unlike(tmp_path) == {"gone", "forgotten"}
