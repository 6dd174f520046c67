"""Sums that devices add up, told to by ``CLNET_SUMS``: the bits of the host's, in the ranks' order.

Run by :mod:`tests.ranks.test_device_sum`: ``mpirun -n 3 python -m tests.ranks.device_sums``. On a
card, ``CLNET_DEVICE=nvidia mpirun -n 2 python -m tests.ranks.device_sums``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import clnet
from clnet import distributed as dist
from clnet.errors import DistributedError
from clnet.nn.parallel.fully_shard import fully_shard
from clnet.nn.parallel.sharded import Unit
from clnet.ranks import device_room, device_sum, nearby
from clnet.ranks.membership import group_of
from clnet.values import mode
from clnet.values.settings import SETTINGS

DTYPES = (
    *(clnet.float32, clnet.float16, clnet.bfloat16, clnet.int8, clnet.int64, clnet.complex64),
    clnet.float64,
)
PIECE_BYTES = 2**16
# The least that MPI does not sum; odd ones; twelve pieces with one element more.
SIZES = (2**16, 2**16 + 1, 140_011, 3 * 2**16 + 1)


def main() -> None:
    dist.init_process_group(timeout=60)
    device_room.PIECE_BYTES = PIECE_BYTES
    rank, size = dist.get_rank(), dist.get_world_size()
    by_numpy(rank, size)
    gathered(rank, size)
    parted(rank, size)
    begun(rank, size)
    in_a_plan(rank, size)
    in_any_order(rank, size)
    ahead(rank, size)
    told_apart(rank, size)
    print(f"<rank {rank} of {size}: {sums_by_host.count}, {least()}>")


class CountedSums:
    """How often the host has added up."""

    def __init__(self) -> None:
        self.count = 0
        self._sum = nearby.Nearby.sum

    def __call__(self, near: Any, elements: np.ndarray, *, average: bool) -> None:
        self.count += 1
        self._sum(near, elements, average=average)


sums_by_host = CountedSums()
nearby.Nearby.sum = lambda self, elements, *, average: sums_by_host(self, elements, average=average)


def least() -> list[float]:
    """Of each device that this rank has used, from how many bytes on it adds."""
    members: Any = group_of("", None)
    return [a.least_bytes for a in members.device_sums._adders.values() if a is not None]


@lru_cache(16)  # each rank wants every rank's, for sums and means
def drawn(number: int, n: int, dtype: Any) -> np.ndarray:
    """What a rank has; sums of such numbers round, and those of small integers run over."""
    generator = np.random.default_rng([number, n])
    if not dtype.differentiable:
        return generator.integers(-100, 100, n).astype(dtype.numpy)
    return (generator.standard_normal(n) * 100).astype(dtype.numpy)


def wanted(size: int, n: int, dtype: Any, op: str) -> np.ndarray:
    """The sum, rank by rank, as NumPy has it; 16-bit floats are added as float32."""
    narrow = dtype.is_floating_point and dtype.itemsize == 2
    parts = [drawn(r, n, dtype) for r in range(size)]
    total = parts[0].astype(np.float32) if narrow else parts[0].copy()
    for part in parts[1:]:
        total += part.astype(total.dtype)
    if op == "AVG":
        parts_of = total.view(total.real.dtype)  # NumPy divides complex numbers in another way
        parts_of /= size
    return total.astype(dtype.numpy)


def by_numpy(rank: int, size: int) -> None:
    for dtype in DTYPES:
        for n in SIZES if dtype in DTYPES[:3] else SIZES[1:2]:
            for op in ("SUM", "AVG") if dtype.differentiable else ("SUM",):
                x = clnet.cat([clnet.tensor(drawn(rank, n, dtype)), clnet.ones(3, dtype=dtype)])
                y, version = x[:n], x.array.storage.version
                dist.all_reduce(y, dist.ReduceOp[op])
                right = wanted(size, n, dtype, op)
                assert y.numpy().tobytes() == right.tobytes(), (dtype, n, op)
                assert x[n:].tolist() == [1, 1, 1]
                assert x.array.storage.version > version
    x = clnet.tensor(np.concatenate([[7], drawn(rank, 99_999, clnet.float32)]), dtype=clnet.float32)
    dist.all_reduce(x[1:])  # which does not begin where vectors do
    assert x[0].item() == 7
    assert (x[1:].numpy() == wanted(size, 99_999, clnet.float32, "SUM")).all()
    x = clnet.full((100_000,), float(rank))
    dist.all_reduce(x, dist.ReduceOp.MAX)
    assert (x == size - 1).all()


def gathered(rank: int, size: int) -> None:
    """Every bit of each rank's part comes to its place, also of ones that no sum would keep."""
    for dtype in DTYPES:
        for n in (*SIZES, 5) if dtype is clnet.float32 else SIZES[1:2]:
            around = clnet.full((size * n + 3,), 7, dtype=dtype)
            found = around[1:-2].view(size, n)
            version = found.array.storage.version
            dist.all_gather_into_tensor(found, clnet.tensor(drawn(rank, n, dtype)))
            rows = [drawn(r, n, dtype).tobytes() for r in range(size)]
            assert found.numpy().tobytes() == b"".join(rows), (dtype, n)
            assert found.array.storage.version > version
            assert around[[0, -2, -1]].tolist() == [7, 7, 7]
            each = list(clnet.full((size, n), 7, dtype=dtype))
            each[rank].copy_(clnet.tensor(drawn(rank, n, dtype)))
            dist.all_gather(each, each[rank])  # of which it is one itself
            assert [y.numpy().tobytes() for y in each] == rows, (dtype, n)
    odd = np.resize(np.array([0x8000_0000, 0x7FC1_2345, 1, 0xFF80_0000], np.uint32), 2**17) ^ rank
    moved = device_sum.DeviceSums.move
    with pytest.MonkeyPatch.context() as patch:
        sent = list[int]()
        keep = lambda self, *to: (sent.append(to[1].largest), moved(self, *to))  # noqa: E731
        patch.setattr(device_sum.DeviceSums, "move", keep)
        dist.all_gather([clnet.ones(2**17) for _ in range(size)], clnet.ones(2**17))
        assert sent == [2**19] * (size > 1 and SETTINGS.sums == "device")
    whole = clnet.empty(size * 2**17)
    own = whole[rank * 2**17 : (rank + 1) * 2**17]  # as programs for PyTorch do
    own.copy_(clnet.tensor(odd.view(np.float32)))
    dist.all_gather_into_tensor(whole, own)
    bits = whole.numpy().view(np.uint32).reshape(size, -1)
    assert all((row == odd ^ rank ^ r).all() for r, row in enumerate(bits))


