"""Modules whose names packages import, though clnet does not have what they stand for."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ..errors import ArgumentError

__all__ = ["Refused"]


class Refused(ModuleType):
    """A module whose names can be imported, and not called.

    Args:
        name: its own, with PyTorch's ``torch`` before it.
        doc: a line about it.
        law: why there is nothing to call.
        remedy: what to do instead.
    """

    def __init__(self, name: str, doc: str, law: str, remedy: str) -> None:
        super().__init__(name, doc)
        self.__dict__.update(__path__=[], _law=law, _remedy=remedy)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        where, law, remedy = self.__name__.partition(".")[2], self._law, self._remedy

        def refuse(*args: Any, **kwargs: Any) -> Any:
            del args, kwargs
            raise ArgumentError(f"{where}.{name}", law, remedy=remedy)

        made = type(name, (), {"__new__": refuse, "__doc__": "Not here."})
        return self.__dict__.setdefault(name, made)


inner_export = Refused(
    "torch._export",
    "Names of exported programs.",
    "programs are exported by torch.export",
    "torch.export.export(module, args)",
)
