"""Gradients that are right pass, and wrong ones are named."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.autograd import gradcheck
from clnet.errors import ArgumentError, GradcheckError
from clnet.ops.activation import relu
from clnet.ops.machinery.function import Function, apply


def drawn(*shape, seed=0):
    values = np.random.default_rng(seed).uniform(0.5, 1.5, shape)
    return clnet.tensor(values.astype("float32"), requires_grad=True)


class Slanted(Function):
    """The identity, with a gradient that is wrong by a factor at one place."""

    factor: float

    def infer(self, x):
        return (x.view(x.shape, x.strides),)

    def backward(self, saved, grads, needs):
        wrong = np.ones(grads[0].shape)
        wrong[1, 2] = self.factor
        return (grads[0] * clnet.tensor(wrong, dtype=grads[0].dtype),)


@pytest.mark.parametrize("dtype", [None, clnet.float32], ids=["default", "float32"])
def test_right_gradients_pass(dtype):
    assert gradcheck(lambda x: x.exp() * x, drawn(3, 4), dtype=dtype)
    assert gradcheck(lambda x, y: (x / y).tanh(), [drawn(3, 4), drawn(4, seed=1)], dtype=dtype)
    assert gradcheck(lambda x, y: (x @ y, x * 2), [drawn(3, 4), drawn(4, 2)], dtype=dtype)


def test_a_layer_passes_in_its_own_dtype():
    layer = nn.Conv2d(2, 3, 3, padding=1)
    assert gradcheck(layer, drawn(2, 2, 4, 4), dtype=clnet.float32)


@pytest.mark.parametrize("dtype", [None, clnet.float32], ids=["default", "float32"])
def test_a_wrong_gradient_is_named(dtype):
    with pytest.raises(GradcheckError, match="the gradient differs") as caught:
        gradcheck(lambda a, x: a * apply(Slanted(1.2), x), [drawn(2, 3), drawn(2, 3)], dtype=dtype)
    values = caught.value.values
    assert values["input"] == 1
    assert values["index"] == (1, 2)
    assert values["analytic"] == pytest.approx(1.2 * values["numeric"], rel=1e-3)
    assert "input=1, index=(1, 2), numeric=" in str(caught.value)


def test_a_wrong_gradient_is_false_when_no_exception_is_wanted():
    def function(x):
        return apply(Slanted(1.2), x)

    assert not gradcheck(function, drawn(2, 3), raise_exception=False)
    assert gradcheck(function, drawn(2, 3), rtol=0.5)


def test_a_gradient_of_zero_is_checked_as_well():
    x = clnet.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    assert gradcheck(lambda x, y: relu(x - 10) + y, [x, drawn(1, 3)])
    with pytest.raises(GradcheckError, match=r"input=0.*analytic=0\.0"):
        gradcheck(lambda x, y: x.detach() + y, [x, drawn(1, 3)])


def test_no_more_entries_are_looked_at_than_asked_for():
    calls = []

    def counted(x):
        calls.append(x)
        return x * 3

    assert gradcheck(counted, drawn(10, 10), samples=5)
    assert len(calls) == 1 + 2 * 5


def test_inputs_are_left_as_they_were():
    x = drawn(2, 2)
    before = x.tolist()
    gradcheck(lambda x: x * x, x)
    assert x.tolist() == before
    assert x.grad is None


def test_what_needs_no_gradient_cannot_be_checked():
    with pytest.raises(ArgumentError, match="an input requires a gradient"):
        gradcheck(lambda x: x, [clnet.ones(2)])
    with pytest.raises(ArgumentError, match="an output requires a gradient"):
        gradcheck(lambda x: x.detach(), [drawn(2)])
