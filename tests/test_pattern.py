"""Regular expressions that are compiled at their first use."""

from __future__ import annotations

import re

import pytest

from clnet.values import pattern as module
from clnet.values.pattern import pattern


def test_a_pattern_does_what_a_compiled_one_does():
    text, words = "a=1, b=2", r"(\w)=(\d)"
    late, now = pattern(words), re.compile(words)
    assert late.findall(text) == now.findall(text)
    assert late.sub(r"\2", text) == now.sub(r"\2", text)
    assert [m.span() for m in late.finditer(text)] == [m.span() for m in now.finditer(text)]
    assert (late.pattern, late.groups) == (now.pattern, 2)
    assert pattern("A", re.IGNORECASE).fullmatch("a")
    assert not pattern("A").match("a")


def test_it_is_compiled_once_and_only_when_it_is_used(monkeypatch):
    compiled: list[str] = []
    real = re.compile
    monkeypatch.setattr(module.re, "compile", lambda *a: compiled.append(a[0]) or real(*a))
    late = pattern("x+")
    assert not compiled
    assert late.match("xx")
    assert late.match("x")
    assert not late.match("y")
    assert compiled == ["x+"]


def test_what_a_pattern_has_not_is_an_error():
    with pytest.raises(re.error, match="unterminated"):
        pattern("(").match("")
    with pytest.raises(AttributeError, match="nothing"):
        pattern("x").nothing  # noqa: B018 # pyrefly: ignore[missing-attribute]
