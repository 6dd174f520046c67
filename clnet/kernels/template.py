"""Mako templates to OpenCL C: strict, pure, with telling errors. Only this file knows Mako."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import TemplateError
from ..values.atomic import replacing
from ..values.settings import SETTINGS

if TYPE_CHECKING:
    from mako.lookup import TemplateLookup

FOLDER = Path(__file__).parent
_PLAIN = frozenset({bool, int, float, str, type(None)})


def render(template: str, name: str, params: Mapping[str, Any]) -> str:
    """One def of a template, as OpenCL C; from the cache on disk, if it was ever rendered before.

    Args:
        template: the file, relative to the kernels' folder.
        name: the ``<%def>``.
        params: its arguments: all it can read.

    Returns:
        The source.

    Raises:
        TemplateError: if the template or the def is absent, or fails on these arguments.
    """
    place = _place(template, name, params)
    text = None if place is None else _read(place)
    if text is None:
        text = _rendered(template, name, params)
        if place is not None:
            _keep(place, text)
    return text


def _rendered(template: str, name: str, params: Mapping[str, Any]) -> str:
    # Mako and what it imports take 50 ms: a process that finds all its texts goes without.
    from mako import exceptions  # noqa: PLC0415

    try:
        text = _lookup().get_template(template).get_def(name).render_unicode(**params)
        return f"{str(text).strip()}\n"
    except Exception as error:
        raise TemplateError(
            f"{template}:{name}",
            "it could not be rendered",
            params=dict(params),
            error=f"\n{exceptions.text_error_template().render()}",
        ) from error


@lru_cache(maxsize=1)
def _lookup() -> TemplateLookup:
    import mako  # noqa: PLC0415
    from mako.lookup import TemplateLookup  # noqa: PLC0415

    folder = _folder()
    return TemplateLookup(
        directories=[str(FOLDER)],
        strict_undefined=True,
        filesystem_checks=False,
        module_directory=None if folder is None else str(folder / f"mako-{mako.__version__}"),
    )


@lru_cache(maxsize=1)
def _folder() -> Path | None:
    """Where texts are kept, and the Python that Mako makes of templates; None: nowhere.

    The folder is named by the text of all templates, so no version of clnet reads another's.
    """
    digest = hashlib.sha256()
    for path in sorted(FOLDER.rglob("*.mako")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    folder = SETTINGS.cache_dir / "templates" / digest.hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # the program cache reports it
        return None
    return folder if os.access(folder, os.W_OK) else None


def _place(template: str, name: str, params: Mapping[str, Any]) -> Path | None:
    """The file for a text; None where it cannot be kept, or ``repr`` may not tell arguments."""
    folder = _folder()
    if folder is None or not all(map(_plain, params.values())):
        return None
    key = repr((template, name, tuple(params.items())))
    return folder / f"{hashlib.sha256(key.encode()).hexdigest()}.cl"


def _plain(value: Any) -> bool:
    return type(value) in _PLAIN or (isinstance(value, tuple) and all(map(_plain, value)))


def _read(place: Path) -> str | None:
    """The text in a file, or None if there is no whole one."""
    try:
        digest, text = place.read_bytes().split(b"\n", 1)
    except (OSError, ValueError):
        return None
    return text.decode() if digest == _digest(text) else None


def _keep(place: Path, text: str) -> None:
    data = text.encode()
    with suppress(OSError), replacing(place, durable=False) as file:
        file.write(_digest(data) + b"\n" + data)


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest().encode()
