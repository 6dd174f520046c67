"""Tensors exchanged between ranks, by PyTorch's names: joined, spread, collected, sent.

Sums have one order, given by the number of ranks and elements: the same bits at every run, and on
every rank. With ``async_op=True`` an exchange goes on in a thread and gives a :class:`.Work`; ranks
begin those of one group in the same order.
"""

# ruff: noqa: D417, FBT001, FBT002 - PyTorch's signatures; what functions share stands once

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from enum import Enum
from typing import Any

import numpy as np

from ..array import Array, Visit
from ..errors import ArgumentError, DistributedError, DtypeError
from ..ops.shape import to_dtype
from ..tensor import Tensor
from ..values.dtypes import Kind, float32
from .device_sum import Marked, may_add
from .hosted import (
    apart,
    arrived,
    as_it_lies,
    checked_tensor,
    checked_tensors,
    read_only,
    writable,
)
from .membership import group_of, root_of, seconds_of
from .moves import collect, spread, sum_to
from .pieces import (
    everywhere,
    gathered_everywhere,
    in_pieces,
    is_narrow,
    join_hosts,
    reduced,
    reduced_where_it_lies,
    visited,
)
from .routes import Move, begin_move
from .traced import is_traced, record_exchange
from .work import Work
from .world import Group

__all__ = [
    "ReduceOp",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_single",
    "all_reduce",
    "barrier",
    "broadcast",
    "gather",
    "monitored_barrier",
    "reduce",
]


class ReduceOp(Enum):
    """How values of ranks are joined; ``AVG`` is the sum over their number."""

    SUM, AVG, PRODUCT, MIN, MAX = "SUM", "AVG", "PROD", "MIN", "MAX"
    BAND, BOR, BXOR = "BAND", "BOR", "BXOR"


_OF_BITS = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)
_OF_BOOLS = {ReduceOp.SUM: ReduceOp.MAX, ReduceOp.PRODUCT: ReduceOp.MIN}


def joined_by(op_name: str, op: ReduceOp, x: Tensor) -> ReduceOp:
    """What joins elements of a dtype.

    Raises:
        ArgumentError: if ``op`` is no :class:`ReduceOp`.
        DtypeError: if nothing does.
    """
    if not isinstance(op, ReduceOp):
        raise ArgumentError(op_name, "op is one of ReduceOp", given=op)
    kind = x.dtype.kind
    fits = {
        Kind.BOOL: op is not ReduceOp.AVG,
        Kind.INTEGER: op is not ReduceOp.AVG,
        Kind.FLOATING: op not in _OF_BITS,
        Kind.COMPLEX: op in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PRODUCT),
    }
    if not fits[kind]:
        raise DtypeError(
            op_name, "the dtype's elements can be joined so", reduction=op.name, dtype=x.dtype
        )
    return _OF_BOOLS.get(op, op) if kind is Kind.BOOL else op


