"""A result that is not there yet, with PyTorch's names for Python's."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from typing import Any


class Future(concurrent.futures.Future[Any]):
    """A result that a thread sets.

    Args:
        devices: taken and without effect.
    """

    def __init__(self, *, devices: Any = None) -> None:
        del devices
        super().__init__()

    def wait(self) -> Any:
        """The result, once it is there; raises what was set as an error."""
        return self.result()

    def value(self) -> Any:
        """The result; it is there."""
        return self.result(0)

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """A future of what ``callback`` makes of this one."""
        made = Future()

        def go_on(_: Any) -> None:
            try:
                made.set_result(callback(self))
            except Exception as error:  # whatever it raises is the future's
                made.set_exception(error)

        self.add_done_callback(go_on)
        return made
