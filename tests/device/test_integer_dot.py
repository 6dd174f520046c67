"""Instructions for products of small integers: which are tried, and when."""

from __future__ import annotations

import sys

import numpy as np

from clnet.device import DOTS, device
from clnet.device.discovery import discover, select

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


def test_forms_of_other_devices_are_not_tried(monkeypatch, capsys):
    monkeypatch.setattr(module, "dots", lambda handle, name: False)
    module.answer(device().name, *DOTS)
    kind = not device().traits.dedicated_local_memory
    named = [name for name, form in DOTS.items() if form.vectors is kind]
    assert capsys.readouterr().out.split() == ["tried", *filter(None, named), "no"]


def test_the_device_has_one_of_the_table():
    assert device().integer_dot in DOTS
