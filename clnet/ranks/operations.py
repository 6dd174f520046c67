"""Tensors exchanged between ranks, by PyTorch's names: joined, spread, collected, sent.

Sums have one order, given by the number of ranks and elements: the same bits at every run, and on
every rank. With ``async_op=True`` an exchange goes on in a thread and gives a :class:`.Work`; ranks
begin those of one group in the same order.
"""

# ruff: noqa: D417, FBT001, FBT002 - PyTorch's signatures; what functions share stands once

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import numpy as np

from ..array import Array
from ..errors import ArgumentError, DistributedError, DtypeError
from ..ops.shape import to_dtype
from ..tensor import Tensor
from ..values import mode
from ..values.dtypes import Kind, float32
from .device_sum import may_add
from .hosted import apart, checked_tensor, checked_tensors, read_only, split_rows, writable
from .membership import group_of, root_of
from .moves import collect, exchange, exchange_any, of_one_size, spread, sum_parts, sum_to
from .pieces import (
    everywhere,
    in_pieces,
    is_narrow,
    join_hosts,
    reduced,
    reduced_where_it_lies,
    visited,
)
from .traced import is_traced, record_exchange
from .work import Work
from .world import Group

__all__ = [
    "ReduceOp",
    "all_gather",
    "all_gather_into_tensor",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
]


class ReduceOp(Enum):
    """How values of ranks are joined; ``AVG`` is the sum over their number."""

    SUM, AVG, PRODUCT, MIN, MAX = "SUM", "AVG", "PROD", "MIN", "MAX"
    BAND, BOR, BXOR = "BAND", "BOR", "BXOR"


_OF_BITS = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)
_OF_BOOLS = {ReduceOp.SUM: ReduceOp.MAX, ReduceOp.PRODUCT: ReduceOp.MIN}


def exchanged(group: Group, job: Callable[[], Any], async_op: bool, *written: Any) -> Any:
    """Do it, or begin it; ``written`` is what the handle's future gives."""

    def outside() -> Any:
        with mode.using(grad=False, autocast=None):
            return job()

    found = group.meet(outside, begin=async_op)
    return found.giving(*written) if async_op else found


