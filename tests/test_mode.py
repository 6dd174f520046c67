"""Blocks under another mode: that Ctrl-C at their edges leaves the mode as it was."""

from __future__ import annotations

import sys

import pytest

import clnet
from clnet.values import mode


class Heard:
    """The context variable; Ctrl-C is heard behind the call that sets it."""

    def __init__(self, variable):
        self.get, self._variable, self.armed = variable.get, variable, True

    def set(self, value):
        token = self._variable.set(value)
        if self.armed:
            self.armed = False
            raise KeyboardInterrupt
        return token


BLOCKS = {
    "using": lambda: mode.using(grad=False),
    "no_grad": clnet.no_grad,
    "autocast": lambda: clnet.autocast("cpu", dtype=clnet.bfloat16),
}


@pytest.mark.parametrize("make", BLOCKS.values(), ids=BLOCKS)
def test_an_interrupt_while_a_block_begins(make, monkeypatch):
    """Who is not in the block yet has nothing that leaves it."""
    before, block = mode.current(), make()
    with monkeypatch.context() as patch:
        patch.setattr(mode, "_MODE", Heard(mode._MODE))
        with pytest.raises(KeyboardInterrupt):
            block.__enter__()
    try:
        assert mode.current() is before
    finally:
        mode.restore(before)


def test_a_block_ends_at_once():
    """Each function of Python's on the way may hear Ctrl-C at its beginning."""
    block, called, outer = clnet.no_grad(), [], sys.gettrace()

    def seen(frame, event, arg):
        if event == "call":
            called.append(frame.f_code.co_name)

    block.__enter__()
    sys.settrace(seen)
    try:
        block.__exit__(None, None, None)
    finally:
        sys.settrace(outer)
    assert called == ["__exit__", "end"]
    assert clnet.is_grad_enabled()