def parted(rank: int, size: int) -> None:
    """Each rank has its part of what :func:`wanted` says, and what was given is as it was."""
    for dtype in DTYPES:
        few = () if dtype.differentiable else (5,)  # of floats MPI adds so few in another order
        for n in SIZES if dtype in DTYPES[:2] else (SIZES[1], *few):
            for op in ("SUM", "AVG") if dtype.differentiable else ("SUM",):
                given = clnet.tensor(drawn(rank, size * n, dtype))
                around = clnet.full((n + 3,), 7, dtype=dtype)
                dist.reduce_scatter_tensor(around[1:-2], given, dist.ReduceOp[op])
                right = wanted(size, size * n, dtype, op)[rank * n : (rank + 1) * n]
                assert around[1:-2].numpy().tobytes() == right.tobytes(), (dtype, n, op)
                assert around[[0, -2, -1]].tolist() == [7, 7, 7]
                assert given.numpy().tobytes() == drawn(rank, size * n, dtype).tobytes()
    given = clnet.tensor(drawn(rank, size * 70_000, clnet.float32)).reshape(size, -1)
    others = [*range(rank), *range(rank + 1, size)]
    kept = given[others].numpy()
    dist.reduce_scatter_tensor(given[rank], given)  # in place, which the other parts do not see
    right = wanted(size, size * 70_000, clnet.float32, "SUM").reshape(size, -1)
    assert (given[rank].numpy() == right[rank]).all()
    assert (given[others].numpy() == kept).all()
    x = clnet.arange(size * 100_000).reshape(size, -1) + rank
    work: Any = dist.reduce_scatter_tensor(own := x[rank], x, dist.ReduceOp.MAX, async_op=True)
    work.wait()
    assert (own == clnet.arange(100_000) + rank * 100_000 + size - 1).all()


