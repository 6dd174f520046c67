"""Locks that a whole process shares; a child that is forked finds them free."""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import RLock
from typing import Any


def process_lock() -> Any:
    """A reentrant lock for what there is once in a process.

    A thread that holds it at a fork is not there in the child, and would never let go of it.
    """
    lock: Any = RLock()
    in_child(lock._at_fork_reinit)
    return lock


def in_child(action: Callable[[], object]) -> None:
    """Have something done in every child that this process forks, before anything else runs there.

    Args:
        action: raises nothing.
    """
    if hasattr(os, "register_at_fork"):  # Windows has no fork
        os.register_at_fork(after_in_child=action)
