"""A report with charts: the page ``report.html`` with a profile's figures put in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..values.atomic import replacing
from . import table

if TYPE_CHECKING:
    from .profile import Profile

_PAGE = Path(__file__).with_name("report.html")
_PLACE = '"the figures go here"'
_MOST_SLICES = 4000


def figures(profile: Profile, title: str) -> dict[str, Any]:
    """What the page's script draws.

    Args:
        profile: a finished one.
        title: the page's heading.

    Returns:
        Plain values; of the timeline at most the longest slices.
    """
    by_phase = profile.totals(lambda c: f"{table.module_of(c)}\0{c.counted_in}")
    phases: dict[str, dict[str, float]] = {}
    for key, total in by_phase.items():
        module, phase = key.split("\0")
        phases.setdefault(module, {})[phase] = total.seconds
    longest = sorted(profile.commands, key=lambda c: -c.seconds)[:_MOST_SLICES]
    return {
        "title": title,
        "headline": table.headline(profile).splitlines(),
        **table.fields(profile),
        "module_phases": phases,
        "num_commands": len(profile.commands),
        "timeline": [
            [c.start - profile.begin, c.seconds, c.name, c.op, c.module_path, c.counted_in]
            for c in sorted(longest, key=lambda c: c.start)
        ],
        "memory": {
            name: [[when - profile.begin, nbytes] for when, nbytes in pairs]
            for name, pairs in profile.allocated.items()
        },
    }


def write(profile: Profile, path: Path, title: str) -> None:
    """Write the page."""
    # "</script" would end the element that holds the figures, "<!--" hide its end.
    data = json.dumps(figures(profile, title)).replace("<", "\\u003c")
    with replacing(path) as file:
        file.write(_PAGE.read_text(encoding="utf-8").replace(_PLACE, data).encode())
