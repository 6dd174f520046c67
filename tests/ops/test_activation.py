"""Activation functions against NumPy."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

import clnet
from clnet import ops
from clnet.errors import ArgumentError
from tests.opcase import OpCase, every_check, normal, sliced

pytestmark = pytest.mark.device

X = normal(7, 33)
AWAY = normal(7, 33, dodge=(0,))
erf = np.vectorize(math.erf, otypes=[np.float64])
activation = partial(OpCase, layouts=(sliced,), shapes=(), dtypes=("float16",))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


CASES = [
    OpCase(ops.relu, lambda x: np.maximum(x, 0), [AWAY], dtypes=("float16", "bfloat16", "float64")),
    activation(ops.tanh, np.tanh, [X], grad2=True),
    activation(ops.sigmoid, sigmoid, [X], grad2=True),
    activation(ops.leaky_relu, lambda x: np.where(x > 0, x, 0.01 * x), [AWAY]),
    activation(
        lambda x: ops.leaky_relu(x, negative_slope=0.3),
        lambda x: np.where(x > 0, x, 0.3 * x),
        [AWAY],
        name="leaky_relu",
        label="slope",
    ),
    activation(ops.elu, lambda x: np.where(x > 0, x, np.expm1(x)), [AWAY], grad2=True),
    activation(
        lambda x: ops.elu(x, alpha=0.7),
        lambda x: np.where(x > 0, x, 0.7 * np.expm1(x)),
        [AWAY],
        name="elu",
        label="alpha",
    ),
    activation(ops.silu, lambda x: x * sigmoid(x), [X], grad2=True),
    activation(ops.softsign, lambda x: x / (1 + np.abs(x)), [X]),
    activation(ops.softplus, lambda x: np.logaddexp(x, 0), [X], grad2=True),
    activation(ops.gelu, lambda x: x * (1 + erf(x / math.sqrt(2))) / 2, [X], grad2=True),
    activation(
        lambda x: ops.gelu(x, approximate="tanh"),
        gelu_tanh,
        [X],
        grad2=True,
        name="gelu",
        label="tanh",
    ),
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


@pytest.mark.parametrize("op", sorted({case.op for case in CASES}))
def test_large_inputs_neither_overflow_nor_lose_their_gradient(op):
    x = clnet.tensor([-1e4, -100.0, 100.0, 1e4], requires_grad=True)
    y = ops.PUBLIC_OPS[op][0](x)
    y.backward(clnet.ones(4))
    assert np.isfinite(y.detach().numpy()).all()
    assert np.isfinite(x.grad.numpy()).all()


def test_gelu_names_its_approximations():
    with pytest.raises(
        ArgumentError, match=r"^gelu: approximate is 'none' or 'tanh'; got approximate='fast'$"
    ):
        ops.gelu(clnet.ones(2), approximate="fast")
