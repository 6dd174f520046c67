"""Lazy layers: their shapes come with the first input, and then they are what PyTorch's become."""

from __future__ import annotations

import copy
from threading import Event, Thread
from time import sleep

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.errors import ArgumentError, CheckpointError, ShapeError, TraceError
from clnet.nn.parameter import is_lazy
from tests.answers import torch

pytestmark = pytest.mark.device

LAYERS = [
    *((f"LazyConv{n}d", {"out_channels": 4, "kernel_size": 2, "groups": 2}, n) for n in (1, 2, 3)),
    *((f"LazyConvTranspose{n}d", {"out_channels": 4, "kernel_size": 2}, n) for n in (1, 2, 3)),
    *((f"LazyBatchNorm{n}d", {}, n) for n in (1, 2, 3)),
    *((f"LazyInstanceNorm{n}d", {}, n) for n in (1, 2, 3)),
    ("LazyLinear", {"out_features": 5}, 1),
]


@pytest.mark.parametrize(("name", "settings", "axes"), LAYERS, ids=[row[0] for row in LAYERS])
def test_becomes_the_layer_it_stands_for(name, settings, axes):
    lazy = getattr(nn, name)(**settings)
    held = [*lazy.parameters(), *(b for n, b in lazy.named_buffers() if "running" in n)]
    assert all(is_lazy(x) for x in held)
    ids = [id(x) for x in held]
    x = clnet.randn(2, 6, *(5,) * axes)
    y = lazy(x)
    assert type(lazy) is getattr(nn, name.removeprefix("Lazy"))
    assert [id(x) for x in (*lazy.parameters(), *lazy.buffers())][: len(ids)] == ids
    assert not any(is_lazy(x) for x in (*lazy.parameters(), *lazy.buffers()))
    y.sum().backward()
    assert all(p.grad is not None for p in lazy.parameters())
    if torch is None:
        return
    peer = getattr(torch.nn, name)(**settings)
    peer(torch.from_numpy(x.numpy()))
    state = {n: torch.from_numpy(np.array(v.numpy())) for n, v in lazy.state_dict().items()}
    peer.load_state_dict(state)  # names and shapes
    lazy.eval(), peer.eval()
    expected = peer(torch.from_numpy(x.numpy())).detach().numpy()
    np.testing.assert_allclose(lazy(x).detach().numpy(), expected, rtol=1e-4, atol=1e-5)


def test_without_a_shape_it_says_what_to_do():
    lazy = nn.LazyLinear(3)
    assert repr(lazy.weight) == "<UninitializedParameter>"
    with pytest.raises(ShapeError, match="after the first forward"):
        _ = lazy.weight.shape
    with pytest.raises(TraceError, match="once with an example"):
        clnet.compile(lazy)(clnet.ones(2, 4))
    with pytest.raises(ArgumentError, match="groups divides"):
        nn.LazyConv2d(4, 3, groups=3)
    with pytest.raises(ShapeError, match="axes or more"):
        nn.LazyConv2d(4, 3)(clnet.ones(5))


def test_nothing_is_computed_without_a_shape():
    """What has no shape yet is no empty tensor: sums and norms of it would pass in silence."""
    lazy = nn.LazyLinear(3)
    for use in (clnet.empty_like, clnet.sum, clnet.clone, nn.init.zeros_, lambda w: w * 2):
        with pytest.raises(ArgumentError, match="have elements after the first forward"):
            use(lazy.weight)
    for norm in (nn.utils.weight_norm, nn.utils.parametrizations.weight_norm):
        with pytest.raises(ArgumentError, match="after the first forward"):
            norm(lazy)
    with pytest.raises(ArgumentError, match="have memory after the first forward"):
        lazy.share_memory()
    assert lazy.half().weight.dtype == clnet.float16
    assert lazy.float()(clnet.ones(2, 4)).shape == (2, 3)


@pytest.mark.parametrize("key", ["input", "x"])
@pytest.mark.parametrize("make", [
    lambda: nn.LazyLinear(3), nn.LazyBatchNorm1d, lambda: nn.LazyConvTranspose1d(3, 1),
], ids=["linear", "norm", "conv"])  # fmt: skip
def test_the_first_input_is_given_by_name(make, key):
    assert make()(**{key: clnet.ones(2, 3, 3)}).shape == (2, 3, 3)


def test_a_state_gives_it_shapes():
    given = nn.Linear(7, 3).state_dict()
    lazy = nn.LazyLinear(3)
    assert is_lazy(lazy.state_dict()["weight"])
    copied = copy.deepcopy(lazy)
    lazy.load_state_dict(given)
    assert lazy.weight.tolist() == given["weight"].tolist()
    lazy(clnet.ones(2, 7))
    assert type(lazy) is nn.Linear
    assert lazy.weight.tolist() == given["weight"].tolist()
    assert copied(clnet.ones(2, 4)).shape == (2, 3)


