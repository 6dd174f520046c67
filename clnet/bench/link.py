"""The link between ranks' devices, as the planner takes it: a line through two sums over all.

A device that computes adds more slowly, and its host learns later that it is done: sums that go
beside backward are measured so.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from time import perf_counter

from ..creation import zeros
from ..device import Device
from ..planning.exchange_cost import Link
from ..ranks.operations import all_reduce
from ..tensor import Tensor

__all__ = ["busy_link", "idle_link"]

# What sums take without any bytes, and each byte: a line is laid through both.
_BYTES = (4 * 2**20, 64 * 2**20)
_ROUNDS = 15
# Rows of the products that keep a device busy, and for how many times as long as a sum takes alone.
_ROWS, _COVER = 2048, 4


def idle_link(workers: int, where: Device, meet: Callable[[], object]) -> Link:
    """The link of devices that do nothing else.

    Args:
        workers: how many.
        where: this one's device.
        meet: all workers do.
    """

    def summed(x: Tensor) -> None:
        all_reduce(x)
        where.synchronize()

    return _line(workers, where, meet, lambda _: summed)


def busy_link(workers: int, where: Device, meet: Callable[[], object], idle: Link) -> Link:
    """The link of devices that multiply matrices meanwhile.

    Args:
        workers: how many.
        where: this one's device.
        meet: all workers do.
        idle: what :func:`idle_link` found.
    """
    x = zeros(_ROWS, _ROWS)

    def multiply() -> None:
        x @ x
        where.synchronize()

    product = _least_seconds(where, meet, multiply)

    def beside(nbytes: int) -> Callable[[Tensor], None]:
        count = ceil(_COVER * idle.all_reduce(workers, nbytes) / product)

        def summed(y: Tensor) -> None:
            work = all_reduce(y, async_op=True)
            for _ in range(count):
                x @ x
            if work is not None:
                work.wait()

        return summed

    return _line(workers, where, meet, beside)


def _line(
    workers: int,
    where: Device,
    meet: Callable[[], object],
    sums: Callable[[int], Callable[[Tensor], None]],
) -> Link:
    points: list[tuple[float, float]] = []
    for nbytes in _BYTES:
        x, run = zeros(nbytes // 4), sums(nbytes)
        points.append((nbytes, _least_seconds(where, meet, lambda x=x, run=run: run(x))))
    return Link.of_sums(workers, *points)


def _least_seconds(where: Device, meet: Callable[[], object], run: Callable[[], object]) -> float:
    """Of some rounds that all workers begin together, with nothing on their devices."""
    found: list[float] = []
    for _ in range(_ROUNDS):
        where.synchronize()
        meet()
        begin = perf_counter()
        run()
        found.append(perf_counter() - begin)
    return min(found)
