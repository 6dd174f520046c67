"""``clnet.hub``: nothing is downloaded and run; what to do instead is in the errors."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlparse as urlparse

from ..errors import ArgumentError
from ..values.settings import SETTINGS

__all__ = ["download_url_to_file", "get_dir", "load", "load_state_dict_from_url", "set_dir"]

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
"""Where the name of a file says how its contents begin, hashed."""
_PLACE: dict[str, str] = {}


def get_dir() -> str:
    """Where programs keep files that were fetched."""
    return _PLACE.get("dir", str(Path(_get_torch_home()) / "hub"))


def set_dir(d: str | os.PathLike[str]) -> None:
    """Say where."""
    _PLACE["dir"] = str(Path(d).expanduser())


def _get_torch_home() -> str:
    """``torch`` in clnet's cache."""
    return str(SETTINGS.cache_dir / "torch")


def load(repo_or_dir: str, model: str, *args: Any, **kwargs: Any) -> Any:
    """Clnet runs no code from the network.

    Raises:
        ArgumentError: always.
    """
    raise ArgumentError(
        "hub.load",
        "no code is fetched and run",
        repo=repo_or_dir,
        model=model,
        remedy="Install the package that has the model, or use clnet.models",
    )


def load_state_dict_from_url(url: str, *args: Any, **kwargs: Any) -> Any:
    """Clnet downloads no weights.

    Raises:
        ArgumentError: always.
    """
    raise ArgumentError(
        "hub.load_state_dict_from_url",
        "no weights are downloaded",
        url=url,
        remedy="Download the file and read it with clnet.load",
    )


def download_url_to_file(url: str, dst: str, *args: Any, **kwargs: Any) -> None:
    """Clnet downloads no files for programs.

    Raises:
        ArgumentError: always.
    """
    raise ArgumentError(
        "hub.download_url_to_file", "no files are downloaded", url=url, remedy="Use urllib.request"
    )