def test_dtype_and_optimiser_come_before_the_shape():
    net = nn.Sequential(nn.LazyLinear(4), nn.Tanh(), nn.LazyLinear(1)).double()
    optimizer = clnet.optim.Adam(net.parameters(), lr=1e-3)
    x = 1 + clnet.rand(8, 3).double()
    net(x)
    before = net[0].weight.tolist()
    assert net[0].weight.dtype is clnet.float64

    @clnet.compile
    def step():
        optimizer.zero_grad()
        loss = (net(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    losses = [step().item() for _ in range(4)]
    assert losses[3] < losses[0]
    assert net[0].weight.tolist() != before


class _Scaled(nn.modules.lazy.LazyModuleMixin, nn.Module):
    def __init__(self, *, gives=True):
        super().__init__()
        self.scale = nn.UninitializedParameter()
        self.gives = gives

    def initialize_parameters(self, x):
        if self.gives:
            with clnet.no_grad():
                self.scale.materialize(x.shape[-1])
                self.scale.fill_(2)

    def forward(self, x):
        return x * self.scale


def test_users_write_their_own():
    module = _Scaled()
    assert module(clnet.ones(2, 3)).tolist() == [[2.0] * 3] * 2
    assert not module.has_uninitialized_params()
    assert module.scale.shape == (3,)
    with pytest.raises(ArgumentError, match="all parameters"):
        _Scaled(gives=False)(clnet.ones(2))


def test_sync_batch_norm_takes_the_place_of_batch_norms():
    net = nn.Sequential(nn.Conv2d(2, 3, 1), nn.BatchNorm2d(3), nn.Sequential(nn.BatchNorm1d(4)))
    weight = net[1].weight
    x = clnet.randn(4, 2, 3, 3)
    expected = copy.deepcopy(net)[:2](x)
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    assert converted is net
    assert type(net[1]) is nn.SyncBatchNorm
    assert type(net[2][0]) is nn.SyncBatchNorm
    assert net[1].weight is weight
    assert net[:2](x).tolist() == expected.tolist()
    assert net[1].num_batches_tracked.item() == 1
    alone = nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm1d(2))
    assert alone(clnet.randn(3, 2, 5)).shape == (3, 2, 5)


class _Versioned(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(clnet.zeros(2))
        self.seen = 0

    def _load_from_state_dict(self, state_dict, prefix, *rest):
        if prefix + "old" in state_dict:
            state_dict[prefix + "weight"] = state_dict.pop(prefix + "old")
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def get_extra_state(self):
        return {"seen": self.seen}

    def set_extra_state(self, state):
        self.seen = state["seen"]


def test_modules_say_how_their_state_is_read():
    net = nn.Sequential(_Versioned())
    net[0].seen = 4
    state = net.state_dict()
    assert state["0._extra_state"] == {"seen": 4}
    given = {"0.old": clnet.ones(2), "0._extra_state": {"seen": 7}}
    net.load_state_dict(given)
    assert net[0].weight.tolist() == [1.0, 1.0]
    assert net[0].seen == 7
    assert list(given) == ["0.old", "0._extra_state"]  # the caller's is not changed
    with pytest.raises(CheckpointError, match="_extra_state"):
        net.load_state_dict({"0.weight": clnet.ones(2)})


def test_hooks_of_the_state():
    net = nn.Linear(2, 1)
    calls = []
    handles = [
        net.register_state_dict_pre_hook(lambda m, prefix, keep: calls.append(("pre", prefix))),
        net.register_state_dict_post_hook(lambda m, s, prefix, meta: s.pop(prefix + "bias")),
        net.register_load_state_dict_pre_hook(
            lambda m, s, prefix, *rest: s.update({prefix + "weight": s.pop(prefix + "w")})
        ),
        net.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear()),
    ]
    assert list(net.state_dict()) == ["weight"]
    assert calls == [("pre", "")]
    found = net.load_state_dict({"w": clnet.ones(1, 2)})
    assert repr(found) == "<All keys matched successfully>"
    assert (found.missing_keys, net.weight.tolist()) == ([], [[1.0, 1.0]])
    for handle in handles:
        handle.remove()
    assert list(net.state_dict()) == ["weight", "bias"]
    with pytest.raises(CheckpointError, match="bias"):
        net.load_state_dict({"weight": clnet.ones(1, 2)})


def test_forward_hooks_see_keywords_come_first_and_after_errors():
    class Add(nn.Module):
        def forward(self, x, *, y):
            return x + y

    module, log = Add(), []
    module.register_forward_pre_hook(
        lambda m, args, kwargs: (args, {"y": kwargs["y"] * 2}), with_kwargs=True
    )
    module.register_forward_hook(lambda m, args, out: log.append("second"))
    module.register_forward_hook(
        lambda m, args, kwargs, out: log.append(kwargs["y"].item()), with_kwargs=True, prepend=True
    )
    assert module(clnet.tensor(1.0), y=clnet.tensor(3.0)).item() == 7.0
    assert log == [6.0, "second"]
    module.register_forward_hook(lambda m, args, out: log.append(out), always_call=True)
    with pytest.raises(ShapeError):
        module(clnet.ones(2), y=clnet.ones(3))
    assert log[2:] == [None]
    module.register_forward_pre_hook(lambda m, args, kwargs: args, with_kwargs=True)
    with pytest.raises(ArgumentError, match="args, kwargs"):
        module(clnet.ones(2), y=clnet.ones(2))


def test_the_first_inputs_come_in_several_threads():
    """One gives the shapes; the others wait, and find a layer as any other."""
    entered, met = Event(), list[bool]()

    class Slow(nn.LazyLinear):
        def initialize_parameters(self, x):
            met.append(entered.is_set())
            entered.set()
            sleep(0.02)
            super().initialize_parameters(x)

    layer, found = Slow(2), list[tuple[int, ...]]()
    threads = [Thread(target=lambda: found.append(layer(clnet.ones(5, 3)).shape)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [(5, 2)] * 3
    assert met == [False]
    assert type(layer) is nn.Linear
