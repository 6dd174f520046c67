"""Messages between ranks of one machine: through memory that both share, and by MPI.

Run by :mod:`tests.ranks.test_device_move`: ``mpirun -n 3 python -m tests.ranks.device_messages``.
On cards, ``CLNET_DEVICE=nvidia mpirun -n 2 python -m tests.ranks.device_messages``.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

import clnet
from clnet import distributed as dist
from clnet.errors import DistributedError
from clnet.ranks import stream
from clnet.ranks.device_sum import may_add
from clnet.ranks.membership import group_of

DTYPES = (clnet.float32, clnet.bfloat16, clnet.bool, clnet.int64, clnet.complex64)
# Of an empty tensor; by MPI; chunks that nothing divides; more than there are slots.
SIZES = (0, 5, 300_007, 2_000_003)


def main() -> None:
    dist.init_process_group(timeout=60)
    rank, size = dist.get_rank(), dist.get_world_size()
    elsewhere = os.environ.get("ELSEWHERE")  # memory that receivers do not see
    if elsewhere:
        stream._opened = lambda told: None
    around_a_ring(rank, size)
    in_any_order(rank)
    refused(rank)
    from_anybody(rank, size)
    in_groups(rank, size)
    in_a_plan(rank, size)
    members: Any = group_of("", None)
    seen = [*members.streams.seen.values()]  # MPI moves what hosts look at
    assert bool(seen) == may_add(clnet.device())
    assert all(found == (not elsewhere) for found in seen)
    print(f"<rank {rank} of {size}>")


def drawn(rank: int, n: int, dtype: Any) -> clnet.Tensor:
    return ((clnet.arange(n) + 7 * rank) % 101 - 50).to(dtype)


def around_a_ring(rank: int, size: int) -> None:
    """All at a time, into views whose neighbours stay, of what was there when it was called."""
    after, before = (rank + 1) % size, (rank - 1) % size
    for dtype in DTYPES:
        for n in SIZES if dtype is clnet.float32 else SIZES[2:3]:
            x, around = drawn(rank, n, dtype), clnet.full((n + 3,), 1).to(dtype)
            version = around.array.storage.version
            y = around[1:-2]
            sent = dist.P2POp(dist.isend, x, after)
            works = dist.batch_isend_irecv([sent, dist.P2POp(dist.irecv, y, before)])
            others = clnet.ones(50, 50) @ clnet.ones(50, 50)
            assert [work.wait() for work in works] == [True, True]
            assert y.numpy().tobytes() == drawn(before, n, dtype).numpy().tobytes(), (dtype, n)
            assert around[[0, -2, -1]].bool().all()
            assert around.array.storage.version > version
            assert (others == 50).all()


def in_any_order(rank: int) -> None:
    """Received in another order than sent, by tags; many under way at a time."""
    sizes = (400_000, 3, 900_001, 300_000)
    if rank == 0:
        works = [dist.isend(clnet.full((n,), float(n)), 1, tag=i) for i, n in enumerate(sizes)]
        assert all(work.wait() for work in works)
    elif rank == 1:
        for i in (2, 0, 3, 1):
            x = clnet.zeros(sizes[i])
            assert dist.recv(x, 0, tag=i) == 0
            assert (x == sizes[i]).all()
    dist.barrier()


def refused(rank: int) -> None:
    """What does not fit is an error of the receiver's, and the next message goes well."""
    n = 300_007
    for wrong in (clnet.zeros(n + 1), clnet.zeros(n, dtype=clnet.int32), clnet.zeros(2)):
        if rank == 0:
            dist.send(clnet.ones(n), 1)
        elif rank == 1:
            with pytest.raises(DistributedError, match=r"sent=\('float32', 300007\)"):
                dist.recv(wrong, 0)
            assert not wrong.any()
    x = clnet.full((n,), float(rank))
    if rank == 0:
        dist.send(x, 1)
    elif rank == 1:
        dist.recv(x, 0)
        assert not x.any()
    dist.barrier()


def from_anybody(rank: int, size: int) -> None:
    if rank:
        dist.send(clnet.full((500_000,), float(rank)), 0)
    else:
        found = clnet.zeros(500_000)
        came = []
        for _ in range(size - 1):
            came.append(dist.recv(found))
            assert (found == came[-1]).all()
        assert sorted(came) == [*range(1, size)]
    dist.barrier()


def in_groups(rank: int, size: int) -> None:
    some = [size - 1, 0]
    members: Any = dist.new_group(some)
    x = clnet.full((300_000,), float(rank))
    if rank == 0:
        dist.send(x, size - 1, members)
    elif rank == size - 1:
        dist.recv(x, group_src=0, group=members)
        assert not x.any()
    dist.barrier()


def in_a_plan(rank: int, size: int) -> None:
    """Steps of a plan, while messages that were begun outside are under way."""
    after, before = (rank + 1) % size, (rank - 1) % size
    n = 300_001

    @clnet.compile
    def step(x: clnet.Tensor, few: clnet.Tensor) -> tuple[clnet.Tensor, ...]:
        y, little = clnet.zeros(n), clnet.zeros(3)
        coming: Any = dist.irecv(y, before)
        dist.isend(x * 2, after)
        if rank == 0:
            dist.send(few + 1, 1, tag=3)
        elif rank == 1:
            dist.recv(little, 0, tag=3)
        dist.all_reduce(few)
        coming.wait()
        return y + 1, little, few

    for number in range(4):
        outside: list[Any] = []
        z = clnet.zeros(n)
        outside.append(dist.irecv(z, before, tag=9))
        x = clnet.full((n,), float(rank + number))
        if number % 2:
            outside.append(dist.isend(x, after, tag=9))
        y, little, few = step(x, clnet.full((3,), float(number)))
        if not number % 2:
            outside.append(dist.isend(x, after, tag=9))
        assert (y == 2 * (before + number) + 1).all()
        assert little.tolist() == [number + 1 if rank == 1 else 0] * 3
        assert few.tolist() == [number * size] * 3
        for work in outside:
            work.wait()
        assert (z == before + number).all()
    dist.barrier()


if __name__ == "__main__":
    main()
