"""A long compilation is seen: on a terminal as a bar, elsewhere as a line in the log."""

from __future__ import annotations

import io
import logging
import sys
import time

import pytest

from clnet.device.build_progress import progress
from tests.device.test_program import Bench, several


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def at_once(monkeypatch):
    """Also what takes less than a second is shown."""
    monkeypatch.setattr(sys.modules[progress.__module__], "_DELAY_S", 0)


@pytest.mark.parametrize("processes", [None, 2])
def test_a_terminal_shows_how_many_are_built(tmp_path, monkeypatch, at_once, caplog, processes):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    bench = Bench(tmp_path, processes=processes)
    build = bench.cache._build

    def slowly(source, text):
        time.sleep(0.15)  # the bar is drawn ten times a second
        return build(source, text)

    monkeypatch.setattr(bench.cache, "_build", slowly)
    with caplog.at_level(logging.INFO, "clnet"):
        bench.cache.prepare(several(6))
    assert "building 6 kernels, 0 done" in terminal.getvalue()
    assert any(f"building 6 kernels, {n} done" in terminal.getvalue() for n in range(1, 7))
    assert terminal.getvalue().endswith("\r")  # the bar is gone
    assert "built 6 kernels in" in caplog.text
    shown = len(terminal.getvalue())
    bench.cache.prepare(several(6))
    assert len(terminal.getvalue()) == shown  # nothing is left to build


def test_a_log_tells_it_in_a_line(tmp_path, monkeypatch, at_once, caplog, capsys):
    with caplog.at_level(logging.INFO, "clnet"):
        Bench(tmp_path).cache.prepare(several(2))
    assert capsys.readouterr().err == ""
    assert [record.name for record in caplog.records] == ["clnet"]
    assert "built 2 kernels in" in caplog.text


def test_what_is_short_is_not_told(tmp_path, monkeypatch, caplog):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with caplog.at_level(logging.INFO, "clnet"), progress(3) as done:
        done(3)
    assert terminal.getvalue() == ""
    assert caplog.text == ""
