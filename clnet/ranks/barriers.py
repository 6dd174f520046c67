"""Ranks that wait for each other, by PyTorch's names."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from typing import Any

from .membership import group_of, seconds_of
from .operations import exchanged
from .work import Work
from .world import Group

__all__ = ["barrier", "monitored_barrier"]


def barrier(
    group: Group | None = None, async_op: bool = False, device_ids: Any = None
) -> Work | None:
    """Wait until all ranks are here.

    Args:
        group: the ranks; None: all.
        async_op: begin it, and give a handle that waits.
        device_ids: taken.
    """
    del device_ids
    members = group_of("barrier", group)
    if members is None:
        return None
    return exchanged(members, lambda: members.agree("barrier"), async_op)


def monitored_barrier(
    group: Group | None = None, timeout: Any = None, wait_all_ranks: bool = False
) -> None:
    """Wait until all ranks are here, or name those that are not.

    Args:
        group: the ranks; None: all.
        timeout: for how long, in seconds or as a ``timedelta``; None: as long as the group waits.
        wait_all_ranks: taken: all silent ranks are named.

    Raises:
        DistributedError: if a rank does not come in time; it says which. No exchange of the group
            follows then.
    """
    del wait_all_ranks
    name = "monitored_barrier"
    members = group_of(name, group)
    if members is not None:
        exchanged(members, lambda: members.agree(name, within=seconds_of(timeout)), False)
