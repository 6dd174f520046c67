"""``clnet.hub``: nothing is downloaded and run; what to do instead is in the errors."""

from __future__ import annotations

from typing import Any

from ..errors import ArgumentError

__all__ = ["download_url_to_file", "load", "load_state_dict_from_url"]


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
