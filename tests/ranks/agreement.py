"""The table of agreement: four networks, each divided in every way that it has, beside one process.

``mpirun -n RANKS python -m tests.ranks.agreement [NETWORK ...]`` trains each network some steps in
each way, on 2 to 8 ranks, eager and compiled, each twice: the four give the same bits, and the
losses of one process with the whole batch within rounding. Rank 0 prints the table. What is named
``shallow`` has fewer blocks of the same kind, for fewer stages, and is trained once in each way.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

import clnet
from clnet import distributed as dist
from clnet import nn, optim
from clnet.compile.passes import KEEPING_BITS
from clnet.models import GPT, CifarResNet, resnet20
from clnet.nn.parallel.pipeline import PipelineStage, Schedule1F1B, ScheduleGPipe
from clnet.nn.parallel.tensor_parallel import (
    ColwiseParallel,
    RowwiseParallel,
    gather_batch,
    parallelize_module,
)
from clnet.optim.zero import ZeroRedundancyOptimizer
from clnet.ranks.placement import Replicate
from tests.ranks.training import same_everywhere

F = nn.functional
DDP = nn.parallel.DistributedDataParallel
BATCH = 16
STEPS = 3
Losses = list[float]
Step = Callable[[], clnet.Tensor]


@dataclass(frozen=True, eq=False)
class Network:
    """What is trained.

    Attributes:
        parts: its modules, one behind the other; of what is not shallow 8 or more, so that as many
            stages are cut.
        x: the batch.
        t: the classes.
        head: how many parts at the end the hybrid divides by features; the others divide the batch.
        lr: the rate, such that losses move.
        rtol: how far losses may lie from one process's.
        turns: whether each training is compiled.
    """

    parts: Callable[[], list[nn.Module]]
    x: clnet.Tensor
    t: clnet.Tensor
    head: int
    lr: float = 0.5
    rtol: float = 1e-4
    turns: Sequence[bool] = (False, False, True, True)


class States(nn.Module):
    """An LSTM's states."""

    def __init__(self, inputs: int, size: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, size, batch_first=True)

    def forward(self, x: clnet.Tensor) -> clnet.Tensor:
        return self.lstm(x)[0]


class Last(nn.Module):
    """The last state."""

    def forward(self, x: clnet.Tensor) -> clnet.Tensor:
        return x[:, -1]


class Tables(nn.Module):
    """What comes before the blocks of a GPT."""

    def __init__(self, gpt: GPT) -> None:
        super().__init__()
        self.wte, self.wpe = gpt.wte, gpt.wpe

    def forward(self, tokens: clnet.Tensor) -> clnet.Tensor:
        return self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]


class Head(nn.Module):
    """What comes behind them: scores, classes first."""

    def __init__(self, gpt: GPT) -> None:
        super().__init__()
        self.ln_f, self.lm_head = gpt.ln_f, gpt.lm_head

    def forward(self, x: clnet.Tensor) -> clnet.Tensor:
        return self.lm_head(self.ln_f(x)).transpose(1, 2)


def _drawn(*shape: int) -> clnet.Tensor:
    return clnet.tensor(np.random.default_rng(7).standard_normal(shape).astype(np.float32))


def _cnn() -> list[nn.Module]:
    convolutions = [nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU()]
    return [*convolutions, nn.Flatten(), nn.Linear(128, 16), nn.ReLU(), nn.Linear(16, 3)]


def _resnet(net: CifarResNet) -> list[nn.Module]:
    blocks = [block for layer in (net.layer1, net.layer2, net.layer3) for block in layer]
    return [net.conv1, net.bn1, net.relu, *blocks, net.avgpool, nn.Flatten(), net.fc]


def _lstm(layers: int) -> list[nn.Module]:
    states = [States(3, 6), *(States(6, 6) for _ in range(layers - 1))]
    return [*states, Last(), nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3)]


def _gpt(blocks: int) -> list[nn.Module]:
    gpt = GPT(vocab_size=16, block_size=7, n_layer=blocks, n_head=2, n_embd=8)
    gpt.lm_head.weight = nn.Parameter(gpt.wte.weight.detach().clone())  # of its own
    return [Tables(gpt), *gpt.h, Head(gpt)]


