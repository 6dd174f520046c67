"""How ``clnet bench scaling`` divides a step: each way's model on a worker, and its examples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import nn
from ..compile import compile as compiled
from ..device import Device
from ..errors import ArgumentError
from ..models import GPT
from ..nn import functional as F
from ..nn.parallel.fully_shard import fully_shard
from ..nn.parallel.pipeline import PipelineStage, Schedule1F1B
from ..nn.parallel.tensor_parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    gather_batch,
    parallelize_module,
)
from ..optim import SGD
from ..ranks.membership import get_world_size, group
from ..ranks.mesh import init_device_mesh
from ..ranks.placement import Replicate
from ..tensor import Tensor, tensor
from .precision import Precision
from .workload import Workload

WAYS = ("data", "in-parts", "threads", "hybrid", "row-column", "pipeline")
"""``data``: processes with a part of the batch each. ``in-parts``: the same, with a part of every
parameter each (``fully_shard``). ``threads``: one process with all devices.
``hybrid``: convolutions by data, the dense layers behind them in parts. ``row-column``: pairs of
dense layers in parts. ``pipeline``: stages, 1F1B."""

_PARTS = 4  # of a batch, for each stage
Step = Callable[[], Tensor | None]


@dataclass(frozen=True)
class Share:
    """A worker's part of a job.

    Attributes:
        workload: with the batch of all workers.
        rank, workers: which worker, of how many.
        devices: of the worker: one, but for threads.
    """

    workload: Workload
    rank: int
    workers: int
    devices: Sequence[Device]

    @property
    def where(self) -> Device:
        """Where its parameters are."""
        return self.devices[0]

    def batch(self, *, divided: bool) -> list[Tensor]:
        """Inputs and targets on its device, of all workers or of this one."""
        x, y = self.workload.batch()
        several = x if isinstance(x, tuple) else (x,)
        given = [np.asarray(v) for v in (*several, y)]
        if divided:
            given = [np.array_split(v, self.workers)[self.rank] for v in given]
        return [tensor(v, device=self.where) for v in given]


def refuse_unfit(way: str, workload: Workload, model: nn.Module) -> None:
    """See that a network can be divided in a way.

    Raises:
        ArgumentError: if it cannot.
    """
    fits, what = {
        "hybrid": (_dense_end(model) is not None, "dense layers behind convolutions, in a row"),
        "row-column": (isinstance(model, GPT), "a GPT's dense layers"),
        "pipeline": (isinstance(model, GPT), "a GPT's blocks"),
    }.get(way, (True, ""))
    if not fits:
        raise ArgumentError("bench scaling", f"--way {way} divides {what}", net=workload.name)


def whole_step(
    share: Share, model: nn.Module, parameters: Iterable[Tensor], batch: Sequence[Tensor]
) -> Step:
    """A compiled training step.

    Args:
        share: of the job.
        model: what is called.
        parameters: that this worker updates.
        batch: inputs and targets.
    """
    workload = share.workload
    settings: dict[str, Any] = dict(workload.sgd)
    optimizer = SGD(parameters, **settings)

    def learn(*batch: Tensor) -> Tensor:
        *x, y = batch
        optimizer.zero_grad()
        with workload.precision.ours():
            loss = workload.loss(F, model(*x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = compiled(learn)
    return lambda: run(*batch)


def step_of(way: str, share: Share, model: nn.Module) -> Step:
    """A worker's training step, in a way.

    Args:
        way: of :data:`WAYS`.
        share: of the job.
        model: the whole network, alike on all workers; it becomes this worker's part.

    Returns:
        Takes a step and gives the loss of this worker's examples; None: it sees none.
    """
    if way == "pipeline" and isinstance(model, GPT):
        return _pipeline(share, model)
    whole = share.batch(divided=False)
    if way == "threads" and len(share.devices) > 1:
        spread = nn.DataParallel(model, device_ids=list(share.devices))
        return whole_step(share, spread, model.parameters(), whole)
    if share.workers == 1:
        return whole_step(share, model, model.parameters(), whole)
    own = share.batch(divided=True)
    if way == "data":
        spread = nn.parallel.DistributedDataParallel(model)
        return whole_step(share, spread, model.parameters(), own)
    if way == "in-parts":
        for block in list(_blocks(model)):
            fully_shard(block)
        fully_shard(model)
        return whole_step(share, model, model.parameters(), own)
    mesh = init_device_mesh(share.where.name, (share.workers,))
    if way == "row-column":
        parallelize_module(model, mesh, _columns_and_rows(model))
        return whole_step(share, model, model.parameters(), whole)
    hybrid = _Hybrid(model)
    parallelize_module(hybrid.dense, mesh, _in_turns(hybrid.dense))
    return whole_step(share, hybrid, hybrid.parameters(), [*own[:-1], whole[-1]])


def _blocks(model: nn.Module) -> Iterator[nn.Module]:
    """What is gathered on its own: the members of lists and sequences that are none themselves."""
    lists = nn.ModuleList | nn.Sequential
    for child in model.children():
        if isinstance(child, lists) or not isinstance(model, lists):
            yield from _blocks(child)
        elif next(child.parameters(), None) is not None:
            yield child


class _Hybrid(nn.Module):
    """Convolutions of this worker's images, dense layers of all: "one weird trick"."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        first = _dense_end(model)
        layers = list(vars(model)["_modules"].values())
        self.features = nn.parallel.DistributedDataParallel(nn.Sequential(*layers[:first]))
        self.dense = nn.Sequential(*layers[first:])
        self._world: Any = group.WORLD  # all take part

    def forward(self, x: Tensor) -> Tensor:
        return self.dense(gather_batch(self.features(x), self._world))


