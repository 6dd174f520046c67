"""Models in stages, one on each rank, beside one process that has the whole.

Run by ``mpirun`` with 2 ranks; prints the bits of losses.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import clnet
from clnet import distributed as dist
from clnet import nn, optim
from clnet.compile.passes import KEEPING_BITS
from clnet.errors import ArgumentError, DistributedError, ShapeError
from clnet.models import GPT
from clnet.nn.parallel.interleaved import ScheduleInterleaved1F1B, ScheduleLoopedBFS
from clnet.nn.parallel.pipeline import PipelineStage, Schedule1F1B, ScheduleGPipe
from tests.ranks.training import same_everywhere

F = nn.functional


def main() -> None:
    dist.init_process_group(timeout=60)
    found = [trained(make, x, t) for make, x, t in (dense(), convolved(), recurrent(), language())]
    frozen()
    refused()
    bits = hashlib.sha256(repr(found).encode()).hexdigest()[:16]
    same_everywhere(bits)
    print(f"<rank {dist.get_rank()}: {bits}>")


Model = tuple[Callable[[], list[nn.Module]], clnet.Tensor, clnet.Tensor]


def drawn(*shape: int) -> clnet.Tensor:
    values = np.random.default_rng(7).standard_normal(shape)
    return clnet.tensor(values.astype(np.float32))


def dense() -> Model:
    return (
        lambda: [nn.Sequential(nn.Linear(5, 8), nn.Tanh()), nn.Linear(8, 3)],
        drawn(8, 5),
        clnet.arange(8) % 3,
    )


def convolved() -> Model:
    return (
        lambda: [
            nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU()),
            nn.Sequential(nn.Conv2d(4, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3)),
        ],
        drawn(8, 2, 6, 6),
        clnet.arange(8) % 3,
    )


class States(nn.Module):
    """An LSTM's states."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 5, batch_first=True)

    def forward(self, x: clnet.Tensor) -> clnet.Tensor:
        return self.lstm(x)[0]


