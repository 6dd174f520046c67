"""Templates: the Python that Mako makes of them is kept for later processes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import mako.template
import pytest

from clnet.kernels import template
from clnet.kernels.template import render

NAME, PARAMS = "copy.mako", {"ctype": "float", "source": "float", "to_bool": False, "ndim": 1}


@pytest.fixture
def rendered(monkeypatch):
    """Renders a kernel as a fresh process would, with this cache folder."""

    def fresh(folder: Path) -> str:
        monkeypatch.setattr(template, "SETTINGS", replace(template.SETTINGS, cache_dir=folder))
        template._lookup.cache_clear()
        return render(NAME, "copy_rows", PARAMS)

    yield fresh
    template._lookup.cache_clear()


def test_a_template_is_translated_once(tmp_path, rendered, monkeypatch):
    text = rendered(tmp_path)
    assert "__kernel" in text
    assert [path.name for path in tmp_path.rglob("copy.mako.py")]
    with monkeypatch.context() as patch:
        patch.setattr(mako.template, "_compile", None)  # makes Python of a template
        assert rendered(tmp_path) == text


def test_other_templates_have_another_folder(tmp_path, rendered, monkeypatch):
    text = rendered(tmp_path)
    other = tmp_path / "version" / NAME
    other.parent.mkdir()
    other.write_text('<%def name="copy_rows(**given)">another</%def>')
    with monkeypatch.context() as patch:
        patch.setattr(template, "FOLDER", other.parent)
        assert rendered(tmp_path) == "another\n"
    assert rendered(tmp_path) == text
    assert len(list((tmp_path / "templates").iterdir())) == 2


def test_a_folder_that_cannot_be_made_changes_nothing(tmp_path, rendered):
    text = rendered(tmp_path)
    (tmp_path / "file").write_text("in the way")
    assert rendered(tmp_path / "file") == text
