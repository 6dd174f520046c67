"""Further mathematics of elements, against NumPy and SciPy."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import scipy.special

import clnet
from clnet import ops
from clnet.ops import PUBLIC_OPS
from tests.opcase import Draw, OpCase, every_check, integers, normal, sliced, uniform

pytestmark = pytest.mark.device

SHAPE = (7, 9)
X = normal(*SHAPE)
pointwise = partial(OpCase, layouts=(sliced,), shapes=())
compared = partial(pointwise, grad=False)


def specials(*values: float) -> Draw:
    """A few values, in any order."""
    return Draw(SHAPE, lambda rng, s: rng.choice(np.array(values), s), grad=False)


ENDS = specials(-np.inf, -1.5, -0.0, 0.0, 2.0, np.inf, np.nan)

CASES = [
    pointwise(ops.deg2rad, np.deg2rad, [X], rtol=1e-6),
    pointwise(ops.rad2deg, np.rad2deg, [X], rtol=1e-6),
    pointwise(ops.sinc, np.sinc, [X], grad2=True, ulps=32),
    compared(ops.sinc, np.sinc, [integers(-2, 3, SHAPE)], label="integers", atol=1e-6),
    pointwise(ops.heaviside, np.heaviside, [specials(-2, 0, 3), X]),
    compared(ops.signbit, np.signbit, [ENDS]),
    compared(ops.signbit, np.signbit, [integers(-2, 2, SHAPE)], label="integers"),
    compared(ops.isposinf, np.isposinf, [ENDS]),
    compared(ops.isneginf, np.isneginf, [ENDS]),
    pointwise(ops.logaddexp2, np.logaddexp2, [X, normal(*SHAPE, scale=3)]),
    compared(
        ops.logaddexp2,
        np.logaddexp2,
        [specials(-np.inf, 3), specials(-np.inf, 3)],
        label="infinite",
    ),
    pointwise(ops.ldexp, lambda x, n: x * 2.0**n, [X, integers(-4, 5, SHAPE)]),
    pointwise(ops.erfinv, scipy.special.erfinv, [uniform(-0.9, 0.9, SHAPE)], rtol=2e-5, grad2=True),
    compared(
        ops.erfinv,
        scipy.special.erfinv,
        [specials(-0.9999, 0, 0.9, 0.999999)],
        label="ends",
        rtol=2e-3,
    ),
    pointwise(ops.positive, lambda x: x, [X]),
    *(
        pointwise(
            PUBLIC_OPS[f"special.{name}"][0],
            getattr(scipy.special, name),
            inputs,
            name=f"special.{name}",
            grad2=True,
            ulps=32,
        )
        for name, inputs in (
            ("entr", [uniform(0.1, 3, SHAPE)]),
            ("ndtr", [X]),
            ("ndtri", [uniform(0.1, 0.9, SHAPE)]),
            ("xlog1py", [X, uniform(-0.5, 3, SHAPE)]),
        )
    ),
    pointwise(ops.clamp_min, np.maximum, [X, normal(*SHAPE)]),
    pointwise(ops.clamp_max, np.minimum, [X, normal(*SHAPE)]),
    pointwise(lambda x, y: ops.rsub(x, y, alpha=3), lambda x, y: y - 3 * x, [X, X], name="rsub"),
]
OTHERWISE_TESTED = dict.fromkeys(("clamp_min_", "clamp_max_"), "test_bounds_in_place")


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


def test_bounds_in_place():
    x = clnet.tensor([-2.0, 0.5, 3.0])
    assert x.clamp_min_(-1).clamp_max_(2) is x
    assert x.tolist() == [-1, 0.5, 2]
    assert ops.rsub(x, 1).tolist() == [2, 0.5, -1]


def test_erfinv_to_some_units_in_the_last_place():
    random = np.random.default_rng(0)
    x = np.concatenate([random.uniform(-1, 1, 2**15), 1 - 2.0 ** -random.uniform(0, 23.9, 2**15)])
    x = x.astype(np.float32)
    want = np.copysign(scipy.special.erfcinv(1 - abs(x.astype(np.float64))), x)
    want = np.where(abs(x) < 0.5, scipy.special.erfinv(x.astype(np.float64)), want)
    got = ops.erfinv(clnet.tensor(x)).numpy()
    assert (abs(got - want) / np.spacing(abs(want.astype(np.float32)))).max() < 3


def test_erfinv_in_double_to_its_ends(device):
    if not device.traits.float64:
        pytest.skip("the device has no double precision")
    rest = np.concatenate([np.logspace(-15.9, -2, 60), np.linspace(0.01, 1, 60)])
    x = 1 - rest  # rounded: what is left to 1 is exact again
    x = np.concatenate([x, -x, [0.0, 1e-300, 5e-324]])
    wanted = np.where(abs(x) < 0.5, scipy.special.erfinv(x), 0)
    wanted = np.where(abs(x) < 0.5, wanted, np.sign(x) * scipy.special.erfcinv(1 - abs(x)))
    y = ops.erfinv(clnet.tensor(x, requires_grad=True))
    np.testing.assert_allclose(y.detach().numpy(), wanted, rtol=2e-15, atol=0)
    assert np.signbit(ops.erfinv(clnet.tensor([-0.0], dtype=clnet.float64)).item())


def test_erfinv_at_its_ends():
    assert ops.erfinv(clnet.tensor([1.0, -1.0])).tolist() == [float("inf"), -float("inf")]
    assert np.isnan(ops.erfinv(clnet.tensor([1.5, -2.0])).numpy()).all()
