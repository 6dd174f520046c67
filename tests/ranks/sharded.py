"""Parameters in parts (``fully_shard``, ``FullyShardedDataParallel``), beside copies on each rank.

Run by ``mpirun`` with 2 ranks or more; prints the bits of losses.
"""

from __future__ import annotations

import copy
import hashlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clnet.distributed.fsdp import (
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    ShardingStrategy,
    StateDictType,
    fully_shard,
    wrap,
)

import clnet
from clnet import distributed as dist
from clnet import nn, optim
from clnet.compat import distributed_checkpoint
from clnet.compile import record
from clnet.compile.as_values import as_values
from clnet.compile.passes import KEEPING_BITS, rewrite
from clnet.compile.simplify import simplify
from clnet.compile.tracer import Step
from clnet.compile.wait_late import wait_late
from clnet.errors import ArgumentError, CheckpointError, DistributedError, TraceError
from clnet.nn.parallel.divided import DividedParameter
from clnet.nn.parallel.tensor_parallel import (
    ColwiseParallel,
    RowwiseParallel,
    full_state_dict,
    parallelize_module,
)
from clnet.ranks.placement import DTensor, Replicate, Shard
from tests.ranks.averages import beside_backward, complex_numbers
from tests.ranks.training import keeps_what_depends, same_everywhere

F = nn.functional
parallel = dist.tensor.parallel
FSDP = FullyShardedDataParallel
DDP = nn.parallel.DistributedDataParallel
WIDTH = 33  # rows that ranks do not divide evenly
Losses = list[float]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)
        self.checkpointed = False

    def forward(self, x: clnet.Tensor) -> clnet.Tensor:
        hidden = clnet.checkpoint(self.inner, x) if self.checkpointed else self.inner(x)
        return x + self.down(hidden)

    def inner(self, x: clnet.Tensor) -> clnet.Tensor:
        return F.relu(self.up(x))


class Net(nn.Module):
    """Blocks, and a last layer of one row: some ranks have none of it."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(3)])
        self.last = nn.Linear(WIDTH, 1)

    def forward(self, x: clnet.Tensor) -> clnet.Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


def net() -> Net:
    clnet.manual_seed(0)
    return Net()


def in_parts(model: Any = None, **given: Any) -> Any:
    """A model whose blocks are gathered one by one."""
    model = net() if model is None else model
    for block in model.blocks:
        fully_shard(block, **given)
    return fully_shard(model, **given)


def wrapped(**given: Any) -> Any:
    return FSDP(net(), auto_wrap_policy=wrap.ModuleWrapPolicy({Block}), **given)


def batch(turn: int) -> tuple[clnet.Tensor, clnet.Tensor]:
    """This rank's share."""
    rank, size = dist.get_rank(), dist.get_world_size()
    x = np.cos(np.arange(size * 4 * 8).reshape(size * 4, 8) * (turn + 1.3)).astype(np.float32)
    own = clnet.tensor(x[rank * 4 : rank * 4 + 4])
    return own, own.sum(1, keepdim=True).sin()


def trained(
    model: Any,
    make: Callable[..., Any] = optim.AdamW,
    turns: int = 3,
    *,
    compiled: bool = False,
    optimizer: Any = None,
) -> Losses:
    """Losses and norms of gradients of some steps."""
    o = make(model.parameters(), lr=1e-2) if optimizer is None else optimizer

    def step(x: clnet.Tensor, t: clnet.Tensor) -> tuple[clnet.Tensor, clnet.Tensor]:
        o.zero_grad()
        loss = F.mse_loss(model(x).float(), t)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        o.step()
        return loss, norm

    run = clnet.compile(step, passes=KEEPING_BITS) if compiled else step
    return [float(v) for turn in range(turns) for v in run(*batch(turn))]


