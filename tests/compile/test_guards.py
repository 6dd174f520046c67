"""What makes a plan invalid is looked at when something has changed, and then found."""

from __future__ import annotations

from threading import Thread

import numpy as np
import pytest

import clnet
from clnet import nn, optim
from clnet.compile.guards import Guards
from clnet.values.changes import MODULES, WRITES

pytestmark = pytest.mark.device


def asked(monkeypatch) -> list[str]:
    """The modules whose versions are asked for from now on."""
    names: list[str] = []
    version = nn.Module._clnet_version.fget

    def told(module):
        names.append(type(module).__name__)
        return version(module)

    monkeypatch.setattr(nn.Module, "_clnet_version", property(told))
    return names


def network():
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))


def test_modules_are_not_asked_again_while_none_has_changed(monkeypatch):
    net, x = network().eval(), clnet.ones(5, 3)
    with clnet.no_grad():
        run = clnet.compile(net)
        run(x)
        run(x)
        names = asked(monkeypatch)
        run(x)
        assert names == []
        nn.Linear(1, 1)  # others count as changes, too, and then all are asked once
        run(x)
        assert sorted(set(names)) == ["BatchNorm1d", "Dropout", "Linear", "Sequential"]
        names.clear()
        run(x)
        assert names == []


LAYERS, NAMED = nn.ModuleList([nn.ReLU()]), nn.ModuleDict({"a": nn.ReLU()})
WEIGHTS, TURNED = nn.ParameterList([nn.Parameter(clnet.ones(2))]), clnet.tensor([[1.0, 2], [3, 4]])
OWNER = nn.Module()
OWNER.layer = nn.ReLU()


def through(layers, x):
    for layer in layers:
        x = layer(x)
    return x


UNCALLED = {
    "list": (lambda x: through(LAYERS, x), lambda: LAYERS.append(nn.Tanh())),
    "list's": (lambda x: through(LAYERS, x), lambda: LAYERS.__setitem__(0, nn.Sigmoid())),
    "dict": (lambda x: through(NAMED.values(), x), lambda: NAMED.update({"b": nn.Tanh()})),
    "weights": (lambda x: x + sum(WEIGHTS), lambda: WEIGHTS.append(nn.Parameter(clnet.ones(2)))),
    "owner": (lambda x: OWNER.layer(x), lambda: setattr(OWNER, "layer", nn.Tanh())),
    "turned": (lambda x: x * TURNED, lambda: TURNED.t_()),
    "in place": (lambda x: x * TURNED, lambda: TURNED.unsqueeze_(0)),
}


@pytest.mark.parametrize(("function", "change"), UNCALLED.values(), ids=UNCALLED)
def test_what_nobody_calls_is_seen_too(function, change):
    run, x = clnet.compile(function), clnet.tensor([0.5, 1.5])
    run(x)
    change()
    assert np.array_equal(run(x).detach().numpy(), function(x).detach().numpy())


class Settings:
    factor = 2.0


def counting(x, seen=[]):  # noqa: B006 - what is asked
    seen.append(1)
    return x * len(seen)


def logging(x, log=[]):  # noqa: B006
    log.append(1)
    return x * 2


def test_what_a_default_holds_is_seen():
    """A list, a dict or an object that a call leaves out is the same at every call."""
    settings, factors = Settings(), {"k": 3.0}

    def scaled(x, settings=settings, *, factors=factors):
        return x * settings.factor * factors["k"]

    run, x = clnet.compile(scaled), clnet.ones(1)
    assert run(x).item() == 6
    settings.factor = 5.0
    assert run(x).item() == 15
    factors["k"] = 1.0
    assert run(x).item() == 5
    run = clnet.compile(counting)
    assert [run(x).item() for _ in range(3)] == [1, 2, 3]
    run = clnet.compile(logging)
    assert [run(x).item() for _ in range(3)] == [2, 2, 2]
    assert run.num_traces == 1  # who never asks for what it counts is left alone


