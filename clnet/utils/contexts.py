"""``torch.utils._contextlib``: blocks that are decorators, too."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

__all__: list[str] = []


def context_decorator(ctx: Any, func: Any) -> Any:
    """A function whose calls, or steps if it is a generator, run in a block of their own.

    Args:
        ctx: a block, or what makes one each time.
        func: the function.
    """
    make: Callable[[], Any] = ctx if callable(ctx) else lambda: ctx
    if inspect.isgeneratorfunction(func):
        return _stepping(make, func)

    @functools.wraps(func)
    def inside(*args: Any, **kwargs: Any) -> Any:
        with make():
            return func(*args, **kwargs)

    return inside


def _stepping(make: Callable[[], Any], func: Any) -> Any:
    """A generator function of which each step runs in a block of its own."""

    @functools.wraps(func)
    def stepping(*args: Any, **kwargs: Any) -> Any:
        steps, sent = func(*args, **kwargs), None
        while True:
            try:
                with make():
                    found = steps.send(sent)
            except StopIteration as end:
                return end.value
            sent = yield found

    return stepping


class _DecoratorContextManager:
    """A block whose objects decorate functions; each call is in a clone of it."""

    def __call__(self, orig_func: Any) -> Any:
        return context_decorator(self.clone, orig_func)

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        raise NotImplementedError

    def clone(self) -> Any:
        """Another of its class."""
        return type(self)()


class _NoParamDecoratorContextManager(_DecoratorContextManager):  # for packages
    """One that decorates without parentheses, too."""

    def __new__(cls, orig_func: Any = None) -> Any:
        made = super().__new__(cls)
        return made if orig_func is None else made(orig_func)
