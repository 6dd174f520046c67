"""The tape: what gradients are, when asking for them is refused, and what memory it holds."""

from __future__ import annotations

import gc
import sys
import threading

import numpy as np
import pytest

import clnet
from clnet import autograd, nn, ops
from clnet.autograd import grad
from clnet.device import size_class
from clnet.errors import ArgumentError, GradientError
from clnet.values import mode

pytestmark = pytest.mark.device


def leaf(*values: float) -> clnet.Tensor:
    return clnet.tensor(list(values), requires_grad=True)


# Gradients.


def test_shared_subexpressions_add_up():
    x = leaf(2.0, 3.0)
    y = x * x
    (y * y + y).backward(clnet.ones(2))
    assert x.grad.tolist() == [4 * 8 + 4, 4 * 27 + 6]


def test_a_tensor_used_twice_by_one_op_gets_both_parts():
    x = leaf(2.0, 3.0)
    (x / x + x * x).backward(clnet.ones(2))
    assert x.grad.tolist() == [4, 6]


def test_gradients_of_pieces_come_together_whatever_else_arrives():
    values = np.arange(24.0, dtype=np.float32).reshape(4, 6)
    for inner in (False, True):
        x = clnet.tensor(values, requires_grad=True)
        whole = x * 1 if inner else x
        pieces = [*whole.unbind(1), whole[:, 1:4], whole[1], whole.tensor_split((2, 2), 0)[1]]
        y = sum((p * (k + 1)).sum() for k, p in enumerate(pieces)) + (whole * 100).sum()
        y.backward()
        expected = np.full((4, 6), 100.0) + np.arange(1, 7)
        expected[:, 1:4] += 7
        expected[1] += 8
        np.testing.assert_array_equal(x.grad.numpy(), expected)


def test_gradients_of_pieces_are_one_op_and_differentiable():
    x = clnet.tensor(np.arange(6.0, dtype=np.float32).reshape(2, 3), requires_grad=True)
    a, b, c = x.unbind(1)
    (g,) = grad((a * b * c).sum(), x, create_graph=True)
    assert g.tolist() == [[2, 0, 0], [20, 15, 12]]
    assert len(g.node.edges) == 3
    (again,) = grad((g * g).sum(), x)
    a, b, c = x.detach().unbind(1)
    found = [2 * a * b * b + 2 * a * c * c, 2 * a * a * b + 2 * b * c * c]
    np.testing.assert_array_equal(
        again.numpy(), clnet.stack([*found, 2 * c * b * b + 2 * c * a * a], 1).numpy()
    )


def test_gradients_of_a_sum_are_memory_of_their_own():
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    weight = clnet.ones(2)
    ga, gb = grad(a + b, (a, b), weight)
    ga.zero_()
    assert (gb.tolist(), weight.tolist()) == ([1, 1], [1, 1])
    (gs,) = grad((a + b).sum(), a)
    gs.mul_(2)
    (a + b).backward(weight)
    a.grad.zero_()
    assert (gs.tolist(), b.grad.tolist(), weight.tolist()) == ([2, 2], [1, 1], [1, 1])


def test_a_diamond_is_walked_once_per_node():
    x = leaf(1.0)
    y = x
    for _ in range(40):
        y = y + y
    y.backward()
    assert x.grad.item() == 2.0**40


def test_backward_accumulates_until_the_gradient_is_cleared():
    x = leaf(1.0, 2.0)
    (x * 3).backward(clnet.ones(2))
    kept = x.grad
    (x * 4).backward(clnet.ones(2))
    assert x.grad is kept
    assert kept.tolist() == [7, 7]
    x.grad = None
    (x * 5).backward(clnet.ones(2))
    again = x.grad
    assert isinstance(again, clnet.Tensor)
    assert (again.tolist(), kept.tolist()) == ([5, 5], [7, 7])


@pytest.mark.parametrize(
    "look", [lambda x: x, lambda x: x.reshape(2, 1).reshape(2), lambda x: x[:]]
)
def test_accumulation_leaves_the_callers_gradient_alone(look):
    x, g = leaf(1.0, 2.0), clnet.ones(2)
    for _ in range(2):
        look(x).backward(g)
    assert x.grad.tolist() == [2, 2]
    assert g.tolist() == [1, 1]


