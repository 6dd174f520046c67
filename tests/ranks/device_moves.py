"""What only moves between ranks: by devices, told to by ``CLNET_SUMS``, or by hosts.

Run by :mod:`tests.ranks.test_device_move`: ``mpirun -n 3 python -m tests.ranks.device_moves``. On
cards, ``CLNET_DEVICE=nvidia mpirun -n 2 python -m tests.ranks.device_moves``.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import clnet
from clnet import distributed as dist
from clnet.errors import DistributedError
from clnet.ranks import device_room
from clnet.values.settings import SETTINGS

DTYPES = (clnet.float32, clnet.bfloat16, clnet.bool, clnet.int8, clnet.int64, clnet.complex64)
# Nothing divides it, and it goes in pieces, which begin at places that nothing divides.
N = 300_007


class CountedMoves:
    """How often devices have moved something."""

    def __init__(self) -> None:
        self.count = 0
        self._move = device_room.Mover.move

    def __call__(self, mover: Any, route: Any) -> None:
        self.count += 1
        self._move(mover, route)


moves = CountedMoves()
device_room.Mover.move = lambda self, route: moves(self, route)


def main() -> None:
    dist.init_process_group(timeout=60)
    device_room.PIECE_BYTES = 2**16
    rank, size = dist.get_rank(), dist.get_world_size()
    before = moves.count
    for dtype in DTYPES:
        moved(rank, size, dtype, None)
    by_devices = size > 1 and SETTINGS.sums == "device"
    assert (moves.count - before) == 6 * len(DTYPES) * by_devices
    some = [r for r in range(size) if r != 1] or [0]
    members: Any = dist.new_group(some)
    if rank in some:
        moved(some.index(rank), len(some), clnet.float32, members)
    few(rank, size)
    begun(rank, size)
    in_any_order(rank, size)
    in_a_plan(rank, size)
    rank_by_rank_in_a_plan(rank, size)
    refused(rank, size)
    print(f"<rank {rank} of {size}>")


def drawn(rank: int, place: int, n: int, dtype: Any) -> clnet.Tensor:
    """What a rank has in a place."""
    return ((clnet.arange(n) + 7 * rank + 31 * place) % 101 - 50).to(dtype)


def same(x: clnet.Tensor, y: clnet.Tensor) -> bool:
    return x.numpy().tobytes() == y.numpy().tobytes()


def moved(rank: int, size: int, dtype: Any, group: Any, n: int = N) -> None:
    """Each exchange once, into views whose neighbours stay."""
    ranks, last = range(size), size - 1
    around = clnet.full((n + 3,), 1).to(dtype)
    x = around[1:-2].copy_(drawn(rank, 0, n, dtype))
    version = around.array.storage.version
    dist.broadcast(x, group_src=last, group=group)
    assert same(x, drawn(last, 0, n, dtype))
    assert around[[0, -2, -1]].bool().all()
    assert (around.array.storage.version > version) == (rank != last)

    mine = drawn(rank, 0, n, dtype)
    found = list(clnet.zeros(size, n, dtype=dtype)) if rank == last else None
    dist.gather(mine, found, group_dst=last, group=group)
    assert found is None or all(same(y, drawn(r, 0, n, dtype)) for r, y in enumerate(found))
    assert same(mine, drawn(rank, 0, n, dtype))

    given = [drawn(0, r, n, dtype) for r in ranks] if rank == 0 else None
    dist.scatter(x, given, group_src=0, group=group)
    assert same(x, drawn(0, rank, n, dtype))
    assert around[[0, -2, -1]].bool().all()

    parts = [drawn(rank, r, n, dtype) for r in ranks]
    whole = clnet.zeros(size * n, dtype=dtype)
    dist.all_to_all_single(whole, clnet.cat(parts), group=group)
    wanted = [drawn(r, rank, n, dtype) for r in ranks]
    assert same(whole, clnet.cat(wanted))

    def rows(giver: int, taker: int) -> int:
        return 0 if giver == taker == 0 else 3 * n // (giver + 2 * taker + 1)

    given = [drawn(rank, r, rows(rank, r), dtype) for r in ranks]
    answers = [clnet.zeros(rows(r, rank), dtype=dtype) for r in ranks]
    dist.all_to_all(answers, given, group=group)
    wanted = [drawn(r, rank, rows(r, rank), dtype) for r in ranks]
    assert all(map(same, answers, wanted))

    single = clnet.zeros(sum(rows(r, rank) for r in ranks), dtype=dtype)
    splits = [[rows(r, rank) for r in ranks], [rows(rank, r) for r in ranks]]
    dist.all_to_all_single(single, clnet.cat(given), *splits, group=group)
    assert same(single, clnet.cat(wanted))


def few(rank: int, size: int) -> None:
    """What is empty or small goes by MPI."""
    before = moves.count
    for n in (0, 1, 5):
        moved(rank, size, clnet.int16, None, n)
    assert moves.count - before <= 2 * 3  # parts of any sizes are agreed on later
    empty = clnet.zeros(0, 3)
    dist.all_to_all_single(empty, clnet.zeros(0, 3), [0] * size, [0] * size)


def begun(rank: int, size: int) -> None:
    """Each of what was there when it was called; others compute meanwhile."""
    x, y = clnet.full((N,), float(rank)), clnet.zeros(N * size)
    works: list[Any] = [dist.broadcast(x, 0, async_op=True)]
    found = [clnet.zeros(N) for _ in range(size)] if rank == 0 else None
    given = clnet.full((N,), 2.0 * rank)
    works += [dist.gather(given, found, async_op=True)]
    works += [dist.all_to_all_single(y, clnet.full((N * size,), 3.0 * rank), async_op=True)]
    others = [clnet.ones(200, 200) @ clnet.ones(200, 200) for _ in range(9)]
    for work in works:
        assert work.wait()
    assert (x == 0).all()
    assert all((z == 2 * r).all() for r, z in enumerate(found or ()))
    assert (y.reshape(size, -1) == 3 * clnet.arange(size)[:, None]).all()
    assert all((z == 200).all() for z in others)


def in_any_order(rank: int, size: int) -> None:
    """Ranks that come late by turns find what was left for them, in rooms that serve again."""
    meet, generator = device_room.Mover._meet, np.random.default_rng(rank)

    def late(self: Any, *, soon: bool) -> None:
        time.sleep(generator.choice([0, 1e-3, 3e-3]))
        meet(self, soon=soon)
        time.sleep(generator.choice([0, 1e-3]))

    device_room.Mover._meet = late
    for _ in range(2):
        moved(rank, size, clnet.float32, None)
        x = clnet.full((N,), float(rank))
        dist.all_reduce(x)
        assert (x == sum(range(size))).all()
    device_room.Mover._meet = meet


def in_a_plan(rank: int, size: int) -> None:
    def step(x: clnet.Tensor) -> tuple[clnet.Tensor, ...]:
        first, single = x * 2, clnet.zeros(size, N)
        begun: Any = dist.broadcast(first, size - 1, async_op=True)
        whole = clnet.stack([x + r for r in range(size)])
        dist.all_to_all_single(single, whole)
        mine = clnet.zeros(N)
        dist.scatter(mine, list(whole) if rank == 0 else None, 0)
        rows = [clnet.zeros(N) for _ in range(size)]
        dist.gather(mine + 1, rows if rank == size - 1 else None, size - 1)
        turned = [clnet.zeros(N - 1 if r == rank == 0 else N) for r in range(size)]
        parts = [x[: N - 1] if r == rank == 0 else x.clone() for r in range(size)]
        dist.all_to_all(turned, parts)
        everyone = [clnet.zeros(N) for _ in range(size)]
        dist.all_gather(everyone, x)
        begun.wait()
        return first + 1, clnet.stack(everyone), single, mine, clnet.stack(rows), turned[-1]

    compiled = clnet.compile(step)
    for number in range(4):
        x = clnet.full((N,), float(rank + number))
        run: Any = step if number == 2 else compiled
        first, everyone, single, mine, rows, last = run(x)
        assert (everyone == clnet.arange(size)[:, None] + number).all()
        assert (first == 2 * (size - 1 + number) + 1).all()
        assert (single == clnet.arange(size)[:, None] + number + rank).all()
        assert (mine == number + rank).all()
        at_last = clnet.arange(size)[:, None] + number + 1
        assert (rows == (at_last if rank == size - 1 else 0)).all()
        assert (last == size - 1 + number).all()


def rank_by_rank_in_a_plan(rank: int, size: int) -> None:
    """Ranks that compute other things begin exchanges in one order all the same."""

    @clnet.compile
    def step(x: clnet.Tensor) -> tuple[clnet.Tensor, ...]:
        y = x + 1
        dist.all_reduce(y)
        z = y * 2
        dist.all_reduce(z)  # needs the first
        told = (z.sum() + y.sum()).reshape(1) * clnet.ones(3) if rank == 0 else clnet.zeros(3)
        dist.broadcast(told, 0)  # on others it needs nothing
        rows = [clnet.zeros(3) for _ in range(size)]
        dist.gather(told + rank, rows if rank == 0 else None, 0)
        last = x * 3
        dist.all_reduce(last)
        return told, clnet.stack(rows), last

    for _ in range(3):
        told, rows, last = step(clnet.ones(4))
        total = 4 * (2 * size + 4 * size * size)
        assert told.tolist() == [total] * 3
        assert rank or rows[:, 0].tolist() == [total + r for r in range(size)]
        assert last.tolist() == [3 * size] * 4


def refused(rank: int, size: int) -> None:
    """An error on all ranks, and the next exchange goes well."""
    if size == 1:
        return
    for n, kind in ((N + rank, clnet.float32), (N, (clnet.float32, clnet.int32)[rank % 2])):
        x = clnet.zeros(n, dtype=kind)
        with pytest.raises(DistributedError, match="all ranks make the same exchange"):
            dist.broadcast(x, 0)
        with pytest.raises(DistributedError, match="all ranks make the same exchange"):
            dist.scatter(x, [x] * size if rank == 0 else None, 0)
        with pytest.raises(DistributedError, match="all ranks make the same exchange"):
            dist.gather(x, [x] * size if rank == 0 else None, 0)
    with pytest.raises(DistributedError, match="all ranks make the same exchange"):
        (dist.broadcast if rank else dist.all_reduce)(clnet.zeros(N), *[0] * (rank > 0))
    parts, wrong = [clnet.zeros(N) for _ in range(size)], N + (rank == 0)
    with pytest.raises(DistributedError, match="expects as many elements as are sent to it"):
        dist.all_to_all([clnet.zeros(wrong), *parts[1:]], parts)
    with pytest.raises(DistributedError, match="all ranks make the same exchange"):
        dist.broadcast(clnet.zeros(N), rank)
    moved(rank, size, clnet.float32, None)


if __name__ == "__main__":
    main()
