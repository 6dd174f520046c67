"""``clnet.serialization``: what files may hold beside tensors; ``clnet.load`` runs no pickle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from ..io import load as load
from ..io import save as save
from ..io.named import SAFE

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
    """Let files that hold classes or functions by name give these without ``weights_only=False``.

    Args:
        safe_globals: classes and functions; or pairs of one and its name, which are taken by their
            own: the files are clnet's.
    """
    for given in safe_globals:
        found = given[0] if isinstance(given, tuple) else given
        SAFE[f"{found.__module__}:{found.__qualname__}"] = found


def clear_safe_globals() -> None:
    """Take back all that :func:`add_safe_globals` allowed."""
    SAFE.clear()


def get_safe_globals() -> list[Any]:
    """What :func:`add_safe_globals` allowed."""
    return list(SAFE.values())


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
    """A block in which these are allowed, too, as by :func:`add_safe_globals`."""
    before = dict(SAFE)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        SAFE.clear()
        SAFE.update(before)
