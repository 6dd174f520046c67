"""Parts of tensors, layers and optimisers on every rank, beside one process that has the whole.

Run by ``mpirun`` with 2 ranks or more; prints the bits of losses.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import clnet
from clnet import distributed as dist
from clnet import nn, optim
from clnet.compile.passes import KEEPING_BITS
from clnet.errors import ArgumentError, CheckpointError, DistributedError, ShapeError
from clnet.models import GPT, CifarResNet
from clnet.nn.parallel.tensor_parallel import (
    ColwiseParallel,
    RowwiseParallel,
    full_state_dict,
    gather_batch,
    parallelize_module,
)
from clnet.optim.zero import ZeroRedundancyOptimizer
from clnet.ranks.placement import DTensor, Partial, Replicate, Shard, distribute_tensor
from tests.ranks.training import same_everywhere

F = nn.functional
DDP = nn.parallel.DistributedDataParallel
Losses = list[float]


def main() -> None:
    dist.init_process_group()
    size = dist.get_world_size()
    mesh = dist.init_device_mesh("cpu", (size,), mesh_dim_names=("tp",))
    meshes(mesh)
    tensors(mesh)
    laid_out(mesh)
    found = [dense(mesh), convolutions(mesh), residual(mesh), language(mesh), hybrid(mesh)]
    copied_and_alone(mesh)
    divided_state(mesh)
    measured_as_a_whole(mesh)
    refused(mesh)
    same_everywhere(repr(found))
    bits = hashlib.sha256(repr(found).encode()).hexdigest()[:16]
    print(f"<rank {dist.get_rank()}: {bits}>")


def meshes(mesh: dist.DeviceMesh) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    assert (mesh.ndim, mesh.shape, mesh.size(), mesh.get_coordinate()) == (
        1,
        (size,),
        size,
        (rank,),
    )
    grid = dist.init_device_mesh("cpu", (1, size), mesh_dim_names=("dp", "tp"))
    assert (grid["tp"].size(), grid["dp"].size()) == (size, 1)
    assert grid.get_group("tp").ranks == tuple(range(size))
    assert (grid.get_local_rank("tp"), grid.get_local_rank(0)) == (rank, 0)
    with pytest.raises(ArgumentError, match="it has such an axis"):
        grid["pp"]
    with pytest.raises(DistributedError, match="multiply to the number of ranks"):
        dist.init_device_mesh("cpu", (size + 1,))


def tensors(mesh: dist.DeviceMesh) -> None:
    """Whole, in parts of uneven size, of no elements, as a sum; there and back with gradients."""
    rank, size = dist.get_rank(), dist.get_world_size()
    whole = clnet.arange(15).reshape(5, 3).float()
    for dim in (0, 1, -1):
        spread = distribute_tensor(whole + rank, mesh, [Shard(dim)])  # the first rank's
        assert spread.placements[0].is_shard(dim % 2)
        assert spread.to_local().tolist() == clnet.chunk(whole, size, dim)[rank].tolist()
        assert spread.full_tensor().tolist() == whole.tolist()
        other = spread.redistribute(placements=[Shard(1 - dim % 2)])
        assert other.full_tensor().tolist() == whole.tolist()
    few = distribute_tensor(clnet.ones(1, 2), mesh, [Shard(0)])
    assert few.to_local().shape == (1 - min(rank, 1), 2)
    assert few.full_tensor().tolist() == [[1, 1]]
    total = DTensor.from_local(whole, mesh, [Partial()])
    assert total.full_tensor().tolist() == (whole * size).tolist()
    part = clnet.full((2, 3), float(rank), requires_grad=True)
    spread = DTensor.from_local(part, mesh, [Shard(0)])
    weights = clnet.arange(2 * size).float()[:, None]
    (spread.full_tensor() * weights).sum().backward()
    assert part.grad.tolist() == [[2.0 * rank + i] * 3 for i in range(2)]
    assert spread.shape == (2 * size, 3)
    with pytest.raises(ArgumentError, match="it becomes Replicate or Shard"):
        spread.redistribute(placements=[Partial()])
    with pytest.raises(ArgumentError, match="a mesh of one axis has one placement"):
        distribute_tensor(whole, mesh, [Replicate(), Replicate()])
    mean = DTensor.from_local(whole + rank, mesh, [Partial("avg")]).full_tensor()
    assert mean.tolist() == (whole + (size - 1) / 2).tolist()
    with pytest.raises(ArgumentError, match='reduce_op is "sum" or "avg"'):
        Partial("max")
    for x, dim in ((whole, 5), (whole[0, 0], 0)):
        with pytest.raises(ShapeError, match="the tensor has the axis"):
            distribute_tensor(x, mesh, [Shard(dim)])
    grid = dist.init_device_mesh("cpu", (1, size), mesh_dim_names=("dp", "tp"))
    spread = distribute_tensor(whole, grid["tp"], [Shard(0)])
    assert spread.redistribute(grid["tp"], [Replicate()]).to_local().tolist() == whole.tolist()


def laid_out(mesh: dist.DeviceMesh) -> None:
    """Made as they lie; modules with the first rank's parameters, but for what a function parts."""
    rank, size = dist.get_rank(), dist.get_world_size()
    made = dist.tensor
    for dim in (0, 1, -1):
        spread = made.full([5, 3], 2.0, device_mesh=mesh, placements=[Shard(dim)])
        assert spread.to_local().shape == clnet.zeros(5, 3).chunk(size, dim)[rank].shape
        assert spread.full_tensor().tolist() == [[2.0] * 3] * 5
    assert made.ones(4, device_mesh=mesh).full_tensor().tolist() == [1] * 4
    few = made.zeros((1, 2), device_mesh=mesh, placements=[Shard(0)], dtype=clnet.int64)
    assert (few.to_local().shape, few.dtype) == ((1 - min(rank, 1), 2), clnet.int64)
    clnet.manual_seed(rank)
    drawn = made.randn(5, 3, device_mesh=mesh, placements=[Shard(0)], requires_grad=True)
    clnet.manual_seed(0)
    assert drawn.full_tensor().tolist() == clnet.randn(5, 3).tolist()
    assert drawn.to_local().requires_grad
    assert made.empty(2, 2, device_mesh=mesh).shape == made.rand(2, 2, device_mesh=mesh).shape
    for bad in ({"placements": [Partial()]}, {"placements": [Shard(0), Shard(0)]}, {}):
        with pytest.raises(ArgumentError, match="device_mesh has one axis"):
            made.ones(2, device_mesh=mesh if bad else None, **bad)
    with pytest.raises(ArgumentError, match="the tensor has the axis"):
        made.ones(2, device_mesh=mesh, placements=[Shard(1)])
    seen = list[str]()

    def part(name: str, module: nn.Module, on: dist.DeviceMesh) -> None:
        seen.append(name)
        if isinstance(module, nn.Linear):
            rows = distribute_tensor(module.weight, on, [Shard(0)]).to_local()
            module.weight = nn.Parameter(rows)

    net = nn.Sequential(nn.Linear(3, 2 * size, bias=False), nn.LayerNorm(2))
    nn.init.constant_(net[1].weight, float(rank + 2))
    net = made.distribute_module(
        net, mesh, part, lambda m, x, on: (x[0] + 1,), lambda m, y, on: y * on.size()
    )
    assert seen == ["", "0", "1"]
    assert net[0].weight.shape == (2, 3)
    assert net[1].weight.tolist() == [2, 2]
    x = clnet.ones(1, 3)
    assert net(x).tolist() == (net[1](net[0](x + 1)) * size).tolist()


