"""Lists and dictionaries of parameters, which belong to the module that holds them."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..errors import BoundsError, DtypeError
from ..tensor import Tensor
from ..values.arguments import named, shown
from .module import Module, Parameter

__all__ = ["ParameterDict", "ParameterList"]


def _held(value: Any) -> Any:
    """What a container keeps of a value: of a tensor a parameter, others as they are."""
    plain = isinstance(value, Tensor) and not isinstance(value, Parameter)
    return Parameter(value.detach()) if plain else value


def _text(holder: Module, values: Iterable[tuple[Any, Any]]) -> str:
    """A line for each value: a parameter's dtype and sizes, as PyTorch's."""
    lines = [
        f"\n    ({name}): {_line(value, by_name=isinstance(holder, ParameterDict))}"
        for name, value in values
    ]
    return f"{type(holder).__name__}({''.join(lines)}" + ("\n)" if lines else ")")


def _line(value: Any, *, by_name: bool) -> str:
    if not isinstance(value, Tensor):
        return f"Object of type: {type(value).__name__}"
    sizes = "x".join(map(str, value.shape))
    kind = value.type() if by_name else repr(value.dtype)  # as PyTorch's
    return f"Parameter containing: [{kind} of size {sizes}]"


class ParameterList(Module):
    """A list of parameters; tensors become parameters, other values stay what they are.

    Args:
        values: the first ones; a list among them is a module of this one.
    """

    def __init__(self, values: Iterable[Any] = ()) -> None:
        super().__init__()
        self._size = 0
        self.extend(values)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, str(k)) for k in range(self._size))

    def __getitem__(self, index: Any) -> Any:
        """One of them, or of a slice a list of those."""
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return getattr(self, self._name(index))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, self._name(index), _held(value))

    def append(self, value: Any) -> ParameterList:
        """One more at the end; returns the list."""
        setattr(self, str(self._size), _held(value))
        self._size += 1
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Several more at the end; returns the list.

        Raises:
            DtypeError: if it is a tensor, whose rows would be parameters, or no sequence.
        """
        if isinstance(values, Tensor) or not isinstance(values, Iterable):
            law = "values is a sequence of parameters"
            raise DtypeError("ParameterList", law, values=shown(values), remedy="Give [tensor]")
        for value in list(values):
            self.append(value)
        return self

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def __repr__(self) -> str:
        return _text(self, enumerate(self))

    def _name(self, index: Any) -> str:
        index = operator.index(index)
        if not -len(self) <= index < len(self):
            raise BoundsError(
                "ParameterList", "an index lies inside the list", index=index, parameters=len(self)
            )
        return str(index % len(self))


class ParameterDict(Module):
    """Parameters by name; tensors become parameters, other values stay what they are.

    Args:
        parameters: the first ones; those of a plain dict by their names in order, as PyTorch's.
    """

    def __init__(
        self, parameters: Mapping[str, Any] | Iterable[tuple[str, Any]] | None = None
    ) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __repr__(self) -> str:
        return _text(self, self.items())

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, key, _held(value))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __or__(self, other: ParameterDict) -> ParameterDict:
        made = self.copy()
        made.update(other.items())
        return made

    def __ior__(self, other: ParameterDict) -> ParameterDict:
        self.update(other.items())
        return self

    def copy(self) -> ParameterDict:
        """Another dictionary of the same parameters."""
        return ParameterDict(self.items())

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of a name, which is ``default`` from now on if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove them all."""
        for key in list(self):
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove the parameter of a name and return it.

        Raises:
            KeyError: if there is none.
        """
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove the last one and return its name and itself.

        Raises:
            KeyError: if there is none.
        """
        key = next(reversed(self._keys), None)
        if key is None:
            raise KeyError("the dictionary is empty")
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The parameter of a name, or ``default`` if there is none."""
        return getattr(self, key) if key in self._keys else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Another dictionary, of ``default`` under each name."""
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._keys.keys()

    def values(self) -> Iterable[Any]:
        """The parameters."""
        return [self[key] for key in self._keys]

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and parameters."""
        return [(key, self[key]) for key in self._keys]

    def update(self, parameters: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> None:
        """Add parameters or replace those of the same names."""
        ordered = not isinstance(parameters, Mapping) or isinstance(parameters, OrderedDict)
        found = named("ParameterDict", "parameters", parameters).items()
        for key, value in found if ordered else sorted(found):
            self[key] = value
