"""Attributes that are modules, found by ``import``: ``import clnet.nn.utils.rnn`` and the like.

PyTorch's modules lie elsewhere than clnet's. Where ``clnet.nn.modules.conv`` is, as an attribute, a
module, its dotted name can be imported. Asked after all other finders, so it costs nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["AttributeFinder"]


class AttributeFinder(MetaPathFinder, Loader):
    """Finds ``prefix.a.b`` where the attribute ``a.b`` of an object is a module.

    Args:
        prefix: what names begin with, ``"clnet"``.
        root: gives the object that has this name.
    """

    def __init__(self, prefix: str, root: Callable[[], Any]) -> None:
        self.prefix = prefix
        self._root = root
        self._specs: dict[str, Any] = {}

    def resolve(self, fullname: str) -> Any:
        """The attribute of a dotted name.

        Raises:
            AttributeError: if there is none.
        """
        found = self._root()
        for part in fullname.split(".")[1:]:
            found = getattr(found, part)
        return found

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the import system asks."""
        if fullname.partition(".")[0] != self.prefix:
            return None
        try:
            found = self.resolve(fullname)
        except AttributeError:
            return None
        return ModuleSpec(fullname, self) if isinstance(found, ModuleType) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module that is there."""
        module = self.resolve(spec.name)
        self._specs[spec.name] = module.__spec__
        if not hasattr(module, "__path__"):
            module.__path__ = []  # what lies below it is found here, too
        return module

    def exec_module(self, module: ModuleType) -> None:
        """It has run; the import system wrote its own notes into it, which go."""
        spec = module.__spec__
        if spec is not None and spec.name in self._specs:
            module.__spec__ = self._specs.pop(spec.name)

    def install(self, position: int | None = None) -> None:
        """Be asked by ``import``: after all others, or at a position among them."""
        if self not in sys.meta_path:
            place = len(sys.meta_path) if position is None else position
            sys.meta_path.insert(place, self)

    def remove(self) -> None:
        """Be asked no more."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
