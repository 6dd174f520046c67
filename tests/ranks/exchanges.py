"""Every exchange, as each rank sees it; run by ``mpirun``, with 2 ranks or more."""

from __future__ import annotations

import warnings
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

import clnet
from clnet import distributed as dist
from clnet.errors import ArgumentError, DistributedError, DtypeError, ShapeError, TraceError
from clnet.kernels.pointwise import MOST_ELEMENTS
from clnet.ranks.many import broadcast_many


def main() -> None:
    with pytest.raises(DistributedError, match="init_process_group"):
        dist.get_rank()
    assert dist.is_available()
    assert not dist.is_initialized()
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    rank, size = dist.get_rank(), dist.get_world_size()
    assert (dist.is_initialized(), dist.get_backend()) == (True, "mpi")
    with pytest.raises(DistributedError, match=r"joined once.*destroy_process_group"):
        dist.init_process_group()
    joined(rank, size)
    extremes_of_nan(rank, size)
    narrow_and_few(rank, size)
    spread(rank, size)
    many(rank, size)
    coalesced(rank, size)
    begun(rank, size)
    sent(rank, size)
    objects(rank, size)
    groups(rank, size)
    in_another_order(size)
    left_groups()
    refused(rank, size)
    mismatched(rank)
    in_a_plan(rank, size)
    differentiated(rank, size)
    sampler = clnet.utils.data.DistributedSampler(range(7), shuffle=False)
    assert (sampler.rank, sampler.num_replicas) == (rank, size)
    dist.destroy_process_group()
    assert not dist.is_initialized()
    dist.init_process_group(world_size=size, rank=rank)  # once more
    dist.barrier()
    dist.destroy_process_group()
    with pytest.raises(DistributedError, match="mpirun started as many"):
        dist.init_process_group(world_size=size + 1)
    print(f"<rank {rank} of {size} is done>")


def joined(rank: int, size: int) -> None:
    total = size * (size + 1) // 2
    for dtype in (clnet.float32, clnet.bfloat16, clnet.float16, clnet.int64, clnet.uint8):
        x = clnet.full((3, 2), rank + 1).to(dtype)
        assert dist.all_reduce(x) is None
        assert (x.dtype, x.tolist()) == (dtype, [[total] * 2] * 3)
    for op, wanted in (("MAX", size), ("MIN", 1), ("AVG", total / size)):
        x = clnet.full((2,), float(rank + 1))
        dist.all_reduce(x, op=dist.ReduceOp[op])
        assert x.tolist() == [wanted] * 2
    x = clnet.tensor([True, rank == 0, False])
    dist.all_reduce(x)
    assert x.tolist() == [True, True, False]
    x = clnet.tensor([1 << rank])
    dist.all_reduce(x, dist.ReduceOp.BOR)
    assert x.item() == (1 << size) - 1
    x = clnet.tensor([1.0 + 2j])
    dist.all_reduce(x)
    assert x.item() == size * (1 + 2j)
    part = clnet.zeros(4, 3)
    dist.all_reduce(part[1:3].add_(1.0))  # a view: its neighbours stay
    assert part.sum(1).tolist() == [0, 3 * size, 3 * size, 0]
    x = clnet.full((2,), float(rank + 1))
    dist.reduce(x, dst=1)
    assert x.tolist() == [total if rank == 1 else rank + 1] * 2
    large = (clnet.arange(700_000) % 1009).float() * (rank + 1)  # three pieces of two ranks
    dist.all_reduce(large)
    assert (large.numpy() == np.arange(700_000) % 1009 * total).all()
    for turn in range(3):  # in several turns; with large pages, where there are any
        x = large * (rank + turn)
        dist.broadcast(x, 1)
        assert (x == large * (1 + turn)).all()
    # Of sizes that go through shared memory, and leave some over.
    for dtype in (clnet.bfloat16, clnet.int32, clnet.complex64):
        x = (clnet.arange(600_011) % 7).to(dtype) * (rank + 1)
        dist.all_reduce(x)
        assert (x == (clnet.arange(600_011) % 7).to(dtype) * total).all()
    mean = clnet.full((150_001,), float(rank + 1))
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    assert (mean == total / size).all()
    dist.all_reduce(clnet.zeros(0, 3))
    with warnings.catch_warnings():  # NumPy's of an overflow, say: GradScaler looks for those
        warnings.simplefilter("error")
        large = clnet.full((100_003,), 3e38 if rank else float("inf"))
        large[1:] = -3e38 if rank else 3e38
        large[2:] = 3e38
        dist.all_reduce(large)
        assert large[:3].isfinite().tolist() == [False, size < 4, False]
    # In floats that round: the same bits on every rank, and once more.
    clnet.manual_seed(rank)
    for count in (1000, 100_003):
        x = clnet.randn(count)
        found = []
        for _ in range(2):
            y = x.clone()
            dist.all_reduce(y)
            found += [clnet.zeros(count) for _ in range(size)]
            dist.all_gather(found[-size:], y)
        assert len({y.numpy().tobytes() for y in found}) == 1


