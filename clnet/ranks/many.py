"""Many tensors in one message."""

# ruff: noqa: D417, FBT001, FBT002 - PyTorch's signatures; what functions share stands once

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from ..autodiff.tape import no_grad
from ..creation import empty
from ..errors import DistributedError
from ..kernels.pointwise import MOST_ELEMENTS
from ..ops.join import cat
from ..ops.multi_tensor import overwrite_many
from ..tensor import Tensor
from .hosted import arrived, checked_tensor, read_only, writable
from .membership import group_of
from .moves import spread
from .operations import ReduceOp, all_gather_into_tensor, all_reduce
from .traced import is_traced, record_exchange
from .work import Work
from .world import Group

__all__ = ["all_gather_coalesced", "all_reduce_coalesced", "broadcast_many"]


def broadcast_many(tensors: Sequence[Tensor], group: Group, src: int = 0) -> None:
    """``broadcast`` of many tensors in one message.

    Args:
        tensors: of the same sizes and dtypes on all ranks; they need not be dense.
        group: who takes part.
        src: the rank in the group.
    """
    name = "broadcast_many"
    given = _rows(tensors)
    dense = [checked_tensor(name, x, traced=True) for x, _ in given]
    here, total = group.rank() == src, sum(x.array.nbytes for x in dense)

    def agreed() -> bool:
        dtypes = ",".join(sorted({x.dtype.name for x in dense}))
        group.agree(name, dtype=dtypes, root=src, shape=(len(dense),), size=total, nbytes=total)
        return group.size() > 1 and total > 0

    def meet(hosts: Sequence[np.ndarray]) -> None:
        rows = [host.view(np.uint8) for host in hosts]
        packed = np.concatenate(rows) if here else np.empty(total, np.uint8)
        spread(group, packed, src)
        if not here:
            bounds = np.cumsum([row.size for row in rows])[:-1]
            for row, part in zip(rows, np.split(packed, bounds), strict=True):
                row[:] = part

    def job() -> None:
        if agreed():
            with read_only(*dense) if here else writable(*dense, read=False) as hosts:
                meet(hosts)

    if is_traced():
        record_exchange(
            name,
            group,
            dense,
            lambda given: meet([arrived(x) for x in given]) if agreed() else None,
            writes=(True,) * len(dense),
        )
    else:
        group.meet(job)
    for row, parts in given:
        _parted(row, parts)


def all_reduce_coalesced(
    tensors: Sequence[Tensor],
    op: ReduceOp = ReduceOp.SUM,
    group: Group | None = None,
    async_op: bool = False,
) -> Work | None:
    """:func:`.all_reduce` of each tensor, those of one dtype and device in one exchange.

    Args:
        tensors: of the same shapes and dtypes on all ranks; dense.
        op, group, async_op: as there.

    Raises:
        DistributedError: if there are none, or ranks do not fit.
    """
    name = "all_reduce_coalesced"
    members = group_of(name, group)
    given = [x.detach() for x in _some(name, "tensors", tensors)]
    if members is None:
        return None
    alike = [[given[k] for k in places] for places in _alike(given).values()]
    rows = [cat([x.reshape(-1) for x in xs]) for xs in alike]
    works = [all_reduce(row, op, members, async_op) for row in rows]

    def part() -> None:
        _waited(works)
        for row, xs in zip(rows, alike, strict=True):
            _parted(row, xs)

    return _behind(members, part, [*tensors], async_op=async_op)


def all_gather_coalesced(
    output_tensor_lists: Sequence[Sequence[Tensor]],
    input_tensor_list: Sequence[Tensor],
    group: Group | None = None,
    async_op: bool = False,
) -> Work | None:
    """:func:`.all_gather` of each tensor, those of one dtype and device in one exchange.

    Args:
        output_tensor_lists: for each rank a list, overwritten with what that rank gives.
        input_tensor_list: what this rank gives; of the same shapes and dtypes on all ranks, dense.
        group, async_op: as there.

    Raises:
        DistributedError: if there are none, or lists or ranks do not fit.
    """
    name = "all_gather_coalesced"
    members = group_of(name, group)
    given = _some(name, "input_tensor_list", input_tensor_list)
    if members is None:
        return None
    told = [[(tuple(y.shape), y.dtype) for y in ys] for ys in output_tensor_lists]
    own = [(tuple(x.shape), x.dtype) for x in given]
    if told != [own] * members.size():
        law = "each rank's list holds tensors of the shapes and dtypes that are given"
        raise DistributedError(name, law, ranks=members.size(), lists=told, given=own)
    rows, works = list(_alike(given).values()), list[Work | None]()
    wholes = list[Tensor]()
    for places in rows:
        row = cat([given[k].detach().reshape(-1) for k in places])
        wholes.append(empty((members.size(), row.numel()), dtype=row.dtype, device=row.device))
        works.append(all_gather_into_tensor(wholes[-1], row, members, async_op))

    def part() -> None:
        _waited(works)
        for rank, ys in enumerate(output_tensor_lists):
            for whole, places in zip(wholes, rows, strict=True):
                _parted(whole[rank], [ys[k].detach() for k in places])

    return _behind(members, part, [*output_tensor_lists], async_op=async_op)


def _some(name: str, what: str, given: Sequence[Tensor]) -> list[Tensor]:
    """Dense tensors, one or more."""
    if not given:
        raise DistributedError(name, f"{what} holds a tensor", given=0)
    return [checked_tensor(name, x, what) for x in given]


def _alike(tensors: Sequence[Tensor]) -> dict[Any, list[int]]:
    """The places of those that go in one exchange."""
    found: dict[Any, list[int]] = {}
    for k, x in enumerate(tensors):
        found.setdefault((x.dtype, x.device), []).append(k)
    return found


def _waited(works: Sequence[Work | None]) -> None:
    for work in works:
        if work is not None:
            work.wait()


def _behind(
    members: Group, job: Callable[[], None], writes: list[Any], *, async_op: bool
) -> Work | None:
    """What is done behind exchanges that were begun, or have been done."""
    if async_op:
        return members.exchange(writes, job, async_op)
    with no_grad():
        job()
    return None


def _parted(row: Tensor, tensors: Sequence[Tensor]) -> None:
    """Overwrite tensors with what lies behind each other in a row."""
    sizes = [x.numel() for x in tensors]
    starts = accumulate(sizes, initial=0)
    both = zip(tensors, starts, sizes, strict=False)
    overwrite_many([(x, row[i : i + n].view(x.shape)) for x, i, n in both if n])


def _rows(tensors: Sequence[Tensor]) -> list[tuple[Tensor, list[Tensor]]]:
    """What is sent, each with the tensors that it is copied to afterwards.

    Large dense tensors are sent as they are. Others of one dtype and device make a row: each array
    that a device has to show to the host costs it a change of hands.
    """
    alone: list[tuple[Tensor, list[Tensor]]] = []
    joined: dict[Any, list[Tensor]] = {}
    for x in (x.detach() for x in tensors):
        if x.array.contiguous and x.numel() > MOST_ELEMENTS:
            alone.append((x, []))
        else:
            joined.setdefault((x.dtype, x.device), []).append(x)
    return [*alone, *((cat([x.reshape(-1) for x in xs]), xs) for xs in joined.values())]
