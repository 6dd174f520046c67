"""``clnet.hub``: nothing is downloaded; weights and models that are here are loaded."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

import os
import re
import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any
from urllib.parse import urlparse as urlparse

from ..errors import ArgumentError
from ..io import load as load_file
from ..values.settings import SETTINGS

__all__ = ["download_url_to_file", "get_dir", "load", "load_state_dict_from_url", "set_dir"]

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
"""Where the name of a file says how its contents begin, hashed."""
_PLACE: dict[str, str] = {}
_FETCHING = {"trust_repo", "force_reload", "verbose", "skip_validation"}


def get_dir() -> str:
    """Where programs keep files that were fetched."""
    return _PLACE.get("dir", str(Path(_get_torch_home()) / "hub"))


def set_dir(d: str | os.PathLike[str]) -> None:
    """Say where."""
    _PLACE["dir"] = str(Path(d).expanduser())


def _get_torch_home() -> str:
    """``torch`` in clnet's cache."""
    return str(SETTINGS.cache_dir / "torch")


def load(repo_or_dir: str, model: str, *args: Any, source: str = "github", **kwargs: Any) -> Any:
    """A model of a folder's ``hubconf.py``; no code is fetched.

    Args:
        repo_or_dir: the folder.
        model: the function of the model, which gets the other arguments.
        *args: for it.
        source: ``"local"``.
        **kwargs: for it, but for PyTorch's flags of what is fetched.

    Raises:
        ArgumentError: if it would have to be fetched, or the folder has no such function.
    """
    if source != "local":
        raise ArgumentError(
            "hub.load",
            "no code is fetched and run",
            repo=repo_or_dir,
            model=model,
            remedy="Give a folder and source='local', install the package, or use clnet.models",
        )
    place = Path(repo_or_dir, "hubconf.py")
    spec = spec_from_file_location("hubconf", place)
    if not place.is_file() or spec is None or spec.loader is None:
        raise ArgumentError("hub.load", "the folder has a hubconf.py", folder=repo_or_dir)
    sys.path.insert(0, str(place.parent))
    try:
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        found = getattr(module, model, None)
        if not callable(found):
            raise ArgumentError("hub.load", "hubconf.py has a function of that name", model=model)
        return found(*args, **{k: v for k, v in kwargs.items() if k not in _FETCHING})
    finally:
        sys.path.remove(str(place.parent))


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> Any:
    """Weights whose file is here already; none are downloaded.

    Args:
        url: where PyTorch would fetch them.
        model_dir: the folder of the file; None: ``checkpoints`` in :func:`get_dir`, or in the
            folder where PyTorch keeps them.
        map_location: as :func:`clnet.load` takes it.
        progress: taken; there is none.
        check_hash: taken; as in PyTorch, only of files that are downloaded it says something.
        file_name: of the file, if not what the address ends in.
        weights_only: as :func:`clnet.load` takes it.

    Returns:
        What the file has.

    Raises:
        ArgumentError: if there is no such file.
    """
    name = file_name or Path(urlparse(url).path).name
    below = [get_dir(), "~/.cache/torch/hub"]
    folders = [model_dir] if model_dir else [str(Path(home, "checkpoints")) for home in below]
    places = [Path(folder).expanduser() / name for folder in folders]
    place = next((place for place in places if place.is_file()), None)
    if place is None:
        raise ArgumentError(
            "hub.load_state_dict_from_url",
            "no weights are downloaded, and the file is not here",
            url=url,
            looked_in=[str(place.parent) for place in places],
            remedy=f"Download it to {places[0]}",
        )
    return load_file(place, map_location, weights_only=weights_only)


def download_url_to_file(url: str, dst: str, *args: Any, **kwargs: Any) -> None:
    """Clnet downloads no files for programs.

    Raises:
        ArgumentError: always.
    """
    raise ArgumentError(
        "hub.download_url_to_file", "no files are downloaded", url=url, remedy="Use urllib.request"
    )


def _check_module_exists(name: str) -> bool:  # for packages
    """Whether a package is installed."""
    return find_spec(name) is not None