def extremes_of_nan(rank: int, size: int) -> None:
    """NaN on one rank is the largest and the smallest on all."""
    for op in (dist.ReduceOp.MAX, dist.ReduceOp.MIN):
        for dtype in (clnet.float32, clnet.bfloat16):
            x = clnet.tensor([rank, float("nan") if rank == 1 else 1.0], dtype=dtype)
            part = clnet.zeros(1, dtype=dtype)
            dist.reduce_scatter(part, [x[1:]] * size, op)
            dist.all_reduce(x, op)
            assert x[:1].tolist() == [size - 1 if op is dist.ReduceOp.MAX else 0]
            assert clnet.cat([x[1:], part]).isnan().tolist() == [True, True]


def narrow_and_few(rank: int, size: int) -> None:
    """Integers of 8 bits wrap as NumPy's, also in shared memory; one element, and none."""
    for dtype, kind in ((clnet.int8, np.int8), (clnet.uint8, np.uint8)):
        x = clnet.full((600_011,), 100 + rank, dtype=dtype)
        dist.all_reduce(x)
        total = np.arange(100, 100 + size).sum().astype(kind)
        assert (x.numpy() == total).all()
    x = clnet.tensor(float(rank))
    dist.all_reduce(x)
    assert (x.shape, x.item()) == ((), sum(range(size)))
    whole = clnet.zeros(size)
    dist.all_gather_into_tensor(whole, clnet.tensor(float(rank)))
    assert whole.tolist() == list(range(size))
    none = clnet.zeros(0, 3)
    dist.broadcast(none, 0)
    dist.all_gather([clnet.zeros(0, 3)] * size, none)
    dist.all_gather_into_tensor(clnet.zeros(0), none)
    dist.reduce_scatter_tensor(clnet.zeros(0), none)
    dist.all_to_all_single(clnet.zeros(0), none)
    dist.scatter(none, [none] * size if rank == 0 else None)


def in_its_own_memory(rank: int, size: int) -> None:
    """What is given may be a part of what is overwritten, as in PyTorch's programs."""

    def collect(part: clnet.Tensor) -> clnet.Tensor:
        whole = clnet.zeros(2 * size)
        whole[2 * rank : 2 * rank + 2] = part
        dist.all_gather_into_tensor(whole, whole[2 * rank : 2 * rank + 2])
        return whole

    for kind in (lambda f: f, clnet.compile):
        found = kind(collect)(clnet.full((2,), rank + 1.0))
        assert found.tolist() == [r + 1.0 for r in range(size) for _ in range(2)]
    total = size * (size + 1) / 2
    for listed in (False, True):
        whole = clnet.arange(2 * size).float() * (rank + 1)
        part, parts = whole[2 * rank : 2 * rank + 2], [*whole.clone().chunk(size)]
        parts[rank] = part
        if listed:
            dist.reduce_scatter(part, parts)
        else:
            dist.reduce_scatter_tensor(part, whole)
        assert part.tolist() == [2 * rank * total, (2 * rank + 1) * total]
    whole = clnet.arange(size).float() + 10 * rank
    dist.all_to_all_single(whole, whole)
    assert whole.tolist() == [10 * r + rank for r in range(size)]


