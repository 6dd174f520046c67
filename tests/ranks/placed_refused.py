"""What DTensors refuse, and layers and losses of them. Run by ``mpirun``."""

from __future__ import annotations

import copy

import pytest

import clnet
from clnet import distributed as dist
from clnet import nn
from clnet.errors import ArgumentError, DistributedError, ShapeError
from clnet.nn.parallel.tensor_parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from clnet.ranks.loss_in_parts import loss_parallel
from clnet.ranks.placement import DTensor, Partial, Replicate, Shard, distribute_tensor

F = nn.functional


def main() -> None:
    dist.init_process_group(timeout=60)
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    operands(mesh)
    as_tensors(mesh)
    losses(mesh)
    layers(mesh)
    print(f"<rank {dist.get_rank()} is done>")


def operands(mesh: dist.DeviceMesh) -> None:
    """Other tensors, other meshes, functions without a rule."""
    whole = clnet.arange(12).reshape(4, 3).float()
    x = distribute_tensor(whole, mesh, [Shard(0)])
    for f in (lambda: x + whole, lambda: whole * x, lambda: clnet.cat([x, whole])):
        with pytest.raises(ArgumentError, match=r"tensors beside a DTensor are .*from_local"):
            f()
    assert (x + clnet.tensor(1.0)).full_tensor().tolist() == (whole + 1).tolist()
    same = dist.DeviceMesh.from_group(dist.new_group())
    with pytest.raises(DistributedError, match="add: all tensors lie on one mesh"):
        x + distribute_tensor(whole, same, [Shard(0)])
    with pytest.raises(ArgumentError, match=r"cdist: the function has a rule .*Replicate"):
        clnet.cdist(x, x)
    with pytest.raises(ArgumentError, match="dropout: the function has a rule"):
        F.dropout(x.redistribute(placements=[Replicate()]), 0.5)
    alone = x.redistribute(placements=[Replicate()])
    assert clnet.cdist(alone, alone).full_tensor().tolist() == clnet.cdist(whole, whole).tolist()
    with pytest.raises(ArgumentError, match="what is written into is no sum in parts"):
        DTensor.from_local(whole, mesh, [Partial()]).add_(x)
    with pytest.raises(ArgumentError, match="matmul: both are DTensors"):
        x @ 3
    with pytest.raises(ArgumentError, match="linear: input and weight are DTensors"):
        F.linear(x, clnet.tensor(1.0))
    with pytest.raises(ArgumentError, match="sum: the tensor has the axis"):
        x.sum(2)
    with pytest.raises(AttributeError, match="'DTensor' object has no attribute 'nonsense'"):
        _ = x.nonsense


def as_tensors(mesh: dist.DeviceMesh) -> None:
    """What programs ask a tensor."""
    whole = clnet.arange(12).reshape(4, 3).float()
    x = distribute_tensor(whole, mesh, [Shard(0)])
    assert (x.size(), x.size(0), x.dim(), x.numel(), len(x)) == ((4, 3), 4, 2, 12, 4)
    assert x.sum().item() == 66
    assert bool(x.sum() > 65)
    assert float(x.max()) == 11
    assert x.T.placements == (Shard(1),)
    assert x.mT.full_tensor().tolist() == whole.T.tolist()
    assert [row.tolist() for row in x] == whole.tolist()
    assert x[1:3].tolist() == whole[1:3].tolist()
    y = x.detach().clone().requires_grad_()
    assert (y.requires_grad, y.grad) == (True, None)
    (2 * y).backward(x)
    assert y.grad.placements == (Shard(0),)
    assert y.grad.tolist() == (2 * whole).tolist()
    y.grad = None
    assert y.grad is None
    assert x.to(clnet.float64).dtype is clnet.float64
    values, places = x.max(dim=1)
    assert (values.tolist(), places.tolist()) == ([2, 5, 8, 11], [2] * 4)
    first, second = x.chunk(2, dim=0)
    assert second.tolist() == whole[2:].tolist()
    assert first.placements == (Replicate(),)
    assert clnet.cat([x, x], dim=1).placements == (Shard(0),)


def losses(mesh: dist.DeviceMesh) -> None:
    scores = distribute_tensor(clnet.randn(4, 5), mesh, [Shard(0)])
    target = clnet.tensor([0, 4, 2, 1])
    with loss_parallel():
        with pytest.raises(ArgumentError, match="scores are divided along the classes"):
            F.cross_entropy(scores, target)
        parts = scores.redistribute(placements=[Shard(1)])
        with pytest.raises(ArgumentError, match="there is no label_smoothing"):
            F.cross_entropy(parts, target, label_smoothing=0.1)
        with pytest.raises(ShapeError, match="each example has a target"):
            F.cross_entropy(parts, target[:2])
        with pytest.raises(ArgumentError, match="targets are numbers of classes"):
            F.cross_entropy(parts, parts)
        with pytest.raises(ArgumentError, match="reduction is mean, sum or none"):
            F.cross_entropy(parts, target, reduction="most")
        found = F.cross_entropy(parts * 100, target)  # exp of the scores themselves is infinite
    wanted = F.cross_entropy(scores.full_tensor() * 100, target)
    assert abs(found.item() - wanted.item()) < 1e-3
    with pytest.raises(ArgumentError, match="tensors beside a DTensor"):  # outside of the block
        F.cross_entropy(parts, target)
    laid = distribute_tensor(target, mesh, [Replicate()])
    found = F.cross_entropy(scores * 100, laid)
    assert abs(found.item() - wanted.item()) < 1e-3


def layers(mesh: dist.DeviceMesh) -> None:
    """In parts of unequal sizes, chained by DTensors; a copy has parameters of its own."""
    clnet.manual_seed(3)
    alone = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))
    divided = copy.deepcopy(alone)
    style = {"use_local_output": False}
    plan = {"0": ColwiseParallel(**style), "2": RowwiseParallel(**style)}
    parallelize_module(divided, mesh, plan)
    x = clnet.arange(12).reshape(4, 3).float()
    hidden = divided[0](x)
    assert (hidden.shape, hidden.placements) == ((4, 5), (Shard(-1),))
    for model in (divided, copy.deepcopy(divided)):
        model.zero_grad()
        y = model(distribute_tensor(x, mesh, [Shard(0)]))  # as it lies, whatever layout is awaited
        assert isinstance(y, DTensor)
        assert clnet.allclose(y.full_tensor(), alone(x), rtol=1e-5)
        y.sum().backward()
    alone.zero_grad()
    alone(x).sum().backward()
    for p, q in zip(divided.parameters(), alone.parameters(), strict=True):
        assert clnet.allclose(p.grad.full_tensor(), q.grad, rtol=1e-5)


if __name__ == "__main__":
    main()
