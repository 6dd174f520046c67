"""Users' subclasses of ``Tensor``: results of what is called with them are of their class."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from ..tensor import Tensor
from ..values import mode
from ..values.arguments import checked
from ..values.containers import again
from ..values.override import takes_over
from .attribute import to

TensorT = TypeVar("TensorT", bound=Tensor)


def _torch_function(
    cls: type[Tensor],
    func: Callable[..., Any],
    types: tuple[type, ...],
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
) -> Any:
    """Call a function of clnet's as if all classes were ``Tensor``; tensors it gives are of this.

    Args:
        cls: the class.
        func: what was called.
        types: the classes among its arguments that take over.
        args: its arguments.
        kwargs: those by name.

    Returns:
        The result; ``NotImplemented`` for another library's function, or beside a class that is
        no subclass or superclass.
    """
    ours = isinstance(func, FunctionType) and not func.__module__.startswith("torch.")
    if not ours or not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    with mode.using(takes_over=False):
        return _of_class(func(*args, **(kwargs or {})), cls)


def _of_class(found: Any, cls: type[Tensor]) -> Any:
    if isinstance(found, Tensor):
        return found if isinstance(found, cls) else found.as_subclass(cls)
    if type(found) in (tuple, list) or hasattr(found, "_fields"):
        return again(found, [_of_class(v, cls) for v in found])
    return found


def _make_subclass(
    cls: type[TensorT],
    data: Tensor,
    require_grad: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
) -> TensorT:
    """A leaf of a class with a tensor's elements, which it shares."""
    return data.detach().as_subclass(cls).requires_grad_(require_grad)


_OWN = {"_node", "array", "hooks", "index", "node", "source", "version"}
"""Attributes that ops read of every tensor; a class's property would stand before them."""
# Without a door of their own, for the sake of all tensors that are of no subclass.
_DOORS = {
    "detach": checked(Tensor.detach, "detach", known_as=Tensor.detach),
    "to": checked(to, "to", known_as=vars(Tensor)["to"]),
}


def _init_subclass(cls: type[Tensor], **given: Any) -> None:
    super(Tensor, cls).__init_subclass__(**given)
    foreign = not cls.__module__.startswith("clnet.")
    if foreign and cls.__new__ is not Tensor.__new__ and cls.__init__ is Tensor.__init__:
        cls.__init__ = _unless_made
    for name in _OWN & vars(cls).keys() if foreign else ():
        delattr(cls, name)
        text = "the name is every tensor's own here, so the class goes without its own"
        warnings.warn(f"{cls.__name__}.{name}: {text}", UserWarning, stacklevel=3)
    if not takes_over(cls):
        return
    for name, door in _DOORS.items():
        if getattr(cls, name) is getattr(Tensor, name):
            setattr(cls, name, door)
    if cls.__new__ is Tensor.__new__ and cls.__init__ is not Tensor.__init__:
        cls.__new__ = _made_of_data


def _made_of_data(cls: type[TensorT], *args: Any, **given: Any) -> TensorT:
    """A tensor of sizes or data, before the class's own ``__init__`` gets them."""
    made = object.__new__(cls)
    Tensor.__init__(made, *args, **given)
    return made


def _unless_made(self: Tensor, *args: Any, **given: Any) -> None:
    """What ``__new__`` gave is a tensor already, whatever else it was told."""
    if not hasattr(self, "array"):
        Tensor.__init__(self, *args, **given)


def disabled(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """A class's ``__torch_function__`` that takes over nothing."""
    with mode.using(takes_over=False):
        return func(*args, **(kwargs or {}))


disabled.disabled = True  # pyrefly: ignore[missing-attribute] - the doors look for it
Tensor.__init_subclass__ = classmethod(_init_subclass)  # pyrefly: ignore[bad-assignment] - attached
Tensor._make_subclass = staticmethod(_make_subclass)  # PyTorch's name
Tensor.__torch_function__ = classmethod(_torch_function)  # PyTorch's name