def main() -> None:
    dist.init_process_group()
    copies = trained(DDP(net()))
    found = trained(in_parts())
    np.testing.assert_allclose(found, copies, rtol=1e-5)
    assert trained(in_parts()) == found
    assert trained(in_parts(), compiled=True) == found
    assert trained(in_parts(reshard_after_forward=False)) == found
    assert trained(in_parts(reshard_after_forward=False), compiled=True) == found
    compiled_apart(found)
    held_back()
    beside_backward(in_parts(), *batch(0))
    complex_numbers()
    assert trained(wrapped()) == found
    assert trained(wrapped(sharding_strategy=ShardingStrategy.SHARD_GRAD_OP)) == found
    whole = trained(wrapped(sharding_strategy=ShardingStrategy.NO_SHARD))
    np.testing.assert_allclose(whole, copies, rtol=1e-5)
    grid = dist.init_device_mesh("cpu", (dist.get_world_size(), 1))
    np.testing.assert_allclose(trained(in_parts(mesh=grid)), copies, rtol=1e-5)
    computed_again(found)
    narrow()
    added_up()
    memory()
    ended_early(found)
    parts_and_wholes()
    states(found)
    checkpoints(Path(sys.argv[1]), found)
    size = dist.get_world_size()
    for shape in ((1, size), (size, 1)):
        along_words(shape)
    shared_and_frozen()
    refused()
    norms = repr(found[1::2])
    same_everywhere(norms)
    bits = hashlib.sha256(norms.encode()).hexdigest()[:16]
    print(f"<rank {dist.get_rank()}: {bits}>")


def computed_again(found: Losses) -> None:
    """Checkpoints inside a unit, and around it."""
    model = net()
    for block in model.blocks:
        block.checkpointed = True
    assert trained(in_parts(model)) == found
    around = in_parts()
    for block in around.blocks:
        run = block.forward
        vars(block)["forward"] = lambda x, run=run: clnet.checkpoint(run, x)
    assert trained(around) == found


def compiled_apart(found: Losses) -> None:
    """A model that is compiled for itself, and blocks that were compiled before."""
    model = in_parts()
    o = optim.AdamW(model.parameters(), lr=1e-2)
    run = clnet.compile(model)
    np.testing.assert_allclose(trained(run, optimizer=o), found, rtol=1e-5)
    blocks = net()
    blocks.blocks = nn.ModuleList([clnet.compile(block) for block in blocks.blocks])
    np.testing.assert_allclose(trained(in_parts(blocks)), found, rtol=1e-5)
    before = net()
    before.last.compile()
    with pytest.raises(ArgumentError, match=r"not compiled yet.*Call compile\(\) afterwards"):
        fully_shard(before.last)


def held_back() -> None:
    """A compiled step gathers a block when it needs it; no dependence is broken."""
    for frees in (True, False):
        model = in_parts(reshard_after_forward=frees)
        o = optim.AdamW(model.parameters(), lr=1e-2)

        def step(x: clnet.Tensor, t: clnet.Tensor, model: Any = model, o: Any = o) -> None:
            o.zero_grad()
            F.mse_loss(model(x), t).backward()
            o.step()

        recorded = record(step, batch(0), {}, clnet.device()).trace
        trace = rewrite(recorded, (as_values, simplify))
        late = wait_late(trace)
        keeps_what_depends(trace, late, early="all_gather")
        names = [one.function.name for one in late.steps if isinstance(one, Step)]
        assert names.count("all_gather_into_tensor") == (8 if frees else 4)
        early = names[: names.index("linear")].count("all_gather_into_tensor")
        assert early <= 2 or not frees
        # In backward a block is gathered before the averages of the one behind it are begun.
        averaged = names.index("reduce_scatter_tensor")
        assert names[:averaged].count("all_gather_into_tensor") == (7 if frees else 4)