def spread(rank: int, size: int) -> None:
    x = clnet.full((2, 2), float(rank))
    version = x.array.storage.version
    dist.broadcast(x, src=1)
    assert x.tolist() == [[1, 1]] * 2
    assert (x.array.storage.version > version) == (rank != 1)
    mine = clnet.full((2,), rank + 10)
    listed = [clnet.zeros(2, dtype=clnet.int64) for _ in range(size)]
    dist.all_gather(listed, mine)
    assert [y.tolist() for y in listed] == [[r + 10] * 2 for r in range(size)]
    whole = clnet.zeros(size, 2, dtype=clnet.int64)
    dist.all_gather_into_tensor(whole, mine)
    assert whole.tolist() == [[r + 10] * 2 for r in range(size)]
    found = [clnet.zeros(2, dtype=clnet.int64) for _ in range(size)] if rank == 0 else None
    dist.gather(mine, found)
    assert found is None or [y.tolist() for y in found] == [[r + 10] * 2 for r in range(size)]
    place = clnet.zeros(2)
    given = [clnet.full((2,), float(r)) for r in range(size)] if rank == 1 else None
    dist.scatter(place, given, src=1)
    assert place.tolist() == [rank] * 2
    parts = [clnet.full((2,), float(10 * r + rank)) for r in range(size)]
    dist.reduce_scatter(place, parts)
    total = sum(range(size))
    assert place.tolist() == [10 * rank * size + total] * 2
    half = clnet.zeros(2, dtype=clnet.float16)
    dist.reduce_scatter_tensor(half, clnet.cat(parts).half(), op=dist.ReduceOp.AVG)
    assert half.tolist() == [10 * rank + total / size] * 2
    answers = [clnet.zeros(2) for _ in range(size)]
    dist.all_to_all(answers, parts)
    assert [y.tolist() for y in answers] == [[10 * rank + r] * 2 for r in range(size)]
    single = clnet.zeros(2 * size)
    dist.all_to_all_single(single, clnet.cat(parts))
    assert single.tolist() == clnet.cat(answers).tolist()
    in_its_own_memory(rank, size)
    unequal(rank, size)
    large_ones(rank, size)
    dist.barrier()


def unequal(rank: int, size: int) -> None:
    """Rank r sends (r + s) % 3 rows to rank s."""
    sizes = [(rank + s) % 3 for s in range(size)]
    x = clnet.full((sum(sizes), 2), float(rank))
    y = clnet.full((sum(sizes), 2), -1.0)
    dist.all_to_all_single(y, x, sizes, sizes)
    wanted = [float(s) for s in range(size) for _ in range(sizes[s])]
    assert y[:, 1].tolist() == wanted
    listed = [clnet.zeros(n, 2) for n in sizes]
    dist.all_to_all(listed, list(x.split(sizes)))
    assert clnet.cat(listed)[:, 0].tolist() == wanted
    with pytest.raises(DistributedError, match="expects as many elements as are sent to it"):
        dist.all_to_all_single(x, x, sizes, sizes if rank else [sum(sizes), *[0] * (size - 1)])
    with pytest.raises(DistributedError, match="split sizes of input are rows for each rank"):
        dist.all_to_all_single(y, x, sizes, [sum(sizes) + 1, *sizes[1:]])
    dist.barrier()


def large_ones(rank: int, size: int) -> None:
    """Through shared memory, in several turns that nothing divides; mixed with sums."""
    n, total = 300_007, size * (size + 1) // 2
    like = np.arange(n) % 97
    for dtype in (clnet.int32, clnet.float16, clnet.bool, clnet.complex64):
        wanted = [clnet.tensor(like + r).to(dtype).numpy() for r in range(size)]
        mine = clnet.tensor(wanted[rank])
        listed = [clnet.zeros(n, dtype=dtype) for _ in range(size)]
        dist.all_gather(listed, mine)
        assert all((y.numpy() == w).all() for y, w in zip(listed, wanted, strict=True))
        found = [clnet.zeros(n, dtype=dtype) for _ in range(size)] if rank == 1 else None
        dist.gather(mine, found, dst=1)
        assert all((y.numpy() == w).all() for y, w in zip(found or (), wanted, strict=False))
        y = mine.clone()
        dist.broadcast(y, src=size - 1)
        assert (y.numpy() == wanted[-1]).all()
        turned = [clnet.zeros(n, dtype=dtype) for _ in range(size)]
        dist.all_to_all(turned, listed)
        assert all((y.numpy() == wanted[rank]).all() for y in turned)
    for op, scale in ((dist.ReduceOp.SUM, 1), (dist.ReduceOp.AVG, size), (dist.ReduceOp.MAX, 0)):
        x = clnet.tensor(like * (rank + 1)).float()
        wanted = like * total / scale if scale else like * size
        part = clnet.zeros(n)
        dist.reduce_scatter(part, [x + k for k in range(size)], op)
        extra = rank if not scale or scale == size else rank * size
        assert np.abs(part.numpy() - wanted - extra).max() < 1e-3
        dist.all_reduce(x.clone())
        dist.reduce(x, 1, op)
        assert np.abs(x.numpy() - (wanted if rank == 1 else like * (rank + 1))).max() < 1e-3
    listed = [clnet.full((n,), -1.0) for _ in range(size)]
    listed[0].fill_(float(rank))
    dist.all_gather(listed, listed[0])  # one of them is what each gives
    assert [y[-1].item() for y in listed] == list(range(size))