def test_accumulation_changes_the_leafs_own_gradient_alone():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    ops.cat([x.reshape(1, 2), y.reshape(1, 2)]).backward(clnet.ones(2, 2))
    x.backward(clnet.ones(2))
    assert x.grad.tolist() == [2, 2]
    assert y.grad.tolist() == [1, 1]


def test_gradients_to_an_expanded_leaf_have_its_shape():
    x = clnet.ones(3, 1, requires_grad=True)
    x.expand(3, 4).backward(clnet.ones(3, 4))
    assert x.grad.tolist() == [[4], [4], [4]]
    assert x.grad.is_contiguous()


def test_detach_stops_gradients():
    x = leaf(2.0)
    (x * x.detach()).backward()
    assert x.grad.item() == 2


def test_gradients_stop_at_comparisons_and_integers():
    x = leaf(1.0, -1.0)
    y = ops.where(x > 0, x, 0)
    assert not (x > 0).requires_grad
    assert not x.long().requires_grad
    y.backward(clnet.ones(2))
    assert x.grad.tolist() == [1, 0]


def test_third_order():
    x = leaf(2.0, -1.0)
    derivative = x * x * x * x
    for _ in range(3):
        (derivative,) = grad(derivative, x, clnet.ones(2), create_graph=True)
    assert derivative.detach().tolist() == [48, -24]


def test_gradient_penalty_reaches_the_leaf():
    x = leaf(1.0, 2.0)
    (gx,) = grad((x * x * x).sum(), x, create_graph=True)
    (gx * gx).sum().backward()
    assert x.grad.tolist() == [36, 288]  # d/dx (3 x^2)^2 = 36 x^3


def test_grad_of_inner_tensors_and_several_outputs():
    x = leaf(2.0)
    y = x * x
    z = y * y
    gy, gx = grad([z, y], [y, x])
    assert (gy.item(), gx.item()) == (9.0, 36.0)
    assert x.grad is None


def test_grad_of_an_unused_input():
    x, y = leaf(2.0), leaf(3.0)
    with pytest.raises(GradientError) as raised:
        grad(x * x, [x, y])
    assert str(raised.value) == (
        "grad: an input was not used by the outputs; got unused=[1]. "
        "Pass allow_unused=True to get None for it"
    )
    gx, gy = grad(x * x, [x, y], allow_unused=True)
    assert (gx.item(), gy) == (4.0, None)
    gx, gy = grad(x * x, {"x": x, "y": y}.values(), materialize_grads=True)
    assert (gx.item(), gy.item()) == (4.0, 0.0)
    with pytest.raises(GradientError, match="inputs are one tensor or more"):
        grad(x * x, [])
    with pytest.raises(ArgumentError, match="goes with allow_unused=True"):
        grad(x * x, x, allow_unused=False, materialize_grads=True)
    (gy,) = grad(x * x, y, create_graph=True, materialize_grads=True)
    assert gy.requires_grad


def test_grad_takes_pytorchs_places():
    x = leaf(2.0)
    (g,) = grad(x * x * x, x, None, True, True, True)
    assert grad(g, x)[0].item() == 12.0


def test_grad_of_several_weights():
    x = leaf(1.0, 2.0)
    y = x * x
    (rows,) = grad(y, x, clnet.eye(2), is_grads_batched=True)
    assert rows.tolist() == [[2.0, 0.0], [0.0, 4.0]]
    with pytest.raises(ArgumentError, match="has a first axis"):
        grad(y.sum(), x, clnet.tensor(1.0), is_grads_batched=True)


# What is refused.


def test_a_tensor_without_a_graph_has_no_backward():
    with pytest.raises(
        GradientError, match=r"^backward: the tensor requires no gradient; got shape="
    ):
        clnet.ones(1).backward()


def test_several_elements_need_a_gradient_of_their_shape():
    y = leaf(1.0, 2.0) * 2
    law = "backward: a tensor of several elements needs a gradient"
    with pytest.raises(GradientError, match=rf"^{law}; got shape=\(2,\)\. Pass one of its shape"):
        y.backward()
    with pytest.raises(
        GradientError,
        match=r"^backward: the gradient has the tensor's shape; got shape=\(2,\), gradient=\(3,\)$",
    ):
        y.backward(clnet.ones(3))


