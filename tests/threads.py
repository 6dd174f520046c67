"""Work that threads do at once, and that gives the same bits when it is done one after another.

``python -m tests.threads --calls 100000 --trainings 200`` does much of it and
counts what is wrong.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

import numpy as np

import clnet
from clnet import nn
from clnet.data import ArrayDataset, DataLoader
from clnet.nn import functional as F

Job = Callable[[int], Any]


def numbers(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@contextmanager
def hasty(interval: float = 1e-6) -> Iterator[None]:
    """Python changes threads as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(interval)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def in_threads(work: Callable[[int], Any], threads: int) -> list[Any]:
    """What ``work(number)`` gives in so many threads, which begin together.

    Raises:
        BaseException: what one of them raised.
    """
    found: list[Any] = [None] * threads
    errors: list[BaseException] = []
    ready = threading.Barrier(threads)

    def run(number: int) -> None:
        try:
            ready.wait()
            found[number] = work(number)
        except BaseException as error:
            errors.append(error)

    started = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join(540)
        assert not thread.is_alive(), "a thread waits for ever"
    if errors:
        raise errors[0]
    return found


def model_of(seed: int, inputs: int = 6, device: Any = None) -> nn.Module:
    model = nn.Sequential(nn.Linear(inputs, 16), nn.Tanh(), nn.Linear(16, 3)).to(device)
    with clnet.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(clnet.tensor(numbers(100 * seed + i, *p.shape) * 0.3, device=device))
    return model


class Training:
    """A training of a small network of its own."""

    def __init__(self, seed: int, *, compiled: bool, steps: int = 10, device: Any = None) -> None:
        inputs = 6 + seed % 3
        self.model = model_of(seed, inputs, device)
        kind = (clnet.optim.Adam, clnet.optim.SGD)[seed % 2]
        self.optimizer = kind(self.model.parameters(), lr=0.05)
        self.steps = steps
        self.run: Callable[..., Any] = clnet.compile(self.step) if compiled else self.step
        x, y = numbers(seed + 5000, 24, inputs), np.arange(24) % 3
        self.batches = list(DataLoader(ArrayDataset(x, y), 8, shuffle=True, seed=seed))
        self.device = device

    def step(self, x: Any, y: Any) -> Any:
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def result(self) -> list[Any]:
        losses = []
        for i in range(self.steps):
            x, y = self.batches[i % len(self.batches)]
            placed = (clnet.tensor(a, device=self.device) for a in (x, y))
            losses.append(self.run(*placed))
        return [loss.item() for loss in losses] + [
            p.detach().numpy().tobytes() for p in self.model.parameters()
        ]


def eager_training(seed: int) -> Any:
    return Training(seed, compiled=False, steps=4).result()


def compiled_training(seed: int) -> Any:
    return Training(seed, compiled=True, steps=6).result()


def ops_with_scratch(seed: int) -> Any:
    """Products, convolutions, sums in several launches, sorting: all share the workspace."""
    x, w = clnet.tensor(numbers(seed, 40, 48)), clnet.tensor(numbers(seed + 1, 48, 24))
    image = clnet.tensor(numbers(seed + 2, 2, 3, 9, 9))
    taps = clnet.tensor(numbers(seed + 3, 5, 3, 3, 3))
    y = F.softmax(x @ w, 1)
    found = [y, y.sum(), F.conv2d(image, taps), (x * seed).cumsum(1), x.sort(1)[0], x.mean(0)]
    return [t.numpy().tobytes() for t in found]


def kernels_of_its_own(seed: int) -> Any:
    """Compositions that nobody has built before."""
    a, b = 1.0 + seed * 0.25, seed + 2
    f = clnet.compile(lambda x: ((x * a).sin() + b * x).tanh() - (x.exp() / (x.abs() + a)))
    x = clnet.tensor(numbers(seed, 5 + seed % 4, 7))
    return [f(x).numpy().tobytes() for _ in range(3)]


def uploads_and_reads(seed: int) -> Any:
    found = []
    for i in range(8):
        host = numbers(seed * 31 + i, 50 + i)
        x = clnet.tensor(host)
        with x.map() as raw:
            found.append(raw.tobytes())
        found.append((x + 0).numpy().tobytes())
        found.append(x[i].item())
    return found


def memory(seed: int) -> Any:
    """Blocks go and come, and are given back to the device."""
    found = []
    for i in range(4):
        kept = [clnet.full((64 * (j + 1),), float(seed + j)) for j in range(6)]
        total = sum((k.sum() for k in kept[1:]), kept[0].sum())
        del kept
        if i % 2:
            clnet.empty_cache()
        found.append(total.item())
    assert clnet.memory_allocated() >= 0
    return found


