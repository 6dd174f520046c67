"""Lists and dictionaries of parameters, which belong to the module that holds them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..errors import BoundsError
from ..tensor import Tensor
from ..values.arguments import named
from .module import Module, Parameter

__all__ = ["ParameterDict", "ParameterList"]


def _parameter(value: Tensor) -> Parameter:
    return value if isinstance(value, Parameter) else Parameter(value.detach())


def _text(holder: Module) -> str:
    """A line for each parameter: its dtype and sizes, as PyTorch's."""
    found = holder.named_parameters(recurse=False, remove_duplicate=False)
    lines = [
        f"    ({name}): Parameter containing: [{p.dtype!r} of size {'x'.join(map(str, p.shape))}]"
        for name, p in found
    ]
    return "\n".join([f"{type(holder).__name__}(", *lines, ")"])


class ParameterList(Module):
    """A list of parameters; tensors become parameters.

    Args:
        values: the first ones.
    """

    def __init__(self, values: Iterable[Tensor] = ()) -> None:
        super().__init__()
        self.extend(values)

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self._parameters.values())

    def __getitem__(self, index: Any) -> Any:
        """One of them, or of a slice a list of those."""
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return self._parameters[self._name(index)]

    def __setitem__(self, index: int, value: Tensor) -> None:
        self.register_parameter(self._name(index), _parameter(value))

    def append(self, value: Tensor) -> ParameterList:
        """One more at the end; returns the list."""
        self.register_parameter(str(len(self)), _parameter(value))
        return self

    def extend(self, values: Iterable[Tensor]) -> ParameterList:
        """Several more at the end; returns the list."""
        for value in list(values):
            self.append(value)
        return self

    def __iadd__(self, values: Iterable[Tensor]) -> ParameterList:
        return self.extend(values)

    def __repr__(self) -> str:
        return _text(self)

    def _name(self, index: int) -> str:
        if not -len(self) <= index < len(self):
            raise BoundsError(
                "ParameterList", "an index lies inside the list", index=index, parameters=len(self)
            )
        return str(index % len(self))


class ParameterDict(Module):
    """Parameters by name; tensors become parameters.

    Args:
        parameters: the first ones.
    """

    def __init__(
        self, parameters: Mapping[str, Tensor] | Iterable[tuple[str, Tensor]] = ()
    ) -> None:
        super().__init__()
        self.update(parameters)

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __contains__(self, key: object) -> bool:
        return key in self._parameters

    def __repr__(self) -> str:
        return _text(self)

    def __getitem__(self, key: str) -> Parameter:
        return self._parameters[key]

    def __setitem__(self, key: str, value: Tensor) -> None:
        self.register_parameter(key, _parameter(value))

    def __delitem__(self, key: str) -> None:
        self.pop(key)

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._parameters.keys()

    def values(self) -> Iterable[Parameter]:
        """The parameters."""
        return self._parameters.values()

    def items(self) -> Iterable[tuple[str, Parameter]]:
        """Names and parameters."""
        return self._parameters.items()

    def pop(self, key: str) -> Parameter:
        """Remove the parameter of a name and return it.

        Raises:
            KeyError: if there is none.
        """
        parameter = self._parameters[key]
        delattr(self, key)
        return parameter

    def update(self, parameters: Mapping[str, Tensor] | Iterable[tuple[str, Tensor]]) -> None:
        """Add parameters or replace those of the same names."""
        for key, value in named("ParameterDict", "parameters", parameters).items():
            self[key] = value