def narrow() -> None:
    """Whole parameters in bfloat16, parts and averages in float32."""
    policy = MixedPrecisionPolicy(clnet.bfloat16, clnet.float32)
    seen: list[Any] = []
    model = in_parts(mp_policy=policy)
    model.blocks[0].up.register_forward_hook(lambda m, x, y: seen.append((m.weight.dtype, y.dtype)))
    x, t = batch(0)
    F.mse_loss(model(x).float(), t).backward()
    assert seen == [(clnet.bfloat16, clnet.bfloat16)]
    assert {p.dtype for p in model.parameters()} == {clnet.float32}
    assert {p.grad.dtype for p in model.parameters()} == {clnet.float32}
    exact = in_parts()
    F.mse_loss(exact(x), t).backward()
    for p, q in zip(model.parameters(), exact.parameters(), strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), atol=0.02)
    given = MixedPrecision(param_dtype=clnet.bfloat16, reduce_dtype=clnet.float32)
    other = wrapped(mixed_precision=given)
    F.mse_loss(other(x).float(), t).backward()
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        assert p.grad.tolist() == q.grad.tolist()


def added_up() -> None:
    """Two passes of which the second averages, beside one of both."""
    (x, t), (y, u) = batch(0), batch(1)
    once = in_parts()
    (F.mse_loss(once(x), t) + F.mse_loss(once(y), u)).backward()
    twice, other = in_parts(), wrapped()
    twice.set_requires_gradient_sync(False)
    F.mse_loss(twice(x), t).backward()
    assert all(p.grad is None for p in twice.parameters())
    with pytest.raises(TraceError, match="averages its gradients"):
        trained(twice, compiled=True)
    for p in twice.parameters():
        p.grad = None
    twice.set_requires_gradient_sync(True)
    F.mse_loss(twice(y), u).backward()
    with other.no_sync():
        F.mse_loss(other(x), t).backward()
    F.mse_loss(other(y), u).backward()
    for p, *rest in zip(*(m.parameters() for m in (once, twice, other)), strict=True):
        for q in rest:
            np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), atol=1e-6)


def memory() -> None:
    """A rank holds its part, and while a block runs that block."""
    clnet.manual_seed(0)
    size, width = dist.get_world_size(), 512
    layers = [nn.Linear(width, width, bias=False) for _ in range(6)]
    one, every = width * width * 4, 6 * width * width * 4
    model = nn.Sequential(*layers)
    x = clnet.ones(2, width)
    del layers
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    clnet.reset_peak_memory_stats()
    held = clnet.memory_allocated()
    for _ in range(2):
        model(x).sum().backward()
    peak = clnet.max_memory_allocated() - held
    grads = every / size
    # One layer's weights as they are exchanged and as they are used, and its gradient likewise.
    assert held < every * 0.8, (held, every)
    assert peak < 2 * grads + 5 * one, (peak / one, grads / one)
    assert peak < every * 2  # what copies on each rank have of gradients and averages


def ended_early(found: Losses) -> None:
    """Modules have their parts again behind a walk that fails, and one that ends within."""
    model = in_parts()
    own = list(model.parameters())
    (x, t), fails = batch(0), [True]

    def fail(grad: clnet.Tensor) -> None:
        if fails:
            raise ValueError("planted")

    def hang(module: Any, given: Any, y: clnet.Tensor) -> None:
        if y.requires_grad:
            y.register_hook(fail)

    model.blocks[1].up.register_forward_hook(hang)
    with pytest.raises(ValueError, match="planted"):
        F.mse_loss(model(x), t).backward()
    assert all(p is q for p, q in zip(model.parameters(), own, strict=True))
    fails.clear()
    x.requires_grad_()
    clnet.autograd.grad(F.mse_loss(model(x), t), x)
    assert all(p is q for p, q in zip(model.parameters(), own, strict=True))
    assert trained(model) == found


