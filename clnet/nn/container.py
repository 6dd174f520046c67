"""Modules that hold modules: in a row, in a list, by name. They add no parameters of their own."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, TypeVar

from ..errors import BoundsError, DtypeError
from ..values.arguments import named
from .module import Module, indented

__all__ = ["ModuleDict", "ModuleList", "Sequential"]

SelfT = TypeVar("SelfT", bound="_Numbered")


class _Numbered(Module):
    """Sub-modules under the names ``"0"``, ``"1"`` ..., with what a Python list can do."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __contains__(self, module: object) -> bool:
        return any(module is m for m in self._modules.values())

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return self._chosen(list(self._modules.items())[index])
        return self._modules[self._name(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        self.add_module(self._name(index), module)

    def __delitem__(self, index: int | slice) -> None:
        names = list(self._modules)
        for name in names[index] if isinstance(index, slice) else [self._name(index)]:
            delattr(self, name)
        kept = list(self._modules.items())
        self._modules.clear()
        position = 0
        for name, module in kept:
            numbered = name.isdecimal()
            self.add_module(str(position) if numbered else name, module)
            position += numbered

    def append(self: SelfT, module: Module) -> SelfT:
        """One more at the end; returns the container."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self: SelfT, modules: Iterable[Module]) -> SelfT:
        """Several more at the end; returns the container."""
        for module in list(modules):
            self.append(module)
        return self

    def insert(self: SelfT, index: int, module: Module) -> SelfT:
        """One more before the one at ``index``, as ``list.insert``; returns the container.

        Raises:
            DtypeError: if it is no module.
        """
        if not isinstance(module, Module):  # before anything is changed
            law, kind = "a sub-module is a Module", type(module).__name__
            raise DtypeError(type(self).__name__, law, type=kind)
        modules = list(self)
        modules.insert(index, module)
        self._modules.clear()
        return self.extend(modules)

    def pop(self, index: int = -1) -> Module:
        """Take one out; the later ones move up.

        Raises:
            BoundsError: if there is none.
        """
        module = self[index]
        del self[index]
        return module

    def __iadd__(self: SelfT, modules: Iterable[Module]) -> SelfT:
        return self.extend(modules)

    def __add__(self: SelfT, modules: Iterable[Module]) -> SelfT:
        return self._chosen([(str(k), m) for k, m in enumerate([*self, *modules])])

    def _chosen(self: SelfT, entries: list[tuple[str, Module]]) -> SelfT:
        return type(self)([m for _, m in entries])

    def _get_abs_string_index(self, idx: Any) -> str:  # for programs
        """The number of a place, as text; of a place from the end, too."""
        return str(list(self._modules).index(self._name(idx)))

    def _name(self, index: Any) -> str:
        index = operator.index(index)
        if not -len(self) <= index < len(self):
            raise BoundsError(
                type(self).__name__,
                "an index lies inside the container",
                index=index,
                modules=len(self),
            )
        return list(self._modules)[index]


class Sequential(_Numbered):
    """Modules applied one after another.

    Args:
        *modules: in the order of application, or one mapping of names to modules.

    Example:
        >>> from clnet import nn
        >>> nn.Sequential(nn.Flatten(), nn.Identity())
        Sequential(
          (0): Flatten(start_dim=1, end_dim=-1)
          (1): Identity()
        )
    """

    def __init__(self, *modules: Module | Mapping[str, Module]) -> None:
        super().__init__()
        first = modules[0] if len(modules) == 1 else None
        named: Any = first if isinstance(first, Mapping) else dict(enumerate(modules))
        for name, module in named.items():
            self.add_module(str(name), module)

    def insert(self, index: int, module: Module) -> Sequential:
        """One more before the one at ``index``; returns the container.

        Raises:
            BoundsError: if ``index`` lies outside, where a list would take the end.
            DtypeError: if it is no module.
        """
        if not -len(self) <= index <= len(self):
            law = "an index lies inside the container"
            raise BoundsError("Sequential", law, index=index, modules=len(self))
        return super().insert(index, module)

    def __mul__(self, times: int) -> Sequential:
        return type(self)(*[m for _ in range(times) for m in self])

    __rmul__ = __mul__

    def __imul__(self, times: int) -> Sequential:
        return self.extend([m for _ in range(times - 1) for m in list(self)])

    def forward(self, input: Any) -> Any:  # noqa: A002 - PyTorch's
        """What the last gives for what the one before gave ... for ``input``."""
        x = input
        for name, module in self._modules.items():
            if module is None:
                raise DtypeError("Sequential", "all that is applied are modules", **{name: None})
            x = module(x)
        return x

    def _chosen(self, entries: list[tuple[str, Module]]) -> Sequential:
        return type(self)(OrderedDict(entries))


class ModuleList(_Numbered):
    """A list of modules, whose parameters belong to the module that holds it.

    Args:
        modules: the first ones.
    """

    def __init__(self, modules: Iterable[Any] | None = None) -> None:
        super().__init__()
        self.extend(modules or ())

    def __repr__(self) -> str:
        if not self._modules:
            return f"{type(self).__name__}()"
        lines: list[str] = []
        start = 0
        for text, group in groupby(map(repr, self)):
            count = len(list(group))
            label = f"({start}): " if count == 1 else f"({start}-{start + count - 1}): {count} x "
            lines.append(label + text)
            start += count
        return indented(type(self).__name__, lines)


class ModuleDict(Module):
    """Modules by name, whose parameters belong to the module that holds it.

    Args:
        modules: the first ones.
    """

    def __init__(
        self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None
    ) -> None:
        super().__init__()
        if modules is not None:  # a subclass may have an update of its own
            self.update(modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        self.pop(key)

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._modules.keys()

    def values(self) -> Iterable[Module]:
        """The modules."""
        return self._modules.values()

    def items(self) -> Iterable[tuple[str, Module]]:
        """Names and modules."""
        return self._modules.items()

    def get(self, key: str, default: Any = None) -> Any:
        """The module of a name, or what is given instead."""
        return self._modules.get(key, default)

    def pop(self, key: str) -> Module:
        """Remove the module of a name and return it.

        Raises:
            KeyError: if there is none.
        """
        module = self._modules[key]
        delattr(self, key)
        return module

    def clear(self) -> None:
        """Remove all."""
        for key in list(self._modules):
            delattr(self, key)

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add modules or replace those of the same names."""
        for key, module in named("ModuleDict", "modules", modules).items():
            self.add_module(key, module)