def networks() -> dict[str, Network]:
    """By name."""
    classes = clnet.arange(BATCH) % 3
    tokens = clnet.tensor(np.random.default_rng(3).integers(0, 16, (BATCH, 7)))
    deep = Network(
        *(lambda: _resnet(resnet20(num_classes=3, width=8)), _drawn(BATCH, 3, 8, 8), classes),
        head=1,
        lr=0.05,
        rtol=5e-3,
        turns=(False, False, True),
    )
    language = Network(lambda: _gpt(6), tokens, tokens, head=1)
    recurrent = Network(lambda: _lstm(4), _drawn(BATCH, 5, 3), classes, head=3)
    once: dict[str, Any] = {"turns": (False, True)}
    return {
        "CNN": Network(_cnn, _drawn(BATCH, 3, 8, 8), classes, head=3),
        "ResNet-20": deep,
        "LSTM": recurrent,
        "GPT": language,
        "shallow ResNet": replace(deep, parts=lambda: _resnet(CifarResNet(1, 3, width=8)), **once),
        "shallow GPT": replace(language, parts=lambda: _gpt(2), **once),
        "shallow LSTM": replace(recurrent, parts=lambda: _lstm(2), **once),
    }


def _parts(net: Network) -> list[nn.Module]:
    """With weights that are the same on every rank, and every time."""
    clnet.manual_seed(1)
    return net.parts()


def _sgd(net: Network, parameters: Any) -> optim.Optimizer:
    return optim.SGD(parameters, lr=net.lr, momentum=0.9)


def _step(optimizer: optim.Optimizer, loss: Step) -> Step:
    def step() -> clnet.Tensor:
        optimizer.zero_grad()
        found = loss()
        found.backward()
        optimizer.step()
        return found.detach()

    return step


def _taken(step: Step, *, compiled: bool) -> Losses:
    run = clnet.compile(step, passes=KEEPING_BITS) if compiled else step
    return [run().item() for _ in range(STEPS)]


@cache
def alone(net: Network, parts: int) -> Losses:
    """One process's, which takes the batch in so many parts; several ways are compared with it."""
    model = nn.Sequential(*_parts(net))
    sgd, found = _sgd(net, model.parameters()), list[float]()
    for _ in range(STEPS):
        sgd.zero_grad()
        pieces = zip(net.x.chunk(parts), net.t.chunk(parts), strict=True)
        losses = [F.cross_entropy(model(x), t) / parts for x, t in pieces]
        for loss in losses:
            loss.backward()
        sgd.step()
        found.append(sum(loss.item() for loss in losses))
    return found


def _mine(x: clnet.Tensor) -> clnet.Tensor:
    return x.chunk(dist.get_world_size())[dist.get_rank()]


def _data(net: Network, optimizer: Callable[[Any], Any], *, compiled: bool) -> Losses:
    model = DDP(nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(*_parts(net))))
    x, t = _mine(net.x), _mine(net.t)
    step = _step(optimizer(model.parameters()), lambda: F.cross_entropy(model(x), t))
    losses = clnet.tensor(_taken(step, compiled=compiled))
    dist.all_reduce(losses, dist.ReduceOp.AVG)
    return losses.tolist()


def by_data(net: Network, *, compiled: bool) -> Losses:
    """Each rank has a part of the batch."""
    return _data(net, lambda parameters: _sgd(net, parameters), compiled=compiled)


def by_state(net: Network, *, compiled: bool) -> Losses:
    """As by data, and a part of the optimiser's state."""

    def make(parameters: Any) -> Any:
        return ZeroRedundancyOptimizer(parameters, optim.SGD, lr=net.lr, momentum=0.9)

    return _data(net, make, compiled=compiled)


def _divided(net: Network, plan: dict[str, Any], *, compiled: bool) -> Losses:
    model = nn.Sequential(*_parts(net))
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    parallelize_module(model, mesh, plan)
    step = _step(_sgd(net, model.parameters()), lambda: F.cross_entropy(model(net.x), net.t))
    return _taken(step, compiled=compiled)


def _named(net: Network, kind: type[nn.Module]) -> list[str]:
    return [n for n, m in nn.Sequential(*_parts(net)).named_modules() if isinstance(m, kind)]


def by_filter(net: Network, *, compiled: bool) -> Losses:
    """Each rank has a part of each convolution's filters."""
    plan = {n: ColwiseParallel(output_layouts=Replicate()) for n in _named(net, nn.Conv2d)}
    return _divided(net, plan, compiled=compiled)


def by_channel(net: Network, *, compiled: bool) -> Losses:
    """Each rank has a part of each convolution's channels."""
    plan = {n: RowwiseParallel(input_layouts=Replicate()) for n in _named(net, nn.Conv2d)}
    return _divided(net, plan, compiled=compiled)


