"""Elements on the hosts of ranks that have agreed: spread, collected, added up.

Large ones go through memory that ranks of one machine share, others by MPI.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from ..errors import DistributedError
from .membership import mpi_name
from .nearby import NEAR_BYTES
from .turns import Turns
from .world import Group

__all__ = [
    "collect",
    "exchange",
    "exchange_any",
    "hand_out",
    "joiner",
    "plain",
    "spread",
    "sum_parts",
    "sum_to",
    "told_sizes",
]


def _turns(group: Group, nbytes: int) -> Turns | None:
    """What ranks give each other by; all ask for as many bytes. None: MPI."""
    near = group.nearby() if group.size() > 1 and nbytes >= NEAR_BYTES else None
    return None if near is None else near.turns


def joiner(op: str, dtype: np.dtype[Any]) -> Any:
    """What MPI joins elements with.

    Args:
        op: MPI's name, or ``"AVG"``: the sum.
        dtype: of the elements. Floats of which one is NaN have NaN as their largest and smallest,
            on all ranks, as in ``maximum``; MPI's own gives ranks different answers.
    """
    if op in ("MAX", "MIN") and dtype.kind == "f":
        return _extreme(op)
    return mpi_name("SUM" if op == "AVG" else op)


@cache
def _extreme(op: str) -> Any:
    find = np.maximum if op == "MAX" else np.minimum

    def join(given: Any, into: Any, kind: Any) -> None:
        dtype = f"f{kind.Get_size()}"
        found = np.frombuffer(into, dtype)
        find(np.frombuffer(given, dtype), found, out=found)

    return mpi_name("Op").Create(join, commute=True)


def plain(host: np.ndarray) -> np.ndarray:
    """As what MPI knows: bools are bytes."""
    return host.view(np.uint8) if host.dtype == np.bool_ else host


def spread(group: Group, host: np.ndarray, root: int) -> None:
    """Overwrite elements with those of a rank."""
    raw = host.view(np.uint8)
    turns = _turns(group, raw.size)
    if turns is None:
        group.comm.Bcast(raw, root)
    else:
        turns.broadcast(raw, root)


def collect(
    group: Group, host: np.ndarray, rows: Sequence[np.ndarray] | None, root: int | None = None
) -> None:
    """Overwrite rows with what all ranks give.

    Args:
        group: who takes part.
        host: what this rank gives.
        rows: for each rank as many elements; None: on this rank there are none.
        root: the only rank that has rows; None: all have.
    """
    if not host.size:
        return
    raw = host.view(np.uint8)
    into = None if rows is None else [row.view(np.uint8) for row in rows]
    turns = _turns(group, raw.size)
    if turns is not None:
        turns.gather(raw, into)
        return
    everyone = None if into is None else np.empty((group.size(), raw.size), np.uint8)
    if root is None:
        group.comm.Allgather(raw, everyone)
    else:
        group.comm.Gather(raw, everyone, root)
    if into is not None and everyone is not None:
        for row, found in zip(into, everyone, strict=True):
            row[:] = found


def hand_out(group: Group, parts: Sequence[np.ndarray] | None, mine: np.ndarray, root: int) -> None:
    """Overwrite elements with this rank's place of what one rank gives.

    Args:
        group: who takes part.
        parts: for each rank as many elements; None: this is not the one that gives.
        mine: is overwritten.
        root: who gives.
    """
    raw = mine.view(np.uint8)
    given = None if parts is None else [part.view(np.uint8) for part in parts]
    turns = _turns(group, raw.size)
    if turns is not None:
        turns.scatter(given, raw, root)
    else:
        group.comm.Scatter(None if given is None else np.stack(given), raw, root)


def sum_to(group: Group, host: np.ndarray, root: int) -> bool:
    """Overwrite elements of a rank with the sum over all; whether it was done."""
    turns = _turns(group, host.nbytes)
    if turns is not None:
        turns.reduce(host, root)
    return turns is not None


def sum_parts(group: Group, parts: Sequence[np.ndarray], total: np.ndarray, op: str) -> None:
    """Overwrite elements with what all ranks have in this one's place of their parts, joined.

    Args:
        group: who takes part.
        parts: for each rank as many elements as the total has.
        total: is overwritten.
        op: MPI's name of how ranks are joined, or ``"AVG"``.
    """
    turns = _turns(group, total.nbytes) if op in ("SUM", "AVG") else None
    if turns is not None:
        turns.reduce_scatter(parts, total)
    else:
        kind: Any = joiner(op, total.dtype)
        everyone = plain(np.concatenate(parts))
        group.comm.Reduce_scatter_block(everyone, plain(total), kind)
    if op == "AVG":
        halves = total.view(np.real(total).dtype)  # NumPy multiplies complex numbers' by 1 / n
        halves /= group.size()


def exchange(group: Group, parts: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> None:
    """Overwrite rows with what each rank has in this one's place of its parts."""
    given = [part.view(np.uint8) for part in parts]
    into = [row.view(np.uint8) for row in rows]
    turns = _turns(group, given[0].size)
    if turns is not None:
        turns.all_to_all(given, into, given[0].size)
        return
    sent = np.concatenate(given)
    found = np.empty_like(sent)
    group.comm.Alltoall(sent, found)
    for row, part in zip(into, np.split(found, group.size()), strict=True):
        row[:] = part


def told_sizes(
    name: str, group: Group, given: Sequence[int], expected: Sequence[int], wish: float
) -> tuple[int, int, float]:
    """The least and the largest part of all, and the largest wish; refused alike by all ranks.

    Args:
        name: of the exchange.
        group: who takes part; all have agreed on it.
        given: elements that this rank sends to each.
        expected: elements that it expects of each.
        wish: a number of this rank's.

    Raises:
        DistributedError: if one expects another number of elements than is sent to it.
    """
    told = group.comm.allgather((list(given), list(expected), wish))
    for sender, (sent, *_) in enumerate(told):
        for receiver, (_, wanted, _) in enumerate(told):
            if sent[receiver] != wanted[sender]:
                raise DistributedError(
                    name,
                    "a rank expects as many elements as are sent to it",
                    sender=group.ranks[sender],
                    receiver=group.ranks[receiver],
                    sent=sent[receiver],
                    expected=wanted[sender],
                )
    counts = [n for sent, *_ in told for n in sent]
    return min(counts), max(counts), max(wish for *_, wish in told)


def exchange_any(
    group: Group, parts: Sequence[np.ndarray], rows: Sequence[np.ndarray], largest: int
) -> None:
    """As :func:`exchange`, of parts of any sizes; MPI counts bytes in 32 bits.

    Args:
        group: who takes part.
        parts: what this rank gives to each.
        rows: for what each gives to it.
        largest: bytes of the largest part of all ranks.
    """
    turns = _turns(group, largest)
    if turns is not None:
        given, into = ([x.view(np.uint8) for x in some] for some in (parts, rows))
        turns.all_to_all(given, into, largest)
        return
    sent = np.concatenate([part.view(np.uint8) for part in parts])
    found = np.empty(sum(row.nbytes for row in rows), np.uint8)
    counts = [part.nbytes for part in parts], [row.nbytes for row in rows]
    group.comm.Alltoallv([sent, counts[0]], [found, counts[1]])
    for row, part in zip(rows, np.split(found, np.cumsum(counts[1])[:-1]), strict=True):
        row.view(np.uint8)[:] = part
