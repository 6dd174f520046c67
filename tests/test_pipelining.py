"""Models that are cut into stages."""

from __future__ import annotations

import pytest
from clnet.distributed.pipelining import SplitPoint, pipeline

import clnet
from clnet import nn
from clnet.errors import ArgumentError

pytestmark = pytest.mark.device


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 3))

    def forward(self, x):
        return x + self.inner(x)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(clnet.full((3,), 2.0))
        self.blocks = nn.ModuleDict({str(i): Block() for i in range(4)})
        self.last = nn.Linear(3, 2)

    def forward(self, x):
        x = x * self.scale
        for block in self.blocks.values():
            x = block(x)
        return self.last(x).clone()


class Pair(nn.Module):
    def forward(self, x):
        return [x, x + 1]


def test_stages_behind_each_other_are_the_model():
    net, x = Net(), clnet.randn(2, 3)
    at = {"blocks.1": SplitPoint.BEGINNING, "blocks.2": SplitPoint.END}
    for cuts, count in ((at, 3), ({"blocks.3.inner.1": SplitPoint.BEGINNING}, None), ({}, 1)):
        if count is None:  # a block adds what it was given
            with pytest.raises(ArgumentError, match="a stage takes one tensor of those before it"):
                pipeline(net, (x,), split_spec=cuts)
            continue
        pipe = pipeline(net, (x,), split_spec=cuts)
        assert pipe.num_stages == count
        stages = [pipe.get_stage_module(i) for i in range(count)]
        y = x
        for stage in stages:
            y = stage(y)
        assert (y == net(x)).all()
        names = [name for stage in stages for name, _ in stage.named_parameters()]
        assert sorted(names) == sorted(name for name, _ in net.named_parameters())
        own = dict(net.named_parameters())
        assert all(p is own[name] for stage in stages for name, p in stage.named_parameters())


def test_what_cannot_be_cut_is_refused():
    net, x = Net(), clnet.randn(2, 3)
    with pytest.raises(ArgumentError, match=r"calls the modules of split_spec; got not_called=.*9"):
        pipeline(net, (x,), split_spec={"blocks.9": SplitPoint.END})
    with pytest.raises(ArgumentError, match="a model takes one tensor"):
        pipeline(net, (x, x))
    with pytest.raises(ArgumentError, match="the result is one tensor of the last stage"):
        pipeline(Pair(), (x,))
