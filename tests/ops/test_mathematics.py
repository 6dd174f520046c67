"""Functions of mathematics and of bits, against NumPy and SciPy."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import scipy.special

import clnet
from clnet import ops
from clnet.errors import DtypeError
from tests.opcase import (
    Draw,
    OpCase,
    booleans,
    every_check,
    integers,
    normal,
    positive,
    sliced,
    uniform,
)

pytestmark = pytest.mark.device

SHAPE = (7, 33)
NORMAL, POSITIVE = normal(*SHAPE), positive(*SHAPE)
UNIT = uniform(-0.9, 0.9, SHAPE)
pointwise = partial(OpCase, layouts=(sliced,), shapes=())
smooth = partial(pointwise, grad2=True)
compared = partial(pointwise, grad=False)
BITS = integers(-99, 99, SHAPE)


def specials(*values: float) -> Draw:
    """A few values, in any order."""
    return Draw(SHAPE, lambda rng, s: rng.choice(np.array(values), s))


CASES = [
    smooth(ops.exp2, np.exp2, [NORMAL]),
    smooth(ops.log10, np.log10, [POSITIVE]),
    smooth(ops.tan, np.tan, [UNIT]),
    smooth(ops.asin, np.arcsin, [UNIT], ulps=64),
    smooth(ops.acos, np.arccos, [UNIT], ulps=64),
    smooth(ops.atan, np.arctan, [NORMAL]),
    smooth(ops.sinh, np.sinh, [NORMAL]),
    smooth(ops.cosh, np.cosh, [NORMAL]),
    smooth(ops.asinh, np.arcsinh, [NORMAL]),
    smooth(ops.acosh, np.arccosh, [uniform(1.2, 3, SHAPE)], ulps=64),
    smooth(ops.atanh, np.arctanh, [UNIT], ulps=64),
    smooth(ops.atan2, np.arctan2, [NORMAL, POSITIVE]),
    smooth(ops.hypot, np.hypot, [NORMAL, POSITIVE]),
    compared(
        ops.hypot, np.hypot, [specials(1e30, -3e30), specials(2e30)], rtol=1e-6, label="large"
    ),
    smooth(ops.erfc, scipy.special.erfc, [NORMAL], ulps=16),
    pointwise(ops.trunc, np.trunc, [normal(*SHAPE, scale=3, dodge=range(-12, 13))], flat=True),
    pointwise(ops.frac, lambda x: x - np.trunc(x), [normal(*SHAPE, dodge=range(-5, 6))]),
    pointwise(ops.fmax, np.fmax, [NORMAL, NORMAL]),
    compared(ops.fmax, np.fmax, [specials(1, 2, np.nan, -np.inf)] * 2, label="nan"),
    pointwise(ops.fmin, np.fmin, [NORMAL, NORMAL]),
    compared(ops.fmin, np.fmin, [integers(-9, 9, SHAPE)] * 2, label="integers"),
    pointwise(
        ops.copysign,
        np.copysign,
        [normal(*SHAPE, dodge=(0,)), normal(*SHAPE, dodge=(0,), grad=False)],
    ),
    smooth(ops.logaddexp, np.logaddexp, [NORMAL, NORMAL]),
    compared(
        ops.logaddexp, np.logaddexp, [specials(np.inf, -np.inf, 0, 500)] * 2, label="infinite"
    ),
    smooth(ops.xlogy, scipy.special.xlogy, [NORMAL, POSITIVE]),
    compared(ops.xlogy, scipy.special.xlogy, [specials(0, 2), specials(0, np.nan, 3)], label="0"),
    compared(ops.isfinite, np.isfinite, [specials(1, np.nan, np.inf, -np.inf)]),
    smooth(ops.logit, scipy.special.logit, [uniform(0.1, 0.9, SHAPE)], ulps=16),
    pointwise(
        lambda x: ops.logit(x, 0.2),
        lambda x: scipy.special.logit(np.clip(x, 0.2, 0.8)),
        [Draw(SHAPE, lambda rng, s: rng.uniform(-0.5, 1.5, s), (0.2, 0.8))],
        ulps=16,
        name="logit",
        label="eps",
    ),
    pointwise(
        ops.lerp,
        lambda a, b, w: a + w * (b - a),
        [NORMAL, NORMAL, uniform(-1, 2, SHAPE)],
        grad2=True,
    ),
    pointwise(
        lambda a, b: ops.lerp(a, b, 0.75),
        lambda a, b: a + 0.75 * (b - a),
        [NORMAL, normal(33)],
        name="lerp",
        label="number",
        k=7,
    ),
    smooth(
        lambda x, a, b: ops.addcmul(x, a, b, value=-0.5),
        lambda x, a, b: x - 0.5 * a * b,
        [NORMAL, NORMAL, normal(33)],
        name="addcmul",
        k=7,
    ),
    smooth(
        lambda x, a, b: ops.addcdiv(x, a, b, value=3),
        lambda x, a, b: x + 3 * a / b,
        [NORMAL, NORMAL, POSITIVE],
        name="addcdiv",
    ),
    pointwise(ops.nan_to_num, np.nan_to_num, [NORMAL]),
    compared(
        lambda x: ops.nan_to_num(x, 7, neginf=-3),
        lambda x: np.nan_to_num(x, nan=7, posinf=float(np.finfo(np.float32).max), neginf=-3),
        [specials(np.nan, np.inf, -np.inf, 2)],
        name="nan_to_num",
        label="special",
    ),
    compared(ops.nan_to_num, np.nan_to_num, [BITS], label="integers"),
    compared(ops.bitwise_not, np.bitwise_not, [BITS]),
    compared(ops.bitwise_not, np.bitwise_not, [booleans(*SHAPE)], label="bool"),
    compared(ops.bitwise_and, np.bitwise_and, [BITS, BITS]),
    compared(ops.bitwise_and, np.bitwise_and, [booleans(*SHAPE)] * 2, label="bool"),
    compared(ops.bitwise_or, np.bitwise_or, [BITS, BITS]),
    compared(ops.bitwise_or, np.bitwise_or, [booleans(*SHAPE), BITS], label="mixed"),
    compared(ops.bitwise_xor, np.bitwise_xor, [BITS, BITS]),
    compared(ops.bitwise_xor, np.bitwise_xor, [booleans(*SHAPE)] * 2, label="bool"),
    compared(ops.bitwise_left_shift, np.left_shift, [BITS, integers(0, 9, SHAPE)]),
    compared(ops.bitwise_right_shift, np.right_shift, [BITS, integers(0, 9, SHAPE)]),
    compared(ops.logical_xor, np.logical_xor, [booleans(*SHAPE)] * 2),
    compared(ops.logical_xor, np.logical_xor, [integers(0, 2, SHAPE)] * 2, label="integers"),
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


def test_operators_are_pytorchs():
    x, flags = clnet.tensor([5, 6, -7]), clnet.tensor([True, False, True])
    assert (x & 3).tolist() == [1, 2, 1]
    assert (8 | x).tolist() == [13, 14, -7]
    assert (1 ^ x).tolist() == [4, 7, -8]
    assert (x << 2).tolist() == [20, 24, -28]
    assert (1 << clnet.tensor([3])).tolist() == [8]
    assert (x >> 1).tolist() == [2, 3, -4]
    assert (256 >> clnet.tensor([3])).tolist() == [32]
    assert (~x).tolist() == [-6, -7, 6]
    for result, expected in (
        (~flags, [False, True, False]),
        (flags & True, [True, False, True]),
        (flags | flags, [True, False, True]),
        (True ^ flags, [False, True, False]),
    ):
        assert result.dtype is clnet.bool
        assert result.tolist() == expected


@pytest.mark.parametrize(
    ("op", "call"),
    [
        ("bitwise_not", lambda x: ~x),
        ("bitwise_and", lambda x: x & 1),
        ("bitwise_left_shift", lambda x: x << 1),
    ],
    ids=["not", "and", "shift"],
)
def test_fractions_have_no_bits(op, call):
    with pytest.raises(DtypeError) as raised:
        call(clnet.ones(2))
    assert str(raised.value) == (
        f"{op}: only booleans and integers have bits; got dtype=clnet.float32. "
        "Compare it, or convert it with .to(dtype)"
    )


def test_lerp_reaches_both_ends():
    start, end = clnet.tensor([0.1, 1e8]), clnet.tensor([0.7, -1.0])
    assert start.lerp(end, 0.0).tolist() == start.tolist()
    assert start.lerp(end, 1.0).tolist() == end.tolist()


def test_ends_of_two_dtypes_are_refused():
    with pytest.raises(DtypeError) as raised:
        clnet.ones(2).lerp(clnet.tensor([1, 2]), 0.5)
    assert str(raised.value) == (
        "lerp: both ends have one floating dtype; got x=clnet.float32, end=clnet.int64"
    )


def test_whole_numbers_are_not_divided_by_addcdiv():
    whole = clnet.tensor([1, 2])
    with pytest.raises(DtypeError, match=r"^addcdiv: whole numbers are not divided; .*float\(\)$"):
        clnet.ones(2).addcdiv(whole, whole)


def test_no_gradient_comes_of_none_where_the_logarithm_is_infinite():
    x = clnet.tensor([1.0, 0.5, 2.0], requires_grad=True)
    other = clnet.tensor([0.0, -1.0, np.inf])
    assert clnet.autograd.grad(ops.xlogy(x, other), x, clnet.zeros(3))[0].tolist() == [0, 0, 0]
