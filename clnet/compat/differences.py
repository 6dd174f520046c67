"""Names of PyTorch that clnet has not: what to use instead, and where that is written down."""

from __future__ import annotations

PAGE = "docs/differences.md"
"""Differences from PyTorch, below the project's folder."""
INSTEAD = {
    "xpu": "Devices are named: clnet.device('gpu')",
    "mps": "Devices are named: clnet.device('gpu')",
    "mtia": "Devices are named: clnet.device('gpu')",
}
"""What PyTorch has under a name, and what to do without it."""


def missing(module: str, name: str) -> AttributeError:
    """The error for a name that clnet has not.

    Args:
        module: where it was looked for, ``"clnet.nn"``.
        name: what was looked for.
    """
    text = f"module {module!r} has no attribute {name!r}"
    instead = INSTEAD.get(name) or INSTEAD.get(module.rpartition(".")[2])
    if instead:
        text += f". {instead}"
    if instead or module.partition(".")[0] == "torch":
        text += f". See {PAGE}"
    return AttributeError(text, name=name, obj=None)  # no guess of Python's beside it