def coalesced(rank: int, size: int) -> None:
    def given() -> list[clnet.Tensor]:
        return [clnet.full((2,), float(rank)), clnet.tensor(rank), clnet.ones(0), clnet.ones(2, 3)]

    for begins in (False, True):
        xs = given()
        work = dist.all_reduce_coalesced(xs, async_op=begins)
        assert work.result() == xs if begins else work is None
        total = sum(range(size))
        assert [x.tolist() for x in xs] == [[total] * 2, total, [], [[size] * 3] * 2]
        everyone = [[clnet.zeros_like(x) for x in xs] for _ in range(size)]
        work = dist.all_gather_coalesced(everyone, given(), async_op=begins)
        assert work.wait() if begins else work is None
        for k, ys in enumerate(everyone):
            assert [y.tolist() for y in ys] == [[k] * 2, k, [], [[1] * 3] * 2]
    with pytest.raises(DistributedError, match="tensors holds a tensor"):
        dist.all_reduce_coalesced([])
    with pytest.raises(DistributedError, match="shapes and dtypes that are given"):
        dist.all_gather_coalesced(everyone[:-1], given())


def many(rank: int, size: int) -> None:
    """Tensors of several dtypes in one message, whatever their strides; the others keep nothing."""
    del size
    large = MOST_ELEMENTS + 1
    dtypes = (clnet.float32, clnet.int64, clnet.bfloat16, clnet.bool)
    given = [clnet.full((3 + i,), rank == 0).to(d) for i in range(30) for d in dtypes]
    strided = clnet.full((4, 6), float(rank))[:, ::2]
    given += [strided, clnet.full((large,), float(rank)), clnet.empty(0), clnet.full((), rank)]
    broadcast_many(given, dist.group.WORLD)
    assert all(x.to(clnet.float32).eq(1).all().item() for x in given[:-4])
    assert all(not x.any().item() for x in given[-4:])


def begun(rank: int, size: int) -> None:
    xs = [clnet.full((1000,), float(rank + i)) for i in range(4)]
    works = [dist.all_reduce(x, async_op=True) for x in xs]
    for i, (x, work) in enumerate(zip(xs, works, strict=True)):
        assert work.wait()
        assert work.is_completed()
        assert (x == sum(r + i for r in range(size))).all()
    x = clnet.full((3,), float(rank))
    assert dist.all_reduce(x, async_op=True).result() == [x]

    def once_more(done: clnet.futures.Future) -> clnet.Tensor:
        (found,) = done.value()
        dist.all_reduce(found)  # waits itself
        return found / size

    future = dist.all_reduce(x, async_op=True).get_future().then(once_more)
    assert future.wait().tolist() == [size * sum(range(size))] * 3
    listed = [clnet.zeros(1) for _ in range(size)]
    work = dist.all_gather(listed, clnet.ones(1), async_op=True)
    assert work.get_future().wait() == [listed]
    with pytest.raises(DistributedError, match="make the same exchange"):
        dist.all_reduce(clnet.ones(2 + rank), async_op=True).get_future().wait()