def _joined(op_name: str, op: ReduceOp, x: Tensor) -> ReduceOp:
    """What joins elements of a dtype.

    Raises:
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
        tensor: dense; of one shape and dtype on all ranks. 16-bit floats are summed in float32.
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
    x = checked_tensor(name, tensor, traced=True)
    joins = _joined(name, op, x)
    if members is None:
        return None

    def agree(wish: int = 0) -> set[int]:
        return members.agree(
            name, dtype=x.dtype.name, op=op.name, shape=x.shape, size=x.numel(), wish=wish
        )

    def meet(given: Sequence[Any]) -> None:
        everywhere(members, given[0], joins.value, agree)

    def visit(array: Array) -> Any:
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
            visit=visit,
        )
    if stays:
        given = visit(x.array)
        return exchanged(members, lambda: reduced_where_it_lies(x, given, meet), async_op, x)

    def join(host: np.ndarray) -> None:
        join_hosts(members, host, joins.value)

    return exchanged(members, lambda: reduced(x, agree, join, stands=not async_op), async_op, x)


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
    joins = _joined(name, op, x)
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

    return exchanged(members, job, async_op, x)


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

    def meet(hosts: Sequence[np.ndarray]) -> None:
        spread(members, hosts[0], root)

    def agreed() -> bool:
        members.agree(name, dtype=x.dtype.name, root=root, shape=x.shape, size=x.numel())
        return members.size() > 1 and x.numel() > 0

    if is_traced():
        return record_exchange(
            name,
            members,
            [x],
            lambda hosts: meet(hosts) if agreed() else None,
            writes=(True,),
            async_op=async_op,
        )

    def job() -> None:
        if agreed():
            with read_only(x) if here else writable(x, read=False) as hosts:
                meet(hosts)

    return exchanged(members, job, async_op, x)


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
    x = checked_tensor(name, tensor)
    if members is None:
        return None
    targets = checked_tensors(name, tensor_list, "tensor_list", count=members.size(), like=x)
    given = apart(x, *targets)

    def job() -> None:
        members.agree(name, dtype=x.dtype.name, shape=x.shape, size=x.numel())
        with read_only(given) as (mine,), writable(*targets, read=False) as rows:
            collect(members, mine, rows)

    return exchanged(members, job, async_op, *targets)


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
    _check_parts(name, members, whole=y, part=x)
    x = apart(x, y)

    def meet(hosts: Sequence[np.ndarray]) -> None:
        mine, everyone = hosts
        members.agree(name, dtype=x.dtype.name, shape=x.shape, size=x.numel())
        if mine.size:
            collect(members, mine, np.split(everyone, members.size()))

    if is_traced():
        return record_exchange(name, members, [x, y], meet, writes=(False, True), async_op=async_op)

    def job() -> None:
        with read_only(x) as mine, writable(y, read=False) as everyone:
            meet([*mine, *everyone])

    return exchanged(members, job, async_op, y)


def _check_parts(name: str, members: Group, *, whole: Tensor, part: Tensor) -> None:
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
    x = checked_tensor(name, tensor)
    if members is None:
        return None
    root = root_of(name, members, dst, group_dst, first=True)
    targets = _listed(name, members, gather_list, "gather_list", root=root, like=x)
    given = apart(x, *targets or ())

    def job() -> None:
        members.agree(name, dtype=x.dtype.name, root=root, shape=x.shape, size=x.numel())
        with read_only(given) as (mine,), writable(*targets or (), read=False) as rows:
            collect(members, mine, rows if targets is not None else None, root)

    return exchanged(members, job, async_op, *(targets or ()))


def _listed(
    name: str, members: Group, given: Any, what: str, *, root: int, like: Tensor
) -> list[Tensor] | None:
    """The list of the rank that has one."""
    if members.rank() == root:
        return checked_tensors(name, given, what, count=members.size(), like=like)
    if given:
        raise ArgumentError(name, f"{what} is given on one rank", root=root, rank=members.rank())
    return None


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: Group | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Overwrite the tensor of each rank with its place of a list that rank ``src`` has.

    Args:
        tensor: of one shape and dtype on all ranks.
        scatter_list: a tensor for each rank, on the rank ``src`` alone.
        src: the rank in the world; None: 0. ``group_src`` is the rank in the group.
        group, async_op: as for :func:`all_reduce`.
    """
    name = "scatter"
    members = group_of(name, group)
    x = checked_tensor(name, tensor)
    if members is None:
        return None
    root = root_of(name, members, src, group_src, first=True)
    sources = _listed(name, members, scatter_list, "scatter_list", root=root, like=x)

    def job() -> None:
        members.agree(name, dtype=x.dtype.name, root=root, shape=x.shape, size=x.numel())
        rows = None if sources is None else _stacked(sources)
        if not x.numel():
            return
        with writable(x, read=False) as (mine,):
            members.comm.Scatter(rows, mine.view(np.uint8), root)

    return exchanged(members, job, async_op, x)


def _stacked(tensors: Sequence[Tensor]) -> np.ndarray:
    """The bytes of tensors of one size, a row each."""
    return np.stack([x.detach().array.numpy().reshape(-1).view(np.uint8) for x in tensors])


def reduce_scatter(
    output: Tensor,
    input_list: list[Tensor],
    op: ReduceOp = ReduceOp.SUM,
    group: Group | None = None,
    async_op: bool = False,
) -> Work | None:
    """Each rank gets the sum of what all ranks have in its place of a list.

    Args:
        output: overwritten; of one shape and dtype on all ranks.
        input_list: a tensor for each rank, of as many elements each.
        op, group, async_op: as for :func:`all_reduce`.
    """
    name = "reduce_scatter"
    members = group_of(name, group)
    y = checked_tensor(name, output, "output")
    joins = _joined(name, op, y)
    if members is None:
        return None
    given = checked_tensors(name, input_list, "input_list", count=members.size(), like=y)
    sources = [apart(x, y) for x in given]
    return exchanged(members, lambda: _scattered(name, members, y, sources, op, joins), async_op, y)


def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,  # noqa: A002 - PyTorch's
    op: ReduceOp = ReduceOp.SUM,
    group: Group | None = None,
    async_op: bool = False,
) -> Work | None:
    """As :func:`reduce_scatter`, of one tensor whose parts lie behind each other."""
    name = "reduce_scatter_tensor"
    members = group_of(name, group)
    y, x = checked_tensor(name, output, "output"), checked_tensor(name, input, "input")
    joins = _joined(name, op, y)
    if members is None:
        return None
    _check_parts(name, members, whole=x, part=y)
    x = apart(x, y)
    return exchanged(members, lambda: _scattered(name, members, y, [x], op, joins), async_op, y)


