"""Gradients that are right pass, and wrong ones are named."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.autograd import gradcheck, gradgradcheck
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


def test_parameters_are_moved_where_they_lie():
    """A copy that the function ignores is no subject: 0 would be compared with 0."""
    layer, x = nn.Linear(3, 2), drawn(4, 3).detach()
    before = [p.tolist() for p in layer.parameters()]
    assert gradcheck(lambda *_: layer(x).tanh(), list(layer.parameters()))
    assert [p.tolist() for p in layer.parameters()] == before

    def wrong(*_):
        return x @ apply(Slanted(1.2), layer.weight).T

    with pytest.raises(GradcheckError, match=r"input=0, index=\(1, 2\)"):
        gradcheck(wrong, [layer.weight])
    assert [p.tolist() for p in layer.parameters()] == before


@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
def test_a_module_is_checked_in_one_line(check):
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    assert check(model, drawn(2, 3))
    assert check(model, drawn(2, 3).detach())  # its parameters alone


def test_a_modules_wrong_parameter_is_named():
    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(drawn(2, 3))

        def forward(self, x):
            return x * apply(Slanted(1.5), self.weight)

    with pytest.raises(GradcheckError, match=r"parameter='weight', index=\(1, 2\)"):
        gradcheck(Wrong(), drawn(2, 3))


@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
def test_what_no_gradient_reaches_is_refused(check):
    other = drawn(2, 2)
    with pytest.raises(ArgumentError, match=r"a gradient reaches an input|an output requires"):
        check(lambda x: other * other, [drawn(2, 2)])


def test_gradients_of_gradients():
    assert gradgradcheck(lambda x, y: (x * y).exp(), [drawn(2, 3), drawn(3, seed=1)])
    assert gradgradcheck(lambda x: 3 * x, drawn(2, 2))  # linear: in what arrives
    assert gradgradcheck(lambda x: x**3, drawn(2), drawn(2, seed=1).requires_grad_())

    class Bent(clnet.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * g * x * x.detach()

    assert gradcheck(Bent.apply, drawn(2, 2))
    with pytest.raises(GradcheckError, match="gradgradcheck: the gradient differs"):
        gradgradcheck(Bent.apply, drawn(2, 2))


class Halved(clnet.autograd.Function):
    """Twice its input, with tangents that are wrong by a factor."""

    factor = 2.0

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @classmethod
    def jvp(cls, ctx, tangent):
        return tangent * cls.factor


def test_tangents_are_checked_without_a_backward():
    with clnet.no_grad():
        x = drawn(2, 3)
    x.requires_grad_()
    asked = {"check_forward_ad": True, "check_backward_ad": False}
    assert gradcheck(Halved.apply, x, **asked)
    wrong = type("Wrong", (Halved,), {"factor": 1.5})
    with pytest.raises(GradcheckError, match="the tangent differs from central differences"):
        gradcheck(wrong.apply, x, **asked)
    assert not gradcheck(wrong.apply, x, **asked, raise_exception=False)
    with pytest.raises(ArgumentError, match="check_forward_ad or check_backward_ad"):
        gradcheck(Halved.apply, x, check_backward_ad=False)


def test_several_gradients_at_once_are_checked():
    assert gradcheck(
        lambda x, y: (x @ y).tanh(), [drawn(3, 4), drawn(4, 2)], check_batched_grad=True
    )


def test_a_function_that_is_checked_may_differentiate_and_hang_hooks_somewhere():
    def slope(x):
        (g,) = clnet.autograd.grad((x**3).sum(), x, create_graph=True)
        return g * 1

    def scaled(factor):
        def hooked(x):
            y = x * 2
            y.register_hook(lambda g: g * factor)
            return y

        return hooked

    assert gradcheck(slope, drawn(2))
    assert gradcheck(scaled(1.0), drawn(2))
    assert not gradcheck(scaled(1.5), drawn(2), raise_exception=False)
