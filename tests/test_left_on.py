"""What a test leaves on is put back, and the test named."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis.internal.conjecture import providers

import clnet
from clnet import nn
from clnet.compat.overrides import TorchFunctionMode
from clnet.values import mode
from clnet.values.override import modes
from tests.left_on import LeftOn, changed, restore, state


class Counting(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def told(body: Any, fixture: Any = None) -> str:
    """What the guard says of a test with such a body, behind a fixture."""
    guard, item = LeftOn(), SimpleNamespace(nodeid="tests/x.py::test_y")
    before, during = guard.pytest_runtest_setup(), guard.pytest_runtest_teardown(item)  # pyrefly: ignore[bad-argument-type]
    next(before)
    if fixture is not None:
        fixture()
    with pytest.raises(StopIteration):
        next(before)
    body()
    next(during)
    try:
        with pytest.raises(StopIteration):
            next(during)
    except pytest.fail.Exception as failure:
        return str(failure)
    return ""


@pytest.mark.parametrize(
    ("left", "name"),
    [
        (lambda: Counting().__enter__(), "TorchFunctionMode"),
        (lambda: clnet.set_grad_enabled(False), "mode.grad"),
        (lambda: clnet.autocast("cpu", dtype=clnet.bfloat16).__enter__(), "mode.autocast"),
        (lambda: clnet.set_default_dtype(clnet.float64), "default dtype"),
        (lambda: clnet.set_default_device(clnet.device()), "mode.device"),
        (
            lambda: nn.modules.module.register_module_forward_hook(lambda *_: None),
            "hooks of all modules, after",
        ),
    ],
    ids=["function mode", "no_grad", "autocast", "dtype", "device", "hook"],
)
def test_what_is_left_on_is_named_and_put_back(left, name):
    before = state()
    assert told(left) == f"tests/x.py::test_y leaves on: {name}"
    assert not changed(before, state())


def test_what_ends_with_the_test_is_no_matter():
    def body():
        with clnet.no_grad(), Counting():
            assert modes()
            assert not clnet.is_grad_enabled()

    assert told(body) == ""


def test_what_a_fixture_of_a_module_puts_on_stays():
    before = state()
    try:
        assert told(lambda: None, fixture=lambda: mode.change(grad=False)) == ""
        assert not clnet.is_grad_enabled()
    finally:
        restore(before)


def test_pytorchs_are_put_back_too():
    torch = pytest.importorskip("torch")
    before = state()
    said = told(lambda: (torch.set_grad_enabled(False), torch.set_default_dtype(torch.float64)))
    assert said.endswith("leaves on: torch.is_grad_enabled, torch.get_default_dtype")
    assert torch.is_grad_enabled()
    assert not changed(before, state())


def test_drawn_examples_do_not_depend_on_what_was_imported():
    assert len(providers._get_local_constants()) == 0
