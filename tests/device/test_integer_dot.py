"""Instructions for products of small integers: which are tried, when, and what is kept."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from clnet.device import DOTS, device
from clnet.device.discovery import discover, select
from clnet.values.cache import shelf

module = sys.modules["clnet.device.integer_dot"]


def test_plain_c_multiplies_the_largest_numbers():
    assert module.dots(select(device().name, discover()).handle, "")


def test_wrong_numbers_are_seen(monkeypatch):
    handle = select(device().name, discover()).handle
    run = module.run_trial

    def saturated(*given):
        found = run(*given).view(np.int32)
        return np.minimum(found, 2**15 - 1).view(np.float32)

    monkeypatch.setattr(module, "run_trial", saturated)
    assert not module.dots(handle, "")


@pytest.mark.parametrize("line", ["vnni", "madd"])
def test_behind_one_that_ends_the_process_the_others_are_tried(tmp_path, monkeypatch, line):
    """Each in a process of its own; the verdict is kept."""
    asked = []

    def lines_of(name, function, selector, *given):
        assert name == module.__name__
        asked.append(given)
        if not given:
            return ["tried", line]
        return ["yes"] if given == ("khr",) else []

    monkeypatch.setattr(module, "lines_of", lines_of)
    assert module.integer_dot("card:0", shelf(tmp_path)) == "khr"
    names = list(DOTS)
    left = names[names.index(line) + 1 : names.index("khr") + 1]
    assert [given[0] for given in asked[1:]] == left
    monkeypatch.setattr(module, "lines_of", lambda *_: pytest.fail("was tried again"))
    assert module.integer_dot("card:0", shelf(tmp_path)) == "khr"


def test_without_an_instruction_it_is_plain_c(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "lines_of", lambda *_: ["tried"])
    assert module.integer_dot("card:0", shelf(tmp_path)) == ""
    assert list(tmp_path.iterdir())


def test_a_failed_trial_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "lines_of", lambda *_: [])
    assert module.integer_dot("card:0", shelf(tmp_path)) == ""
    assert not list(tmp_path.iterdir())


def test_the_device_has_one_of_the_table():
    assert device().integer_dot in DOTS