CHANGES = {
    "train": lambda net: net.train(),
    "training": lambda net: setattr(net[1], "training", True),
    "attribute": lambda net: setattr(net[1], "eps", 0.5),
    "parameter": lambda net: setattr(net[0], "weight", nn.Parameter(clnet.ones(4, 3))),
    "no bias": lambda net: setattr(net[3], "bias", None),
    "module": lambda net: net.append(nn.Linear(2, 2)),
    "entry": lambda net: net.__setitem__(3, nn.Linear(4, 2)),
    "removed": lambda net: net.__delitem__(3),
    "dtype": lambda net: net[:2].double().float(),
    "hook": lambda net: net[0].register_forward_hook(lambda *given: given[-1] + 1),
    "spectral": lambda net: nn.utils.parametrizations.spectral_norm(net[0]),
    "pruned": lambda net: nn.utils.prune.l1_unstructured(net[0], "weight", 5),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_of_a_module_is_seen(change):
    net, x = network().eval(), clnet.ones(5, 3)
    run = clnet.compile(net)
    with clnet.no_grad():
        run(x)
        run(x)
        traces = run.num_traces
        change(net)
        clnet.manual_seed(0)
        found = run(x)
        assert run.num_traces == traces + 1
        net.eval()  # and what eager makes of it is the same
        np.testing.assert_allclose(run(x).numpy(), net(x).numpy(), rtol=1e-5, atol=1e-6)
        assert found.shape == (5, net(x).shape[1])


@pytest.mark.parametrize("whole", [True, False])
def test_weights_that_are_frozen_between_steps_stay_and_are_trained_again(whole):
    """Whoever freezes them, and though nobody reads the gradient that an earlier step left."""
    layer = nn.Linear(3, 2)
    optimizer = optim.SGD(layer.parameters(), lr=0.1)

    @clnet.compile
    def step(x):
        optimizer.zero_grad()
        layer(x).square().sum().backward()
        optimizer.step()

    def freeze(wanted):
        (layer if whole else layer.bias).requires_grad_(not wanted)
        if whole:
            layer.weight.requires_grad = True

    traces = []
    for frozen in (False, True, False, True, False):
        freeze(frozen)
        before = layer.bias.detach().clone()
        step(clnet.ones(4, 3))
        assert clnet.equal(before, layer.bias) == frozen
        assert (layer.bias.grad is None) == frozen
        traces.append(step.num_traces)
    assert traces[-1] == traces[-3]  # a plan for each is kept


def test_what_a_function_asks_of_flags_it_is_asked_again():
    weights = [nn.Parameter(clnet.ones(2)), nn.Parameter(clnet.ones(2))]
    total = clnet.compile(lambda: sum(w.detach().sum() for w in weights if w.requires_grad))
    assert total().item() == 4
    weights[0].requires_grad_(False)
    assert total().item() == 2


def test_a_written_weight_is_prepared_anew():
    """Folded batch norms and packed weights are made again when what they are made of changed."""
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).eval()
    x = clnet.randn(2, 3, 6, 6)
    run = clnet.compile(net)
    with clnet.no_grad():
        for write in (
            lambda: None,
            lambda: net[0].weight.mul_(2),
            lambda: net[1].running_var.fill_(3),
            lambda: net.load_state_dict({k: v + 1 for k, v in net.state_dict().items()}),
            lambda: optim.SGD(net.parameters(), lr=0.1).step(),
            lambda: net[1].bias.copy_(clnet.arange(4.0)),
            lambda: net[0].bias.detach().numpy(),
        ):
            write()
            for _ in range(2):
                np.testing.assert_allclose(run(x).numpy(), net(x).numpy(), rtol=2e-5, atol=1e-5)
    assert run.num_traces == 1


def test_what_changes_while_guards_look_is_seen_the_next_time():
    class Told:
        _clnet_tells_changes = True

        @property
        def _clnet_version(self):
            MODULES.tell()  # as a thread would that changes another meanwhile
            looks.append(self)
            return 0

    looks: list[Told] = []
    guards = Guards([(Told(), 0)])
    assert not guards.outdated()
    assert not guards.outdated()
    assert len(looks) == 2


def test_marks_never_come_back():
    seen = [WRITES.mark]

    def write():
        for _ in range(200):
            clnet.zeros(1).add_(1)
            seen.append(WRITES.mark)

    threads = [Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(mark) for mark in seen}) > 600  # all are kept, so none has another's place
    assert WRITES.mark is not seen[0]


def trained(held, *, compiled, inside=True):
    """Train a layer; ``held(layer)`` is kept of each step. Gives that, and the step."""
    clnet.manual_seed(0)
    layer = nn.Linear(3, 2)
    optimizer = optim.SGD(layer.parameters(), lr=0.1)

    def step(x):
        if inside:
            optimizer.zero_grad()
        layer(x).square().mean().backward()
        optimizer.step()

    run, kept = clnet.compile(step) if compiled else step, []
    for k in range(5):
        if not inside:
            optimizer.zero_grad()
        run(clnet.full((4, 3), float(k)))
        kept.append(held(layer))
    return [x.tolist() for x in kept], run


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize(
    "held", [lambda m: m.weight.grad, lambda m: m.bias.grad.detach()[1:]], ids=["itself", "view"]
)
def test_gradients_that_a_program_keeps_stay_what_they_were(held, inside):
    expected, _ = trained(held, compiled=False, inside=inside)
    found, run = trained(held, compiled=True, inside=inside)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert run.num_traces == 1


