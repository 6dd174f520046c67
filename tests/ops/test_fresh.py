"""Ops that give new memory give it also where nothing is to be done, and dense: as in PyTorch."""

from __future__ import annotations

import pytest

import clnet
from clnet.nn import functional as F

pytestmark = pytest.mark.device

TRIVIAL = {
    "repeat once": lambda x: x.repeat(1, 1),
    "repeat over a new axis": lambda x: x.repeat(2, 1, 1),
    "tile": lambda x: x.tile(1),
    "repeat_interleave": lambda x: x.repeat_interleave(1, 0),
    "roll by nothing": lambda x: x.roll((0, 0), (0, 1)),
    "roll a whole turn": lambda x: x.roll(4, 1),
    "rot90": lambda x: x.rot90(4),
    "pad": lambda x: F.pad(x, (0, 0)),
    "pad by less": lambda x: F.pad(x, (-1, 0)),
    "pad, reflect": lambda x: F.pad(x[None], (0, 0), "reflect"),
    "pad, replicate": lambda x: F.pad(x[None], (0, 0), "replicate"),
    "pad, circular": lambda x: F.pad(x[None], (0, -1), "circular"),
    "diag": clnet.diag,
    "matrix_power": lambda x: x[:, :3].matrix_power(1),
    "chain_matmul": clnet.chain_matmul,
    "diff": lambda x: x.diff(0),
    "logcumsumexp": lambda x: x[:1].logcumsumexp(0),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x[None], 1),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x[None], 1),
    "channel_shuffle": lambda x: F.channel_shuffle(x[None], 1),
}
OF_LINES = {
    "sort": lambda x: x.sort(0),
    "argsort": lambda x: [x.argsort(0)],
    "topk": lambda x: x.topk(2),
    "topk, first axis": lambda x: x.topk(2, 0),
    "kthvalue": lambda x: x.kthvalue(2, 0, keepdim=True),
}


@pytest.mark.parametrize("f", TRIVIAL.values(), ids=TRIVIAL)
def test_writing_into_a_result_leaves_the_operand(f):
    x = clnet.arange(12.0).reshape(3, 4)
    y = f(x)
    assert y.is_contiguous()
    y.add_(100)
    assert x.tolist() == clnet.arange(12.0).reshape(3, 4).tolist()


@pytest.mark.parametrize("f", TRIVIAL.values(), ids=TRIVIAL)
def test_its_gradient_flows(f):
    x = clnet.arange(12.0).reshape(3, 4).requires_grad_()
    y = f(x)
    y.sum().backward()
    assert x.grad.sum().item() == pytest.approx(y.numel())


def test_a_mask_is_assigned_to_what_was_repeated():
    x = clnet.arange(3).view(1, 1, 3).repeat(2, 2, 1)  # as PointNet++ groups points
    x[x > 1] = 7
    assert x.tolist() == [[[0, 1, 7]] * 2] * 2


@pytest.mark.parametrize("f", OF_LINES.values(), ids=OF_LINES)
def test_results_of_sorting_are_dense(f):
    for y in f(clnet.arange(24.0).reshape(4, 6)):
        assert y.is_contiguous()
        assert y.view(-1).shape == (y.numel(),)
