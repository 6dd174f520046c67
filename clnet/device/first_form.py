"""Which of several forms of an instruction is the first that works, found out by trying them.

A form that a device has not may end the process that tries it. So a process of its own goes through
them and says of which it is trying; behind one that ended it, another goes on. What the forms are,
and what it means that one works, is the caller's to know.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..values.cache import Shelf

__all__ = ["first_kept", "first_told", "tell_first"]

_THERE, _WORKS, _NONE = "tried", "yes", "no"

Ask = Callable[..., list[str]]
"""Takes names; gives the lines that :func:`tell_first` prints of them in a process of its own."""


def tell_first(names: Sequence[str], works: Callable[[str], bool]) -> None:
    """Print each name before its form is tried; behind the first that works "yes", at last "no".

    Args:
        names: of the forms, best first.
        works: tries one; it may end the process.
    """
    print(_THERE, flush=True)  # the device could be opened: what comes now is a verdict
    for name in names:
        print(name, flush=True)
        if works(name):
            print(_WORKS)
            return
    print(_NONE)


def first_told(ask: Ask, names: Sequence[str], lines: list[str] | None = None) -> str | None:
    """The first form that works, as processes tell.

    Args:
        ask: begins a process.
        names: of the forms, best first; a process may leave out those that do not suit its device.
        lines: what a process told that was begun before; None: one is begun.

    Returns:
        Its name; ``""`` if none works, None if no process came as far as to try one.
    """
    left = list(names)
    try:
        lines = ask(*left) if lines is None else lines
        while True:
            # A driver prints, too: before, between and behind what is told.
            told = [line for line in lines if line in (_THERE, _WORKS, _NONE, *left)]
            if told[:1] != [_THERE]:
                return None
            *tried, last = told
            if last == _WORKS:
                return tried[-1] if tried[-1] in left else None
            if last in (_NONE, _THERE):
                return ""
            left = left[left.index(last) + 1 :]
            if not left:
                return ""
            lines = ask(*left)
    except OSError:
        pass  # no process could be started, which says nothing of the device
    return None


def first_kept(shelf: Shelf, key: str, names: Sequence[str], ask: Ask) -> str:
    """The first form that works; the verdict is kept, but not that nothing could be tried.

    Args:
        shelf: where it is kept; it belongs to the device and driver.
        key: under which it is.
        names: as :func:`first_told` takes them.
        ask: likewise.

    Returns:
        Its name; ``""`` if none works, or it is not known.
    """
    kept = shelf.read(key)
    if kept is not None and kept.decode() in ("", *names):
        return kept.decode()
    found = first_told(ask, names)
    if found is None:
        return ""
    shelf.write(key, found.encode())
    return found