def test_gradients_that_nobody_keeps_are_the_same_tensor():
    found = set()
    trained(lambda m: found.add(id(m.weight.grad)) or m.weight.detach(), compiled=True)
    assert len(found) == 1


def test_gradients_that_are_added_to_are_the_same_tensor():
    layer = nn.Linear(3, 2)
    step = clnet.compile(lambda x: layer(x).sum().backward())
    step(clnet.ones(1, 3))
    kept = layer.weight.grad
    step(clnet.ones(1, 3))
    assert layer.weight.grad is kept
    assert kept.tolist() == [[2.0] * 3] * 2


def test_gradients_that_a_program_keeps_stay_when_others_read_or_add_to_them():
    def kept(made):
        p = nn.Parameter(clnet.tensor([1.0, 2.0]))
        back = made(lambda x: (p * p * x).sum().backward())
        read, scale = made(lambda: p.grad * 2), made(lambda: p.grad.mul_(2))
        whole, held = None, []
        for k in range(8):
            back(clnet.full((2,), 1.0 + k))
            held += [read(), p.grad] if k % 2 else [p.grad[1:]]
            whole = whole if k != 4 else p.grad
            if k == 2:
                scale()
            if k in (3, 5):
                p.grad = None
        return [x.tolist() for x in (*held, whole)], (back, read)

    expected, _ = kept(lambda f: f)
    found, runs = kept(clnet.compile)
    assert found == expected
    assert [run.num_traces for run in runs] == [2, 1]  # to a gradient, and where there is none


@pytest.mark.parametrize("way", ["eager", "zeros", "argument", "twins"])
def test_gradients_that_are_found_may_be_any_of_their_form(way):
    layer = nn.Linear(3, 2)
    optimizer = optim.SGD(layer.parameters(), lr=0.5)

    def zeros(x):
        optimizer.zero_grad(set_to_none=False)
        layer(x).sum().backward()

    def twice(p):
        return p.grad + layer.weight.grad

    function = {"eager": optimizer.step, "zeros": zeros}.get(way, twice)
    run = clnet.compile(function)
    for k in range(4):
        x = clnet.full((k + 1, 3), 1.0)
        if way != "zeros":
            optimizer.zero_grad()
            layer(x).sum().backward()
        before = layer.weight.tolist()
        if way == "eager":
            run()
            np.testing.assert_allclose(layer.weight.tolist(), np.array(before) - 0.5 * (k + 1))
        elif way == "zeros":
            run(clnet.ones(2, 3))
            assert layer.weight.grad.tolist() == [[2.0] * 3] * 2
        else:
            other = layer.weight if way == "argument" else nn.Parameter(clnet.zeros(2, 3))
            other.grad = layer.weight.grad if way == "argument" else layer.weight.grad.detach()
            assert run(other).tolist() == [[2.0 * (k + 1)] * 3] * 2
    assert run.num_traces == (2 if way == "zeros" else 1)


def test_a_gradient_that_is_found_by_two_names_is_one():
    p = nn.Parameter(clnet.ones(2))
    p.grad = known = clnet.tensor([1.0, 2.0])

    @clnet.compile
    def step(x):
        p.grad.mul_(x)
        return known + p.grad

    assert step(clnet.tensor(3.0)).tolist() == [6, 12]
    assert step(clnet.tensor(2.0)).tolist() == [12, 24]
    p.grad = clnet.ones(2)
    assert step(clnet.tensor(2.0)).tolist() == [8, 14]
    assert known.tolist() == [6, 12]


@pytest.mark.parametrize("everywhere", [False, True])
def test_hooks_around_steps_come_and_go_between_calls(everywhere):
    layer, calls = nn.Linear(3, 2), []
    optimizer = optim.SGD(layer.parameters(), lr=0.1)
    hook = optim.optimizer.register_optimizer_step_pre_hook
    register = hook if everywhere else optimizer.register_step_pre_hook

    @clnet.compile
    def step(x):
        optimizer.zero_grad()
        layer(x).sum().backward()
        optimizer.step()

    def no_gradient(optimizer, args, kwargs):
        calls.append(type(optimizer))
        layer.weight.grad = None

    x = clnet.ones(1, 3)
    step(x)
    with_hook = layer.weight.tolist()
    handle = register(no_gradient)
    step(x)
    assert calls == [optim.SGD]
    assert layer.weight.tolist() == with_hook
    handle.remove()
    step(x)
    assert layer.weight.tolist() != with_hook