def begun(rank: int, size: int) -> None:
    """Several at a time, each of what was there when it was called; others compute meanwhile."""
    xs = [clnet.full((100_001,), float(rank + i)) for i in range(4)]
    works: Any = [dist.all_reduce(x, async_op=True) for x in xs]
    others = [clnet.ones(300, 300) @ clnet.ones(300, 300) for _ in range(20)]
    for i, (x, work) in enumerate(zip(xs, works, strict=True)):
        assert work.wait()
        assert (x == sum(r + i for r in range(size))).all()
    assert all((y == 300).all() for y in others)
    if size > 1:
        with pytest.raises(DistributedError, match=r"rank_0=all_reduce float32 \[100000\] SUM, ra"):
            dist.all_reduce(clnet.ones(100_000 if rank == 0 else 100_001))


def in_a_plan(rank: int, size: int) -> None:
    def step(x: clnet.Tensor) -> tuple[clnet.Tensor, ...]:
        y, half, few = x * 2, (x + 1).bfloat16(), x[:5].bfloat16()
        work: Any = dist.all_reduce(y, async_op=True)
        dist.all_reduce(half, dist.ReduceOp.AVG)
        dist.all_reduce(few)  # MPI's
        z = (x @ x) * 0 + x
        whole = clnet.zeros(size, 400, 400)
        gathering: Any = dist.all_gather_into_tensor(whole, x * 3, async_op=True)
        part = clnet.zeros(400, 400)
        parting: Any = dist.reduce_scatter_tensor(part, clnet.stack([x] * size), async_op=True)
        work.wait()
        y += 1
        gathering.wait()
        parting.wait()
        return y, half, few, z, whole - 1, part + 1

    compiled = clnet.compile(step)
    total = sum(range(size))
    for number in range(5):
        x = clnet.full((400, 400), float(rank + number))
        run: Callable[..., Any] = step if number == 2 else compiled
        y, half, few, z, whole, part = run(x)
        assert (part == total + size * number + 1).all()
        assert (y == 2 * (total + size * number) + 1).all()
        mean = clnet.tensor(total / size + number + 1).bfloat16()
        assert (half == mean).all()
        assert (few == total + size * number).all()
        assert (z == x).all()
        ranks = clnet.arange(size).reshape(size, 1, 1)
        assert (whole == 3 * (ranks + number) - 1).all()


