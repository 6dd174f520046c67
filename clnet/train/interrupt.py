"""Ctrl-C between steps: a step that was begun is finished, so the state that is saved is whole."""

from __future__ import annotations

import signal
from types import FrameType


class Interrupt:
    """While it is open, Ctrl-C is noted; a second one raises :class:`KeyboardInterrupt` at once.

    Where Python's own handler is not in place, or in another thread, nothing is changed.

    Attributes:
        noted: whether Ctrl-C was pressed.
    """

    def __init__(self) -> None:
        self.noted = False
        self._installed = False

    def __enter__(self) -> Interrupt:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            try:
                signal.signal(signal.SIGINT, self._note)
                self._installed = True
            except ValueError:  # not the main thread, which Ctrl-C does not reach
                self._installed = False
        return self

    def __exit__(self, *exc: object) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.noted:
            raise KeyboardInterrupt
        self.noted = True