def parts_and_wholes() -> None:
    model, whole = in_parts(), net()
    size, rank = dist.get_world_size(), dist.get_rank()
    names = [name for name, _ in whole.named_parameters()]
    assert [name for name, _ in model.named_parameters()] == names
    for (_, p), q in zip(model.named_parameters(), whole.parameters(), strict=True):
        assert isinstance(p, DividedParameter)
        rows = -(-q.shape[0] // size)
        assert p.tolist() == q[rank * rows : (rank + 1) * rows].tolist()
        assert p.full_tensor().tolist() == q.tolist()
    x, t = batch(0)
    told = in_parts()
    losses: list[Losses] = [[], []]
    for kept, m in zip(losses, (told, in_parts()), strict=True):
        step = optim.SGD(m.parameters(), lr=0.1)
        for _ in range(3):
            if m is told:  # asked for before a call, in each step anew
                m.unshard()
            loss = F.mse_loss(m(x), t)
            step.zero_grad()
            loss.backward()
            step.step()
            kept.append(float(loss))
    assert losses[0] == losses[1]
    model.blocks[1].unshard()
    assert model.blocks[1].up.weight.tolist() == whole.blocks[1].up.weight.tolist()
    model.blocks[1].reshard()
    other = wrapped()
    with FSDP.summon_full_params(other):
        assert other.module.last.weight.tolist() == whole.last.weight.tolist()
        with clnet.no_grad():
            other.module.last.weight.fill_(3.0)
    assert other.module.last.weight.numel() < WIDTH or rank == 0
    assert other.module.last.weight.full_tensor().tolist() == [[3.0] * WIDTH]


def states(found: Losses) -> None:
    """A training that is stopped and goes on from parts, and from whole tensors."""
    model = in_parts()
    o = optim.AdamW(model.parameters(), lr=1e-2)
    trained(model, turns=2, optimizer=o)
    state, own = model.state_dict(), o.state_dict()
    assert all(isinstance(v, DTensor) and v.placements == (Shard(0),) for v in state.values())
    kept = {name: v.full_tensor().detach().clone() for name, v in state.items()}
    resumed = in_parts()
    resumed.load_state_dict(kept)
    again = optim.AdamW(resumed.parameters(), lr=1e-2)
    again.load_state_dict(own)
    rest = trained(resumed, optimizer=again)
    named, full = wrapped(), net()
    full.load_state_dict(kept)
    named.load_state_dict(kept)
    assert {k: v.tolist() for k, v in named.state_dict().items()} == {
        k: v.tolist() for k, v in kept.items()
    }
    with FSDP.state_dict_type(named, StateDictType.SHARDED_STATE_DICT):
        assert all(isinstance(v, DTensor) for v in named.state_dict().values())
        named.load_state_dict(state)
    with FSDP.state_dict_type(
        named,
        StateDictType.FULL_STATE_DICT,
        dist.fsdp.FullStateDictConfig(rank0_only=True, offload_to_cpu=True),
    ):
        assert len(named.state_dict()) == (len(kept) if dist.get_rank() == 0 else 0)
    last = dist.get_world_size() - 1
    others = dist.new_group([last])
    if dist.get_rank() == last:
        apart = wrapped(process_group=others)
        config = dist.fsdp.FullStateDictConfig(rank0_only=True)
        with FSDP.state_dict_type(apart, StateDictType.FULL_STATE_DICT, config):
            assert apart.state_dict().keys() == kept.keys()
    whole = FSDP.optim_state_dict(model, o, own)
    third = optim.AdamW(named.parameters(), lr=1e-2)
    third.load_state_dict(FSDP.optim_state_dict_to_load(named, third, whole))
    assert {v["exp_avg"].shape for v in whole["state"].values()} == {
        p.shape for p in full.parameters()
    }
    assert trained(named, optimizer=third) == rest
    assert trained(in_parts(), turns=2) == found[:4]


def checkpoints(folder: Path, found: Losses) -> None:
    """Written in parts, read in other parts."""
    dcp, how = dist.checkpoint, dist.checkpoint.state_dict
    model = in_parts()
    o = optim.AdamW(model.parameters(), lr=1e-2)
    trained(model, turns=2, optimizer=o)
    names, moments = how.get_state_dict(model, o)
    dcp.save({"model": names, "optim": moments, "epoch": 3}, checkpoint_id=folder / "a")
    rest = trained(model, optimizer=o)
    for other in (wrapped(), DDP(net())):
        again = optim.AdamW(other.parameters(), lr=1e-2)
        names, moments = how.get_state_dict(other, again)
        state = {"model": names, "optim": moments, "epoch": 0}
        dcp.load(state, checkpoint_id=folder / "a")
        how.set_state_dict(other, again, model_state_dict=names, optim_state_dict=moments)
        assert state["epoch"] == 3
        np.testing.assert_allclose(trained(other, optimizer=again), rest, rtol=1e-5)
    told = {"optim": o.state_dict()}
    assert isinstance(told["optim"]["state"][0]["exp_avg"], DTensor)
    assert told["optim"]["state"][0]["exp_avg"].shape == (WIDTH, 8)
    dcp.save(told, checkpoint_id=folder / "o")
    o.load_state_dict(told["optim"])
    own = {"state": {0: {"moment": clnet.ones(2) * dist.get_rank()}}, "param_groups": []}
    with pytest.raises(CheckpointError, match="lie in parts: write get_optimizer_state_dict"):
        dcp.save({"optim": own}, checkpoint_id=folder / "b")
    with pytest.raises(CheckpointError, match="there is a whole checkpoint"):
        dcp.load({"x": clnet.ones(1)}, checkpoint_id=folder / "b")
    with pytest.raises(CheckpointError, match=r"missing=\['y'\]"):
        dcp.load({"y": clnet.ones(1)}, checkpoint_id=folder / "a")
    if dist.get_rank() == 0:
        (folder / "c").write_text("no folder")
    dist.barrier()
    with pytest.raises(CheckpointError):
        dcp.save({"x": clnet.ones(1)}, checkpoint_id=folder / "c")
    written_together(folder / "d")
    with clnet.device("meta"):
        nowhere = Net()
    assert all(p.is_meta for p in in_parts(nowhere).parameters())
    nowhere.to_empty(device="cpu")
    clnet.manual_seed(0)
    for module in nowhere.modules():  # as of whole parameters
        if isinstance(module, nn.Linear):
            module.reset_parameters()
    for p, q in zip(nowhere.parameters(), in_parts().parameters(), strict=True):
        assert p.tolist() == q.tolist()
    with clnet.device("meta"):
        fresh = in_parts(Net())
    options = how.StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    whole = how.get_model_state_dict(model, options=options)
    how.set_model_state_dict(fresh, whole if dist.get_rank() == 0 else {}, options=options)
    for p, q in zip(model.parameters(), fresh.parameters(), strict=True):
        assert p.tolist() == q.tolist()


def written_together(folder: Path) -> None:
    """Nobody overwrites a part of what may still be read; all hear of one that cannot write."""
    dcp, rank = dist.checkpoint, dist.get_rank()
    state = {"x": in_parts().state_dict()["last.weight"], "y": clnet.ones(1)}
    dcp.save(state, checkpoint_id=folder)
    forget, write, whole = Path.unlink, distributed_checkpoint.save_state, list[bool]()

    def late(path: Path, **given: Any) -> None:
        time.sleep(0.3)
        forget(path, **given)

    def look(path: Path, arrays: Any) -> None:
        whole.append((folder / ".metadata").exists())
        if fails and rank == 1:
            raise TypeError("planted")
        write(path, arrays)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "unlink", late)
        patch.setattr(distributed_checkpoint, "save_state", look)
        fails = False
        dcp.save(state, checkpoint_id=folder)
        fails = True
        expected, said = (TypeError, "") if rank == 1 else (CheckpointError, "rank 1: ")
        with pytest.raises(expected, match=f"{said}planted"):
            dcp.save(state, checkpoint_id=folder)
    assert whole == [False, False]
    with pytest.raises(CheckpointError, match="there is a whole checkpoint"):
        dcp.load(state, checkpoint_id=folder)


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 8, padding_idx=9)
        self.norm, self.last = nn.LayerNorm(8), nn.Linear(8, 11, bias=False)
        self.inner = nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 8))

    def forward(self, x: clnet.Tensor) -> clnet.Tensor:
        x = self.table(x)
        return self.last(x + self.inner(self.norm(x)))


