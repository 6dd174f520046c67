"""``torch.overrides``: questions about types that take over PyTorch's functions.

Classes with ``__torch_function__`` take over what is called with their values, a mode all
functions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from ..tensor import Tensor
from ..values import mode
from ..values.override import asked_modes, call_over, enter_mode, leave_mode, modes, taking_over

__all__ = [
    "BaseTorchFunctionMode",
    "TorchFunctionMode",
    "handle_torch_function",
    "has_torch_function",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]


class TorchFunctionMode:
    """A block in which every function that the thread calls is asked about first.

    A subclass writes ``__torch_function__``, in which the mode itself is not asked: what it calls
    goes to the mode around, or is computed. What an op calls inside is not asked about again.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What the call gives.

        Args:
            func: the function that was called.
            types: classes of its arguments that take over functions.
            args: its arguments.
            kwargs: those by name.

        Raises:
            NotImplementedError: unless a subclass says what.
        """
        raise NotImplementedError

    def __enter__(self) -> Any:
        enter_mode(self)
        return self

    def __exit__(self, *raised: object) -> None:
        leave_mode()


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode in which functions do what they do."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a class of one of them takes over functions, or a mode is asked."""
    return bool(modes()) or (mode.current().takes_over and bool(taking_over(relevant_args)))


def has_torch_function_unary(value: Any) -> bool:
    """Whether its class takes over functions."""
    return has_torch_function((value,))


def has_torch_function_variadic(*values: Any) -> bool:
    """Whether a class of one of them takes over functions."""
    return has_torch_function(values)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """What a mode, or the first class that takes over, makes of the call."""
    answer = asked_modes(public_api, args, kwargs)
    if answer is not NotImplemented:
        return answer
    return call_over(taking_over(relevant_args), public_api, args, kwargs)


def wrap_torch_function(dispatcher: Callable[..., Any]) -> Callable[[Any], Any]:
    """A decorator of a function that classes of what ``dispatcher`` names may take over."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(called, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return called

    return decorate


def is_tensor_like(inp: Any) -> bool:
    """Whether it is a tensor, or has ``__torch_function__``."""
    return isinstance(inp, Tensor) or hasattr(inp, "__torch_function__")


def is_tensor_method_or_property(func: Any) -> bool:
    """Whether it is an attribute of ``Tensor``."""
    name = getattr(func, "__name__", "")
    return getattr(Tensor, name, None) is func or name == "__get__"


def resolve_name(f: Any) -> str:
    """The name of a function, with its module."""
    return f"{getattr(f, '__module__', 'clnet')}.{getattr(f, '__qualname__', f)}"
