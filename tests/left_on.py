"""A guard: what a test leaves on is put back, and the test named, lest it spoil those behind it.

Modes that are asked about every function, ``no_grad`` and autocast, default dtypes and devices,
hooks of all modules; PyTorch's, too, where it is loaded. What a fixture of a module or a session
put on before the test began is none of the test's doing, and stays.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from operator import attrgetter
from typing import Any

import pytest

import clnet
from clnet.nn.module_hook import EVERYWHERE, NAMED
from clnet.values import mode
from clnet.values.dtypes import default_float
from clnet.values.override import enter_mode, leave_mode, modes

_TABLES = ("before", "after", "backward_before", "backward_after")
# What says it, and what sets it.
_PYTORCHS = {
    "torch.is_grad_enabled": "set_grad_enabled",
    "torch.is_anomaly_enabled": "autograd.set_detect_anomaly",
    "torch.get_default_dtype": "set_default_dtype",
}


def state() -> dict[str, Any]:
    """What is on, by name; compared by what it is, or whether it is the same."""
    found: dict[str, Any] = {"TorchFunctionMode": modes(), "mode": mode.current()}
    found["default dtype"] = default_float()  # not by the public door: this is asked thrice a test
    for name in _TABLES:
        found[f"hooks of all modules, {name}"] = tuple(getattr(EVERYWHERE, name).items())
    for name, table in NAMED.items():
        found[f"hooks of all modules, {name}"] = tuple(table.items())
    torch = sys.modules.get("torch")
    if hasattr(torch, "set_default_dtype"):
        for name in _PYTORCHS:
            found[name] = attrgetter(name.partition(".")[2])(torch)()
    return found


def changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What is not as it was, by name; of the mode its fields.

    Args:
        before: a :func:`state`.
        now: a later one. PyTorch may have been loaded in between.
    """
    names = [n for n in before if n != "mode" and not _same(before[n], now[n])]
    was, is_ = vars(before["mode"]), vars(now["mode"])
    fields = [f for f in was if f != "generator"]  # each test begins with another
    return names + [f"mode.{field}" for field in fields if not _same(was[field], is_[field])]


def restore(before: Mapping[str, Any]) -> None:
    """Put back what was on.

    Args:
        before: a :func:`state`.
    """
    while modes() and modes() != before["TorchFunctionMode"][: len(modes())]:
        leave_mode()
    for each in before["TorchFunctionMode"][len(modes()) :]:
        enter_mode(each)
    mode.restore(before["mode"])
    if default_float() is not before["default dtype"]:
        clnet.set_default_dtype(before["default dtype"])
    for name in _TABLES:
        table, was = getattr(EVERYWHERE, name), before[f"hooks of all modules, {name}"]
        if tuple(table.items()) != was:
            table.clear()
            table.update(was)
            EVERYWHERE.changed()
    for name, table in NAMED.items():
        table.clear()
        table.update(before[f"hooks of all modules, {name}"])
    for name, put in _PYTORCHS.items():
        if name in before:
            attrgetter(put)(sys.modules["torch"])(before[name])


def _same(before: Any, now: Any) -> bool:
    """Whether it is one object, or equal: of tuples each part, since a tensor's ``==`` is none."""
    if isinstance(before, tuple) and isinstance(now, tuple):
        return len(before) == len(now) and all(map(_same, before, now))
    return before is now or (isinstance(before, str | int) and before == now)


class LeftOn:
    """The guard, a plugin of pytest's."""

    def __init__(self) -> None:
        self._before: dict[str, Any] | None = None
        self._set_up: dict[str, Any] | None = None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self):
        """What is on before the test, and behind its fixtures."""
        self._before = self._set_up = state()
        yield
        self._set_up = state()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item):
        """What neither its fixtures put on nor anybody before it is an error of the test."""
        yield
        before, set_up, self._before = self._before, self._set_up, None
        if before is None or set_up is None:
            return
        now = state()
        left = [name for name in changed(before, now) if name in changed(set_up, now)]
        if left:
            restore(before)
            pytest.fail(f"{item.nodeid} leaves on: {', '.join(left)}", pytrace=False)
