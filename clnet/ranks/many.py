"""Many tensors in one message."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..tensor import Tensor
from .hosted import checked_tensor, read_only, writable
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
    given = [x if x.array.contiguous else x.detach().contiguous() for x in tensors]
    dense = [checked_tensor(name, x, traced=True) for x in given]
    here, total = group.rank() == src, sum(x.array.nbytes for x in dense)

    def agreed() -> bool:
        dtypes = ",".join(sorted({x.dtype.name for x in dense}))
        group.agree(name, dtype=dtypes, root=src, shape=(len(dense),), size=total, nbytes=total)
        return group.size() > 1 and total > 0

    def meet(hosts: Sequence[np.ndarray]) -> None:
        rows = [host.view(np.uint8) for host in hosts]
        packed = np.concatenate(rows) if here else np.empty(total, np.uint8)
        group.comm.Bcast(packed, src)
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
            lambda hosts: meet(hosts) if agreed() else None,
            writes=(True,) * len(dense),
        )
    else:
        group.meet(job)
    for x, copied in zip(tensors, given, strict=True):
        if copied is not x:
            x.detach().copy_(copied)
