"""Who takes part: the processes are joined, divided in groups, and leave."""

# ruff: noqa: D417, FBT001, FBT002 - PyTorch's signatures; what functions share stands once

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from importlib.util import find_spec
from typing import Any

from ..errors import ArgumentError, DistributedError
from ..values.settings import SETTINGS
from .world import Group, World, load_mpi

__all__ = [
    "GroupMember",
    "destroy_process_group",
    "get_backend",
    "get_global_rank",
    "get_group_rank",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "is_available",
    "is_initialized",
    "is_mpi_available",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
]

_WORLD = World()
_BACKENDS = ("mpi", "gloo", "nccl", "undefined")


class _WorldOfGroup(type):
    @property
    def WORLD(cls) -> Group | None:  # noqa: N802 - PyTorch's
        """The group of all processes, once they are joined."""
        return _WORLD.group


class GroupMember(metaclass=_WorldOfGroup):
    """Names of groups: ``WORLD``, and what a rank outside of one has for it."""

    NON_GROUP_MEMBER: Any = object()


class group(metaclass=_WorldOfGroup):  # noqa: N801 - PyTorch's
    """Where PyTorch keeps ``group.WORLD``."""


def is_mpi_available() -> bool:
    """Whether mpi4py is installed."""
    return find_spec("mpi4py") is not None


def is_available() -> bool:
    """Whether processes were started together (``mpirun``) or are joined: there is more to ask.

    False in a process of its own, so that programs which only ask do not look for more of PyTorch.
    """
    return _WORLD.group is not None or (SETTINGS.ranks > 1 and is_mpi_available())


def is_initialized() -> bool:
    """Whether :func:`init_process_group` was called."""
    return _WORLD.group is not None


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | float | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Join the processes that ``mpirun`` started; all of them call it, once.

    Args:
        backend: ``"mpi"``, ``"gloo"``, ``"nccl"`` or None: MPI exchanges the tensors whatever
            PyTorch's program names, of any device.
        init_method, store, group_name, pg_options, device_id: taken: MPI knows who there is.
        timeout: how long other ranks are waited for, a ``timedelta`` or seconds; None: half an
            hour.
        world_size: how many processes are expected; -1: any number.
        rank: this one's number; -1: MPI's.

    Raises:
        DeviceError: if mpi4py is not installed.
        DistributedError: if the processes are joined already, or others than expected.
        ArgumentError: if the backend is unknown.
    """
    del init_method, store, group_name, pg_options, device_id
    named = (backend or "mpi").lower().split(",")
    for name in named:
        if name.rpartition(":")[2] not in _BACKENDS:
            raise ArgumentError("init_process_group", "the backend is MPI", backend=backend)
    _WORLD.join(
        None if world_size < 0 else world_size, seconds_of(timeout), None if rank < 0 else rank
    )


def seconds_of(timeout: Any) -> float | None:
    """Of a ``timedelta``, a number, or None."""
    return timeout.total_seconds() if isinstance(timeout, timedelta) else timeout


def destroy_process_group(group: Group | None = None) -> None:
    """Leave a group, or all if None: what is under way is waited for, and others that ask hear it.

    Raises:
        DistributedError: if the processes are not joined.
    """
    if group is None or group is _WORLD.joined("destroy_process_group"):
        _WORLD.joined("destroy_process_group")
        _WORLD.end()
    else:
        _WORLD.part_with(group)


def group_of(op_name: str, given: Any) -> Group | None:
    """The group an exchange is called with; None: this rank is not in it.

    Raises:
        DistributedError: if the processes are not joined, or this rank has left the group.
        ArgumentError: if it is no group.
    """
    world = _WORLD.joined(op_name)
    if given is None:
        return world
    if given is GroupMember.NON_GROUP_MEMBER:
        return None
    if not isinstance(given, Group):
        raise ArgumentError(op_name, "group is what new_group gave", type=type(given).__name__)
    if given.left:
        raise DistributedError(op_name, "this rank has not left the group", group=given)
    return given


def root_of(
    op_name: str, members: Group, rank: int | None, place: int | None, *, first: bool = False
) -> int:
    """The place in a group of a rank of the world.

    Args:
        op_name: for errors.
        members: the group.
        rank: the rank in the world, or None.
        place: the place in the group, instead.
        first: whether it is the first rank if nothing is given.

    Raises:
        DistributedError: if it is not in the group.
        ArgumentError: if both are given, or neither is and it must be.
    """
    if (rank is None) == (place is None) and not (first and rank is None):
        raise ArgumentError(op_name, "a rank of the world or of the group is given", rank=rank)
    if place is None:
        place = 0 if rank is None else get_group_rank(members, rank)
    if not 0 <= place < members.size():
        raise DistributedError(
            op_name, "the rank is one of the group", place=place, ranks=members.size()
        )
    return place


def mpi_name(name: str) -> Any:
    """One of MPI's constants."""
    return getattr(load_mpi(), name)


