"""The harness of the op tests is trusted because it fails when it should."""

from __future__ import annotations

import numpy as np
import pytest

from clnet import ops
from clnet.autodiff.custom import Function
from clnet.ops.machinery.pointwise import evaluate
from clnet.tensor import Tensor
from tests.opcase import (
    OpCase,
    edges,
    every_check,
    expanded,
    forward,
    gradient,
    gradient_twice,
    integers,
    layouts,
    normal,
    other_dtypes,
    positive,
    sliced,
    transposed,
    uniform,
)

pytestmark = pytest.mark.device


def seeded(body, gradient=None):
    """An op made wrong on purpose."""
    return lambda *xs: evaluate("seeded", body, xs, gradient=gradient)


def dense_only(x: Tensor) -> Tensor:
    """Reads an array as if it were dense, as a kernel without strides would."""
    array = x.array.view(x.shape, tuple(np.cumprod((1, *x.shape[:0:-1]))[::-1].tolist()))
    return ops.square(Tensor(array))


def one_early(x: Tensor) -> Tensor:
    """Starts at the storage's first element, as a kernel that forgets the offset would."""
    return ops.square(Tensor(x.array.view(x.shape, x.array.strides, 0)))


def last_column_lost(x: Tensor) -> Tensor:
    """Off by one at the end of a row."""
    return ops.cat([ops.square(x.narrow(1, 0, 32)), ops.zeros_like(x.narrow(1, 32, 1))], 1)


class Careless(Function):
    """A product that forgets a factor of its second gradient where the first is not wanted."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g * b, g * a if ctx.needs_input_grad[0] else g


def square(x):
    return x * x


def nudged(x):
    return x * x + 2e-5


@pytest.mark.parametrize(
    ("case", "check", "message"),
    [
        pytest.param(
            OpCase(seeded(nudged), np.square, [normal(7, 33)]),
            forward,
            "are off",
            id="slightly wrong value",
        ),
        pytest.param(
            OpCase(last_column_lost, np.square, [normal(7, 33)]),
            forward,
            "are off",
            id="off by one",
        ),
        pytest.param(
            OpCase(ops.neg, np.square, [integers(-9, 9, (7, 33))]),
            forward,
            "are off",
            id="wrong integers",
        ),
        pytest.param(
            OpCase(ops.neg, np.negative, [uniform(1, 1, (4,))]), forward, "vacuous", id="one value"
        ),
        pytest.param(
            OpCase(lambda x: ops.exp(x - 200), lambda x: np.exp(x - 200), [normal(7, 33)]),
            forward,
            "vacuous",
            id="all but zero",
        ),
        pytest.param(
            OpCase(ops.neg, lambda x: -x[:, :1], [normal(7, 33)]),
            forward,
            "has shape",
            id="wrong shape",
        ),
        pytest.param(
            OpCase(seeded(square, lambda g, y: g), np.square, [normal(7, 33)]),
            gradient,
            "are off",
            id="wrong gradient",
        ),
        pytest.param(
            OpCase(Careless.apply, np.multiply, [normal(7, 33), normal(7, 33)]),
            gradient,
            "gradient of input 1 alone",
            id="wrong gradient alone",
        ),
        pytest.param(
            OpCase(ops.square, np.square, [normal(7, 33)], flat=True),
            gradient,
            "is not 0",
            id="not flat",
        ),
        pytest.param(
            OpCase(ops.floor, np.floor, [uniform(0.1, 0.9, (9,))]),
            gradient,
            "vacuous",
            id="vacuous gradient",
        ),
        pytest.param(
            OpCase(
                lambda x: ops.mul(x, x.detach()) * 2 - ops.square(x.detach()),
                np.square,
                [normal(7, 33)],
            ),
            gradient_twice,
            "are off",
            id="wrong second gradient",
        ),
        pytest.param(
            OpCase(dense_only, np.square, [normal(7, 33)], grad=False, layouts=(transposed,)),
            layouts,
            "are off",
            id="strides ignored",
        ),
        pytest.param(
            OpCase(dense_only, np.square, [normal(7, 33)], grad=False, layouts=(expanded,)),
            layouts,
            "are off",
            id="stride 0 ignored",
        ),
        pytest.param(
            OpCase(one_early, np.square, [normal(7, 33)], grad=False, layouts=(sliced,)),
            layouts,
            "are off",
            id="offset ignored",
        ),
        pytest.param(
            OpCase(
                lambda x: x.narrow(0, 0, 0) if 1 in x.shape else ops.square(x),
                np.square,
                [normal(7, 33)],
            ),
            edges,
            "has shape",
            id="axis of size 1",
        ),
        pytest.param(
            OpCase(lambda x: ops.exp(x).float(), np.exp, [normal(7, 33)], dtypes=("float16",)),
            other_dtypes,
            "float16 gives",
            id="wrong dtype",
        ),
    ],
)
def test_a_seeded_error_is_found(case, check, message, device):
    with pytest.raises(AssertionError, match=message):
        check(case, device)


def test_a_right_op_passes_every_check(device):
    case = OpCase(
        ops.div,
        np.divide,
        [normal(7, 33), positive(7, 33)],
        grad2=True,
        dtypes=("float16", "bfloat16"),
    )
    checks = every_check([case])
    assert [p.id for p in checks] == [
        "div-forward",
        "div-gradient",
        "div-gradient_twice",
        "div-layouts",
        "div-edges",
        "div-other_dtypes",
    ]
    for parameters in checks:
        _, check = parameters.values
        check(case, device)


def test_dodge_keeps_inputs_from_a_kink(device):
    def at_kink(**options):
        return OpCase(
            ops.relu, lambda x: np.maximum(x, 0), [uniform(-1e-6, 1e-6, (99,), **options)]
        )

    with pytest.raises(AssertionError, match="gradient of input 0"):
        gradient(at_kink(), device)
    gradient(at_kink(dodge=(0,)), device)
