"""Backward hooks: when they are called and with what, beside PyTorch's."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.errors import ArgumentError
from tests.answers import torch

pytestmark = pytest.mark.device


def heard(package, *, leaf):
    """What hooks of two layers are given, and the gradients they leave behind."""
    net = package.nn.Sequential(package.nn.Linear(3, 3), package.nn.Tanh())
    with package.no_grad():
        for p in net.parameters():
            p.copy_(package.ones(*p.shape) * 0.1)
    log = []

    def before(module, grad_output):
        log.extend(g.tolist() for g in grad_output)
        return (grad_output[0] * 3,)

    def after(module, grad_input, grad_output):
        log.extend(None if g is None else g.tolist() for g in (*grad_input, *grad_output))
        return tuple(None if g is None else g * 2 for g in grad_input)

    net[0].register_full_backward_hook(after)
    net[1].register_full_backward_pre_hook(before)
    net[1].register_full_backward_hook(after)
    x = package.ones(1, 3)
    x.requires_grad_(leaf)
    net(x).sum().backward()
    return [*log, None if x.grad is None else x.grad.tolist(), net[0].weight.grad.tolist()]


@pytest.mark.parametrize("leaf", [True, False], ids=["input with gradient", "without"])
@pytest.mark.filterwarnings("ignore")  # PyTorch tells that no input needs a gradient
def test_backward_hooks_see_and_replace_gradients_as_pytorchs(leaf):
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")
    ours, theirs = heard(clnet, leaf=leaf), heard(torch, leaf=leaf)
    assert [v is None for v in ours] == [v is None for v in theirs]
    for a, b in zip(ours, theirs, strict=True):
        if a is not None:
            np.testing.assert_allclose(a, b, rtol=1e-5)


class Two(nn.Module):
    def forward(self, x, scale, y):
        return [x * scale, y, "kept"]


def test_results_of_several_kinds_pass_through():
    module, seen = Two(), []
    handle = module.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go)))
    x, y = clnet.tensor([1.0, 2.0], requires_grad=True), clnet.tensor([3.0])
    first, second, text = module(x, 4.0, y)
    assert (text, second.tolist()) == ("kept", [3.0])
    first.sum().backward()
    ((grad_input, grad_output),) = seen
    assert [None if g is None else g.tolist() for g in grad_input] == [[4.0, 4.0], None, None]
    assert [None if g is None else g.tolist() for g in grad_output] == [[1.0, 1.0], None, None]
    handle.remove()
    module(x, 4.0, y)[0].sum().backward()
    assert len(seen) == 1
    with clnet.no_grad():
        module.register_full_backward_hook(lambda m, gi, go: seen.append(None))
        module(x, 4.0, y)
    assert len(seen) == 1


def test_a_hook_returns_as_many_gradients_as_it_was_given():
    module = nn.Tanh()
    module.register_full_backward_hook(lambda m, gi, go: (gi[0], gi[0]))
    x = clnet.ones(2).requires_grad_()
    with pytest.raises(ArgumentError, match=r"^Tanh: a backward hook returns None or as many"):
        module(x).sum().backward()


def test_a_hook_gives_no_gradients_where_no_input_requires_one():
    layer, gives = nn.Linear(2, 2), []
    layer.register_full_backward_hook(lambda m, gi, go: gives[0])
    for given in (None, (None,)):
        gives[:] = [given]
        layer(clnet.ones(1, 2)).sum().backward()
    gives[:] = [clnet.ones(1, 2)]
    with pytest.raises(ArgumentError, match=r"^Linear: a backward hook gives no gradients where"):
        layer(clnet.ones(1, 2)).sum().backward()


@pytest.mark.parametrize("kind", ["register_full_backward_hook", "register_full_backward_pre_hook"])
def test_hooks_that_see_no_tensor_are_told_of(kind):
    class Named(nn.Module):
        def forward(self, x):
            return {"y": x * 2}

    module = Named()
    getattr(module, kind)(lambda *args: pytest.fail("it is called"))
    with pytest.warns(UserWarning, match="a module's output is of type dict"):
        y = module(clnet.ones(2, requires_grad=True))["y"]
    y.sum().backward()


@pytest.mark.parametrize("lib", [clnet, torch], ids=["clnet", "torch"])
def test_gradients_past_a_modules_outputs_call_no_hook(lib):
    class Keeping(lib.nn.Module):
        def forward(self, x):
            self.inside = x * 2
            return x * 3

    module, seen = Keeping(), []
    module.register_full_backward_hook(lambda m, gi, go: seen.append(go[0].tolist()))
    for through in (False, True, False):
        x = lib.ones(1).requires_grad_()
        y = module(x)
        (y if through else module.inside).sum().backward()
        assert x.grad.tolist() == [3 if through else 2]
    assert seen == [[1.0]]


def test_hooks_run_in_compiled_functions():
    layer = nn.Linear(2, 2)
    layer.register_full_backward_hook(lambda m, gi, go: tuple(2 * g for g in gi))
    x = clnet.ones(1, 2)

    def slope(x):
        x = x * 1.0
        x.requires_grad_()
        return clnet.autograd.grad(layer(x).sum(), x)[0]

    step = clnet.compile(slope)
    expected = 2 * layer.weight.detach().numpy().sum(0)
    for _ in range(2):
        np.testing.assert_allclose(step(x).numpy()[0], expected, rtol=1e-5)


def test_a_walk_that_comes_past_the_result_calls_no_hook():
    """A gradient of a gradient, which reaches the arguments through what an op saved."""
    layer, called = nn.MSELoss(), []
    layer.register_full_backward_hook(lambda m, gi, go: called.append(go))
    x = clnet.ones(1, requires_grad=True)
    (slope,) = clnet.autograd.grad(layer(x, clnet.zeros(1)), x, create_graph=True)
    assert clnet.autograd.grad(slope, x)[0].item() == 2
    assert len(called) == 1


def test_hooks_have_pytorchs_names():
    layer = nn.Linear(1, 1)
    layer.register_forward_hook(lambda m, x, y: y * 2)
    layer.register_forward_pre_hook(lambda m, x: None)
    layer.register_full_backward_hook(lambda m, x, y: None)
    tables = (layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks)
    assert [len(t) for t in tables] == [1, 1, 1]
    layer._forward_hooks.clear()
    x = clnet.ones(1, 1)
    assert layer(x).item() == (layer.weight * x + layer.bias).item()


def test_a_table_of_hooks_is_replaced():
    """As programs take all hooks away: ``module._forward_hooks = OrderedDict()``."""
    layer, called = nn.Linear(1, 1), []
    layer.register_forward_hook(lambda m, x, k, y: called.append(k), with_kwargs=True)
    hook = lambda m, x: called.append("before")  # noqa: E731 - compared below
    layer.register_forward_pre_hook(hook)
    assert list(layer._forward_pre_hooks.values()) == [hook]
    layer(clnet.ones(1, 1))
    assert called == ["before", {}]
    layer._forward_hooks = OrderedDict()
    layer._forward_pre_hooks = OrderedDict()
    layer._backward_hooks = OrderedDict()
    layer(clnet.ones(1, 1))
    assert len(called) == 2
    layer.register_forward_hook(lambda m, x, y: y * 0)
    assert layer(clnet.ones(1, 1)).item() == 0


def test_hooks_of_all_modules_are_called_before_a_modules_own():
    torch = pytest.importorskip("torch")
    found = []

    def say(name):
        return lambda m, *_: found[-1].append((name, type(m).__name__))

    for package in (clnet, torch):
        handles = []
        found.append([])
        net = package.nn.Sequential(package.nn.Linear(2, 2), package.nn.ReLU())
        everywhere = package.nn.modules.module
        net.register_forward_hook(say("own"))
        handles.append(everywhere.register_module_forward_pre_hook(say("before")))
        handles.append(everywhere.register_module_forward_hook(say("after")))
        handles.append(everywhere.register_module_full_backward_pre_hook(say("back")))
        handles.append(everywhere.register_module_full_backward_hook(say("out")))
        x = package.ones(1, 2, requires_grad=True)
        net(x).sum().backward()
        for handle in handles:
            handle.remove()
        net(x)
    assert found[0] == found[1]
    assert len(found[0]) == 14


def test_a_hook_of_all_modules_is_recorded_in_compiled_functions():
    net = clnet.nn.ReLU()
    compiled = clnet.compile(net)
    x = clnet.ones(2)
    assert compiled(x).tolist() == [1.0, 1.0]
    with clnet.nn.modules.module.register_module_forward_hook(lambda m, args, y: y * 3):
        assert compiled(x).tolist() == net(x).tolist() == [3.0, 3.0]
    assert compiled(x).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("lib", [clnet, torch], ids=["clnet", "torch"])
def test_hooks_of_all_modules_see_what_gets_a_name(lib):
    layers, seen = lib.nn, set()
    everywhere = layers.modules.module
    kinds = ("parameter", "buffer", "module")
    handles = [
        getattr(everywhere, f"register_module_{kind}_registration_hook")(
            lambda m, name, value: seen.add((type(m).__name__, name))
        )
        for kind in kinds
    ]
    net = layers.Sequential(layers.Linear(2, 2, bias=False), layers.Linear(2, 2))
    net.register_buffer("scale", lib.ones(2))
    names = {("Linear", "weight"), ("Linear", "bias"), ("Sequential", "scale")}
    assert seen == {*names, ("Sequential", "0"), ("Sequential", "1")}
    handles.append(everywhere.register_module_module_registration_hook(lambda *_: layers.ReLU()))
    assert type(layers.Sequential(layers.Tanh())[0]) is layers.ReLU
    for handle in handles:
        handle.remove()
    assert type(layers.Sequential(layers.Tanh())[0]) is layers.Tanh


def test_a_handle_and_a_module_tell_of_hooks_as_pytorchs_do():
    layer = clnet.nn.ReLU()
    handle = layer.register_forward_hook(lambda *_: None, with_kwargs=True, always_call=True)
    before = layer.register_forward_pre_hook(lambda *_: None, with_kwargs=True)
    assert handle.id in handle.hooks_dict_ref()
    assert list(layer._forward_hooks_with_kwargs) == [handle.id]
    assert list(layer._forward_hooks_always_called) == [handle.id]
    assert list(layer._forward_pre_hooks_with_kwargs) == [before.id]
    handle.remove()
    assert not layer._forward_hooks_with_kwargs
    assert not layer._forward_hooks_always_called


def test_the_older_hook_of_all_modules_sees_gradients():
    seen = []
    everywhere = clnet.nn.modules.module
    with everywhere.register_module_backward_hook(lambda m, leaving, arrived: seen.append(leaving)):
        clnet.nn.ReLU()(clnet.ones(2, requires_grad=True)).sum().backward()
    assert [g.tolist() for g in seen[0]] == [[1.0, 1.0]]


@pytest.mark.parametrize("lib", [clnet, torch], ids=["clnet", "torch"])
def test_hooks_that_are_always_called_are_called_behind_errors_of_hooks(lib):
    layer, seen = lib.nn.ReLU(), []

    def fails(*args):
        raise RuntimeError(f"of {len(args)}")

    layer.register_forward_pre_hook(fails)
    layer.register_forward_hook(fails, always_call=True)
    layer.register_forward_hook(lambda m, args, y: seen.append(y), always_call=True)
    with (
        pytest.warns(UserWarning, match="always_call=True"),
        pytest.raises(RuntimeError, match="of 2"),
    ):
        layer(lib.ones(2))
    assert seen == [None]


def test_a_hook_before_loading_sees_its_modules_part_alone():
    seen = []

    def look(module, state, prefix, metadata, *rest):
        seen.append((sorted(state), dict(metadata)))
        state[prefix + "weight"] = state.pop(prefix + "w")

    net = nn.Sequential(nn.Sequential(nn.Linear(1, 1, bias=False)), nn.Linear(2, 1))
    net[0][0].register_load_state_dict_pre_hook(look)
    state = {
        "0.0.w": clnet.full((1, 1), 7.0),
        "1.weight": clnet.ones(1, 2),
        "1.bias": clnet.ones(1),
    }
    net.load_state_dict(state, strict=False)
    net.load_state_dict(state, strict=False, assign=True)
    assert net[0][0].weight.item() == 7
    assert seen == [(["0.0.w"], {}), (["0.0.w"], {"assign_to_params_buffers": True})]
