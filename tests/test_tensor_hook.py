"""Hooks of tensors: when they are called, with what, and what comes of what they return."""

from __future__ import annotations

import copy
import gc
import weakref

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.errors import GradientError, TraceError

pytestmark = pytest.mark.device


def heard(package):
    """What the hooks of a small graph hear, and the gradients that they leave behind."""
    log = []

    def scale(factor, name):
        def hook(g):
            log.append((name, g.tolist()))
            return None if factor is None else g * factor

        return hook

    x = package.tensor([1.0, 2.0], requires_grad=True)
    w = package.tensor([3.0, -1.0], requires_grad=True)
    inner = x * w
    unused = inner + 1
    inner.register_hook(scale(2, "inner"))
    inner.register_hook(scale(None, "inner again"))
    unused.register_hook(scale(7, "unused"))
    x.register_hook(scale(10, "x"))
    away = w.register_hook(scale(5, "w"))
    away.remove()
    away.remove()
    parts = (inner + x).chunk(2)
    parts[1].register_hook(scale(4, "second part"))
    inner.retain_grad()
    x.retain_grad()
    for _ in range(2):
        (parts[0] * 3 + parts[1] * inner[0]).sum().backward(retain_graph=True)
    # One after another: PyTorch gives inner's gradient before its hooks if x's is asked for, too.
    found = [package.autograd.grad(parts[1].sum(), t, retain_graph=True)[0] for t in (inner, x)]
    retains = [t.retains_grad for t in (inner, unused, x)]
    return log, [t.tolist() for t in (x.grad, w.grad, inner.grad, *found)], retains


def test_hooks_hear_and_do_what_pytorchs_do():
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")
    (ours, gradients, retains), (theirs, expected, kept) = heard(clnet), heard(torch)
    # PyTorch calls the hook of a leaf once its gradient is complete, clnet at the end of the walk.
    assert sorted(ours) == sorted(theirs)
    assert gradients == expected
    assert retains == kept == [True, False, False]


def test_a_hook_goes_with_its_handle_or_block():
    x = clnet.ones(2, requires_grad=True)
    with x.register_hook(lambda g: g * 3):
        x.sum().backward()
    x.sum().backward()
    assert x.grad.tolist() == [4, 4]


def test_hooks_count_in_gradients_of_gradients():
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")

    def gradients(package):
        x = package.tensor([2.0], requires_grad=True)
        inner = x * x
        inner.register_hook(lambda g: g * x)
        (first,) = package.autograd.grad((inner * inner).sum(), x, create_graph=True)
        (second,) = package.autograd.grad(first.sum(), x)
        return first.item(), second.item()

    assert gradients(clnet) == gradients(torch)


def test_a_leafs_gradient_is_not_what_a_hook_holds():
    x, held = clnet.ones(2, requires_grad=True), []
    y = x + 1
    y.register_hook(held.append)
    x.register_hook(held.append)
    for _ in range(2):
        y.sum().backward(retain_graph=True)
    assert [g.tolist() for g in held] == [[1, 1]] * 4
    assert x.grad.tolist() == [2, 2]


def test_hooks_of_values_before_a_write_in_place_stay_with_them():
    x = clnet.ones(2, requires_grad=True)
    y, heard = x * 1, []
    y.register_hook(lambda g: heard.append(("before", g.tolist())))
    y.retain_grad()
    y.mul_(3)
    y.register_hook(lambda g: heard.append(("after", g.tolist())))
    (y * 2).sum().backward()
    assert heard == [("after", [2, 2]), ("before", [6, 6])]
    assert y.retains_grad
    assert y.grad.tolist() == [2, 2]


def test_neither_hooks_nor_a_kept_gradient_hold_the_tensor():
    x = clnet.ones(2, requires_grad=True)
    y = x * 2
    y.retain_grad()
    z, gone = y.sum(), weakref.ref(y)
    gc.disable()
    try:
        del y
        assert gone() is None
    finally:
        gc.enable()
    z.backward()
    assert x.grad.tolist() == [2, 2]


def test_hooks_of_parameters_are_called_once_behind_a_checkpoint():
    net, calls = nn.Linear(2, 2), []
    net.weight.register_hook(lambda g: calls.append(1))
    inside = []

    def run(v):
        y = net(v)
        y.register_hook(lambda g: inside.append(1))
        return y.tanh()

    clnet.checkpoint(run, clnet.ones(1, 2)).sum().backward()
    assert (calls, inside) == ([1], [1])


def test_a_compiled_step_has_the_hooks_and_notices_new_ones():
    x = clnet.tensor([1.0, -2.0], requires_grad=True)

    @clnet.compile
    def step(v):
        x.grad = None
        y = x * v
        y.register_hook(lambda g: g * 2)
        (y * y).sum().backward()

    def gradient():
        step(clnet.tensor([3.0, 1.0]))
        return x.grad.tolist()

    assert gradient() == [36, -8]
    handle = x.register_hook(lambda g: g.clamp(-1, 1))
    assert gradient() == gradient() == [1, -1]
    assert step.num_traces == 2
    handle.remove()
    assert gradient() == [36, -8]
    assert step.num_traces == 3


