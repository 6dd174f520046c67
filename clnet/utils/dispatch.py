"""``torch.utils._python_dispatch``: modes below the ops, which are refused; what packages ask."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import ArgumentError

__all__ = ["TorchDispatchMode", "is_traceable_wrapper_subclass"]


class TorchDispatchMode:
    """A block in which PyTorch's inner operators are asked about first, which clnet does not have.

    Args:
        _dispatch_key: taken and without effect.
    """

    def __init__(self, _dispatch_key: Any = None) -> None:
        del _dispatch_key

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The function, called."""
        return func(*args, **(kwargs or {}))

    def __enter__(self) -> Any:
        """Refuse.

        Raises:
            ArgumentError: always.
        """
        raise ArgumentError(
            type(self).__name__,
            "there are no operators below the functions that programs call",
            remedy="Use torch.overrides.TorchFunctionMode, or clnet.profile() to see what runs",
        )

    def __exit__(self, *raised: object) -> None:
        """It was not entered."""


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """False: no class wraps others below the ops."""
    del t
    return False


def _get_current_dispatch_mode() -> None:  # for packages
    """None: there is none."""


@contextmanager
def _disable_current_modes() -> Iterator[list[Any]]:  # for packages
    """A block like any other."""
    yield []
