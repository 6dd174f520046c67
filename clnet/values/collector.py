"""Python's garbage collector, told to wait while much is made that stays."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain, compress, starmap
from operator import methodcaller
from typing import Any, ClassVar

from .process import in_child, process_lock

_LOCK = process_lock()
# Python 3.12 sets immortal objects aside by itself, some hundreds; who freezes sets thousands.
_IMMORTAL = 2000


# To count what is frozen is to walk through it, 5 ms of half a million objects.
_ASKED_AGAIN_AFTER = 1000


def nobody_froze() -> bool:
    """Whether nothing was set aside from the collector's searches: else it would be thawed here.

    That something was is believed for the next thousand calls.
    """
    with _LOCK:
        if _Pause.believed > 0:
            _Pause.believed -= 1
            return False
        found = gc.get_freeze_count() < _IMMORTAL
        _Pause.believed = 0 if found else _ASKED_AGAIN_AFTER
        return found


class _Pause:
    """Bodies that run just now, in all threads, and whether the collector goes on behind the last.

    And how many more calls of :func:`nobody_froze` believe that somebody did.
    """

    bodies: ClassVar[dict[object, None]] = {}
    owed = False
    believed = 0

    @classmethod
    def end(cls) -> None:
        """No body runs any more: in a forked child those of other threads never end."""
        if cls.owed:
            gc.enable()
        cls.bodies.clear()
        cls.owed = False


in_child(_Pause.end)


@contextmanager
def paused_collector() -> Iterator[None]:
    """No search for circular garbage while the body runs; what is counted down still goes at once.

    The collector looks through all objects again and again as their number grows: of imports and
    of tracing, which leave no circles, that was a fifth of the time. What the body made counts as
    old afterwards, so that the next two searches, which are for young objects, do not begin there.
    """
    own = object()
    try:
        with _LOCK:
            _Pause.owed = _Pause.owed or gc.isenabled()
            _Pause.bodies[own] = None
            gc.disable()
        yield
    finally:
        _Pause.bodies.pop(own, None)  # one call of C's: before it no Ctrl-C is heard
        with _LOCK:
            try:
                if nobody_froze():
                    gc.freeze()
                    gc.unfreeze()
            finally:
                if not _Pause.bodies:
                    _Pause.end()


@contextmanager
def collecting_what_is_new() -> Iterator[None]:
    """Searches for circular garbage leave out what was there before the body.

    For a body that has the collector look again and again: each search goes through all objects of
    the process, which are millions where a test-suite or a notebook has run for long.
    """
    gc.collect()
    with _LOCK:
        _Pause.believed = 0  # beside the search above, to count costs nothing
        mine = nobody_froze()
        if mine:
            gc.freeze()
    try:
        yield
    finally:
        if mine:
            gc.unfreeze()


def known_objects(find: Callable[..., list[Any]], *args: Any) -> list[Any]:
    """What ``gc.get_objects`` or ``gc.get_referrers`` gives, without tuples.

    They find tuples that other threads are just making (``tuple(f(x) for x in y)``), of which
    Python cannot change the length while anybody else holds them: such a thread would get a
    ``SystemError``. So they go before another thread has its turn: in one call of C's.

    Args:
        find: the function.
        *args: what it is called with.
    """
    every, found = list[Any](), list[Any]()
    steps: tuple[Callable[[], Any], ...] = (
        partial(every.extend, chain.from_iterable(starmap(find, [args]))),
        partial(found.extend, compress(every, map(id(tuple).__ne__, map(id, map(type, every))))),
        every.clear,
    )
    list(map(methodcaller("__call__"), steps))  # ``tee`` holds some longer
    return found
