"""Where public functions are found: pickles name a function by its module and its name there.

What is exported is a function at the door of the one of that name in its own module
(:mod:`.arguments`), so it goes by the place that shows it, as PyTorch's do.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import FunctionType, ModuleType
from typing import Any

from .changes import Replaceable


def placed(module: str, names: Mapping[str, Any], *, owner: str = "") -> Mapping[str, Any]:
    """The functions by name, each of which knows the place; those found where they say keep it.

    Args:
        module: the module that shows them.
        names: what it shows.
        owner: the class there whose methods they are, if they are.
    """
    if not owner and type(sys.modules[module]) is ModuleType:
        sys.modules[module].__class__ = Replaceable
    done: set[int] = set()  # the first name is the one that others are synonyms of
    for name, function in names.items():
        if not isinstance(function, FunctionType) or id(function) in done:
            continue
        if _found(function) is not function:
            done.add(id(function))
            function.__module__ = module
            function.__qualname__ = f"{owner}.{name}" if owner else name
    return names


def _found(function: FunctionType) -> Any:
    """What a pickle would find by the function's names."""
    found: Any = sys.modules.get(function.__module__)
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None) if part.isidentifier() else None
    return found