def _dense_end(model: nn.Module) -> int | None:
    """Where the dense layers behind the last convolution begin; None: there are none in a row."""
    layers = list(vars(model)["_modules"].values())
    places = [i for i, x in enumerate(layers) if isinstance(x, nn.Linear)]
    plain = isinstance(model, nn.Sequential) and not any(list(x.children()) for x in layers)
    convolved = any(isinstance(x, nn.Conv2d) for x in layers)
    return places[0] if plain and convolved and len(places) > 1 else None


def _in_turns(dense: nn.Module) -> dict[str, ParallelStyle]:
    """Columns and rows in turns; the last without a partner gives its whole result."""
    names = [name for name, x in dense.named_children() if isinstance(x, nn.Linear)]
    plan: dict[str, ParallelStyle] = {}
    for name, then in zip(names[::2], [*names[1::2], None], strict=False):
        plan[name] = ColwiseParallel() if then else ColwiseParallel(output_layouts=Replicate())
        if then:
            plan[then] = RowwiseParallel()
    return plan


def _columns_and_rows(model: nn.Module) -> dict[str, ParallelStyle]:
    plan: dict[str, ParallelStyle] = {}
    for name, x in model.named_modules():
        if isinstance(x, nn.Linear) and ".mlp." in name:
            plan[name] = ColwiseParallel() if name.endswith("c_fc") else RowwiseParallel()
    return plan


class _Tables(nn.Module):
    """What comes before a GPT's blocks."""

    def __init__(self, gpt: GPT) -> None:
        super().__init__()
        self.wte, self.wpe = gpt.wte, gpt.wpe

    def forward(self, tokens: Tensor) -> Tensor:
        return self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]


class _Head(nn.Module):
    """What comes behind them; its words are its own, since stages share no parameters."""

    def __init__(self, gpt: GPT) -> None:
        super().__init__()
        self.ln_f = gpt.ln_f
        self.lm_head = nn.Linear(gpt.lm_head.in_features, gpt.lm_head.out_features, bias=False)
        self.lm_head.weight = nn.Parameter(gpt.lm_head.weight.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        return self.lm_head(self.ln_f(x))


class _Stage(nn.Module):
    """Parts of a model, in a precision."""

    def __init__(self, parts: Sequence[nn.Module], precision: Precision) -> None:
        super().__init__()
        self.parts, self._precision = nn.Sequential(*parts), precision

    def forward(self, x: Tensor) -> Tensor:
        with self._precision.ours():
            return self.parts(x)


def _stages(gpt: GPT, count: int) -> list[list[nn.Module]]:
    """The model in stages; the largest multiplies by as few parameters as can be."""
    parts: list[nn.Module] = [_Tables(gpt), *gpt.h, _Head(gpt)]
    weights = [0, *(sum(p.numel() for p in x.parameters()) for x in parts[1:])]
    most = max(max(weights), -(-sum(weights) // count))
    while True:
        stages: list[list[nn.Module]] = [[]]
        held = 0
        for part, weight in zip(parts, weights, strict=True):
            if held + weight > most:
                stages.append([])
                held = 0
            stages[-1].append(part)
            held += weight
        if len(stages) <= count:
            return stages
        most += most // 50 + 1


def parts_of(world: int, batch: int) -> int:
    """In how many parts a batch goes through stages."""
    return min(_PARTS * world, batch)


def _pipeline(share: Share, gpt: GPT) -> Step:
    workload, world = share.workload, get_world_size()
    stages = _stages(gpt, world)
    if len(stages) < world:
        raise ArgumentError("bench scaling", "a GPT has a part for each stage", stages=len(stages))
    part = _Stage(stages[share.rank], workload.precision)
    settings: dict[str, Any] = dict(workload.sgd)
    optimizer = SGD(part.parameters(), **settings)

    def loss(scores: Tensor, words: Tensor) -> Tensor:
        with workload.precision.ours():
            return workload.loss(F, scores, words)

    stage = PipelineStage(compiled(part), share.rank, world, device=share.where)
    x, y = share.batch(divided=False)
    number = parts_of(world, len(x))
    schedule = Schedule1F1B(stage, n_microbatches=number, loss_fn=loss)

    def step() -> Tensor | None:
        optimizer.zero_grad()
        losses: list[Tensor] = []
        if stage.is_first:
            schedule.step(x, target=y if stage.is_last else None, losses=losses)
        else:
            schedule.step(target=y if stage.is_last else None, losses=losses)
        optimizer.step()
        return sum(losses[1:], losses[0]) / len(losses) if losses else None

    return step
