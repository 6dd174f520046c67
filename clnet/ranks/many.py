"""Many tensors in one message."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from ..kernels.pointwise import MOST_ELEMENTS
from ..ops.join import cat
from ..ops.multi_tensor import overwrite_many
from ..tensor import Tensor
from .hosted import arrived, checked_tensor, read_only, writable
from .moves import spread
from .traced import is_traced, record_exchange
from .world import Group

__all__ = ["broadcast_many"]


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
        sizes = [x.numel() for x in parts]
        starts = accumulate(sizes, initial=0)
        pieces = [
            row[i : i + n].view(x.shape) for i, n, x in zip(starts, sizes, parts, strict=False)
        ]
        overwrite_many(list(zip(parts, pieces, strict=True)))


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