def all_reduce(
    tensor: Tensor,
    op: ReduceOp = ReduceOp.SUM,
    group: Group | None = None,
    async_op: bool = False,
) -> Work | None:
    """Overwrite the tensor of every rank with the sum of all, or what ``op`` makes of them.

    Args:
        tensor: dense, with its axes in any order; of one shape and dtype on all ranks. 16-bit
            floats are summed in float32.
        op: how elements are joined.
        group: who takes part; None: all.
        async_op: whether to go on at once.

    Returns:
        A handle with ``async_op``, else None; None on ranks outside the group.

    Raises:
        DistributedError: if ranks do not fit, have ended or do not answer; in ``wait`` with
            ``async_op``.
        DtypeError: if elements of the dtype are not joined so.
    """
    name = "all_reduce"
    members = group_of(name, group)
    x = checked_tensor(name, as_it_lies(tensor), traced=True)
    joins = joined_by(name, op, x)
    if members is None:
        return None

    def agree(wish: int = 0) -> set[int]:
        return members.agree(
            name, dtype=x.dtype.name, op=op.name, shape=x.shape, size=x.numel(), wish=wish
        )

    def meet(given: Sequence[Visit | Marked]) -> None:
        everywhere(members, given[0], joins.value, agree)

    def visit(array: Array) -> Visit | Marked:
        return visited(members, array, joins.value)

    stays = may_add(x.device)
    if is_traced():
        wide = to_dtype(x.detach(), float32) if is_narrow(x) and not stays else x
        return record_exchange(
            name,
            members,
            [wide],
            meet,
            writes=(True,),
            async_op=async_op,
            behind=None if wide is x else lambda: x.detach().copy_(wide),
            visit=lambda arrays: [visit(x) for x in arrays],
        )
    if stays:
        given = visit(x.array)
        return members.exchange([x], lambda: reduced_where_it_lies(x, given, meet), async_op)

    def join(host: np.ndarray) -> None:
        join_hosts(members, host, joins.value)

    stands = not async_op
    return members.exchange([x], lambda: reduced(x, agree, join, stands=stands), async_op)


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: ReduceOp = ReduceOp.SUM,
    group: Group | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """As :func:`all_reduce`, on the rank ``dst`` alone; the others' tensors stay as they are.

    Args:
        tensor, op, group, async_op: as there.
        dst: the rank in the world; ``group_dst`` is the rank in the group.
    """
    name = "reduce"
    members = group_of(name, group)
    x = checked_tensor(name, tensor)
    joins = joined_by(name, op, x)
    if members is None:
        return None
    root = root_of(name, members, dst, group_dst)
    here = members.rank() == root

    def join(piece: np.ndarray, kind: Any) -> bool:
        members.comm.Reduce(
            members.in_place if here else piece, piece if here else None, kind, root
        )
        return here

    def agree() -> None:
        members.agree(
            name, dtype=x.dtype.name, op=op.name, root=root, shape=x.shape, size=x.numel()
        )

    def joined(host: np.ndarray) -> None:
        if joins not in (ReduceOp.SUM, ReduceOp.AVG) or not sum_to(members, host, root):
            in_pieces(members, host, joins.value, join)
        elif here and joins is ReduceOp.AVG:
            host /= members.size()

    def job() -> None:
        if here:
            reduced(x, agree, joined, stands=not async_op)
            return
        agree()
        if x.numel():
            with read_only(to_dtype(x.detach(), float32) if is_narrow(x) else x) as (host,):
                joined(host)

    return members.exchange([x], job, async_op)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Group | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Overwrite the tensor of every rank with that of rank ``src``.

    Args:
        tensor, group, async_op: as for :func:`all_reduce`.
        src: the rank in the world; ``group_src`` is the rank in the group.
    """
    name = "broadcast"
    members = group_of(name, group)
    x = checked_tensor(name, tensor, traced=True)
    if members is None:
        return None
    root = root_of(name, members, src, group_src)
    here = members.rank() == root

    def agree(wish: int = 0) -> set[int]:
        return members.agree(
            name, dtype=x.dtype.name, root=root, shape=x.shape, size=x.numel(), wish=wish
        )

    def by_host(parts: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> None:
        if members.size() > 1 and x.numel():
            spread(members, (parts or rows)[0], root)

    move = Move(name, members, [x] if here else [], [] if here else [x], agree, by_host)
    move = move._replace(gives=[0]) if here else move._replace(takes=[(root, 0, 0)])
    return begin_move(move, [x], async_op=async_op)


def all_gather(
    tensor_list: list[Tensor],
    tensor: Tensor,
    group: Group | None = None,
    async_op: bool = False,
) -> Work | None:
    """Collect the tensors of all ranks in a list, on every rank.

    Args:
        tensor_list: a tensor for each rank, overwritten with that rank's.
        tensor: what this rank gives; of one shape and dtype on all.
        group, async_op: as for :func:`all_reduce`.
    """
    name = "all_gather"
    members = group_of(name, group)
    x = checked_tensor(name, tensor, traced=True)
    if members is None:
        return None
    size, rank = members.size(), members.rank()
    targets = checked_tensors(name, tensor_list, "tensor_list", count=size, like=x, traced=True)
    given = apart(x, *targets)

    def agree(wish: int = 0) -> set[int]:
        return members.agree(name, dtype=x.dtype.name, shape=x.shape, size=x.numel(), wish=wish)

    def by_host(parts: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> None:
        collect(members, parts[0], rows)

    takes = [(i, 0, i) for i in range(size) if i != rank]
    move = Move(name, members, [given], targets, agree, by_host)
    move = move._replace(gives=[0], takes=takes, keeps=(0, rank))
    return begin_move(move, [targets], async_op=async_op)


def all_gather_into_tensor(
    output_tensor: Tensor,
    input_tensor: Tensor,
    group: Group | None = None,
    async_op: bool = False,
) -> Work | None:
    """Collect the tensors of all ranks behind each other in one, on every rank.

    Args:
        output_tensor: of as many elements as all inputs together.
        input_tensor: what this rank gives; of one shape and dtype on all.
        group, async_op: as for :func:`all_reduce`.
    """
    name = "all_gather_into_tensor"
    members = group_of(name, group)
    x = checked_tensor(name, input_tensor, "input_tensor", traced=True)
    y = checked_tensor(name, output_tensor, "output_tensor", traced=True)
    if members is None:
        return None
    check_parts(name, members, whole=y, part=x)

    def agree(wish: int = 0) -> set[int]:
        return members.agree(name, dtype=x.dtype.name, shape=x.shape, size=x.numel(), wish=wish)

    if x.numel() and may_add(y.device):
        return _gathered_where_it_lies(name, members, y, x, agree, async_op=async_op)
    x = apart(x, y)

    def agreed() -> bool:
        agree()
        return x.numel() > 0

    def fill(mine: np.ndarray, everyone: np.ndarray) -> None:
        collect(members, mine, [*everyone.reshape(members.size(), -1)])

    def meet(given: Sequence[Visit]) -> None:
        if agreed():
            fill(*map(arrived, given))

    if is_traced():
        return record_exchange(name, members, [x, y], meet, writes=(False, True), async_op=async_op)

    def job() -> None:
        if agreed():
            with read_only(x) as (mine,), writable(y, read=False) as (everyone,):
                fill(mine, everyone)

    return members.exchange([y], job, async_op)


def _gathered_where_it_lies(
    name: str,
    members: Group,
    y: Tensor,
    x: Tensor,
    agree: Callable[[int], set[int]],
    *,
    async_op: bool,
) -> Work | None:
    """As :func:`all_gather_into_tensor`, on a device that may exchange by itself.

    Args:
        name, members, y, x, async_op: as there.
        agree: tells the other ranks a wish, and gives those of all.
    """
    y.detach().reshape(members.size(), -1)[members.rank()].copy_(x.detach().reshape(-1))

    def meet(given: Sequence[Visit | Marked]) -> None:
        gathered_everywhere(members, given[0], agree)

    def visit(array: Array) -> Visit | Marked:
        return visited(members, array, ReduceOp.SUM.value)

    if is_traced():
        return record_exchange(
            name,
            members,
            [y],
            meet,
            writes=(True,),
            async_op=async_op,
            visit=lambda arrays: [visit(x) for x in arrays],
        )
    given = visit(y.array)

    return members.exchange([y], lambda: reduced_where_it_lies(y, given, meet), async_op)


def check_parts(name: str, members: Group, *, whole: Tensor, part: Tensor) -> None:
    """See that a tensor holds a part for each rank.

    Raises:
        DistributedError: if it does not.
    """
    if whole.numel() != members.size() * part.numel() or whole.dtype is not part.dtype:
        raise DistributedError(
            name,
            "one tensor holds a part for each rank, as large as the other and of its dtype",
            whole=(tuple(whole.shape), whole.dtype),
            part=(tuple(part.shape), part.dtype),
            ranks=members.size(),
        )


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: Group | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """As :func:`all_gather`, on the rank ``dst`` alone, which alone gives a list.

    Args:
        tensor, group, async_op: as there.
        gather_list: a tensor for each rank.
        dst: the rank in the world; None: 0. ``group_dst`` is the rank in the group.
    """
    name = "gather"
    members = group_of(name, group)
    x = checked_tensor(name, tensor, traced=True)
    if members is None:
        return None
    root = root_of(name, members, dst, group_dst, first=True)
    targets = listed(name, members, gather_list, "gather_list", root=root, like=x)
    given, here = apart(x, *targets or ()), members.rank() == root

    def agree(wish: int = 0) -> set[int]:
        return members.agree(
            name, dtype=x.dtype.name, root=root, shape=x.shape, size=x.numel(), wish=wish
        )

    def by_host(parts: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> None:
        collect(members, parts[0], rows if here else None, root)

    move = Move(name, members, [given], targets or [], agree, by_host)
    takes = [(i, 0, i) for i in range(members.size()) if i != root]
    move = move._replace(takes=takes, keeps=(0, root)) if here else move._replace(gives=[0])
    return begin_move(move, [] if targets is None else [targets], async_op=async_op)


def listed(
    name: str, members: Group, given: Any, what: str, *, root: int, like: Tensor
) -> list[Tensor] | None:
    """The list of the rank that has one.

    Raises:
        ArgumentError: if another rank has one, too.
        DistributedError: if it does not fit.
    """
    if members.rank() == root:
        return checked_tensors(name, given, what, count=members.size(), like=like, traced=True)
    if given:
        raise ArgumentError(name, f"{what} is given on one rank", root=root, rank=members.rank())
    return None


def barrier(
    group: Group | None = None, async_op: bool = False, device_ids: Any = None
) -> Work | None:
    """Wait until all ranks are here.

    Args:
        group, async_op: as for :func:`all_reduce`.
        device_ids: taken.
    """
    del device_ids
    members = group_of("barrier", group)
    if members is None:
        return None
    return members.exchange([], lambda: members.agree("barrier"), async_op)


def monitored_barrier(
    group: Group | None = None,
    timeout: timedelta | float | None = None,
    wait_all_ranks: bool = False,
) -> None:
    """As :func:`barrier`, with a time of its own: who is not here by then is named.

    Args:
        group: as for :func:`all_reduce`.
        timeout: a ``timedelta`` or seconds; None: the group's.
        wait_all_ranks: taken: all that do not come are named.

    Raises:
        DistributedError: if others do not come in time; then the group exchanges no more.
    """
    del wait_all_ranks
    name = "monitored_barrier"
    members = group_of(name, group)
    if members is not None:
        seconds = seconds_of(timeout)
        members.exchange([], lambda: members.agree(name, seconds=seconds), async_op=False)


all_gather_single = all_gather_into_tensor  # newer
