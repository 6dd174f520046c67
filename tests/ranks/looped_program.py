"""Stages that come round to processes, by clnet's or PyTorch's: prints losses and weights.

Written for PyTorch: ``python -m torch.distributed.run --nproc-per-node 2 looped_program.py`` and
``python -m clnet.torchrun`` with the same arguments.
"""

import json

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.pipelining import (
    PipelineStage,
    ScheduleInterleaved1F1B,
    ScheduleLoopedBFS,
)

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
ROUNDS = 2


def values(*shape):
    count = 1
    for axis in shape:
        count *= axis
    return ((torch.arange(count) * 37 % 23).float() / 11 - 1).reshape(shape)


def made():
    """Stages with other widths, so that what one gives has its own shape."""
    widths = [4, *(5 + i for i in range(ROUNDS * size - 1)), 3]
    stages = []
    for i in range(ROUNDS * size):
        layer = torch.nn.Linear(widths[i], widths[i + 1])
        with torch.no_grad():
            layer.weight.copy_(values(*layer.weight.shape) * 0.6)
            layer.bias.copy_(values(*layer.bias.shape) * 0.1)
        stages.append(torch.nn.Sequential(layer, torch.nn.Tanh()))
    return stages


def trained(modules, run):
    """Losses of three steps, and all weights then."""
    parameters = [p for module in modules for p in module.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.5)
    found = []
    for _ in range(3):
        optimizer.zero_grad()
        found.append(run())
        optimizer.step()
    return found, [p.detach().reshape(-1).tolist() for p in parameters]


def staged(kind, parts):
    modules = made()
    own = [modules[i] for i in range(rank, len(modules), size)]
    stages = [
        PipelineStage(module, i, len(modules), torch.device("cpu"))
        for module, i in zip(own, range(rank, len(modules), size), strict=True)
    ]
    schedule = kind(stages, parts, loss_fn=F.mse_loss)

    def run():
        losses = []
        given = (x,) if rank == 0 else ()
        last = rank == size - 1
        schedule.step(*given, target=target if last else None, losses=losses)
        return [loss.item() for loss in losses]

    every = [None] * size
    dist.all_gather_object(every, trained(own, run))
    losses = [[sum(step) / parts for step in every[-1][0]]]
    for i in range(len(modules)):
        losses += every[i % size][1][i // size * 2 : i // size * 2 + 2]
    return losses


def whole():
    modules = made()
    model = torch.nn.Sequential(*modules)

    def run():
        loss = F.mse_loss(model(x), target)
        loss.backward()
        return loss.item()

    losses, weights = trained(modules, run)
    return [losses, *weights]


x, target = values(12, 4), values(12, 3)
found = {"whole": whole()}
for parts in (size, 2 * size, 1, 6):
    found[f"1F1B {parts}"] = staged(ScheduleInterleaved1F1B, parts)
    found[f"BFS {parts}"] = staged(ScheduleLoopedBFS, parts)
if rank == 0:
    print("<<" + json.dumps(found) + ">>", flush=True)
dist.destroy_process_group()
