"""Mako templates to OpenCL C: strict, pure, with telling errors. Only this file knows Mako."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import TemplateError
from ..values.cache import Shelf, shelf
from ..values.settings import SETTINGS
from .declaration import Declaration, declarations

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
    if not all(map(_plain, params.values())):  # ``repr`` may not tell them from others
        return _rendered(template, name, params)
    key = repr((template, name, tuple(params.items())))
    kept = _texts().read(key)
    if kept is not None:
        return kept.decode()
    text = _rendered(template, name, params)
    _texts().write(key, text.encode())
    return text


def _rendered(template: str, name: str, params: Mapping[str, Any]) -> str:
    # Mako and what it imports take 50 ms: a process that finds all its texts goes without.
    from mako import exceptions  # noqa: PLC0415

    try:
        text = _lookup().get_template(template).get_def(name).render_unicode(**params)
        text = str(text).strip()
        if f"{name}(...)" in text:
            listed = declared(template, name).listed(params)
            text = text.replace(f"{name}(...)", f"{name}{listed}")
        return f"{text}\n"
    except Exception as error:
        raise TemplateError(
            f"{template}:{name}",
            "it could not be rendered",
            params=dict(params),
            error=f"\n{exceptions.text_error_template().render()}",
        ) from error


def render_source(source: str, params: Mapping[str, Any]) -> str:
    """A user's template, as OpenCL C.

    Args:
        source: the template.
        params: all it can read.

    Raises:
        TemplateError: if it fails on these.
    """
    from mako import exceptions, template  # noqa: PLC0415

    try:
        return str(template.Template(source, strict_undefined=True).render_unicode(**params))
    except Exception as error:
        raise TemplateError(
            "kernel",
            "it could not be rendered",
            params=dict(params),
            error=f"\n{exceptions.text_error_template().render()}",
        ) from error


def declared(template: str, name: str) -> Declaration:
    """What a template's header says of a kernel.

    Args:
        template: the file, relative to the kernels' folder.
        name: the ``<%def>``.

    Raises:
        TemplateError: if the file has no such kernel.
    """
    found = declarations((FOLDER / template).read_text(encoding="utf-8")).get(name)
    if found is None:
        raise TemplateError(f"{template}:{name}", "the file has no such kernel")
    return found


@lru_cache(maxsize=1)
def _lookup() -> TemplateLookup:
    from mako.lookup import TemplateLookup  # noqa: PLC0415

    # Mako could keep the Python it makes of templates on disk, and run that: it is neither written
    # whole nor verified, and making it takes 20 ms of the hundreds that a kernel's build takes.
    return TemplateLookup(directories=[str(FOLDER)], strict_undefined=True, filesystem_checks=False)


def texts_folder() -> tuple[str, str]:
    """Where texts are kept in the cache: no version of clnet reads another's.

    They depend on templates and on what those ask their parameters, tiles and units among them.
    """
    device = Path(__file__).parents[1] / "device"
    units = [str(device / name) for name in ("matrix_units.py", "warpgroups.py")]
    files = sorted([*_sources(FOLDER), *units])
    # To read them takes 9 ms, to look at them 1.5; Python knows its compiled files so, too.
    looks = [
        (path, found.st_size, found.st_mtime_ns) for path in files for found in [os.stat(path)]
    ]
    seen, key = shelf(SETTINGS.cache_dir, "template-files"), repr(looks)
    known = seen.read(key)
    if known is None:
        digest = hashlib.sha256()
        for path in map(Path, files):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
        known = digest.hexdigest()[:16].encode()
        seen.write(key, known)
    return "templates", known.decode()


def _sources(folder: str | Path) -> Iterator[str]:
    with os.scandir(folder) as found:
        for each in found:
            if each.is_dir():
                yield from _sources(each.path)
            elif each.name.endswith((".mako", ".py")):
                yield each.path


@lru_cache(maxsize=1)
def _texts() -> Shelf:
    return shelf(SETTINGS.cache_dir, *texts_folder(), suffix=".cl")


def _plain(value: Any) -> bool:
    return type(value) in _PLAIN or (isinstance(value, tuple) and all(map(_plain, value)))