def sent(rank: int, size: int) -> None:
    """Around a ring, all at the same time; and by a tag."""
    x, y = clnet.full((300_000,), float(rank)), clnet.zeros(300_000)
    after, before = (rank + 1) % size, (rank - 1) % size
    works = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, x, after), dist.P2POp(dist.irecv, y, before)]
    )
    assert [work.wait() for work in works] == [True, True]
    assert (y == before).all()
    if rank == 0:
        dist.send(clnet.tensor([5, 6]), dst=1, tag=7)
    elif rank == 1:
        z = clnet.zeros(2, dtype=clnet.int64)
        assert dist.recv(z, tag=7) == 0
        assert z.tolist() == [5, 6]
    if rank == 0:
        dist.send(clnet.ones(3), 1)
    elif rank == 1:
        with pytest.raises(DistributedError, match=r"sent=\('float32', 3\)"):
            dist.recv(clnet.zeros(2), 0)
    if rank == 0:  # so many that it waits until they are taken
        dist.send(clnet.ones(300_000), 1)
    elif rank == 1:
        with pytest.raises(DistributedError, match=r"sent=\('float32', 300000\)"):
            dist.recv(clnet.zeros(2), 0)
    for tag in (-1, 2**31, "a"):
        with pytest.raises(ArgumentError, match="tag is a whole number"):
            dist.send(clnet.ones(1), dst=after, tag=tag)  # pyrefly: ignore[bad-argument-type]
    with pytest.raises(DistributedError, match="not to itself"):
        dist.send(clnet.ones(1), dst=rank)
    out_of_order(rank)


def out_of_order(rank: int) -> None:
    """Messages wait for no other's turn, and those of one tag come in the order they were sent."""
    values = [clnet.full((n,), float(n)) for n in (3, 70_000, 5)]
    if rank == 0:
        dist.send(values[0], 1, tag=1)
        dist.recv(clnet.zeros(1), 1, tag=9)
        works = [dist.isend(x, 1, tag=2) for x in values[1:]]
        assert all(work.wait() for work in works)
    elif rank == 1:
        found = [clnet.zeros(n) for n in (70_000, 5, 3)]
        works = [dist.irecv(y, 0, tag=t) for y, t in zip(found, (2, 2, 1), strict=True)]
        assert works[2].result() == 0
        dist.send(clnet.ones(1), 0, tag=9)
        assert [w.result() for w in works] == [0, 0, 0]
        assert [len(y) for y in found if (y == len(y)).all()] == [70_000, 5, 3]
        with pytest.raises(DistributedError, match="not done in time"):
            dist.irecv(found[0], 0, tag=5).wait(0.01)
    dist.barrier()
    if rank == 0:  # what was not waited for is received still
        dist.send(values[1], 1, tag=5)


def objects(rank: int, size: int) -> None:
    found = [None] * size
    dist.all_gather_object(found, {"rank": rank})
    assert found == [{"rank": r} for r in range(size)]
    listed = ["a", rank] if rank == 0 else [None, None]
    dist.broadcast_object_list(listed, src=0)
    assert listed == ["a", 0]
    gathered = [None] * size if rank == 1 else None
    dist.gather_object(rank, gathered, dst=1)
    assert gathered is None or gathered == list(range(size))
    place = [None]
    dist.scatter_object_list(place, list(range(size)) if rank == 0 else None, src=0)
    assert place == [rank]
    if rank == 0:
        dist.send_object_list(["b", {2: 3}], dst=1)
        dist.send_object_list(["too", "many"], dst=1)
    elif rank == 1:
        assert dist.recv_object_list(listed) == 0
        assert listed == ["b", {2: 3}]
        with pytest.raises(DistributedError, match=r"list .*sent=\('objects', 2\), tensor=.* 1\)"):
            dist.recv_object_list([None], src=0)
    # One rank sees that it cannot; the others hear of it, and none waits for ever.
    if rank == 0:
        with pytest.raises(AttributeError, match="pickle"):
            dist.all_gather_object(found, lambda: None)
    with pytest.raises(DistributedError, match="rank_0=barrier, rank_1=all_gather_object"):
        dist.barrier() if rank == 0 else dist.all_gather_object(found, 1)


def groups(rank: int, size: int) -> None:
    last = dist.new_group([size - 1])
    every = dist.new_group()
    if rank == size - 1:
        assert (dist.get_rank(last), dist.get_world_size(last)) == (0, 1)
        assert dist.get_process_group_ranks(last) == [rank]
        assert (dist.get_global_rank(last, 0), dist.get_group_rank(last, rank)) == (rank, 0)
    else:
        assert last is dist.GroupMember.NON_GROUP_MEMBER
        assert dist.get_rank(last) == -1
    x = clnet.ones(1)
    dist.all_reduce(x, group=last)
    assert x.item() == 1
    dist.all_reduce(x, group=every)
    assert x.item() == size
    with pytest.raises(DistributedError, match="ranks are some of the world"):
        dist.new_group([size])
    own, made = dist.new_subgroups(1)
    assert (dist.get_process_group_ranks(own), len(made)) == ([rank], size)
    assert [g is own for g in made] == [r == rank for r in range(size)]
    own, made = dist.new_subgroups_by_enumeration([[1], [0]])
    assert made[1 - rank] is own if rank < 2 else own is None
    assert dist.get_world_size(dist.new_subgroups()[0]) == size  # all are on this machine
    with pytest.raises(DistributedError, match="groups of one size have all ranks"):
        dist.new_subgroups(size + 1)
    with pytest.raises(DistributedError, match="a rank is in one group"):
        dist.new_subgroups_by_enumeration([[0], [0, 1]])
    dist.monitored_barrier(timeout=60)
    assert dist.get_node_local_rank() == rank
    assert (dist.Backend("GLOO"), dist.Backend.MPI) == ("gloo", "mpi")


