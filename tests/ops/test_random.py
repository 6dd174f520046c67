"""Dropout and random fills from generators."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import ops
from clnet.autodiff.gradient import grad
from clnet.errors import ArgumentError, DtypeError
from clnet.values import mode
from tests import philox
from tests.opcase import NARROW, OpCase, every_check, expanded, normal, sliced

SEED = 11


def shaped(draw, *settings):
    """A reference that draws as many numbers as its argument has elements."""
    return lambda x: draw(SEED, 0, x.size, *settings).reshape(x.shape)


def whole_numbers(seed, first, n):
    words = philox.long_words(seed, first, n)
    return np.array([int(word) * 2 >> 64 for word in words], np.float64)


def filled(method, *settings):
    """A copy of the argument, overwritten in place."""
    return lambda x: method(ops.clone(x), *settings, generator=clnet.Generator(SEED))


def uniform_reference(x):
    return -2 + 5 * shaped(philox.uniforms)(x)


def normal_reference(x):
    return 1 + 3 * shaped(philox.normals)(x)


def coin_reference(x):
    return (shaped(philox.uniforms)(x) < np.float32(0.4)).astype(np.float64)


def dropout_reference(x):
    return np.where(shaped(philox.uniforms)(x) < 0.25, 0, x / 0.75)


X = [normal(7, 9, grad=False)]
CASES = [
    OpCase(
        lambda x: ops.dropout(x, 0.25, generator=clnet.Generator(SEED)),
        dropout_reference,
        [normal(7, 9)],
        dtypes=NARROW,
        layouts=(sliced, expanded),  # what is transposed is drawn for in its order in memory
        name="dropout",
    ),
    OpCase(filled(ops.uniform_, -2, 3), uniform_reference, X, grad=False, name="uniform_"),
    OpCase(filled(ops.normal_, 1, 3), normal_reference, X, grad=False, name="normal_"),
    OpCase(filled(ops.bernoulli_, 0.4), coin_reference, X, grad=False, name="bernoulli_"),
    OpCase(filled(ops.random_, 0, 2), shaped(whole_numbers), X, grad=False, name="random_"),
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


def test_dropout_keeps_the_mean_and_drops_the_same_in_backward():
    x = clnet.ones(200, 300).requires_grad_()
    y = ops.dropout(x, 0.25, generator=clnet.Generator(3))
    host = y.detach().numpy()
    assert set(np.unique(host)) == {0, np.float32(1 / 0.75)}
    assert abs((host == 0).mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / host.size)
    y.backward(clnet.ones(y.shape))
    np.testing.assert_array_equal(x.grad.numpy(), host)


@pytest.mark.parametrize("first", [0, 1], ids=["dense", "part"])
def test_dropout_keeps_the_order_of_axes_in_memory(first):
    x = clnet.ones(3, 4, 5, 2).permute(0, 3, 1, 2)[first:].requires_grad_()
    y = ops.dropout(x, 0.5)
    assert y.stride() == (40, 1, 10, 2)
    y.backward(clnet.ones(y.shape))
    np.testing.assert_array_equal(x.grad.numpy(), y.detach().numpy())


def test_dropout_can_be_differentiated_twice():
    x = clnet.tensor(np.arange(1, 9, dtype=np.float32), requires_grad=True)
    y = ops.dropout(x * x, 0.5, generator=clnet.Generator(1))
    (first,) = grad(y, x, clnet.ones(8), create_graph=True)
    (second,) = grad(first, x, clnet.ones(8))
    kept = y.detach().numpy() != 0
    assert 0 < kept.sum() < 8
    np.testing.assert_array_equal(second.numpy(), np.where(kept, 4, 0))


def test_dropout_draws_anew_and_repeats_with_the_seed():
    x, generator = clnet.ones(1000), clnet.Generator(7)
    first, second = (ops.dropout(x, 0.5, generator=generator).numpy() for _ in range(2))
    again = ops.dropout(x, 0.5, generator=clnet.Generator(7)).numpy()
    assert (first != second).any()
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("settings", [{"p": 0.0}, {"p": 0.5, "training": False}], ids=str)
def test_dropout_of_nothing_is_the_tensor_itself(settings):
    x, generator = clnet.ones(3), clnet.Generator(0)
    assert ops.dropout(x, **settings, generator=generator) is x
    assert generator.offset == 0


def test_dropout_replayed_draws_as_eager_does():
    def double(x):
        return ops.dropout(x, 0.5) + ops.dropout(x, 0.5)

    x = clnet.ones(64)
    with mode.using(generator=clnet.Generator(5)):
        eager = [double(x).numpy() for _ in range(3)]
    with mode.using(generator=clnet.Generator(5)):
        step = clnet.compile(double)
        replayed = [step(x).numpy() for _ in range(3)]
    np.testing.assert_array_equal(replayed, eager)
    assert (eager[0] != eager[1]).any()


def test_fills_take_disjoint_numbers_from_the_generator():
    one, both = clnet.Generator(9), clnet.Generator(9)
    whole = clnet.empty(16).uniform_(generator=one).numpy()
    parts = [clnet.empty(8).uniform_(generator=both).numpy() for _ in range(2)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert one.offset == both.offset == 4
    clnet.empty(8, dtype=clnet.int64).random_(0, 2**40, generator=one)
    assert one.offset == 8


def test_fills_have_the_asked_range_and_moments():
    n = 100_000
    uniform = clnet.empty(n).uniform_(-2, 3, generator=clnet.Generator(1)).numpy()
    assert uniform.min() >= -2
    assert uniform.max() < 3
    assert abs(uniform.mean() - 0.5) < 0.03
    normal = clnet.empty(n).normal_(5, 0.5, generator=clnet.Generator(1)).numpy()
    assert abs(normal.mean() - 5) < 0.01
    assert abs(normal.std() - 0.5) < 0.01
    coins = clnet.empty(n).bernoulli_(0.2, generator=clnet.Generator(1)).numpy()
    assert set(np.unique(coins)) == {0, 1}
    assert abs(coins.mean() - 0.2) < 0.01
    chances = clnet.tensor([0.0, 0.3, 1.0])
    coins = clnet.empty(n, 3, dtype=clnet.int32).bernoulli_(chances).numpy().mean(0)
    assert (coins[0], coins[2]) == (0, 1)
    assert abs(coins[1] - 0.3) < 0.01
    whole = clnet.empty(n, dtype=clnet.int32).random_(-3, 4, generator=clnet.Generator(1))
    assert np.bincount(whole.numpy() + 3).min() > n / 7 * 0.95


def test_fills_take_memory_for_no_copy():
    x = clnet.empty(1000)
    before = clnet.device().pool.statistics().num_allocations
    x.uniform_().normal_().bernoulli_().fill_(3).zero_()
    assert clnet.device().pool.statistics().num_allocations == before


@pytest.mark.parametrize("dtype", [clnet.float16, clnet.bfloat16])
def test_narrow_floats_are_filled_with_rounded_numbers(dtype):
    wide, narrow = clnet.empty(50), clnet.empty(50, dtype=dtype)
    for x in (wide, narrow):
        x.normal_(generator=clnet.Generator(4))
    assert narrow.tolist() == wide.to(dtype).tolist()


def test_fill_of_a_view_leaves_the_rest():
    x = clnet.zeros(4, 6)
    x[:, ::2].uniform_(1, 2, generator=clnet.Generator(2))
    host = x.numpy()
    assert (host[:, ::2] >= 1).all()
    assert (host[:, 1::2] == 0).all()
    x.T[1:5:3].fill_(7)
    assert (x.numpy() == 7).sum() == 8
    assert (x.numpy()[:, [1, 4]] == 7).all()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: ops.dropout(clnet.ones(3), 1.5), ArgumentError),
        (lambda: ops.dropout(clnet.ones(3).long(), 0.5), DtypeError),
        (lambda: clnet.ones(3).uniform_(2, 1), ArgumentError),
        (lambda: clnet.ones(3).long().normal_(), DtypeError),
        (lambda: clnet.ones(3).normal_(0, -1), ArgumentError),
        (lambda: clnet.ones(3).bernoulli_(-0.1), ArgumentError),
        (lambda: clnet.ones(3).random_(4, 4), ArgumentError),
    ],
)
def test_settings_out_of_range_are_refused(call, error):
    with pytest.raises(error):
        call()
