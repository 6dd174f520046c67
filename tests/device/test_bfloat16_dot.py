"""The instruction for pairs of bfloat16, and when it is tried."""

from __future__ import annotations

import sys

from clnet.device import BFLOAT16_DOTS, device
from clnet.device.discovery import discover, select

module = sys.modules["clnet.device.bfloat16_dot"]


def test_plain_c_multiplies_pairs():
    assert module.is_right(select(device().name, discover()).handle, "")


def test_wrong_numbers_are_seen(monkeypatch):
    handle = select(device().name, discover()).handle
    run = module.run_trial
    monkeypatch.setattr(module, "run_trial", lambda *given: run(*given) + 1)
    assert not module.is_right(handle, "")


def test_the_device_has_one_of_the_table():
    assert device().bfloat16_dot in BFLOAT16_DOTS