def in_any_order(rank: int, size: int) -> None:
    """Ranks that come late by turns find what was left for them, in rooms that serve again."""
    meet, generator = device_sum._Adder._meet, np.random.default_rng(rank)

    def late(self: Any, *, soon: bool) -> None:
        time.sleep(generator.choice([0, 1e-3, 5e-3]))
        meet(self, soon=soon)
        time.sleep(generator.choice([0, 1e-3]))

    device_sum._Adder._meet = late
    n = 12 * PIECE_BYTES // 4 - 5
    x = clnet.tensor(drawn(rank, n, clnet.float32))
    for _ in range(2):
        whole = clnet.zeros(size, n)
        dist.all_gather_into_tensor(whole, x)
        assert all((whole[r].numpy() == drawn(r, n, clnet.float32)).all() for r in range(size))
        own = clnet.zeros(n // size)
        dist.reduce_scatter_tensor(own, x[: n // size * size])
        right = wanted(size, n, clnet.float32, "SUM")
        mine = right[rank * (n // size) : (rank + 1) * (n // size)]
        # MPI adds up what is too little for ranks' hosts.
        near = 0 if device_sum.may_add(clnet.device()) else 1e-5
        np.testing.assert_allclose(own.numpy(), mine, rtol=near, atol=100 * near)
    dist.all_reduce(x)
    device_sum._Adder._meet = meet
    assert x.numpy().tobytes() == wanted(size, n, clnet.float32, "SUM").tobytes()


def ahead(rank: int, size: int) -> None:
    """Parameters in parts are on their way before they are asked for, in whatever order that is."""

    class Net(clnet.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            sizes = (8, 300, 300, 300, 1)
            self.blocks = clnet.nn.ModuleList(map(clnet.nn.Linear, sizes[:-1], sizes[1:]))

        def forward(self, x: clnet.Tensor, *, turned: bool) -> clnet.Tensor:
            first, *inner, last = self.blocks
            for block in (first, *(inner[::-1] if turned else inner)):
                x = clnet.tanh(block(x))
            return last(x)

    begun, begin = list[str](), Unit.begin

    def counted(self: Unit) -> None:
        begun.append(mode.current().phase)
        begin(self)

    Unit.begin = counted
    ways = list[list[float]]()
    for divided in (False, True):
        clnet.manual_seed(0)
        net: Any = Net()
        if divided:
            for block in net.blocks:
                fully_shard(block)
        net = fully_shard(net) if divided else clnet.nn.parallel.DistributedDataParallel(net)
        optimizer = clnet.optim.SGD(net.parameters(), lr=0.1)
        generator, losses = np.random.default_rng(rank), list[float]()
        for step in range(6):
            x = clnet.tensor(generator.standard_normal((4, 8)), dtype=clnet.float32)
            optimizer.zero_grad()
            loss = (net(x, turned=step > 3) ** 2).mean()
            loss.backward()
            optimizer.step()
            with clnet.no_grad():
                again = net(x, turned=step == 1)
            losses += [loss.item(), again.sum().item()]
        ways.append(losses)
    Unit.begin = begin
    np.testing.assert_allclose(*ways, rtol=1e-4)
    assert (begun.count("forward") > 10) == (size > 1 and device_sum.may_add(clnet.device()))
    assert (begun.count("backward") > 5) == (size > 1)


def told_apart(rank: int, size: int) -> None:
    """Where one rank's host adds, all do; a device that a rank comes with later is tried out."""
    if size == 1 or SETTINGS.sums != "device":
        return
    before = sums_by_host.count
    if rank == 1:
        device_sum.SETTINGS = replace(SETTINGS, sums="host")
    for dtype in (clnet.float32, clnet.bfloat16):
        x = clnet.tensor(drawn(rank, 140_011, dtype))
        dist.all_reduce(x)
        assert x.numpy().tobytes() == wanted(size, 140_011, dtype, "SUM").tobytes()
    assert sums_by_host.count == before + 2
    for dtype in (clnet.float32, clnet.bfloat16):
        whole = clnet.zeros(size, 140_011, dtype=dtype)
        dist.all_gather_into_tensor(whole, clnet.tensor(drawn(rank, 140_011, dtype)))
        rows = [drawn(r, 140_011, dtype).tobytes() for r in range(size)]
        assert whole.numpy().tobytes() == b"".join(rows)
    device_sum.SETTINGS = SETTINGS
    dist.all_reduce(clnet.ones(5 * PIECE_BYTES // 4))  # the next is none that a room begins with
    if clnet.device().type == "cpu":
        with clnet.device(clnet.device("pocl", threads=1) if rank == 0 else clnet.device()):
            x = clnet.tensor(drawn(rank, 140_011, clnet.float32))
            dist.all_reduce(x)
        assert (x.numpy() == wanted(size, 140_011, clnet.float32, "SUM")).all()
    assert sums_by_host.count == before + 2
    sums_by_host.count = 0


if __name__ == "__main__":
    main()
