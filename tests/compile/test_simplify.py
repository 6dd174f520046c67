"""What is dropped, shared or done once, and what has to stay."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import ops
from clnet.compile import record
from clnet.compile.simplify import simplify, with_constants
from clnet.compile.tracer import Step

pytestmark = pytest.mark.device


def simplified(function, *args):
    return simplify(record(function, args, {}, clnet.device()).trace)


def names(trace) -> list[str]:
    return [step.function.name for step in trace.steps if isinstance(step, Step)]


def test_views_and_unused_values_are_dropped():
    def function(x):
        ops.exp(x)
        return (x.T * 2)[0]

    assert names(simplified(function, clnet.ones(2, 3))) == ["mul"]


def test_changes_of_what_is_outside_stay():
    outside = clnet.ones(3)

    def function(x):
        outside.add_(x)
        local = x * 2
        local.add_(1)  # nobody reads it

    assert names(simplified(function, clnet.ones(3))) == ["add"]


def test_an_op_on_the_same_elements_is_done_once():
    def function(x):
        return ops.exp(x.T) * 2 + ops.exp(x.T), ops.exp(x)

    assert names(simplified(function, clnet.ones(2, 3))) == ["exp", "mul", "add", "exp"]


def test_elements_that_changed_in_between_are_not_the_same():
    outside = clnet.ones(3)

    def function(x):
        before = ops.exp(outside)
        outside.add_(x)
        return before, ops.exp(outside)

    assert names(simplified(function, clnet.ones(3))) == ["exp", "add", "exp"]


def test_equal_settings_of_other_bits_are_not_the_same():
    both = clnet.compile(lambda x: (x * 0.0, x * -0.0))
    zero, negative = both(clnet.ones(2))
    assert not np.signbit(zero.numpy()).any()
    assert np.signbit(negative.numpy()).all()


def test_random_numbers_are_not_shared():
    trace = simplified(lambda x: (ops.dropout(x, 0.5), ops.dropout(x, 0.5)), clnet.ones(3))
    assert names(trace) == ["dropout", "dropout"]


def test_copies_go_unless_what_they_copy_changes():
    outside = clnet.ones(3)

    def unchanged(x):
        return ops.exp(x.clone()), outside.clone()

    def changed(x):
        before = outside.clone()
        outside.add_(x)
        return before

    assert names(simplified(unchanged, clnet.ones(3))) == ["exp"]
    assert names(simplified(changed, clnet.ones(3))) == ["copy", "add"]
    compiled = clnet.compile(changed)
    assert [compiled(clnet.ones(3)).tolist() for _ in range(2)] == [[1] * 3, [2] * 3]


def test_a_gradient_that_goes_to_both_operands_is_not_copied():
    def function(x, y):
        z = ops.exp(x) + ops.exp(y)
        return clnet.autograd.grad((z * z).sum(), [x, y])

    inputs = [clnet.ones(2, 3).requires_grad_(True) for _ in range(2)]
    assert "add_backward" not in names(simplified(function, *inputs))
    for found, expected in zip(clnet.compile(function)(*inputs), function(*inputs), strict=True):
        np.testing.assert_array_equal(found.numpy(), expected.numpy())


def test_two_leaves_keep_gradients_of_their_own():
    a, b = (clnet.ones(3, requires_grad=True) for _ in range(2))
    backward = clnet.compile(lambda x: ((a + b) * x).sum().backward())
    backward(clnet.tensor([1.0, 2.0, 3.0]))
    assert a.grad.tolist() == b.grad.tolist() == [1, 2, 3]
    a.grad.zero_()
    assert b.grad.tolist() == [1, 2, 3]


def test_constants_are_made_once():
    def function(x):
        return x + clnet.arange(3), x.sum() * clnet.ones(3)

    trace = with_constants(simplified(function, clnet.ones(3)))
    assert [step.function.name for step in trace.setup] == ["arange", "full"]
    compiled = clnet.compile(function)
    for _ in range(3):
        assert [y.tolist() for y in compiled(clnet.ones(3))] == [[1, 2, 3], [3, 3, 3]]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: ((y := x * 2), y.clone()),
        lambda x: ((y := x * 2).clone(), y.clone()),
        lambda x: (x * 2, x * 2),
        lambda x: ((y := x * 2), y.to(x.dtype, copy=True)),
    ],
    ids=["clone", "clones", "twice", "copy"],
)
def test_two_results_are_two_tensors(function):
    first, second = clnet.compile(function)(clnet.ones(3))
    first.add_(1)
    assert (first.tolist(), second.tolist()) == ([3.0] * 3, [2.0] * 3)
    once = clnet.compile(lambda x: function(x)[1] * function(x)[0])
    once(clnet.ones(3))
    assert " 1 launches" in once.explain()  # inside nobody can tell


def test_a_result_is_not_what_backward_saved():
    w = clnet.ones(3, requires_grad=True)
    y = clnet.compile(lambda x: (x * w).exp().clone())(clnet.ones(3))
    y.detach().zero_()
    y.sum().backward()
    assert np.allclose(w.grad.numpy(), np.exp(1))
