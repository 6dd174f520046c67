"""Which pointwise steps become one, and which must not."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import ops
from clnet.compile import record
from clnet.compile.fuse import fuse
from clnet.compile.simplify import simplify, with_constants
from clnet.compile.tracer import Step

pytestmark = pytest.mark.device


def fused(function, *args):
    trace = fuse(simplify(record(function, args, {}, clnet.device()).trace))
    return [step.function.name for step in with_constants(trace).steps if isinstance(step, Step)]


def matrix(seed: int = 0) -> clnet.Tensor:
    return clnet.tensor(np.random.default_rng(seed).standard_normal((4, 6)).astype(np.float32))


def agrees(function, *args) -> None:
    expected, found = function(*args), clnet.compile(function)(*args)
    assert expected.numpy().tobytes() == found.numpy().tobytes()


def test_a_chain_is_one_launch():
    def chain(x):
        return ops.tanh(ops.exp(x) * 2 + x) / 3

    assert fused(chain, matrix()) == ["exp+mul+add+tanh+div"]
    agrees(chain, matrix())


def test_a_value_that_others_read_is_made_in_the_same_launch():
    def branches(x):
        y = ops.exp(x)
        return y + 1, y.sum(0)

    assert fused(branches, matrix()) == ["exp+add", "sum"]


def test_views_are_read_through():
    def turned(x):
        return ops.exp(x).T + (x * 2).reshape(6, 4)

    assert fused(turned, matrix()) == ["exp+mul+add"]
    agrees(turned, matrix())

    def parts(x):
        y = x + 1
        return y[1:3, ::2] * y[2:, 1::2]

    assert fused(parts, matrix()) == ["add+mul"]
    agrees(parts, matrix())


def test_constants_disappear():
    def function(x):
        return x * clnet.ones(6) + clnet.full((4, 1), 0.1)

    assert fused(function, matrix()) == ["full+mul+add"]
    agrees(function, matrix())


def test_a_constant_exponent_is_left_to_pow():
    agrees(lambda x: ops.abs(x) ** (clnet.ones(6) + clnet.ones(6)), matrix())


def test_what_is_changed_in_between_is_read_before():
    outside = clnet.ones(4, 6)

    def function(x):
        before = outside * 2
        outside.add_(x)
        return before + outside

    assert fused(function, matrix()) == ["mul", "add", "add"]


def test_an_update_reads_and_writes_the_same_element():
    outside, twin = clnet.ones(4, 4), clnet.ones(4, 4)

    def straight(x):
        outside.copy_(outside * 2 + x)

    def turned(x):
        twin.copy_(twin.T * 2 + x)

    x = matrix()[:, :4]
    assert fused(straight, x) == ["mul+add+copy_"]
    assert fused(turned, x) == ["mul+add", "copy_"]
    for function, state in ((straight, outside), (turned, twin)):
        start = state.numpy()
        clnet.compile(function)(x)
        before = start if function is straight else start.T
        assert np.array_equal(state.numpy(), before * 2 + x.numpy())


@pytest.mark.parametrize("dtype", [clnet.float16, clnet.bfloat16])
def test_values_of_16_bits_are_rounded_in_registers(dtype):
    """What autocast casts on its way: the same bits as eager, from one step."""

    def function(x):
        y = (x * 1.37 + 0.1).to(dtype)
        z = ops.relu(y + y * 0.3)
        return z.float() * 1e-3, z

    x = clnet.tensor(np.random.default_rng(0).standard_normal((64, 48)).astype(np.float32) * 300)
    assert len(fused(function, x)) == 1
    for found, wanted in zip(clnet.compile(function)(x), function(x), strict=True):
        assert found.dtype is wanted.dtype
        assert np.array_equal(found.float().numpy(), wanted.float().numpy())


def test_values_that_are_rounded_when_stored_are_stored():
    assert fused(lambda x: x.int() * 2, matrix()) == ["to", "mul"]
    assert fused(lambda x: ops.where(x > 0, x, 0.0), matrix()) == ["gt+where"]


def test_a_row_is_not_computed_for_every_element_of_a_matrix():
    big = clnet.zeros(512, 512)
    assert fused(lambda x: x + ops.exp(x[0]), big) == ["exp", "add"]
    assert fused(lambda x: x + ops.exp(x[0]), matrix()) == ["exp+add"]


def test_long_chains_are_cut():
    def chain(x):
        for _ in range(400):
            x = x * 1.5
        return x

    assert 2 <= len(fused(chain, matrix())) <= 6