def test_gradients_of_arguments_pass_their_hooks_in_a_compiled_function():
    x = clnet.ones(2, requires_grad=True)
    inner = x * 1

    @clnet.compile
    def gradient(v):
        return clnet.autograd.grad((v * v).sum(), [v])[0]

    assert gradient(x).tolist() == [2, 2]
    for v in (x, inner):
        handle = v.register_hook(lambda g: g * 5)
        assert gradient(v).tolist() == gradient(v).tolist() == [10, 10]
        handle.remove()
        assert gradient(v).tolist() == [2, 2]


def test_hooks_that_a_compiled_function_registers_with_arguments_stay():
    def once(v):
        v.register_hook(lambda g: g * 5)
        return clnet.autograd.grad((v * v).sum(), [v], retain_graph=True)[0], (v * v).sum()

    def holding(v):
        scale = v.detach() * 2
        v.register_hook(lambda g: g * scale)
        return (v * v).sum()

    for run in (once, clnet.compile(once)):
        for _ in range(2):
            x = clnet.ones(2, requires_grad=True)
            assert run(x)[0].tolist() == [10, 10]
            gradient, y = run(x)
            y.backward()
            assert (gradient.tolist(), x.grad.tolist()) == ([50, 50], [50, 50])
    with pytest.raises(TraceError, match="remove"):
        clnet.compile(holding)(clnet.ones(2, requires_grad=True))


def test_a_hook_that_reads_a_value_is_refused_in_a_compiled_function():
    x = clnet.ones(2, requires_grad=True)
    x.register_hook(lambda g: print(g.tolist()))

    @clnet.compile
    def step():
        x.sum().backward()

    with pytest.raises(TraceError):
        step()


def test_copies_have_no_hooks():
    x = clnet.ones(2, requires_grad=True)
    x.register_hook(lambda g: g * 3)
    copied = copy.deepcopy(x)
    copied.sum().backward()
    assert copied.grad.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("hook", "message"),
    [
        (lambda g: 2.0, "None or a tensor"),
        (lambda g: np.ones(2), "None or a tensor"),
        (lambda g: g[:1], "like the one"),
        (lambda g: g.half(), "like the one"),
    ],
)
def test_what_is_no_gradient_is_refused(hook, message):
    x = clnet.ones(2, requires_grad=True)
    x.register_hook(hook)
    with pytest.raises(GradientError, match=message):
        x.sum().backward()


def test_a_tensor_without_gradient_has_no_hooks():
    with pytest.raises(GradientError, match="register_hook: the tensor requires a gradient"):
        clnet.ones(2).register_hook(print)
    with pytest.raises(GradientError, match="retain_grad: the tensor requires a gradient"):
        clnet.ones(2).retain_grad()


def test_hooks_after_accumulation_step_while_walking_back():
    x = clnet.ones(2, requires_grad=True)
    seen = []

    def after(leaf):
        seen.append(leaf.grad.tolist())
        assert leaf is x

    handle = x.register_post_accumulate_grad_hook(after)
    (x * 3).sum().backward()
    (x * 3).sum().backward()
    handle.remove()
    x.sum().backward()
    assert seen == [[3.0, 3.0], [6.0, 6.0]]
    with pytest.raises(GradientError, match="is a leaf"):
        (x * 2).register_post_accumulate_grad_hook(after)


def test_an_optimiser_in_such_a_hook_frees_the_gradient():
    x = clnet.ones(2, requires_grad=True)
    optimizer = clnet.optim.SGD([x], lr=0.5)

    def step(leaf):
        optimizer.step()
        optimizer.zero_grad()

    x.register_post_accumulate_grad_hook(step)
    (x * x).sum().backward()
    assert x.grad is None
    assert x.tolist() == [0.0, 0.0]


def test_hooks_of_leaves_are_called_while_the_walk_goes_on():
    """The last layer's gradient is there before the first layer's is computed."""
    seen = []
    first, last = (clnet.ones(2, requires_grad=True) for _ in range(2))
    inner = first * 2
    inner.register_hook(lambda g: seen.append("inner"))
    for name, leaf in (("first", first), ("last", last)):
        leaf.register_post_accumulate_grad_hook(lambda _, name=name: seen.append(name))
    ((inner * 1) * last).sum().backward()
    assert seen == ["last", "inner", "first"]


def test_a_leaf_with_several_uses_is_whole_when_its_hook_is_called():
    seen = []
    x = clnet.tensor([1.0, 2.0], requires_grad=True)
    x.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.tolist()))
    (x * x + (x * 3).exp() * 0 + x).sum().backward()
    assert seen == [[3, 5]]
    other = clnet.ones(2, requires_grad=True)
    other.register_post_accumulate_grad_hook(lambda leaf: seen.append(None))
    (x.detach() * 2).requires_grad_().sum().backward()
    assert len(seen) == 1


def test_a_gradient_that_a_hook_overwrites_is_nobody_elses():
    x, y = clnet.ones(3, requires_grad=True), clnet.ones(3, requires_grad=True)
    z = y * 2
    x.register_post_accumulate_grad_hook(lambda leaf: leaf.grad.zero_())
    (x + z).backward(clnet.ones(3))  # one gradient for both
    assert x.grad.tolist() == [0, 0, 0]
    assert y.grad.tolist() == [2, 2, 2]
    a, b = clnet.ones(3, requires_grad=True), clnet.ones(3, requires_grad=True)
    a.register_post_accumulate_grad_hook(lambda leaf: leaf.grad.zero_())
    ((a + b) * 2).sum().backward()
    assert (a.grad.tolist(), b.grad.tolist()) == ([0, 0, 0], [2, 2, 2])
