"""Mako templates to OpenCL C: strict, pure, with telling errors. Only this file knows Mako."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from mako import exceptions
from mako.lookup import TemplateLookup

from ..errors import TemplateError

FOLDER = Path(__file__).parent


@lru_cache(maxsize=1)
def _lookup() -> TemplateLookup:
    return TemplateLookup(directories=[str(FOLDER)], strict_undefined=True, filesystem_checks=False)


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