def in_another_order(size: int) -> None:
    """A dense tensor is joined as it lies."""
    turned = clnet.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1)
    dist.all_reduce(turned)
    assert turned.tolist() == (size * np.arange(24.0)).reshape(2, 3, 4).transpose(2, 0, 1).tolist()


def left_groups() -> None:
    """MPI has 2,048 communicators; a group that all have left has none of them any more."""
    group = dist.new_group()
    assert group.comm
    dist.destroy_process_group(group)
    assert not group.comm
    assert not group.direct
    with pytest.raises(DistributedError, match="has not left the group"):
        dist.barrier(group)
    dist.barrier()


def refused(rank: int, size: int) -> None:
    """What one rank alone can tell; nobody waits for it."""
    with pytest.raises(ShapeError, match="tensor is dense"):
        dist.all_reduce(clnet.zeros(3, 3).T[:2])
    with pytest.raises(ShapeError, match="tensor is dense"):
        dist.all_reduce(clnet.zeros(3, 1).expand(3, 3))
    with pytest.raises(DistributedError, match="tensor has elements"):
        dist.all_reduce(clnet.zeros(3, device="meta"))
    with pytest.raises(DtypeError, match="can be joined so"):
        dist.all_reduce(clnet.ones(1, dtype=clnet.int64), dist.ReduceOp.AVG)
    with pytest.raises(DistributedError, match="a tensor for each rank"):
        dist.all_gather([clnet.zeros(1)] * (size + 1), clnet.zeros(1))
    with pytest.raises(DistributedError, match="size and dtype"):
        dist.all_gather([clnet.zeros(2)] * size, clnet.zeros(1))
    with pytest.raises(DistributedError, match="as large as the other"):
        dist.all_gather_into_tensor(clnet.zeros(size + 1), clnet.zeros(1))
    with pytest.raises(TraceError, match=r"Compile what lies before"):
        clnet.compile(lambda x: dist.reduce(x, 0))(clnet.ones(1))


def in_a_plan(rank: int, size: int) -> None:
    """Exchanges are steps of a plan, which waits for what was begun outside before."""

    @clnet.compile
    def step(x: clnet.Tensor) -> tuple[clnet.Tensor, ...]:
        y, half, whole = x * 2, (x + 1).half(), clnet.zeros(size, 2)
        work = dist.all_reduce(y, async_op=True)
        dist.all_reduce(half, dist.ReduceOp.AVG)
        first = x.clone()
        dist.broadcast(first, 1)
        dist.all_gather_into_tensor(whole, x)
        work.wait()
        return y + 1, half, first, whole

    total = sum(range(size))
    for number in range(4):
        begun = dist.all_reduce(clnet.full((1000,), 1.0), async_op=True)
        y, half, first, whole = step(clnet.full((2,), float(rank + number)))
        assert y.tolist() == [2 * (total + size * number) + 1] * 2
        assert half.tolist() == [total / size + number + 1] * 2
        assert first.tolist() == [1 + number] * 2
        assert whole.tolist() == [[r + number] * 2 for r in range(size)]
        begun.wait()
    summed = clnet.compile(lambda x: dist.all_reduce(x + 1))
    with pytest.raises(DistributedError, match=r"rank_0=all_reduce float32 \[2\].*rank_1=.*\[3\]"):
        summed(clnet.zeros(2 if rank == 0 else 3))
    # What nobody waits for is there when the function ends.
    forgotten = clnet.compile(lambda x: (y := x * 2, dist.all_reduce(y, async_op=True))[0])
    for _ in range(2):
        assert forgotten(clnet.full((2,), float(rank))).tolist() == [2.0 * total] * 2
    left = []
    clnet.compile(lambda x: left.append(dist.all_reduce(x + 1, async_op=True)))(clnet.ones(1))
    with pytest.raises(TraceError, match=r"waited for there"):
        left[0].wait()
    dist.barrier()


