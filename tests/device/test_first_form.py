"""The first of several forms that works: who is asked, and what is kept."""

from __future__ import annotations

import pytest

from clnet.device.first_form import first_kept, first_told, tell_first
from clnet.values.cache import shelf

NAMES = ["a", "b", "c", "d"]


def process(asked, *, fatal=(), working=(), able=NAMES):
    """Begins what tries forms: some end it, some work, some are none of the device's."""

    def ask(*names):
        asked.append(names)
        lines = ["a driver's line", "tried"]
        for name in (name for name in names if name in able):
            lines += ["a driver's line", name, "a driver's line"]
            if name in fatal:
                return lines
            if name in working:
                return [*lines, "yes", "a driver's line"]
        return [*lines, "no"]

    return ask


def test_each_is_told_before_it_is_tried(capsys):
    told = []

    def works(name):
        told.append(capsys.readouterr().out.split())
        return name == "b"

    tell_first(NAMES, works)
    assert told == [["tried", "a"], ["b"]]
    assert capsys.readouterr().out.split() == ["yes"]
    tell_first(NAMES, lambda _: False)
    assert capsys.readouterr().out.split() == ["tried", *NAMES, "no"]


@pytest.mark.parametrize(
    ("ways", "found", "asked"),
    [
        ({"working": "bc"}, "b", ["abcd"]),
        ({"fatal": "a", "working": "c"}, "c", ["abcd", "bcd"]),
        ({"fatal": "ac", "working": "d"}, "d", ["abcd", "bcd", "d"]),
        ({"fatal": "b", "able": "ab"}, "", ["abcd", "cd"]),
        ({"fatal": "d"}, "", ["abcd"]),
        ({"able": "ab"}, "", ["abcd"]),
    ],
    ids=str,
)
def test_behind_one_that_ends_its_process_the_others_are_tried(tmp_path, ways, found, asked):
    """The verdict is kept."""
    seen = []
    ask = process(seen, **ways)
    assert first_kept(shelf(tmp_path), "key", NAMES, ask) == found
    assert seen == [tuple(names) for names in asked]
    assert first_kept(shelf(tmp_path), "key", NAMES, lambda *_: pytest.fail("again")) == found
    if found:  # by a version that has other forms
        assert first_kept(shelf(tmp_path), "key", ["e"], process([], working="e", able="e")) == "e"


def test_a_process_may_have_begun_before():
    seen = []
    assert first_told(process(seen, working="c"), NAMES, ["tried", "a"]) == "c"
    assert seen == [("b", "c", "d")]


def no_process(*names):
    raise OSError("planted")


@pytest.mark.parametrize("ask", [lambda *_: [], lambda *_: ["damaged"], no_process])
def test_a_failed_trial_is_not_kept(tmp_path, ask):
    assert first_kept(shelf(tmp_path), "key", NAMES, ask) == ""
    assert not list(tmp_path.iterdir())