def _scattered(
    name: str, members: Group, y: Tensor, sources: Sequence[Tensor], op: ReduceOp, joins: ReduceOp
) -> None:
    members.agree(name, dtype=y.dtype.name, op=op.name, shape=y.shape, size=y.numel())
    if not y.numel():
        return
    narrow = is_narrow(y)
    wide = to_dtype(y.detach(), float32) if narrow else y
    given = [to_dtype(x.detach(), float32) if narrow else x for x in sources]
    with read_only(*given) as hosts, writable(wide, read=False) as (mine,):
        parts = np.split(hosts[0], members.size()) if len(hosts) == 1 else hosts
        sum_parts(members, parts, mine, joins.value)
    if narrow:
        y.detach().copy_(wide)


def all_to_all(
    output_tensor_list: list[Tensor],
    input_tensor_list: list[Tensor],
    group: Group | None = None,
    async_op: bool = False,
) -> Work | None:
    """Each rank sends the tensor in another's place of a list to it.

    Args:
        output_tensor_list: a tensor for each rank, overwritten with what that rank has for this, of
            as many elements.
        input_tensor_list: a tensor for each rank; all of one dtype, on all ranks.
        group, async_op: as for :func:`all_reduce`.
    """
    name = "all_to_all"
    members = group_of(name, group)
    if members is None:
        return None
    if not input_tensor_list:
        raise DistributedError(name, "input_tensor_list holds a tensor for each rank", given=0)
    x, count = checked_tensor(name, input_tensor_list[0], "input_tensor_list"), members.size()
    sources, targets = (
        checked_tensors(name, given, what, count=count, like=x, sizes=False)
        for what, given in (
            ("input_tensor_list", input_tensor_list),
            ("output_tensor_list", output_tensor_list),
        )
    )
    return _each_to_each(name, members, sources, targets, async_op)


def _each_to_each(
    name: str,
    members: Group,
    sources: Sequence[Tensor],
    targets: Sequence[Tensor],
    async_op: bool,
) -> Work | None:
    """Exchange parts of any sizes; ranks that expect others get an error, all of them."""
    given = [apart(source, *targets) for source in sources]

    def job() -> None:
        members.agree(name, dtype=given[0].dtype.name)
        counts = [x.numel() for x in given], [y.numel() for y in targets]
        move = exchange if of_one_size(name, members, *counts) else exchange_any
        with read_only(*given) as parts, writable(*targets, read=False) as rows:
            move(members, parts, rows)

    return exchanged(members, job, async_op, *targets)


def all_to_all_single(
    output: Tensor,
    input: Tensor,  # noqa: A002 - PyTorch's
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Group | None = None,
    async_op: bool = False,
) -> Work | None:
    """As :func:`all_to_all`, of one tensor whose parts lie behind each other.

    Args:
        output: overwritten.
        input: of its dtype.
        output_split_sizes, input_split_sizes: rows of each rank's part, along the first axis; None:
            all parts are of one size. Either all ranks give some, or none does.
        group, async_op: as for :func:`all_reduce`.

    Raises:
        DistributedError: if tensors or sizes do not fit.
    """
    name = "all_to_all_single"
    members = group_of(name, group)
    x, y = checked_tensor(name, input, "input"), checked_tensor(name, output, "output")
    if members is None:
        return None
    if output_split_sizes or input_split_sizes:
        sources = split_rows(name, "input", x, input_split_sizes, members.size())
        targets = split_rows(name, "output", y, output_split_sizes, members.size())
        if x.dtype is not y.dtype:
            law = "input and output have one dtype"
            raise DistributedError(name, law, input=x.dtype, output=y.dtype)
        return _each_to_each(name, members, sources, targets, async_op)
    if x.numel() != y.numel() or x.dtype is not y.dtype or x.numel() % members.size():
        raise DistributedError(
            name,
            "input and output have one size, of a part for each rank, and one dtype",
            input=(tuple(x.shape), x.dtype),
            output=(tuple(y.shape), y.dtype),
            ranks=members.size(),
        )
    x = apart(x, y)

    def job() -> None:
        members.agree(name, dtype=x.dtype.name, shape=x.shape, size=x.numel())
        if not x.numel():
            return
        with read_only(x) as (mine,), writable(y, read=False) as (found,):
            exchange(members, *(np.split(h, members.size()) for h in (mine, found)))

    return exchanged(members, job, async_op, y)