def mismatched(rank: int) -> None:
    """An error on every rank, and the next exchange goes well."""
    with pytest.raises(DistributedError, match=r"rank_0=all_reduce float32 \[2\] SUM, rank_1=.*3"):
        dist.all_reduce(clnet.zeros(2 if rank == 0 else 3))
    last = (2, 1) if rank == 0 else (1, 2)
    with pytest.raises(DistributedError, match=r"all ranks make the same exchange, of the same sh"):
        dist.all_reduce(clnet.zeros(*[1] * 20, *last))  # shapes of more letters than are told
    with pytest.raises(DistributedError, match=r"rank_0=barrier, rank_1=broadcast .* root 0"):
        dist.barrier() if rank == 0 else dist.broadcast(clnet.zeros(1), 0)
    with pytest.raises(DistributedError, match="rank_0=all_gather_object, rank_1=Distributed"):
        collect_or_make(rank)
    work = dist.all_reduce(
        clnet.zeros(2, dtype=clnet.float32 if rank == 0 else clnet.float16), async_op=True
    )
    with pytest.raises(DistributedError, match=r"rank_0=.*float32.*, rank_1=.*float16"):
        work.wait()
    assert (work.is_completed(), work.is_success()) == (True, False)
    dist.barrier()
    # Nobody waits: the next exchange tells, once.
    works = [dist.all_reduce(clnet.zeros(2 + (rank + i) % 2), async_op=True) for i in range(2)]
    del works
    with pytest.raises(DistributedError, match=r"rank_0=all_reduce float32 \[2\] SUM, rank_1=.*3"):
        dist.barrier()
    dist.barrier()


def collect_or_make(rank: int) -> None:
    if rank == 0:
        dist.all_gather_object([None] * dist.get_world_size(), 1)
    else:
        clnet.nn.parallel.DistributedDataParallel(clnet.nn.Linear(2, 2))


def differentiated(rank: int, size: int) -> None:
    x = clnet.tensor([float(rank + 1)], requires_grad=True)
    y = dist.nn.all_reduce(x)
    (y * y * (rank + 1)).sum().backward()
    total = size * (size + 1) / 2
    assert (y.item(), x.grad.item()) == (total, 2 * total * total)
    mine = clnet.full((2,), rank + 1.0)  # by which each rank multiplies what it gets
    first = rank == 0
    cases = {
        "all_gather": (lambda x: sum(dist.nn.all_gather(x)), total, total),
        "broadcast": (lambda x: dist.nn.broadcast(x, 0), 1, total if first else 0),
        "reduce": (lambda x: dist.nn.reduce(x, 0), total if first else 0, 1),
        "gather": (lambda x: sum(dist.nn.gather(x)), total if first else 0, 1),
        "scatter": (lambda x: dist.nn.scatter([x] * size), 1, total if first else 0),
        "reduce_scatter": (lambda x: dist.nn.reduce_scatter(x, [x] * size), total, total),
        "all_to_all": (lambda x: sum(dist.nn.all_to_all([x] * size, [x] * size)), total, total),
    }
    for name, (run, value, slope) in cases.items():
        x = mine.clone().requires_grad_()
        y = run(x)
        (y * mine).sum().backward()
        assert (name, y.tolist(), x.grad.tolist()) == (name, [value] * 2, [slope] * 2)
    x = clnet.arange(float(size), requires_grad=True)
    y = dist.nn.all_to_all_single(clnet.zeros(size), x)
    (y * (rank + 1)).sum().backward()
    assert (y.tolist(), x.grad.tolist()) == ([rank] * size, [r + 1 for r in range(size)])
    with pytest.raises(ArgumentError, match="what has a gradient is SUM or AVG"):
        dist.nn.reduce(x, 0, dist.ReduceOp.MAX)

    @clnet.compile
    def step(x: clnet.Tensor) -> Any:
        x = x.detach().requires_grad_()
        (clnet.stack(dist.nn.all_gather(x)) * mine).sum().backward()
        return x.grad

    assert [step(mine).tolist() for _ in range(3)] == [[total] * 2] * 3


if __name__ == "__main__":
    main()
