"""Functions that run in a mode, generators among them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial, wraps
from inspect import isgeneratorfunction
from typing import Any

from ..values import mode


def in_mode(function: Callable[..., Any], **changes: bool) -> Any:
    """``function``, run under the mode with ``changes``; around it all is as it was.

    A generator runs long after it was called, and its caller between its steps: so each step is
    in the mode, and the caller is not.
    """

    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        before = mode.current()
        try:
            mode.change(**changes)
            return function(*args, **kwargs)
        finally:
            mode.restore(before)

    @wraps(function)
    def stepped(*args: Any, **kwargs: Any) -> Any:
        return (yield from _steps(function(*args, **kwargs), changes))

    return stepped if isgeneratorfunction(function) else wrapped


def _steps(
    generator: Generator[Any, Any, Any], changes: dict[str, bool]
) -> Generator[Any, Any, Any]:
    """What a generator gives, which runs in the mode whenever it goes on, also to its end."""
    go_on: Callable[[], Any] = partial(next, generator)
    while True:
        try:
            with mode.using(**changes):
                value = go_on()
        except StopIteration as end:
            return end.value
        try:
            go_on = partial(generator.send, (yield value))
        except GeneratorExit:
            with mode.using(**changes):
                generator.close()
            raise
        except BaseException as error:  # the generator may catch it
            go_on = partial(generator.throw, error)