def test_a_graph_is_walked_once():
    x = leaf(2.0)
    y = x * x
    y.backward()
    with pytest.raises(GradientError) as raised:
        y.backward()
    assert str(raised.value) == (
        "backward of mul: its saved tensors were freed by an earlier backward. "
        "Pass retain_graph=True to the earlier one"
    )
    assert x.grad.item() == 4


def test_leaves_that_are_not_asked_for_hear_nothing():
    x, y = leaf(1.0), leaf(2.0)
    heard: list[object] = []
    x.register_hook(heard.append)
    (x * y).sum().backward(inputs=[y])
    assert (x.grad, y.grad.item(), heard) == (None, 1, [])


@pytest.mark.parametrize("dtype", [clnet.float32, clnet.bfloat16], ids=["wider", "narrower"])
def test_a_gradient_of_another_dtype_becomes_the_tensors(dtype):
    other = clnet.bfloat16 if dtype is clnet.float32 else clnet.float32
    x = clnet.ones(1, 2, 4, 4, dtype=dtype)
    w = clnet.ones(3, 2, 1, 1, dtype=dtype, requires_grad=True)
    clnet.nn.functional.conv2d(x, w).backward(clnet.ones(1, 3, 4, 4, dtype=other))
    assert w.grad.dtype is dtype
    assert w.grad.unique().tolist() == [16]
    v = clnet.ones(2, dtype=dtype, requires_grad=True)
    v.backward(clnet.ones(2, dtype=other))
    assert v.grad.dtype is dtype


def test_what_saved_nothing_is_walked_again():
    """A view that two losses share, each with a backward of its own, as in PyTorch."""
    x = leaf(1.0, 2.0, 3.0)
    shared = x.reshape(3, 1).permute(1, 0) + 1
    for _ in range(2):
        (shared * shared).sum().backward()
    assert x.grad.tolist() == [8, 12, 16]
    del x.grad
    assert x.grad is None


@pytest.mark.parametrize("f", [ops.exp, lambda x: ops.softmax(x, 0)], ids=["plain", "fused"])
def test_a_walk_that_is_recorded_frees_what_it_was_not_told_to_keep(f):
    """A fused op's, too, whose gradient is then that of simpler ops."""
    x, ones = leaf(1.0, 2.0), clnet.ones(2)
    y = f(x)
    assert clnet.autograd.grad(y, x, ones, create_graph=True, retain_graph=False)[0].requires_grad
    with pytest.raises(GradientError, match="its saved tensors were freed by an earlier"):
        clnet.autograd.grad(y, x, ones)


def test_a_retained_graph_is_walked_again():
    x = leaf(2.0)
    y = x * x
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == 8


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.fill_(3),
        lambda x: x.copy_(clnet.zeros(2)),
        lambda x: x.T.zero_(),
        lambda x: x.array.write(np.zeros(2, np.float32)),
    ],
)
def test_saved_tensors_changed_in_place_are_found(change):
    x = leaf(1.0, 2.0)
    y = x * x
    with clnet.no_grad():
        change(x)
    with pytest.raises(GradientError) as raised:
        y.backward(clnet.ones(2))
    assert str(raised.value) == (
        "backward of mul: a tensor it saved was changed in place since; "
        "got shape=(2,), saved_version=0, version=1. Change a clone() instead"
    )


def test_saved_results_changed_in_place_are_found():
    x = leaf(1.0, 2.0)
    y = ops.exp(x)
    with clnet.no_grad():
        y.zero_()
    with pytest.raises(
        GradientError, match=r"^backward of exp: a tensor it saved was changed in place"
    ):
        y.backward(clnet.ones(2))


def test_what_no_gradient_needs_may_change():
    x, w = leaf(1.0, 2.0), clnet.ones(2)
    y = x * w + w
    with clnet.no_grad():
        x.fill_(9)
    y.backward(clnet.ones(2))
    assert x.grad.tolist() == [1, 1]


