"""Folders for the data sets' tests: a cache of the test's own, and the real data if it is there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from clnet.data import source
from clnet.values.settings import SETTINGS


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, and no ``CLNET_DATA``."""
    folder = tmp_path / "cache"
    monkeypatch.setattr(source, "SETTINGS", replace(SETTINGS, cache_dir=folder, data_dir=None))
    return folder


@pytest.fixture
def set_data_dir(cache: Path, monkeypatch: pytest.MonkeyPatch):
    """A function that sets ``CLNET_DATA``."""

    def set_to(folder: Path) -> None:
        monkeypatch.setattr(source, "SETTINGS", replace(source.SETTINGS, data_dir=folder))

    return set_to


@pytest.fixture
def real_data(set_data_dir):
    """A function that skips the test unless ``CLNET_DATA`` has a sub-folder, and then uses it."""

    def use(folder: str) -> Path:
        if SETTINGS.data_dir is None:
            pytest.skip("CLNET_DATA is not set")
        if not (SETTINGS.data_dir / folder).is_dir():
            pytest.skip(f"CLNET_DATA has no {folder}")
        set_data_dir(SETTINGS.data_dir)
        return SETTINGS.data_dir / folder

    return use