def shared_and_frozen() -> None:
    """A parameter of two layers, and layers that are not trained."""
    losses: list[Losses] = []
    x = clnet.arange(4 * 4).reshape(4, 4) * (dist.get_rank() + 2) % 11
    for parted in (False, True):
        clnet.manual_seed(0)
        words: Any = Words()
        words.last.weight = words.table.weight
        words.norm.requires_grad_(requires_grad=False)
        model = fully_shard(words) if parted else DDP(words)
        o = optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.5)
        losses.append([])
        for _ in range(3):
            o.zero_grad()
            loss = F.cross_entropy(model(x).flatten(0, 1), x.flatten())
            loss.backward()
            o.step()
            losses[-1].append(float(loss))
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)


def along_words(shape: tuple[int, int]) -> None:
    """Parts along the sequence, features and rows of a table, in parts once more: a whole's."""
    mesh = dist.init_device_mesh("cpu", shape, mesh_dim_names=("dp", "tp"))
    words = Shard(1)
    clnet.manual_seed(0)
    whole = Words()
    model = copy.deepcopy(whole)
    parallelize_module(
        model,
        mesh["tp"],
        {
            "table": RowwiseParallel(input_layouts=Replicate(), output_layouts=words),
            "norm": parallel.SequenceParallel(),
            "inner": parallel.PrepareModuleInput(
                input_layouts=(words,), desired_input_layouts=(Replicate(),)
            ),
            "inner.0": ColwiseParallel(),
            "inner.2": RowwiseParallel(output_layouts=words),
            "last": ColwiseParallel(input_layouts=words, output_layouts=Replicate()),
        },
    )
    fully_shard(model.inner, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    x = clnet.arange(12 * 12).reshape(12, 12) * 7 % 11
    rows = 12 // shape[0]
    first = mesh.get_local_rank("dp") * rows
    losses: list[Losses] = []
    for m, own in ((whole, x), (model, x[first : first + rows])):
        o = optim.AdamW(m.parameters(), lr=1e-2)
        losses.append([])
        for _ in range(3):
            o.zero_grad()
            loss = F.cross_entropy(m(own).flatten(0, 1), own.flatten())
            loss.backward()
            norm = nn.utils.clip_grad_norm_(m.parameters(), 0.5)
            o.step()
            dist.all_reduce(mean := loss.detach() / dist.get_world_size())
            losses[-1] += [float(mean), float(norm)]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)
    for (name, p), q in zip(model.named_parameters(), whole.parameters(), strict=True):
        full = p.full_tensor() if isinstance(p, DividedParameter) else p
        np.testing.assert_allclose(full.numpy(), q.detach().numpy(), atol=1e-4, err_msg=name)
    fresh = Words()
    fresh.load_state_dict(full_state_dict(model))
    kept = fresh.state_dict()
    model.load_state_dict(kept)
    for name, value in full_state_dict(model).items():
        assert value.tolist() == kept[name].tolist()


def refused() -> None:
    with pytest.raises(ArgumentError, match="divided once"):
        fully_shard(in_parts())
    scalar = nn.Module()
    scalar.scale = nn.Parameter(clnet.tensor(1.0))
    with pytest.raises(DistributedError, match="a parameter has an axis"):
        fully_shard(scalar)
    with pytest.raises(ArgumentError, match="a hybrid strategy has a mesh of two axes"):
        wrapped(sharding_strategy=ShardingStrategy.HYBRID_SHARD)
    with pytest.raises(ArgumentError, match="shard_placement_fn"):
        fully_shard(net(), shard_placement_fn=lambda p: Shard(1))


if __name__ == "__main__":
    main()
