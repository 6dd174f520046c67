"""Elements of many ranks joined in place, a piece at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..array import Array, Visit
from ..ops.shape import to_dtype
from ..tensor import Tensor
from ..values.dtypes import Kind, float32
from .device_sum import Marked, Wish, by_host
from .hosted import arrived, arriving
from .moves import collect, joiner, plain, sum_parts
from .nearby import NEAR_BYTES
from .world import Group

__all__ = [
    "Join",
    "everywhere",
    "gathered_everywhere",
    "in_pieces",
    "is_narrow",
    "join_hosts",
    "reduced",
    "reduced_where_it_lies",
    "summed_parts",
    "visited",
]

# MPICH sums 25 MiB in half the time of 100 at once; each piece begins with what is in the cache.
_PIECE_BYTES = 8 * 2**20

Join = Callable[[np.ndarray, Any], bool]
"""Exchanges an array in place, by what MPI joins with; whether this rank has the result."""


def is_narrow(x: Tensor | Array) -> bool:
    """Whether MPI has no arithmetic for it: it is joined as float32."""
    return x.dtype.kind is Kind.FLOATING and x.dtype.itemsize < float32.itemsize


def reduced(
    x: Tensor, agree: Callable[[], object], join: Callable[[np.ndarray], None], *, stands: bool
) -> None:
    """Overwrite a tensor with what ``join`` makes of its elements in a row.

    Args:
        x: dense.
        agree: with the other ranks, before.
        join: exchanges them in place; those of 16-bit floats as float32.
        stands: whether the caller waits, and enqueues nothing meanwhile.
    """
    if not x.numel():
        agree()
        return
    narrow = is_narrow(x)
    wide = to_dtype(x.detach(), float32) if narrow else x
    with arriving(wide, stands=stands) as elements:
        agree()
        join(elements())
    if narrow:
        x.detach().copy_(wide)


def reduced_where_it_lies(
    x: Tensor, given: Visit | Marked, meet: Callable[[Sequence[Visit | Marked]], None]
) -> None:
    """Overwrite a tensor with what ``meet`` makes of what is given for it.

    Args:
        x: dense.
        given: its elements, visited before.
        meet: exchanges them.
    """
    try:
        meet([given])
    finally:
        given.end()
        with x.device.lock:
            x.array.storage.written()


def visited(group: Group, x: Array, op: str) -> Visit | Marked:
    """A dense array from this place of its queue on, as :func:`everywhere` takes what it holds.

    Args:
        group: who takes part.
        x: is overwritten; 16-bit floats need a device that may add.
        op: as for :func:`in_pieces`.
    """
    stays = is_narrow(x) or group.device_sums.wish(x, op) is not Wish.HOST
    return Marked(x) if x.size and stays else x.visit(read=True, write=True)


def everywhere(
    group: Group, given: Visit | Marked, op: str, agree: Callable[[int], set[int]]
) -> None:
    """Overwrite elements in a row with what ranks have together, on every rank.

    Args:
        group: who takes part.
        given: the elements, which are waited for when ranks have agreed: who waits for a device is
            woken late, and would let the others wait for its word as well.
        op: as for :func:`in_pieces`.
        agree: tells the other ranks a wish, and gives those of all.
    """
    if not isinstance(given, Marked):
        agree(Wish.HOST)
        join_hosts(group, arrived(given), op)
        return
    if _by_devices(group, given, op, agree):
        group.device_sums.sum(given.array, average=op == "AVG")
    elif group.size() > 1:
        by_host(given.array, lambda host: join_hosts(group, host, op), adds=True)


def gathered_everywhere(
    group: Group, given: Visit | Marked, agree: Callable[[int], set[int]]
) -> None:
    """Fill elements in a row, in which this rank's part is there, with those of the other ranks.

    Args:
        group: who takes part.
        given: a part for each rank; else as for :func:`everywhere`.
        agree: as there.
    """

    def fill(host: np.ndarray) -> None:
        rows = host.reshape(group.size(), -1)
        collect(group, rows[group.rank()].copy(), [*rows])

    if not isinstance(given, Marked):
        agree(Wish.HOST)
        fill(arrived(given))
    elif _by_devices(group, given, "SUM", agree):
        group.device_sums.gather(given.array)
    elif group.size() > 1:
        by_host(given.array, fill, adds=False)


def summed_parts(
    group: Group, given: Visit | Marked, op: str, agree: Callable[[int], set[int]]
) -> None:
    """Overwrite this rank's part of elements in a row with what ranks have together of it.

    Args:
        group: who takes part.
        given: a part for each rank; the others' are undefined then. Else as for :func:`everywhere`.
        op: as there.
        agree: as there.
    """

    def join(host: np.ndarray) -> None:
        rows = host.reshape(group.size(), -1)
        sum_parts(group, [*rows], rows[group.rank()], op)

    if not isinstance(given, Marked):
        agree(Wish.HOST)
        join(arrived(given))
    elif _by_devices(group, given, op, agree):
        group.device_sums.sum_own(given.array, average=op == "AVG")
    elif group.size() > 1:
        by_host(given.array, join, adds=True)


def _by_devices(group: Group, given: Marked, op: str, agree: Callable[[int], set[int]]) -> bool:
    """Whether ranks agree that their devices exchange it; it may be read then."""
    x, sums = given.array, group.device_sums
    wishes = agree(sums.wish(x, op))
    if group.size() == 1:
        return False
    given.wait()
    if Wish.UNKNOWN in wishes and Wish.HOST not in wishes:
        sums.try_out(group.nearby(), x.device)
        wishes = {sums.wish(x, op)}
    return wishes == {Wish.DEVICE}


def join_hosts(group: Group, host: np.ndarray, op: str) -> None:
    """As :func:`everywhere`, of elements on the host, when ranks have agreed."""
    if group.size() == 1 or not host.size:
        return
    near = group.nearby() if op in ("SUM", "AVG") and host.nbytes >= NEAR_BYTES else None
    if near is not None:
        near.sum(host, average=op == "AVG")
        return

    def join(piece: np.ndarray, kind: Any) -> bool:
        group.comm.Allreduce(group.in_place, piece, kind)
        return True

    in_pieces(group, host, op, join)


def in_pieces(group: Group, host: np.ndarray, op: str, join: Join) -> None:
    """Overwrite elements in a row with what ``join`` makes of them.

    Args:
        group: who takes part.
        host: the elements.
        op: MPI's name of how ranks are joined, or ``"AVG"``.
        join: exchanges a piece.
    """
    kind, elements = joiner(op, host.dtype), plain(host)
    step = max(1, _PIECE_BYTES // elements.itemsize)
    for start in range(0, elements.size, step):
        piece = elements[start : start + step]
        if join(piece, kind) and op == "AVG":
            piece /= group.size()
