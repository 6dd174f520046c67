"""``nn.utils.prune`` beside PyTorch's, from the same weights."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import clnet
from clnet.errors import ArgumentError, DtypeError, ShapeError
from tests.answers import torch

pytestmark = pytest.mark.device
prune = clnet.nn.utils.prune
RNG = np.random.default_rng(0)
WEIGHTS = [RNG.standard_normal(s).astype(np.float32) for s in ((4, 6), (3, 4))]
INPUT = RNG.standard_normal((2, 6)).astype(np.float32)


def net_of(package):
    net = package.nn.Sequential(package.nn.Linear(6, 4), package.nn.Linear(4, 3, bias=False))
    with package.no_grad():
        for layer, w in zip(net, WEIGHTS, strict=True):
            layer.weight.copy_(package.tensor(w))
        net[0].bias.fill_(0.5)
    return net


def by_elements(package, p, net):
    p.l1_unstructured(net[0], "weight", amount=0.4)
    p.l1_unstructured(net[0], name="weight", amount=3)
    p.identity(net[0], "bias")


def by_channels(package, p, net):
    p.ln_structured(net[0], "weight", amount=0.3, n=2, dim=0)
    p.ln_structured(net[0], "weight", amount=2, n=float("inf"), dim=1)
    p.l1_unstructured(net[0], "weight", amount=0.5)


def of_all(package, p, net):
    pairs = [(net[0], "weight"), (net[1], "weight")]
    p.global_unstructured(pairs, pruning_method=p.L1Unstructured, amount=0.5)


def by_scores(package, p, net):
    scores = package.arange(24.0).reshape(4, 6)
    p.l1_unstructured(net[0], "weight", 0.25, importance_scores=scores)
    p.custom_from_mask(net[1], "weight", package.eye(3, 4))


def by_a_method_of_its_own(package, p, net):
    class Every(p.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t, default_mask):
            mask = default_mask.clone()
            mask.view(-1)[::2] = 0
            return mask

    Every.apply(net[0], "weight")
    Every.apply(net[0], "weight")


def results(package, how):
    net = net_of(package)  # skips where PyTorch is not installed
    p = importlib.import_module(f"{'clnet' if package is clnet else 'torch'}.nn.utils.prune")
    how(package, p, net)
    assert p.is_pruned(net)
    package.optim.SGD(net.parameters(), lr=0.1).zero_grad()
    y = net(package.tensor(INPUT))
    y.pow(2).sum().backward()
    found = {"y": y, "weight": net[0].weight}
    found |= {f"{n}.grad": w.grad for n, w in net.named_parameters()}
    for layer in net:
        for name in {n.removesuffix("_mask") for n, _ in layer.named_buffers()}:
            p.remove(layer, name)
    assert not p.is_pruned(net)
    found |= dict(net.state_dict())
    return {n: x.detach().numpy() for n, x in found.items()}


@pytest.mark.parametrize(
    "how",
    [by_elements, by_channels, of_all, by_scores, by_a_method_of_its_own],
    ids=lambda f: f.__name__,
)
def test_what_stays_is_pytorchs(how):
    expected, got = results(torch, how), results(clnet, how)
    assert sorted(got) == sorted(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


def test_drawn_parts_are_as_many_as_was_said():
    net = net_of(clnet)
    prune.random_unstructured(net[0], "weight", amount=0.25)
    prune.random_structured(net[1], "weight", amount=1, dim=0)
    assert int((net[0].weight == 0).sum()) == 6
    assert int((net[1].weight == 0).all(1).sum()) == 1


def test_what_is_no_amount_is_refused():
    net = net_of(clnet)
    for amount in (-1, 1.5, True):
        with pytest.raises(ArgumentError, match="a part between"):
            prune.l1_unstructured(net[0], "weight", amount)
    with pytest.raises(DtypeError, match="a part between"):
        prune.l1_unstructured(net[0], "weight", "half")
    with pytest.raises(ArgumentError, match="at most what there is"):
        prune.l1_unstructured(net[1], "weight", 13)
    with pytest.raises(ShapeError, match="the parameter's shape"):
        prune.l1_unstructured(net[0], "weight", 1, clnet.ones(2))
    with pytest.raises(ArgumentError, match="the parameter is pruned"):
        prune.remove(net[0], "weight")
    with pytest.raises(ArgumentError, match="a method that prunes elements"):
        prune.global_unstructured([(net[0], "weight")], prune.LnStructured, amount=1, n=2)


def test_the_history_is_found_among_the_hooks():
    """As PyTorch's tutorial looks for it; the pruned parameter is on the tape at once."""
    layer = clnet.nn.Linear(4, 3)
    prune.l1_unstructured(layer, "weight", amount=0.5)
    prune.ln_structured(layer, "weight", amount=1, n=2, dim=0)
    assert layer.weight.requires_grad
    (hook,) = (h for h in layer._forward_pre_hooks.values() if h._tensor_name == "weight")
    assert [type(way).__name__ for way in hook] == ["L1Unstructured", "LnStructured"]


class Failing(prune.BasePruningMethod):
    def compute_mask(self, t, default_mask):
        raise KeyError


@pytest.mark.parametrize("times", [0, 1, 2])
def test_an_error_leaves_a_module_as_it_was(times):
    layer = clnet.nn.Linear(4, 3)
    for _ in range(times):
        prune.l1_unstructured(layer, "weight", amount=np.int64(1))
    before = list(layer.state_dict())
    with pytest.raises(KeyError):
        Failing.apply(layer, "weight")
    assert list(layer.state_dict()) == before
    assert layer(clnet.ones(2, 4)).shape == (2, 3)
    assert [len(h) for h in layer._forward_pre_hooks.values() if times == 2] == [2] * (times == 2)


def test_a_containers_mask_has_the_dtype_of_what_is_pruned():
    ways = prune.PruningContainer()
    with pytest.raises(DtypeError, match="a pruning method is added"):
        ways.add_pruning_method("half")
    ways.add_pruning_method(prune.L1Unstructured(2))
    mask = ways.compute_mask(clnet.tensor([1.0, 2, 3, 4]), clnet.tensor([1, 1, 1, 0]))
    assert mask.dtype == clnet.float32
    assert mask.tolist() == [0, 0, 1, 0]
