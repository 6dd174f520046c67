"""Mako templates to OpenCL C: strict, pure, with telling errors. Only this file knows Mako."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import mako
from mako import exceptions
from mako.lookup import TemplateLookup

from ..errors import TemplateError
from ..settings import SETTINGS

FOLDER = Path(__file__).parent


@lru_cache(maxsize=1)
def _lookup() -> TemplateLookup:
    return TemplateLookup(
        directories=[str(FOLDER)],
        strict_undefined=True,
        filesystem_checks=False,
        module_directory=_folder_of_modules(),
    )


def _folder_of_modules() -> str | None:
    """Where Mako keeps the Python it makes of templates, None where it may not write.

    Making it takes longer than all else that a plan does whose kernels are on disk.
    The folder is named by the templates' text, so no version of clnet reads another's.
    """
    digest = hashlib.sha256(mako.__version__.encode())
    for path in sorted(FOLDER.rglob("*.mako")):
        digest.update(path.read_bytes())
    folder = SETTINGS.cache_dir / "templates" / digest.hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # the program cache reports it
        return None
    return str(folder) if os.access(folder, os.W_OK) else None


def render(template: str, name: str, params: Mapping[str, Any]) -> str:
    """One def of a template, as OpenCL C.

    Args:
        template: the file, relative to the kernels' folder.
        name: the ``<%def>``.
        params: its arguments: all it can read.

    Returns:
        The source.

    Raises:
        TemplateError: if the template or the def is absent, or fails on these arguments.
    """
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