def losses(
    model: nn.Module,
    loss: Callable[[], clnet.Tensor],
    *,
    compiled: Any = None,
    number: int = 3,
    optimizer: Any = None,
) -> Losses:
    """What a model loses in some steps."""
    sgd = optimizer or optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step() -> clnet.Tensor:
        sgd.zero_grad()
        found = loss()
        found.backward()
        sgd.step()
        return found

    run = step if compiled is None else clnet.compile(step, passes=compiled)
    return [run().item() for _ in range(number)]


def beside(
    make: Callable[[], nn.Module],
    plan: dict[str, Any],
    loss: Callable[[nn.Module], clnet.Tensor],
    mesh: dist.DeviceMesh,
    *,
    rtol: float = 1e-4,
) -> Losses:
    """Divided, eager and compiled, a model loses what it does as a whole; in the same bits."""
    found = []
    for compiled in (None, KEEPING_BITS):
        clnet.manual_seed(1)
        model = make()
        parallelize_module(model, mesh, plan)
        found.append(losses(model, lambda m=model: loss(m), compiled=compiled))
    assert found[0] == found[1]
    state = full_state_dict(model)
    clnet.manual_seed(1)
    alone = make()
    np.testing.assert_allclose(found[0], losses(alone, lambda: loss(alone)), rtol=rtol)
    assert found[0][-1] != found[0][0]
    for name, value in alone.state_dict().items():
        np.testing.assert_allclose(state[name].numpy(), value.numpy(), rtol=2e-3, atol=2e-4)
    return found[0]