def _pairs(names: Sequence[str]) -> dict[str, Any]:
    """Columns, then rows of dense layers; of one that is over its rows alone."""
    plan: dict[str, Any] = {}
    for first, second in zip(names[::2], names[1::2], strict=False):
        plan |= {first: ColwiseParallel(), second: RowwiseParallel()}
    return plan | (
        {names[-1]: RowwiseParallel(input_layouts=Replicate())} if len(names) % 2 else {}
    )


def by_feature(net: Network, *, compiled: bool) -> Losses:
    """Each rank has a part of the features of dense layers: of a GPT's, between its attentions."""
    names = [n for n in _named(net, nn.Linear) if "attn" not in n and "lm_head" not in n]
    return _divided(net, _pairs(names), compiled=compiled)


def hybrid(net: Network, *, compiled: bool) -> Losses:
    """The first parts by data, the last by features, of all rows."""
    parts = _parts(net)
    body = DDP(nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(*parts[: -net.head])))
    head = nn.Sequential(*parts[-net.head :])
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    names = [n for n, m in head.named_modules() if isinstance(m, nn.Linear)]
    parallelize_module(head, mesh, _pairs(names))
    model, x = nn.ModuleList([body, head]), _mine(net.x)

    def loss() -> clnet.Tensor:
        return F.cross_entropy(head(gather_batch(body(x), mesh.get_group())), net.t)

    return _taken(_step(_sgd(net, model.parameters()), loss), compiled=compiled)


def _staged(net: Network, kind: Any, *, compiled: bool) -> Losses:
    rank, size = dist.get_rank(), dist.get_world_size()
    parts = _parts(net)
    bounds = [round(i * len(parts) / size) for i in range(size + 1)]
    module = nn.Sequential(*parts[bounds[rank] : bounds[rank + 1]])
    run = clnet.compile(module, passes=KEEPING_BITS) if compiled else module
    schedule = kind(PipelineStage(run, rank, size), 4, loss_fn=F.cross_entropy)
    trained = list(module.parameters())
    sgd = _sgd(net, trained) if trained else None
    given, target = ((net.x,) if rank == 0 else ()), net.t if rank == size - 1 else None
    found: Losses = []
    for _ in range(STEPS):
        losses: list[clnet.Tensor] = []
        module.zero_grad()
        schedule.step(*given, target=target, losses=losses)
        if sgd is not None:
            sgd.step()
        found.append(sum(loss.item() for loss in losses) / 4)
    told: list[Any] = [None] * size
    dist.all_gather_object(told, found)
    return told[-1]


def gpipe(net: Network, *, compiled: bool) -> Losses:
    """Stages, one behind the other."""
    return _staged(net, ScheduleGPipe, compiled=compiled)


def one_forward_one_back(net: Network, *, compiled: bool) -> Losses:
    """As gpipe, in the other order."""
    return _staged(net, Schedule1F1B, compiled=compiled)


# How many parts one process takes the batch in to compute the same.
WAYS: dict[str, tuple[Callable[..., Losses], int]] = {
    "data": (by_data, 1),
    "sharded": (by_state, 1),
    "filter": (by_filter, 1),
    "channel": (by_channel, 1),
    "dense": (by_feature, 1),
    "hybrid": (hybrid, 1),
    "GPipe": (gpipe, 4),
    "1F1B": (one_forward_one_back, 4),
}


def difference(name: str, net: Network, way: str) -> float | None:
    """How far losses lie from one process's, of their size; None: the network has no such layers.

    Raises:
        AssertionError: if it is more than rounding, or bits differ.
    """
    if way in ("filter", "channel") and not _named(net, nn.Conv2d):
        return None
    run, parts = WAYS[way]
    found = [run(net, compiled=compiled) for compiled in net.turns]
    assert all(losses == found[0] for losses in found), (name, way, found)
    same_everywhere(repr(found[0]))
    wanted = alone(net, parts)
    assert wanted[-1] != wanted[0]
    off = max(abs(a - b) / b for a, b in zip(found[0], wanted, strict=True))
    assert off < net.rtol, (name, way, found[0], wanted)
    return off


def main() -> None:
    """Print the table."""
    dist.init_process_group(timeout=120)
    known = networks()
    for name in sys.argv[1:] or [name for name in known if "shallow" not in name]:
        found = {way: difference(name, known[name], way) for way in WAYS}
        told = ", ".join(f"{w} {'-' if d is None else f'{d:.0e}'}" for w, d in found.items())
        if dist.get_rank() == 0:
            print(f"<{name} on {dist.get_world_size()}: {told}>", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