class Last(nn.Module):
    """Scores of the last state."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(5, 4, batch_first=True), nn.Linear(4, 3)

    def forward(self, x: clnet.Tensor) -> clnet.Tensor:
        return self.head(self.lstm(x)[0][:, -1])


def recurrent() -> Model:
    return lambda: [States(), Last()], drawn(8, 6, 3), clnet.arange(8) % 3


class Tables(nn.Module):
    """What comes before the blocks of a GPT, and the first of them."""

    def __init__(self, gpt: GPT) -> None:
        super().__init__()
        self.wte, self.wpe, self.block = gpt.wte, gpt.wpe, gpt.h[0]

    def forward(self, tokens: clnet.Tensor) -> clnet.Tensor:
        return self.block(self.wte(tokens) + self.wpe.weight[: tokens.shape[1]])


class Head(nn.Module):
    """The other block of a GPT, and what comes behind."""

    def __init__(self, gpt: GPT) -> None:
        super().__init__()
        self.block, self.ln_f, self.lm_head = gpt.h[1], gpt.ln_f, gpt.lm_head

    def forward(self, x: clnet.Tensor) -> clnet.Tensor:
        return self.lm_head(self.ln_f(self.block(x))).transpose(1, 2)


def language() -> Model:
    tokens = clnet.tensor(np.random.default_rng(3).integers(0, 11, (8, 7)))

    def make() -> list[nn.Module]:
        gpt = GPT(vocab_size=11, block_size=7, n_layer=2, n_head=2, n_embd=8)
        gpt.lm_head.weight = nn.Parameter(gpt.wte.weight.detach().clone())  # of its own
        return [Tables(gpt), Head(gpt)]

    return make, tokens, tokens


def trained(make: Callable[[], list[nn.Module]], x: clnet.Tensor, t: clnet.Tensor) -> list[Any]:
    """The losses, the same of both schedules, eager and compiled."""
    clnet.manual_seed(1)
    whole = nn.Sequential(*make())
    sgd = optim.SGD(whole.parameters(), lr=0.1, momentum=0.9)
    wanted = []
    for _ in range(3):
        sgd.zero_grad()
        loss = F.cross_entropy(whole(x), t)
        loss.backward()
        sgd.step()
        wanted.append(loss.item())
    found = []
    for kind, compiled in ((ScheduleGPipe, False), (Schedule1F1B, False), (Schedule1F1B, True)):
        clnet.manual_seed(1)
        found.append(staged(make(), x, t, kind, compiled=compiled))
    assert found[0] == found[1] == found[2]
    np.testing.assert_allclose(found[0][0], wanted, rtol=1e-4)
    assert 0 < found[0][1] < 2 * wanted[0]
    return found[0]


def staged(
    parts: list[nn.Module], x: clnet.Tensor, t: clnet.Tensor, kind: Any, *, compiled: bool
) -> list[Any]:
    """Mean losses of three steps, and the loss after them, on every rank."""
    rank, size = dist.get_rank(), dist.get_world_size()
    part = parts[rank]
    stage = PipelineStage(
        clnet.compile(part, passes=KEEPING_BITS) if compiled else part, rank, size
    )
    schedule = kind(stage, 4, loss_fn=F.cross_entropy)
    sgd = optim.SGD(part.parameters(), lr=0.1, momentum=0.9)
    means: list[float] = []
    given = (x,) if rank == 0 else ()
    target = t if rank == size - 1 else None
    for _ in range(3):
        sgd.zero_grad()
        losses: list[clnet.Tensor] = []
        result = schedule.step(*given, target=target, losses=losses)
        sgd.step()
        assert (result is None) == (rank < size - 1)
        assert len(losses) == (0 if result is None else 4)
        if result is not None:
            assert len(result) == len(x)
        means.append(float(np.mean([loss.item() for loss in losses])) if losses else 0.0)
    losses = []
    fewer = (x[:4],) if rank == 0 else ()
    schedule.eval(*fewer, target=None if target is None else t[:4], losses=losses)
    after = [loss.item() for loss in losses]
    told: list[Any] = [None] * size
    dist.all_gather_object(told, (means, float(np.mean(after)) if after else 0.0))
    return list(told[-1])


def frozen() -> None:
    """A first stage that is not trained."""
    rank, size = dist.get_rank(), dist.get_world_size()
    layer = nn.Linear(3, 3).requires_grad_(rank > 0)
    schedule = Schedule1F1B(PipelineStage(layer, rank, size), 2, loss_fn=F.mse_loss)
    x = clnet.ones(4, 3)
    schedule.step(*((x,) if rank == 0 else ()), target=x if rank == size - 1 else None)
    assert (layer.weight.grad is None) == (rank == 0)


def refused() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    layer = nn.Linear(2, 2)
    with pytest.raises(DistributedError, match="each rank has the stage of its number"):
        PipelineStage(layer, rank + 1, size)
    stage = PipelineStage(layer, rank, size)
    schedule = ScheduleGPipe(stage, 2, loss_fn=F.mse_loss)
    others = () if rank == 0 else (clnet.ones(2, 2),)
    with pytest.raises(ArgumentError, match="the first stage gets the batch"):
        schedule.step(*others, target=clnet.ones(2, 2))
    if rank == 0:
        with pytest.raises(ShapeError, match="a batch divides evenly"):
            ScheduleGPipe(stage, 2).step(clnet.ones(3, 2))
    two = [PipelineStage(layer, rank + i * size, 2 * size) for i in range(2)]
    for kind, given in (
        (ScheduleInterleaved1F1B, [stage, stage]),
        (ScheduleInterleaved1F1B, two[:1]),
        (ScheduleLoopedBFS, two[::-1]),
        (ScheduleLoopedBFS, []),
    ):
        with pytest.raises(ArgumentError, match="it is given all stages of this rank, in order"):
            kind(given, 2)
    for kind in (ScheduleGPipe, Schedule1F1B):
        with pytest.raises(ArgumentError, match="it is given all stages of this rank, in order"):
            kind(two[0], 2)
    with pytest.raises(ArgumentError, match="rounds have the same number of parts"):
        ScheduleInterleaved1F1B(two, 2 * size + 1)
    with pytest.raises(DistributedError, match="each rank has the stage of its number"):
        PipelineStage(layer, rank, size + 1)
    if rank == size - 1:
        with pytest.raises(ArgumentError, match="the last stage has a loss_fn"):
            ScheduleGPipe(stage, 2).step()
    dist.barrier()


if __name__ == "__main__":
    main()
