"""The instruction for pairs of bfloat16: when it is tried, and what is kept."""

from __future__ import annotations

import sys

import pytest

from clnet.device import BFLOAT16_DOTS, device
from clnet.device.discovery import discover, select
from clnet.values.cache import shelf

module = sys.modules["clnet.device.bfloat16_dot"]


def test_plain_c_multiplies_pairs():
    assert module.is_right(select(device().name, discover()).handle, "")


def test_wrong_numbers_are_seen(monkeypatch):
    handle = select(device().name, discover()).handle
    run = module.run_trial
    monkeypatch.setattr(module, "run_trial", lambda *given: run(*given) + 1)
    assert not module.is_right(handle, "")


def test_the_verdict_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "lines_of", lambda *_: ["tried", "yes"])
    assert module.bfloat16_dot("cpu:0", shelf(tmp_path)) == "avx512_bf16"
    monkeypatch.setattr(module, "lines_of", lambda *_: pytest.fail("was tried again"))
    assert module.bfloat16_dot("cpu:0", shelf(tmp_path)) == "avx512_bf16"


@pytest.mark.parametrize(("lines", "kept"), [(["tried"], True), ([], False)])
def test_without_an_instruction_it_is_plain_c(tmp_path, monkeypatch, lines, kept):
    monkeypatch.setattr(module, "lines_of", lambda *_: lines)
    assert module.bfloat16_dot("cpu:0", shelf(tmp_path)) == ""
    assert bool(list(tmp_path.iterdir())) == kept


def test_the_device_has_one_of_the_table():
    assert device().bfloat16_dot in BFLOAT16_DOTS