def drawn(*shape: int) -> clnet.Tensor:
    values = np.random.default_rng(7).standard_normal(shape)
    return clnet.tensor(values.astype(np.float32))


def dense(mesh: dist.DeviceMesh) -> Losses:
    """Columns, then rows: nothing is exchanged between both."""
    x, t = drawn(6, 5), clnet.arange(6) % 3

    def make() -> nn.Module:
        return nn.Sequential(
            nn.Linear(5, 11), nn.Tanh(), nn.Linear(11, 7), nn.ReLU(), nn.Linear(7, 3)
        )

    plan = {
        "0": ColwiseParallel(),
        "2": RowwiseParallel(),
        "4": RowwiseParallel(input_layouts=Replicate()),
    }
    return beside(make, plan, lambda m: F.cross_entropy(m(x), t), mesh)


def convolutions(mesh: dist.DeviceMesh) -> Losses:
    """Filters of one convolution, channels of the next."""
    x, t = drawn(4, 3, 8, 8), clnet.arange(4) % 3

    def make() -> nn.Module:
        return nn.Sequential(
            *(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Conv2d(6, 4, 3), nn.ReLU()),
            *(nn.Flatten(), nn.Linear(64, 3)),
        )

    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    return beside(make, plan, lambda m: F.cross_entropy(m(x), t), mesh)


def residual(mesh: dist.DeviceMesh) -> Losses:
    """Filters of every convolution of a ResNet, whose channels are collected behind each."""
    x, t = drawn(4, 3, 8, 8), clnet.arange(4)

    def make() -> nn.Module:
        return CifarResNet(1, 10, width=8)  # of every kind of block one

    names = [n for n, m in make().named_modules() if isinstance(m, nn.Conv2d)]
    assert len(names) == 7
    plan = {name: ColwiseParallel(output_layouts=Replicate()) for name in names}
    return beside(make, plan, lambda m: F.cross_entropy(m(x), t), mesh, rtol=5e-3)


def language(mesh: dist.DeviceMesh) -> Losses:
    """A GPT: the table, each block's dense layers, and the head."""
    tokens = clnet.tensor(np.random.default_rng(3).integers(0, 11, (2, 7)))

    def make() -> nn.Module:
        return GPT(vocab_size=11, block_size=7, n_layer=2, n_head=2, n_embd=8)

    layers = [n for n, m in make().named_modules() if isinstance(m, nn.Linear)]
    plan: dict[str, Any] = {n: ColwiseParallel() for n in layers if n.endswith("mlp.c_fc")}
    plan |= {n: RowwiseParallel() for n in layers if n.endswith("mlp.c_proj")}
    assert len(plan) == 4

    def loss(model: nn.Module) -> clnet.Tensor:
        found = model(tokens)
        logits = found[0] if isinstance(found, tuple) else found
        return F.cross_entropy(logits.reshape(-1, 11), tokens.reshape(-1))

    return beside(make, plan, loss, mesh)


