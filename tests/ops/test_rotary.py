"""Rotary positions: the op in one launch beside products and sums of halves."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import ops
from clnet.ops.rotary import Rotary, rotary

RNG = np.random.default_rng(0)


def composed(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + ops.cat([-second, first], -1) * sin


def drawn(*shape, grad=True, dtype=np.float32):
    return clnet.tensor(RNG.standard_normal(shape).astype(dtype), requires_grad=grad)


def results(function, upstream, *tensors):
    for t in tensors:
        t.grad = None
    y = function(*tensors)
    y.backward(upstream)
    return [y.detach().numpy(), *(t.grad.numpy() for t in tensors)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_is_the_products_and_sums_and_so_are_its_gradients(dtype):
    """Bits of the result, and of the gradient to what is turned; of the angles to rounding."""
    x = drawn(2, 5, 3, 8, dtype=dtype)
    cos, sin = drawn(5, 8, dtype=dtype), drawn(5, 8, dtype=dtype)
    upstream = drawn(2, 3, 5, 8, grad=False, dtype=dtype)

    def turned(function):
        return lambda x, *angles: function(x.transpose(1, 2), *angles)

    ours = results(turned(rotary), upstream, x, cos, sin)
    theirs = results(turned(composed), upstream, x, cos, sin)
    np.testing.assert_array_equal(ours[0], theirs[0])
    for got, expected in zip(ours[1:], theirs[1:], strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_gradients_of_gradients_and_the_way_back_agree_with_what_it_is_made_of():
    x, cos, sin = drawn(3, 4, 6), drawn(4, 6), drawn(4, 6)
    weight = drawn(3, 4, 6, grad=False)
    found = []
    for function in (rotary, composed):
        (g,) = clnet.autograd.grad((function(x, cos, sin) ** 3).sum(), [x], create_graph=True)
        grads = clnet.autograd.grad((g * weight).sum(), [x, cos, sin])
        found.append([t.numpy() for t in grads])
    for got, expected in zip(*found, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
    back = Rotary(back=True)
    upstream = drawn(3, 4, 6, grad=False)
    whole = results(lambda *t: ops.machinery.function.apply(back, *t), upstream, x, cos, sin)
    parts = results(back.decompose, upstream, x, cos, sin)
    for got, expected in zip(whole, parts, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("back", [False, True])
def test_what_is_saved_for_one_gradient_is_enough(back):
    hosts = [RNG.standard_normal(s).astype(np.float32) for s in ((3, 4, 6), (4, 6), (4, 6))]
    together = [clnet.tensor(h, requires_grad=True) for h in hosts]
    function = ops.machinery.function.apply
    upstream = drawn(3, 4, 6, grad=False)
    function(Rotary(back), *together).backward(upstream)
    for k, whole in enumerate(together):
        alone = [clnet.tensor(h, requires_grad=i == k) for i, h in enumerate(hosts)]
        function(Rotary(back), *alone).backward(upstream)
        np.testing.assert_array_equal(alone[k].grad.numpy(), whole.grad.numpy())


def test_angles_of_another_dtype_give_what_products_give():
    x = drawn(2, 4, grad=False).to(clnet.float16)
    cos, sin = drawn(2, 4, grad=False), drawn(2, 4, grad=False)
    y, expected = rotary(x, cos, sin), composed(x, cos, sin)
    assert y.dtype is expected.dtype
    np.testing.assert_array_equal(y.numpy(), expected.numpy())


def test_compiled_it_is_one_launch_each_way_with_the_same_bits():
    x, cos, sin = drawn(2, 4, 8), drawn(4, 8, grad=False), drawn(4, 8, grad=False)

    def step(x):
        return rotary(x, cos, sin)

    compiled = clnet.compile(step)
    np.testing.assert_array_equal(compiled(x.detach()).numpy(), step(x).detach().numpy())
    assert compiled.plans[-1].num_launches == 1
