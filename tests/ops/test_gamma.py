"""The gamma function's logarithm and its derivatives, against SciPy."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import scipy.special

import clnet
from clnet import ops
from clnet.errors import ArgumentError
from tests.opcase import Draw, OpCase, every_check, sliced, uniform

pytestmark = pytest.mark.device

SHAPE = (7, 9)
X = uniform(0.1, 9.5, SHAPE)
pointwise = partial(OpCase, layouts=(sliced,), shapes=())


def chosen(*values: float) -> Draw:
    """A few values, in any order."""
    return Draw(SHAPE, lambda rng, s: rng.choice(np.array(values), s), grad=False)


BELOW = chosen(-0.3, -1.7, -2.4, -6.6)
ENDS = chosen(1.0, 2.0, 0.5, 1.5, 2.5, 8.0, 1e-5, 1e4)

CASES = [
    pointwise(ops.lgamma, scipy.special.gammaln, [X], rtol=2e-5, grad2=True),
    pointwise(ops.lgamma, scipy.special.gammaln, [BELOW], label="below 0", grad=False, rtol=3e-5),
    pointwise(ops.lgamma, scipy.special.gammaln, [ENDS], label="ends", grad=False, rtol=2e-5),
    pointwise(ops.digamma, scipy.special.digamma, [X], rtol=2e-5, grad2=True),
    pointwise(ops.digamma, scipy.special.digamma, [BELOW], label="below 0", grad=False, rtol=3e-5),
    pointwise(
        lambda x: ops.polygamma(3, x),
        lambda x: scipy.special.polygamma(3, x),
        [X],
        name="polygamma",
        rtol=2e-5,
    ),
    pointwise(
        lambda x: ops.polygamma(1, x),
        lambda x: scipy.special.polygamma(1, x),
        [X],
        name="polygamma",
        label="1",
        rtol=2e-5,
    ),
    pointwise(
        lambda x: ops.mvlgamma(x, 3),
        lambda x: (
            scipy.special.gammaln(x)
            + scipy.special.gammaln(x - 0.5)
            + scipy.special.gammaln(x - 1)
            + 1.5 * np.log(np.pi)
        ),
        [uniform(1.5, 6, SHAPE)],
        name="mvlgamma",
        rtol=2e-5,
    ),
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


def test_poles_and_ends_are_pytorchs():
    torch = pytest.importorskip("torch")
    x = np.array([0, -0.0, -1, -3, np.inf, -np.inf, np.nan], np.float32)
    for name in ("lgamma", "digamma"):
        got, expected = getattr(ops, name)(clnet.tensor(x)), getattr(torch, name)(torch.tensor(x))
        np.testing.assert_array_equal(got.numpy(), expected.numpy())


def test_orders_outside_are_refused():
    with pytest.raises(ArgumentError, match="n=-1"):
        ops.polygamma(-1, clnet.ones(1))
    with pytest.raises(ArgumentError, match="p=0"):
        ops.mvlgamma(clnet.ones(1), 0)
    x = clnet.tensor([2.0])
    assert ops.polygamma(0, x).item() == ops.digamma(x).item()
