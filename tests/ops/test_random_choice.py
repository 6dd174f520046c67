"""Choices with given probabilities: their shares, and what can never be drawn."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import ops
from clnet.errors import ArgumentError, DtypeError, ShapeError
from clnet.nn import functional as F
from tests.opcase import OpCase, every_check, uniform
from tests.philox import uniforms

pytestmark = pytest.mark.device

SEED = 5


def coins(p):
    return (uniforms(SEED, 0, p.size).reshape(p.shape) < p).astype(np.float64)


CASES = [
    OpCase(
        lambda p: ops.bernoulli(p, generator=clnet.Generator(SEED)),
        coins,
        [uniform(0, 1, (7, 33))],
        grad=False,
        name="bernoulli",
    ),
    OpCase(
        lambda x: x.bernoulli(0.3, generator=clnet.Generator(SEED)),
        lambda x: coins(np.full_like(x, 0.3)),
        [uniform(0, 1, (7, 33))],
        grad=False,
        name="bernoulli",
        label="one probability",
    ),
]
OTHERWISE_TESTED = {
    "multinomial": "test_shares_follow_the_weights",
    "gumbel_softmax": "test_gumbel_softmax_draws_classes_in_their_shares",
}


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


@pytest.mark.parametrize("replacement", [False, True])
def test_shares_follow_the_weights(replacement):
    weights = np.array([1, 0, 2, 5], np.float32)
    rows = 1 if replacement else 20_000
    x = clnet.tensor(np.tile(weights, (rows, 1)))
    count = 20_000 if replacement else 1
    drawn = ops.multinomial(x, count, replacement, generator=clnet.Generator(3))
    assert (drawn.shape, drawn.dtype) == ((rows, count), clnet.int64)
    shares = np.bincount(drawn.numpy().ravel(), minlength=4) / 20_000
    np.testing.assert_allclose(shares, weights / 8, atol=4 * 0.5 / 20_000**0.5)
    assert shares[1] == 0


def test_weights_of_0_are_not_drawn_again_and_again():
    """Not at the ends either, where the largest random number comes to lie."""
    x = clnet.tensor([[0.0, 3e-30, 0.0], [0.0, 1e30, 1e-30]])
    drawn = x.multinomial(1 << 16, True, generator=clnet.Generator(6))
    assert bool((drawn == 1).all())


def test_the_second_draw_is_from_what_is_left():
    x = clnet.tensor(np.tile(np.array([1, 2, 5], np.float32), (20_000, 1)))
    drawn = x.multinomial(3, generator=clnet.Generator(4)).numpy()
    assert (np.sort(drawn, 1) == [0, 1, 2]).all()
    after_two = drawn[drawn[:, 0] == 2, 1]
    np.testing.assert_allclose((after_two == 1).mean(), 2 / 3, atol=0.02)


def test_weights_of_0_come_last():
    x = clnet.tensor([0.0, 3.0, 0.0, 1.0, 2.0])
    for seed in range(5):
        drawn = x.multinomial(5, generator=clnet.Generator(seed)).tolist()
        assert set(drawn[:3]) == {1, 3, 4}


def test_a_seed_decides_the_draw():
    x = clnet.ones(50)
    first, again, other = (
        x.multinomial(20, True, generator=clnet.Generator(seed)).tolist() for seed in (1, 1, 2)
    )
    assert first == again != other


@pytest.mark.parametrize(
    ("call", "error", "law"),
    [
        (lambda: clnet.ones(2, 3, 4).multinomial(1), ShapeError, "x is "),
        (lambda: clnet.ones(2, 0).multinomial(1, True), ShapeError, "x is "),
        (lambda: clnet.ones(3).multinomial(4), ArgumentError, "num_samples categories, 1 or more"),
        (lambda: clnet.ones(3).multinomial(0, True), ArgumentError, "1 or more"),
        (lambda: clnet.ones(3).long().multinomial(1), DtypeError, "operands are floating"),
        (lambda: clnet.ones(3).long().bernoulli(), DtypeError, "operands are floating"),
        (lambda: clnet.ones(3).bernoulli(2), ArgumentError, "p lies in"),
    ],
)
def test_what_cannot_be_drawn(call, error, law):
    with pytest.raises(error, match=law):
        call()


def test_gumbel_softmax_draws_classes_in_their_shares():
    clnet.manual_seed(0)
    logits = clnet.tensor(np.log([0.1, 0.2, 0.7]).astype(np.float32)).expand(20_000, 3)
    one = F.gumbel_softmax(logits, hard=True)
    assert set(np.unique(one.numpy())) == {0, 1}
    np.testing.assert_array_equal(one.numpy().sum(1), 1)
    np.testing.assert_allclose(one.numpy().mean(0), [0.1, 0.2, 0.7], atol=4 * 0.5 / 20_000**0.5)
    soft = F.gumbel_softmax(logits, tau=0.5)
    np.testing.assert_allclose(soft.numpy().sum(1), 1, rtol=1e-5)


def test_a_hard_draw_has_the_gradient_of_the_soft_one():
    x, g = clnet.zeros(4, 3).requires_grad_(), clnet.tensor([[1.0, 2.0, 4.0]]).expand(4, 3)
    slopes = []
    for hard in (False, True):
        clnet.manual_seed(3)
        slopes.append(clnet.autograd.grad(F.gumbel_softmax(x, 0.7, hard), x, g)[0].numpy())
    np.testing.assert_allclose(*slopes, rtol=1e-6)
    assert np.abs(slopes[0]).max() > 0.01
    with pytest.raises(ArgumentError, match=r"^gumbel_softmax: tau is above 0"):
        F.gumbel_softmax(x, 0)
    with pytest.raises(DtypeError, match=r"^gumbel_softmax: operands are floating"):
        F.gumbel_softmax(x.long())
