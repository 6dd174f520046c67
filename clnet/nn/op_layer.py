"""Layers that are one op: its settings are fields, from which constructor, call and text follow."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

from typing_extensions import dataclass_transform

from ..tensor import Tensor
from ..values.declared import declare
from .module import Module

__all__ = ["OpLayer"]


@dataclass_transform()
class OpLayer(Module):
    """A layer that is one op; its settings are fields.

    ::

        class ELU(OpLayer):
            op = ops.elu
            alpha: float = 1.0
            inplace: bool = False

    It is made as ``ELU(alpha=1.0, inplace=False)``, gives ``ops.elu(x, alpha=..., inplace=...)``,
    and says ``ELU(alpha=1.0)`` of itself. A field that may be a ``Tensor`` is a buffer.

    Attributes:
        op: what it computes of its input, with the fields as settings by name.
    """

    op: ClassVar[Callable[..., Any]]
    _shown: ClassVar[tuple[str, ...] | None] = None
    """The settings in its text; None: all. ``inplace`` is shown where it is true."""

    def __init_subclass__(cls, **given: Any) -> None:
        if cls.__module__.startswith(f"{__package__}."):  # else it is a user's, with own __init__
            if "__init__" not in vars(cls):
                declare(cls)
                cls.__annotations__.pop("_", None)  # a mark, which packages would look up elsewhere
            if "forward" not in vars(cls):
                # A function of the class's own: what checks its arguments names the class.
                cls.forward = inspect.unwrap(cls.forward)
        super().__init_subclass__(**given)

    def forward(self, x: Tensor) -> Tensor:
        """What the op makes of ``x``."""
        return type(self).op(x, **self._settings())

    def extra_repr(self) -> str:
        """The settings."""
        names = self.__fields__ if self._shown is None else self._shown
        hidden = () if self._settings().get("inplace") else ("inplace",)
        return ", ".join(f"{n}={getattr(self, n)!r}" for n in names if n not in hidden)

    def _settings(self) -> dict[str, Any]:
        """The fields by name, as they stand."""
        own = self.__dict__
        return {n: own[n] if n in own else getattr(self, n) for n in self.__fields__}

    def _assign(self, values: dict[str, Any]) -> None:
        super().__init__()
        for name, field in self.__fields__.items():
            if field.annotation.startswith("Tensor"):
                self.register_buffer(name, values[name])
            else:
                setattr(self, name, values[name])
        self._check_settings()

    def _check_settings(self) -> None:
        """Refuse settings, or put others in their place; called when all are assigned."""