def test_only_floating_leaves_require_gradients():
    with pytest.raises(
        GradientError,
        match=r"only floating and complex tensors have gradients; got dtype=clnet.int64",
    ):
        clnet.tensor([1]).requires_grad_()
    with pytest.raises(GradientError, match="only a leaf stops requiring gradients"):
        (leaf(1.0) * 2).requires_grad_(False)


def test_reading_a_tensor_on_the_tape_needs_detach():
    with pytest.raises(GradientError, match=r"^numpy: .* Use x.detach\(\).numpy\(\)$"):
        leaf(1.0).numpy()


# Modes.


def test_no_grad_as_context_and_decorator():
    x = leaf(1.0)

    @clnet.no_grad()
    def silent(value):
        """Its text."""
        return value * 2

    with clnet.no_grad():
        assert not clnet.is_grad_enabled()
        assert not (x * 2).requires_grad
        with clnet.enable_grad():
            assert (x * 2).requires_grad
        assert not clnet.is_grad_enabled()
    assert not silent(x).requires_grad
    assert (silent.__name__, silent.__doc__) == ("silent", "Its text.")
    assert (x * 2).requires_grad


def test_modes_end_with_an_exception():
    @clnet.no_grad()
    def fails():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    with pytest.raises(ZeroDivisionError), clnet.no_grad(), clnet.enable_grad():
        raise ZeroDivisionError
    assert clnet.is_grad_enabled()


def test_a_decorated_generator_is_in_the_mode_and_its_caller_is_not():
    seen = []

    @clnet.no_grad()
    def steps():
        try:
            sent = yield clnet.is_grad_enabled()
            seen.append((sent, clnet.is_grad_enabled()))
            try:
                yield clnet.is_grad_enabled()
            except ZeroDivisionError:
                yield clnet.is_grad_enabled()
            return "whole"
        finally:
            seen.append(clnet.is_grad_enabled())

    def outer():
        assert (yield from steps()) == "whole"

    made = outer()
    assert next(made) is False
    assert clnet.is_grad_enabled()
    assert made.send(5) is False
    assert made.throw(ZeroDivisionError()) is False
    assert clnet.is_grad_enabled()
    assert list(made) == []
    left = steps()
    next(left)
    left.close()
    assert seen == [(5, False), False, False]
    assert clnet.is_grad_enabled()


def test_a_failing_backward_restores_the_mode():
    x = leaf(2.0)
    y = x * x
    y.backward()
    before = mode.current()
    with pytest.raises(GradientError):
        y.backward()
    assert mode.current() == before


def test_autograd_gives_its_parts_by_name():
    assert autograd.grad is grad
    assert autograd.no_grad is clnet.no_grad


# Memory.