def get_rank(group: Group | None = None) -> int:
    """This process's number in a group, from 0; -1 outside of it.

    Raises:
        DistributedError: if the processes are not joined.
    """
    members = group_of("get_rank", group)
    return -1 if members is None else members.rank()


def get_world_size(group: Group | None = None) -> int:
    """How many processes a group has; -1 outside of it.

    Raises:
        DistributedError: if the processes are not joined.
    """
    members = group_of("get_world_size", group)
    return -1 if members is None else members.size()


def get_backend(group: Group | None = None) -> str:
    """``"mpi"``.

    Raises:
        DistributedError: if the processes are not joined.
    """
    group_of("get_backend", group)
    return "mpi"


def get_process_group_ranks(group: Group | None = None) -> list[int]:
    """The members' ranks in the world."""
    members = group_of("get_process_group_ranks", group)
    return [] if members is None else list(members.ranks)


def get_group_rank(group: Group, global_rank: int) -> int:
    """The place in a group of a rank of the world.

    Raises:
        DistributedError: if it is not a member.
    """
    with suppress(ValueError):
        return group.ranks.index(global_rank)
    raise DistributedError(
        "get_group_rank", "the rank is one of the group", rank=global_rank, members=group.ranks
    )


def get_global_rank(group: Group, group_rank: int) -> int:
    """The rank in the world of a place in a group.

    Raises:
        DistributedError: if there is no such place.
    """
    if not 0 <= group_rank < group.size():
        raise DistributedError(
            "get_global_rank", "the rank is one of the group", rank=group_rank, ranks=group.size()
        )
    return group.ranks[group_rank]


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | float | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
) -> Any:
    """A group of some ranks; all ranks of the world call it, in the same order.

    Args:
        ranks: of the world; None: all.
        timeout: as for :func:`init_process_group`; None: the world's.
        backend, pg_options, use_local_synchronization, group_desc, device_id: taken.

    Returns:
        The group, or ``GroupMember.NON_GROUP_MEMBER`` on the other ranks.

    Raises:
        DistributedError: if the processes are not joined, there is no such rank, or ranks name
            others.
    """
    del backend, pg_options, use_local_synchronization, group_desc, device_id
    world = _WORLD.joined("new_group")
    chosen = list(range(world.size())) if ranks is None else sorted(int(r) for r in ranks)
    if (
        not chosen
        or len(set(chosen)) < len(chosen)
        or not 0 <= chosen[0] <= chosen[-1] < world.size()
    ):
        raise DistributedError(
            "new_group", "ranks are some of the world, each once", ranks=ranks, world=world.size()
        )
    world.meet(lambda: world.agree("new_group", op="", shape=tuple(chosen), size=len(chosen)))
    made = _WORLD.part(chosen, seconds_of(timeout))
    return GroupMember.NON_GROUP_MEMBER if made is None else made


def new_subgroups(
    group_size: int | None = None,
    group: Group | None = None,
    timeout: timedelta | float | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """The world in groups of ranks that follow each other; all ranks call it.

    Args:
        group_size: ranks in each; None: those of this machine.
        group: taken, None: all.
        timeout: as for :func:`new_group`.
        backend, pg_options, group_desc: taken.

    Returns:
        This rank's group, and all of them: ``GroupMember.NON_GROUP_MEMBER`` for others.

    Raises:
        DistributedError: if the ranks cannot be divided so.
        ArgumentError: if a group is given that is not the world.
    """
    name = "new_subgroups"
    world = _WORLD.joined(name)
    size = SETTINGS.ranks_here if group_size is None else group_size
    if group not in (None, world):
        raise ArgumentError(name, "group is None: the world is divided", group=group)
    if size < 1 or world.size() % size:
        raise DistributedError(
            name, "groups of one size have all ranks", group_size=size, world=world.size()
        )
    rows = [list(range(i, i + size)) for i in range(0, world.size(), size)]
    return new_subgroups_by_enumeration(rows, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | float | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Several groups of some ranks, none in two of them; all ranks of the world call it.

    Args:
        ranks_per_subgroup_list: of each its ranks in the world.
        timeout: as for :func:`new_group`.
        backend, pg_options, group_desc: taken.

    Returns:
        This rank's group, or None; and all: ``GroupMember.NON_GROUP_MEMBER`` for others.

    Raises:
        DistributedError: if a rank is in two of them.
    """
    del backend, pg_options, group_desc
    told = [rank for ranks in ranks_per_subgroup_list for rank in ranks]
    if len(set(told)) < len(told):
        raise DistributedError(
            "new_subgroups_by_enumeration",
            "a rank is in one group",
            ranks=[list(ranks) for ranks in ranks_per_subgroup_list],
        )
    made = [new_group(ranks, timeout) for ranks in ranks_per_subgroup_list]
    own = [found for found in made if found is not GroupMember.NON_GROUP_MEMBER]
    return (own[0] if own else None), made