def profiled(seed: int) -> Any:
    x = clnet.tensor(numbers(seed, 20, 20))
    with clnet.profile() as p:
        y = (x @ x).exp().sum()
        value = y.item()
    assert p.totals(lambda c: c.op)["exp"].calls >= 1
    return value


def random_numbers(seed: int) -> Any:
    source = clnet.Generator().manual_seed(seed)
    x = clnet.rand(33, generator=source)
    y = F.dropout(clnet.ones(40), 0.5, generator=source)
    drawn = clnet.compile(lambda x: x + clnet.rand(33, generator=source))
    return [t.numpy().tobytes() for t in (x, y, drawn(x), drawn(x))]


def checkpointed(seed: int) -> Any:
    model, x = model_of(seed), clnet.tensor(numbers(seed, 4, 6)).requires_grad_()
    clnet.checkpoint(model, x).sum().backward()
    return [t.grad.numpy().tobytes() for t in (x, *model.parameters())]


JOBS: tuple[Job, ...] = (
    *(eager_training, compiled_training, ops_with_scratch, kernels_of_its_own),
    *(uploads_and_reads, memory, profiled, random_numbers, checkpointed),
)


def mixed(number: int, rounds: int, jobs: Sequence[Job] = JOBS) -> list[Any]:
    """Jobs in an order of a thread's own."""
    order = np.random.default_rng(number).permutation(len(jobs) * rounds)
    return [jobs[i % len(jobs)](int(i) % 7 + number * 7) for i in order]


@contextmanager
def counted() -> Iterator[Callable[[], int]]:
    """Counts ops that are run one by one; gives what says, once, how many there were."""
    module: Any = importlib.import_module("clnet.tensor")
    execute, numbers_of = module.execute, count()

    def counting(*args: Any) -> Any:
        next(numbers_of)
        return execute(*args)

    module.execute = counting
    try:
        yield lambda: next(numbers_of)
    finally:
        module.execute = execute


def differing(found: Sequence[Sequence[Any]], expected: Sequence[Sequence[Any]]) -> int:
    """How many results of threads are not those of one thread after another."""
    pairs = zip(found, expected, strict=True)
    return sum(a != b for ours, theirs in pairs for a, b in zip(ours, theirs, strict=True))


def much_mixed(calls: int, threads: int) -> int:
    """All jobs in threads until there were so many ops; how many results were wrong."""
    begun, wrong, jobs = time.monotonic(), 0, 0
    expected = [mixed(number, 1) for number in range(threads)]
    with counted() as number_of_calls:
        done = 0
        while done < calls:
            with hasty():
                found = in_threads(lambda number: mixed(number, 1), threads)
            wrong += differing(found, expected)
            jobs += threads * len(JOBS)
            done = number_of_calls()
    seconds = time.monotonic() - begun
    print(f"{done:,} ops of {jobs:,} jobs, and replays: {wrong} wrong, {seconds:.0f} s", flush=True)
    return wrong


def many_trainings(trainings: int, threads: int) -> int:
    """So many trainings, half of them compiled, in threads; how many were wrong."""
    begun, wrong = time.monotonic(), 0
    each = -(-trainings // (2 * threads))
    for compiled in (False, True):

        def work(number: int, compiled: bool = compiled) -> list[Any]:
            seeds = range(each * number, each * (number + 1))
            return [Training(seed, compiled=compiled).result() for seed in seeds]

        expected = [work(number) for number in range(threads)]
        with hasty():
            wrong += differing(in_threads(work, threads), expected)
    seconds, total = time.monotonic() - begun, 2 * each * threads
    print(f"{total} trainings, half of them compiled: {wrong} wrong, {seconds:.0f} s", flush=True)
    return wrong


def main() -> int:
    """Much work in threads; 1 if a result differs from that of one thread after another."""
    parser = argparse.ArgumentParser(description="Much work in threads, compared bit for bit.")
    parser.add_argument("--calls", type=int, default=100_000, help="ops, at least")
    parser.add_argument("--trainings", type=int, default=200, help="of small networks, at least")
    parser.add_argument("--threads", type=int, default=8, help="at once")
    given = parser.parse_args()
    print(f"{clnet.device()}, {given.threads} threads, switch interval 1e-6", flush=True)
    wrong = much_mixed(given.calls, given.threads)
    return int(wrong + many_trainings(given.trainings, given.threads) > 0)


if __name__ == "__main__":
    sys.exit(main())