@pytest.fixture
def without_collector():
    """The garbage collector off: memory must go by reference counts alone."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_training_does_not_grow_memory(without_collector):
    rng = np.random.default_rng(0)
    x = clnet.tensor(rng.standard_normal((8, 16)).astype(np.float32))
    target = clnet.tensor(rng.standard_normal((8, 4)).astype(np.float32))
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))
    optimizer = clnet.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    seen = []
    for _ in range(100):
        optimizer.zero_grad()
        difference = model(x) - target
        loss = (difference * difference).mean()
        loss.backward()
        optimizer.step()
        seen.append(clnet.memory_allocated())
    assert seen[1:] == [seen[1]] * 99


def test_a_dropped_graph_gives_its_memory_back(without_collector):
    x = clnet.ones(100, 100, requires_grad=True)
    before = clnet.memory_allocated()
    y = ops.exp(ops.tanh(x * x) * 2)
    assert clnet.memory_allocated() > before
    del y
    assert clnet.memory_allocated() == before


def test_a_dropped_graph_of_gradients_gives_its_memory_back(without_collector):
    x = clnet.ones(100, 100, requires_grad=True)
    weights = clnet.ones(100, 100)
    before = clnet.memory_allocated()
    y = ops.softmax(ops.tanh(x) * x, dim=1)
    (gx,) = grad(y, x, weights, create_graph=True)
    (ggx,) = grad(gx, x, weights, create_graph=True)
    del y, gx, ggx
    assert clnet.memory_allocated() == before


def test_early_free_lowers_the_peak_of_a_deep_chain(without_collector):
    depth, block = 20, size_class(4 * 64 * 64)
    weights = [clnet.ones(64, 64, requires_grad=True) for _ in range(depth)]

    def peak(*, retain_graph: bool) -> float:
        """The highest memory of a step, in blocks, without the weights."""
        for w in weights:
            w.grad = None
        before = clnet.memory_allocated()
        clnet.reset_peak_memory_stats()
        y = clnet.ones(64, 64)
        for w in weights:
            y = ops.tanh(y * w)
        y.backward(clnet.ones(64, 64), retain_graph=retain_graph)
        return (clnet.max_memory_allocated() - before) / block

    held, freed = peak(retain_graph=True), peak(retain_graph=False)
    # A value and a gradient for each layer, or one of both.
    assert held > 2 * depth
    assert freed < depth + 6


def test_backward_of_several_tensors_is_one_walk():
    p = clnet.ones(2, requires_grad=True)
    calls = []
    p.register_post_accumulate_grad_hook(lambda t: calls.append(t.grad.tolist()))
    y = p * clnet.tensor([2.0, 3.0])
    clnet.autograd.backward([y[0], y[1], (y * y).sum()], [None, clnet.tensor(10.0), None])
    assert calls == [[10.0, 48.0]]
    assert p.grad.tolist() == calls[0]


def test_a_hook_of_a_leaf_may_wait_for_a_thread_that_computes():
    p = clnet.ones(2, requires_grad=True)
    found = []

    def hook(leaf):
        thread = threading.Thread(target=lambda: found.append((leaf.grad + 1).tolist()))
        thread.start()
        thread.join(60)
        assert not thread.is_alive()

    p.register_post_accumulate_grad_hook(hook)
    (p * 2).sum().backward()
    assert found == [[3.0, 3.0]]


def test_a_graph_is_read_by_its_nodes():
    x = clnet.ones(2, requires_grad=True)
    y = (x * 2 + clnet.ones(2)).sum()
    assert y.grad_fn.name() == "SumBackward0"
    assert repr(y.grad_fn).startswith("<SumBackward0 object at ")
    ((add, output),) = y.grad_fn.next_functions
    assert (add.name(), output) == ("AddBackward0", 0)
    (mul, _), rest = add.next_functions
    assert rest == (None, 0)
    leaf = mul.next_functions[0][0]
    assert leaf.variable is x
    assert leaf.name().endswith("AccumulateGrad")
    assert leaf.next_functions == ()
    assert {leaf} == {mul.next_functions[0][0]}


class Interrupted:
    """Ctrl-C as Python comes to, or leaves, the n-th function that changes the mode."""

    def __init__(self, place: int) -> None:
        self.place, self.count = place, 0

    def __call__(self, frame, event, value):
        del value
        if frame.f_code.co_filename != mode.__file__:
            return None
        if event in {"call", "return"}:
            self.count += 1
            if self.count == self.place:
                raise KeyboardInterrupt
        return self


def test_an_interrupt_leaves_the_mode_as_it_was_wherever_it_comes():
    layer = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    optimizer = clnet.optim.Lamb(layer.parameters())
    x, before, outer = clnet.ones(2, 3), mode.current(), sys.gettrace()

    def step() -> None:
        layer(x).sum().backward()
        optimizer.step()
        nn.utils.clip_grad_norm_(layer.parameters(), 1.0)

    step()
    place, ended = 0, False
    while not ended:
        place += 1
        sys.settrace(Interrupted(place))
        try:
            step()
            ended = True
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(outer)
        assert mode.current() is before, place
    assert place > 40


@pytest.mark.parametrize("weights", [clnet.ones(3), [clnet.ones(3)], [None, None, None], []])
def test_each_output_has_a_weight_of_its_own(weights):
    """One is not taken for all, as PyTorch takes it for none."""
    x = clnet.ones(3, requires_grad=True)
    with pytest.raises(ArgumentError, match="a weight for each output; got outputs=2"):
        clnet.autograd.grad([x * 2, x * 3], x, weights)
    (found,) = clnet.autograd.grad([(x * 2).sum(), (x * 3).sum()], x)
    assert found.tolist() == [5, 5, 5]
