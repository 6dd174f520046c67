"""``clnet.futures``: results that are not there yet, with PyTorch's names for Python's."""

from __future__ import annotations

from typing import Any

from ..values.future import Future

__all__ = ["Future", "collect_all", "wait_all"]


def collect_all(futures: list[Future]) -> Future:
    """A future of the futures, all of which are done then."""
    made = Future()
    left = [len(futures)]

    def count(_: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            made.set_result(futures)

    for future in futures:
        future.add_done_callback(count)
    if not futures:
        made.set_result(futures)
    return made


def wait_all(futures: list[Future]) -> list[Any]:
    """The results, once all are there."""
    return [future.wait() for future in futures]
