"""Templates: texts are kept for later processes."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from clnet.errors import TemplateError
from clnet.kernels import template
from clnet.kernels.template import render

NAME = "moving/copy.mako"
PARAMS = {"ctype": "float", "source": "float", "to_bool": False, "ndim": 1, "width": 1}


@pytest.fixture
def rendered(monkeypatch):
    """Renders a kernel as a fresh process would, with this cache folder."""

    def fresh(folder: Path, **changed: object) -> str:
        monkeypatch.setattr(template, "SETTINGS", replace(template.SETTINGS, cache_dir=folder))
        forget()
        return render(NAME, "copy_elements", PARAMS | changed)

    yield fresh
    forget()


def forget() -> None:
    template._lookup.cache_clear()
    template._texts.cache_clear()


def texts(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.cl"))


def without_mako(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(sys.modules, "mako", None)  # importing it fails


def test_no_python_is_kept(tmp_path, rendered):
    assert "__kernel" in rendered(tmp_path)
    kept = [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted((path.parts[0], path.suffix) for path in kept) == [
        ("template-files", ""),
        ("templates", ".cl"),
    ]


def test_other_templates_have_another_folder(tmp_path, rendered, monkeypatch):
    text = rendered(tmp_path)
    other = tmp_path / "version" / NAME
    other.parent.mkdir(parents=True)
    other.write_text('<%def name="copy_elements(**given)">another</%def>')
    with monkeypatch.context() as patch:
        patch.setattr(template, "FOLDER", tmp_path / "version")
        assert rendered(tmp_path) == "another\n"
        named = template.texts_folder()
        (other.parent / "tile.py").write_text("# A template may ask its parameters.")
        assert template.texts_folder() != named
    assert rendered(tmp_path) == text
    assert len(list((tmp_path / "templates").iterdir())) == 2


def test_templates_are_read_once_while_they_stay_as_they_are(tmp_path, rendered, monkeypatch):
    rendered(tmp_path)
    read = []
    monkeypatch.setattr(Path, "read_bytes", lambda path: read.append(path) or b"")
    named = template.texts_folder()
    assert not read
    changed = template.FOLDER / NAME
    whole = os.stat
    later = os.stat_result((*whole(changed)[:8], 0, 0), {"st_mtime_ns": 1})
    monkeypatch.setattr(os, "stat", lambda p, **k: later if p == str(changed) else whole(p, **k))
    assert template.texts_folder() != named
    assert changed in read


def test_a_folder_that_cannot_be_made_changes_nothing(tmp_path, rendered):
    text = rendered(tmp_path)
    (tmp_path / "file").write_text("in the way")
    with pytest.warns(RuntimeWarning, match="^cache: cannot write"):
        assert rendered(tmp_path / "file") == text


def test_a_text_that_was_kept_needs_no_mako(tmp_path, rendered, monkeypatch):
    text = rendered(tmp_path)
    with monkeypatch.context() as patch:
        without_mako(patch)
        assert rendered(tmp_path) == text
        with pytest.raises(ImportError):
            rendered(tmp_path, ctype="double")


def test_every_argument_has_a_text_of_its_own(tmp_path, rendered):
    kinds = [{}, {"ndim": 2}, {"ndim": True}, {"to_bool": 0}, {"ctype": "int"}]
    found = [rendered(tmp_path, **kind) for kind in kinds]
    assert len(texts(tmp_path)) == len(kinds)
    assert [rendered(tmp_path, **kind) for kind in kinds] == found
    assert found[0] != found[1]


class Pair(NamedTuple):
    a: int
    b: tuple[float, ...]


class Unknown(int):
    """What ``repr`` may not tell from another."""


def test_only_plain_arguments_are_kept(tmp_path, rendered):
    text = rendered(tmp_path)
    assert rendered(tmp_path, ndim=Unknown(1)) == text
    assert len(texts(tmp_path)) == 1
    assert template._plain(Pair(1, (0.5, 2.0)))
    assert not template._plain(Pair(1, (0.5, Unknown(2))))
    assert not template._plain([1])


@pytest.mark.parametrize("change", [lambda b: b[:-1], lambda b: b"", lambda b: b"\n" + b])
def test_a_text_that_is_not_whole_is_made_anew(tmp_path, rendered, change):
    text = rendered(tmp_path)
    (place,) = texts(tmp_path)
    whole = place.read_bytes()
    place.write_bytes(change(whole))
    assert rendered(tmp_path) == text
    assert place.read_bytes() == whole


def test_a_text_that_fails_is_not_kept(tmp_path, rendered):
    with pytest.raises(TemplateError, match="could not be rendered"):
        rendered(tmp_path, ndim="1")
    assert not texts(tmp_path)


def test_importing_clnet_imports_no_mako():
    run = [sys.executable, "-c", "import clnet, sys; print('mako' in sys.modules)"]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == "False\n"