def hybrid(mesh: dist.DeviceMesh) -> Losses:
    """Convolutions of each rank's rows, then dense layers in parts, of all rows."""
    rank, size = dist.get_rank(), dist.get_world_size()
    x, t = drawn(3 * size, 2, 6, 6), clnet.arange(3 * size) % 3

    def features() -> nn.Module:
        return nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten())

    def classifier() -> nn.Module:
        return nn.Sequential(nn.Linear(64, 10), nn.ReLU(), nn.Linear(10, 3))

    clnet.manual_seed(1)
    alone = nn.Sequential(features(), classifier())
    wanted = losses(alone, lambda: F.cross_entropy(alone(x), t))
    found = []
    for compiled in (None, KEEPING_BITS):
        clnet.manual_seed(1)
        convolved, rest = features(), classifier()
        convolved = DDP(convolved)
        parallelize_module(rest, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
        model = nn.ModuleList([convolved, rest])

        def loss(convolved: Any = convolved, rest: Any = rest) -> clnet.Tensor:
            mine = convolved(x[3 * rank : 3 * rank + 3])
            return F.cross_entropy(rest(gather_batch(mine, mesh.get_group())), t)

        found.append(losses(model, loss, compiled=compiled))
    assert found[0] == found[1]
    np.testing.assert_allclose(found[0], wanted, rtol=1e-4)
    return found[0]


class Recurrent(nn.Module):
    """An LSTM and a dense layer."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(3, 5, batch_first=True), nn.Linear(5, 2)

    def forward(self, x: clnet.Tensor) -> clnet.Tensor:
        return self.head(self.lstm(x)[0][:, -1])


def measured_as_a_whole(mesh: dist.DeviceMesh) -> None:
    """All ranks clip by the norm of the whole, and skip a step that overflows on one of them."""
    clnet.manual_seed(1)
    alone = nn.Sequential(nn.Linear(5, 9), nn.ReLU(), nn.Linear(9, 3))
    divided = copy.deepcopy(alone)
    parallelize_module(divided, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    for p in (2.0, 3.0, float("inf")):
        for model in (alone, divided):
            model.zero_grad()
            model(drawn(4, 5)).square().sum().backward()
        norms = [nn.utils.clip_grad_norm_(m.parameters(), 0.5, p).item() for m in (alone, divided)]
        np.testing.assert_allclose(*norms, rtol=1e-5)
        clipped = [list(m.parameters())[-1].grad.tolist() for m in (alone, divided)]
        np.testing.assert_allclose(*clipped, rtol=1e-5)
    narrow = nn.Linear(5, 1, bias=False)  # of which the last rank has nothing
    parallelize_module(narrow, mesh, ColwiseParallel(output_layouts=Replicate()))
    narrow(drawn(4, 5)).sum().backward()
    largest = nn.utils.clip_grad_norm_(narrow.parameters(), 0.5, float("inf")).item()
    assert largest == pytest.approx(drawn(4, 5).sum(0).abs().max().item())
    with pytest.raises(ArgumentError, match="norm_type is not 0 where ranks have parts"):
        nn.utils.clip_grad_norm_(divided.parameters(), 0.5, 0)
    optimizer = optim.SGD(divided.parameters(), lr=0.1)
    scaler = clnet.amp.GradScaler(init_scale=8.0)
    before = [p.tolist() for p in divided.parameters()]
    scaler.scale(divided(drawn(4, 5)).sum()).backward()
    if dist.get_rank() == 0:
        divided[0].weight.grad[0, 0] = float("inf")
    scaler.step(optimizer)
    scaler.update()
    assert [p.tolist() for p in divided.parameters()] == before
    assert scaler.get_scale() == 4


def divided_state(mesh: dist.DeviceMesh) -> None:
    """State in parts gives the bits of whole state, eager and compiled, and goes on elsewhere."""
    x, rank = drawn(4, 6, 3) + dist.get_rank(), dist.get_rank()
    made: list[tuple[nn.Module, Any]] = []
    kinds: Sequence[tuple[bool, Any]] = ((False, None), (True, None), (True, KEEPING_BITS))
    for divided, compiled in kinds:
        clnet.manual_seed(1)
        model = DDP(Recurrent())
        adam: Any = (
            ZeroRedundancyOptimizer(model.parameters(), optim.AdamW, lr=0.05, weight_decay=0.1)
            if divided
            else optim.AdamW(model.parameters(), lr=0.05, weight_decay=0.1)
        )
        schedule = optim.lr_scheduler.StepLR(adam, 1, 0.5)
        for _ in range(2):
            losses(model, lambda m=model: m(x).square().mean(), compiled=compiled, optimizer=adam)
            schedule.step()
        made.append((model, adam))
    states = [[p.tolist() for p in model.parameters()] for model, _ in made]
    assert states[0] == states[1] == states[2]
    kept = made[1][1]
    assert sum(map(len, kept.owned)) == len(list(made[1][0].parameters()))
    assert all(kept.owned[r] for r in range(min(2, dist.get_world_size())))
    held = [p for g in kept.optim.param_groups for p in g["params"]] if kept.optim else []
    assert len(held) == len(kept.owned[rank])
    with pytest.raises(CheckpointError, match="consolidate_state_dict"):
        kept.state_dict()
    kept.consolidate_state_dict(to=0)
    state = kept.state_dict() if rank == 0 else {}
    whole = made[0][1].state_dict()
    if rank == 0:
        assert [*state["state"]] == [*whole["state"]]
        for name, entry in whole["state"].items():
            mine = state["state"][name]
            assert mine["step"] == entry["step"] == 6
            assert mine["exp_avg"].tolist() == entry["exp_avg"].tolist()
    losses(made[1][0], lambda: made[1][0](x).square().mean(), optimizer=kept, number=1)
    with pytest.raises(CheckpointError, match="consolidate_state_dict"):
        kept.state_dict()  # it would be that of before the step
    # Whole state goes on in parts.
    model, adam = made[2]
    again = ZeroRedundancyOptimizer(model.parameters(), optim.AdamW, lr=1.0)
    few = {**whole, "state": {f"{k}!": v for k, v in whole["state"].items()}}
    with pytest.raises(CheckpointError, match="other groups or parameters"):
        again.load_state_dict(few)
    again.load_state_dict(whole)
    for m, o in ((model, again), made[0]):
        losses(m, lambda m=m: m(x).square().mean(), optimizer=o, number=1)
    ends = [[p.tolist() for p in m.parameters()] for m in (model, made[0][0])]
    assert ends[0] == ends[1]
    grown()


def grown() -> None:
    """Parameters that come later, with settings of their own, are divided as well."""
    x, ends = drawn(4, 6) + dist.get_rank(), list[Any]()
    for divided in (True, False):
        clnet.manual_seed(1)
        model = DDP(nn.Sequential(nn.Linear(6, 5, bias=False), nn.Linear(5, 3), nn.Linear(3, 2)))
        groups = [list(layer.parameters()) for layer in model.module.children()]
        sgd: Any = (
            ZeroRedundancyOptimizer(groups[0], optim.SGD, lr=0.1, momentum=0.9)
            if divided
            else optim.SGD(groups[0], lr=0.1, momentum=0.9)
        )
        losses(model, lambda m=model: m(x).square().mean(), optimizer=sgd, number=1)
        sgd.add_param_group({"params": groups[1]})
        sgd.add_param_group({"params": groups[2], "lr": 0.02})
        assert [group["lr"] for group in sgd.param_groups] == [0.1, 0.1, 0.02]
        losses(model, lambda m=model: m(x).square().mean(), optimizer=sgd, number=2)
        ends.append([p.tolist() for p in model.parameters()])
        if divided:
            assert sum(map(len, sgd.owned)) == 5
            assert min(map(len, sgd.owned)) > 0
    assert ends[0] == ends[1]


def copied_and_alone(mesh: dist.DeviceMesh) -> None:
    """A deep copy computes with its own parameters; an image needs no batch."""
    x = drawn(4, 5, 5)
    for style in (
        ColwiseParallel(output_layouts=Replicate()),
        RowwiseParallel(input_layouts=Replicate()),
    ):
        clnet.manual_seed(1)
        layer = nn.Conv2d(4, 6, 3)
        whole = layer(x)
        parallelize_module(layer, mesh, style)
        assert clnet.allclose(layer(x), whole, atol=1e-5)
        twin = copy.deepcopy(layer)
        for p in twin.parameters():
            p.detach().zero_()
        assert (twin(x) == 0).all()
        assert clnet.allclose(layer(x), whole, atol=1e-5)
        with pytest.raises(ArgumentError, match="a layer is divided once"):
            parallelize_module(layer, mesh, style)


def refused(mesh: dist.DeviceMesh) -> None:
    table = nn.Embedding(3, 4, max_norm=1.0)
    with pytest.raises(ArgumentError, match="without max_norm"):
        parallelize_module(table, mesh, ColwiseParallel())
    with pytest.raises(ArgumentError, match="a layout is"):
        ColwiseParallel(output_layouts=0)  # pyrefly: ignore[bad-argument-type]
    with pytest.raises(ArgumentError, match="names of axes differ"):
        dist.init_device_mesh("cpu", (1, mesh.size()), mesh_dim_names=("a", "a"))
    with pytest.raises(ArgumentError, match="it divides Linear, Embedding"):
        parallelize_module(nn.LayerNorm(3), mesh, ColwiseParallel())
    with pytest.raises(ArgumentError, match="a layer has the name"):
        parallelize_module(nn.Linear(2, 2), mesh, {"fc": ColwiseParallel()})
    tied = nn.Sequential(nn.Embedding(6, 4), nn.Linear(4, 6, bias=False))
    tied[1].weight = tied[0].weight
    with pytest.raises(ArgumentError, match="a layer that is divided are its own"):
        parallelize_module(tied, mesh, {"0": ColwiseParallel()})
    with pytest.raises(ArgumentError, match="overlap_with_ddp is False"):
        ZeroRedundancyOptimizer([clnet.ones(1)], optim.SGD, overlap_with_ddp=True)


if __name__ == "__main__":
    main()
