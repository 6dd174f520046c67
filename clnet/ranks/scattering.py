"""To each rank a part: of what one rank has, or of what ranks have together, by PyTorch's names."""

# ruff: noqa: D417, FBT001, FBT002 - PyTorch's signatures; what functions share stands once

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..array import Array, Visit
from ..ops.shape import to_dtype
from ..tensor import Tensor
from ..values.dtypes import float32
from ..values.record import NamedTuple
from .device_sum import Marked, may_add
from .hosted import apart, arrived, checked_tensor, checked_tensors, read_only, writable
from .membership import group_of, root_of
from .moves import hand_out, sum_parts
from .operations import ReduceOp, check_parts, joined_by, listed
from .pieces import is_narrow, reduced_where_it_lies, summed_parts, visited
from .routes import Move, begin_move, place_of
from .traced import is_traced, record_exchange
from .work import Work
from .world import Group

__all__ = ["reduce_scatter", "reduce_scatter_single", "reduce_scatter_tensor", "scatter"]


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
    x = checked_tensor(name, tensor, traced=True)
    if members is None:
        return None
    root, rank = root_of(name, members, src, group_src, first=True), members.rank()
    sources = listed(name, members, scatter_list, "scatter_list", root=root, like=x)
    given = [] if sources is None else [apart(y, x) for y in sources]

    def agree(wish: int = 0) -> set[int]:
        return members.agree(
            name, dtype=x.dtype.name, root=root, shape=x.shape, size=x.numel(), wish=wish
        )

    def by_host(parts: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> None:
        if x.numel():
            hand_out(members, parts if rank == root else None, rows[0], root)

    move = Move(name, members, given, [x], agree, by_host, shares=max(members.size() - 1, 1))
    if rank == root:
        others = [i for i in range(members.size()) if i != root]
        move = move._replace(gives=others, keeps=(root, 0))
    else:
        move = move._replace(takes=[(root, place_of(rank, root), 0)])
    return begin_move(move, [x], async_op=async_op)


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
    joins = joined_by(name, op, y)
    if members is None:
        return None
    given = checked_tensors(name, input_list, "input_list", count=members.size(), like=y)
    sources, task = [apart(x, y) for x in given], _Task(name, members, y, op, joins)
    return members.exchange([y], lambda: _scattered(task, sources), async_op)


def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,  # noqa: A002 - PyTorch's
    op: ReduceOp = ReduceOp.SUM,
    group: Group | None = None,
    async_op: bool = False,
) -> Work | None:
    """As :func:`reduce_scatter`, of one tensor whose parts lie behind each other.

    This rank's part of it may be the output.
    """
    name = "reduce_scatter_tensor"
    members = group_of(name, group)
    y = checked_tensor(name, output, "output", traced=True)
    x = checked_tensor(name, input, "input", traced=True)
    joins = joined_by(name, op, y)
    if members is None:
        return None
    check_parts(name, members, whole=x, part=y)
    task = _Task(name, members, y, op, joins)
    if x.numel() and may_add(x.device):
        return _scattered_where_it_lies(task, x, async_op=async_op)
    x = apart(x, y)
    if is_traced():
        return _recorded_scatter(task, x, async_op=async_op)
    return members.exchange([y], lambda: _scattered(task, [x]), async_op)


class _Task(NamedTuple):
    """What this rank asks of the others.

    Attributes:
        name: of the function that was called.
        members: the ranks.
        y: what this one gets.
        op: how parts are joined.
        joins: the same, as it is done to elements of that dtype.
    """

    name: str
    members: Group
    y: Tensor
    op: ReduceOp
    joins: ReduceOp

    def agree(self, wish: int = 0) -> set[int]:
        """Wait until all ask for the same; gives what they wish, see :meth:`.Group.agree`."""
        y, op = self.y, self.op.name
        return self.members.agree(
            self.name, dtype=y.dtype.name, op=op, shape=y.shape, size=y.numel(), wish=wish
        )


def _scattered_where_it_lies(task: _Task, x: Tensor, *, async_op: bool) -> Work | None:
    """As :func:`reduce_scatter_tensor`, on a device that may exchange by itself."""
    members, y, how = task.members, task.y, task.joins.value
    rows = x.detach().reshape(members.size(), -1)
    own, to = rows[members.rank()].array, y.array
    stays = own.storage is to.storage and own.offset == to.offset
    rows = rows if stays else rows.clone()

    def meet(given: Sequence[Visit | Marked]) -> None:
        summed_parts(members, given[0], how, task.agree)

    def visit(array: Array) -> Visit | Marked:
        return visited(members, array, how)

    def finish() -> None:
        if not stays:
            y.detach().reshape(-1).copy_(rows[members.rank()])

    if is_traced():
        return record_exchange(
            task.name,
            members,
            [rows],
            meet,
            writes=(True,),
            async_op=async_op,
            behind=finish,
            visit=lambda arrays: [visit(x) for x in arrays],
        )
    given = visit(rows.array)

    def job() -> None:
        reduced_where_it_lies(rows, given, meet)
        finish()

    return members.exchange([y], job, async_op)


def _recorded_scatter(task: _Task, x: Tensor, *, async_op: bool) -> Work | None:
    """As :func:`reduce_scatter_tensor`, in a function that is compiled."""
    members, y = task.members, task.y
    narrow = is_narrow(y)
    mine = to_dtype(y.detach(), float32) if narrow else y
    given = to_dtype(x.detach(), float32) if narrow else x

    def meet(visits: Sequence[Visit]) -> None:
        task.agree()
        if y.numel():
            everyone, own = map(arrived, visits)
            sum_parts(members, [*everyone.reshape(members.size(), -1)], own, task.joins.value)

    return record_exchange(
        task.name,
        members,
        [given, mine],
        meet,
        writes=(False, True),
        async_op=async_op,
        behind=(lambda: y.detach().copy_(mine)) if narrow else None,
    )


def _scattered(task: _Task, sources: Sequence[Tensor]) -> None:
    members, y = task.members, task.y
    task.agree()
    if not y.numel():
        return
    narrow = is_narrow(y)
    wide = to_dtype(y.detach(), float32) if narrow else y
    given = [to_dtype(x.detach(), float32) if narrow else x for x in sources]
    with read_only(*given) as hosts, writable(wide, read=False) as (mine,):
        parts = [*hosts[0].reshape(members.size(), -1)] if len(hosts) == 1 else hosts
        sum_parts(members, parts, mine, task.joins.value)
    if narrow:
        y.detach().copy_(wide)


reduce_scatter_single = reduce_scatter_tensor  # newer
