"""Averages of gradients that go on beside backward, asked by :mod:`tests.ranks.sharded`."""

from __future__ import annotations

from functools import partial
from threading import Event
from typing import Any

import pytest

import clnet
from clnet import distributed as dist
from clnet.nn.parallel.fully_shard import fully_shard
from clnet.ranks import scattering
from clnet.ranks.differentiable import own_part

F = clnet.nn.functional


def beside_backward(model: Any, x: clnet.Tensor, t: clnet.Tensor) -> None:
    """A block's gradients are averaged while those of the block before are computed.

    Who looks at gradients before the walk back ends finds averages.

    Args:
        model: of three blocks, a unit each.
        x: its input.
        t: what it shall give.
    """
    F.mse_loss(model(x), t).backward()  # from now on it is known who is gathered next
    wanted, seen, computed = bits(model), list[Any](), Event()
    for p in model.parameters():
        whole: Any = p.grad.full_tensor()
        assert whole.shape == p.full_tensor().shape
        assert p.grad.to_local() is p.grad
        assert own_part(whole, 0, dist.group.WORLD).tolist() == p.grad.tolist()
    model.blocks[1].up.register_forward_hook(hang(computed))
    model.first.weight.register_hook(lambda grad: seen.append(grad.tolist()))
    model.last.bias.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.tolist()))
    waited = list[bool]()

    def held(joined: Any, *given: Any) -> None:
        waited.append(computed.wait(20))
        joined(*given)

    with pytest.MonkeyPatch.context() as patch:
        for name in ("sum_parts", "summed_parts"):  # by hosts, and where devices may
            patch.setattr(scattering, name, partial(held, getattr(scattering, name)))
        assert bits_again(model, x, t) == wanted
    assert waited == [True] * 4
    assert sorted(map(repr, seen)) == sorted(map(repr, (wanted[0], wanted[-1])))
    with clnet.autograd.detect_anomaly():
        assert bits_again(model, x, t) == wanted
    model.zero_grad()


def complex_numbers() -> None:
    """Copies and parts of complex parameters, and a buffer that all have from the first rank."""

    class Turned(clnet.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = clnet.nn.Parameter(clnet.ones(4, 3, dtype=clnet.complex64))
            self.register_buffer("b", clnet.full((3,), 0j + dist.get_rank()))

        def forward(self, x: clnet.Tensor) -> clnet.Tensor:
            return (self.w * x + self.b).abs().sum()

    mean = (dist.get_world_size() + 1) / 2
    for kind in (clnet.nn.parallel.DistributedDataParallel, fully_shard):
        model = kind(Turned())
        model(clnet.ones(4, 3) * (dist.get_rank() + 1)).backward()
        (p,) = model.parameters()
        assert p.grad.numel() <= 12
        assert (p.grad == mean).all()


def hang(come: Event) -> Any:
    """A forward hook that hears of the result's gradient."""

    def hook(module: Any, given: Any, y: clnet.Tensor) -> None:
        y.register_hook(lambda grad: come.set())

    return hook


def bits_again(model: Any, x: clnet.Tensor, t: clnet.Tensor) -> list[Any]:
    model.zero_grad()
    F.mse_loss(model(x), t).backward()
    return bits(model)


def bits(model: Any) -> list[Any]:
    return [p.grad.tolist() for p in model.parameters()]
