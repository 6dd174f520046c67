"""Elements of many ranks joined in place, a piece at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ops.shape import to_dtype
from ..tensor import Tensor
from ..values.dtypes import Kind, float32
from .hosted import arriving
from .membership import mpi_name
from .nearby import NEAR_BYTES
from .world import Group

__all__ = ["Join", "everywhere", "in_pieces", "is_narrow", "plain", "reduced"]

# MPICH sums 25 MiB in half the time of 100 at once; each piece begins with what is in the cache.
_PIECE_BYTES = 8 * 2**20

Join = Callable[[np.ndarray, Any], bool]
"""Exchanges an array in place, by what MPI joins with; whether this rank has the result."""


def is_narrow(x: Tensor) -> bool:
    """Whether MPI has no arithmetic for it: it is joined as float32."""
    return x.dtype.kind is Kind.FLOATING and x.dtype.itemsize < float32.itemsize


def plain(host: np.ndarray) -> np.ndarray:
    """As what MPI knows: bools are bytes."""
    return host.view(np.uint8) if host.dtype == np.bool_ else host


def reduced(x: Tensor, agree: Callable[[], None], join: Callable[[np.ndarray], None]) -> None:
    """Overwrite a tensor with what ``join`` makes of its elements in a row.

    Args:
        x: dense.
        agree: with the other ranks, before.
        join: exchanges them in place; those of 16-bit floats as float32.
    """
    if not x.numel():
        agree()
        return
    narrow = is_narrow(x)
    wide = to_dtype(x.detach(), float32) if narrow else x
    with arriving(wide) as elements:
        agree()
        join(elements())
    if narrow:
        x.detach().copy_(wide)


def everywhere(group: Group, host: np.ndarray, op: str) -> None:
    """Overwrite elements in a row with what ranks have together, on every rank.

    Args:
        group: who takes part.
        host: the elements.
        op: as for :func:`in_pieces`.
    """
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
    kind = mpi_name("SUM" if op == "AVG" else op)
    elements = plain(host)
    step = max(1, _PIECE_BYTES // elements.itemsize)
    for start in range(0, elements.size, step):
        piece = elements[start : start + step]
        if join(piece, kind) and op == "AVG":
            piece /= group.size()
