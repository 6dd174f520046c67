"""Constructors of layers and optimisers, whose settings are declared once: as fields of the class.

A field is an annotated name of the class's body, with or without a default; those behind
``_: KW_ONLY`` are given by name alone, as in a dataclass. Type checkers see the same constructor by
``dataclass_transform``. A dataclass would write and compile a function for each of a hundred
classes at import, and leave the defaults on the class, where they hide buffers of their names.
"""

from __future__ import annotations

import inspect
from typing import Any

__all__ = ["declare"]

_Parameter = inspect.Parameter
_SELF = _Parameter("self", _Parameter.POSITIONAL_OR_KEYWORD)


def declare(cls: type) -> None:
    """Give a class the constructor that its fields, and its bases', ask for.

    The defaults leave the class's body; ``cls.__fields__`` has the fields by name, in the
    constructor's order.

    Args:
        cls: the class. Its method ``_assign`` takes the values of all fields by name.
    """
    fields: dict[str, inspect.Parameter] = dict(getattr(cls, "__fields__", {}))
    kind = _Parameter.POSITIONAL_OR_KEYWORD
    for name, annotation in vars(cls).get("__annotations__", {}).items():
        if annotation == "KW_ONLY":
            kind = _Parameter.KEYWORD_ONLY
        elif not annotation.startswith("ClassVar"):
            default = vars(cls).get(name, _Parameter.empty)
            fields[name] = _Parameter(name, kind, default=default, annotation=annotation)
            if default is not _Parameter.empty:
                delattr(cls, name)
    ordered = sorted(fields.values(), key=lambda p: p.kind)
    names = [p.name for p in ordered]
    defaults = {p.name: p.default for p in ordered if p.default is not _Parameter.empty}

    def construct(self: Any, *args: Any, **given: Any) -> None:
        self._assign({**defaults, **dict(zip(names, args, strict=False)), **given})

    made: Any = construct
    made.__name__, made.__qualname__ = "__init__", f"{cls.__qualname__}.__init__"
    made.__module__ = cls.__module__
    made.__signature__ = inspect.Signature([_SELF, *ordered], return_annotation="None")
    declared: Any = cls
    declared.__init__ = made
    declared.__fields__ = {p.name: p for p in ordered}
