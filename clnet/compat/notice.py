"""What is said once in a process: that a setting is taken and changes nothing."""

from __future__ import annotations

import warnings

_SAID: set[str] = set()


def say_once(text: str) -> None:
    """Warn with a text, unless that was done before.

    Args:
        text: what is accepted, and what happens instead.
    """
    if text not in _SAID:
        _SAID.add(text)
        warnings.warn(text, UserWarning, stacklevel=3)


def warn_once(msg: str, stacklevel: int = 1) -> None:
    """PyTorch's compiler's: as :func:`say_once`."""
    say_once(msg)
