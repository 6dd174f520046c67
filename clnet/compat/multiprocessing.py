"""``clnet.multiprocessing``: Python's own; tensors go between processes as copies."""

from __future__ import annotations

import multiprocessing as _python
from collections.abc import Callable
from multiprocessing import *  # noqa: F403 # pyright: ignore[reportWildcardImportFromLibrary]
from typing import Any

__all__ = ["get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy", "spawn"]


def get_all_sharing_strategies() -> set[str]:
    """Names of ways in which PyTorch shares memory."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy() -> str:
    """One of them, which changes nothing."""
    return "file_system"


def set_sharing_strategy(new_strategy: str) -> None:
    """Taken: tensors go between processes as copies."""


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,  # noqa: FBT001, FBT002 - PyTorch's
    daemon: bool = False,  # noqa: FBT001, FBT002
    start_method: str = "spawn",
) -> Any:
    """Call ``fn(rank, *args)`` in fresh processes; wait for them, unless ``join`` is False.

    Raises:
        ProcessError: if one of them failed, when it is waited for.
    """
    context = _python.get_context(start_method)
    started: list[Any] = []
    for rank in range(nprocs):
        process: Any = context.Process(target=fn, args=(rank, *args), daemon=daemon)  # pyright: ignore[reportAttributeAccessIssue] - every context has it
        process.start()
        started.append(process)
    if not join:
        return started
    for process in started:
        process.join()
    failed = [rank for rank, process in enumerate(started) if process.exitcode]
    if failed:
        raise _python.ProcessError(f"spawn: processes failed: {failed}")
    return None
