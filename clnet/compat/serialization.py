"""``clnet.serialization``: settings of PyTorch's files; ``clnet.load`` runs no code of theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from ..io import load as load
from ..io import save as save

__all__ = [
    "DEFAULT_PROTOCOL",
    "MAP_LOCATION",
    "add_safe_globals",
    "clear_safe_globals",
    "default_restore_location",
    "get_safe_globals",
    "load",
    "location_tag",
    "normalize_storage_type",
    "safe_globals",
    "save",
]

MAP_LOCATION: TypeAlias = Callable[[Any, str], Any] | str | dict[str, str] | None
"""What :func:`clnet.load` takes to say where tensors go; packages import it."""
DEFAULT_PROTOCOL = 2
"""Of pickles, which clnet does not write."""


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Taken: classes are never made from a file, safe or not."""


def clear_safe_globals() -> None:
    """There are none."""


def get_safe_globals() -> list[Any]:
    """None are: classes are never made from a file."""
    return []


def normalize_storage_type(storage_type: type) -> type:
    """The class itself: there are no others of the same name."""
    return storage_type


def default_restore_location(storage: Any, location: str) -> Any:
    """The storage itself: ``clnet.load`` puts tensors where they belong."""
    return storage


def location_tag(storage: Any) -> str:
    """Where a storage is, as a text."""
    return str(storage.device)


@contextmanager
def safe_globals(safe_globals: list[Any]) -> Iterator[None]:
    """A block like any other: classes are never made from a file."""
    yield
