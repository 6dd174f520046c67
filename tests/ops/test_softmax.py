"""Softmax and log-softmax along any axis, with gradients of gradients."""

from __future__ import annotations

import pytest
from scipy.special import log_softmax, softmax

from clnet import ops
from clnet.errors import BoundsError, DtypeError
from clnet.tensor import tensor
from tests.opcase import NARROW, OpCase, every_check, normal

CASES = [
    OpCase(
        lambda x, dim=dim, fn=fn: fn(x, dim),
        lambda x, dim=dim, ref=ref: ref(x, dim),
        [normal(4, 6, 5, scale=2)],
        k=6,
        grad2=True,
        name=fn.__name__,
        label=f"dim={dim}",
        dtypes=("float64", *NARROW),
        shapes=[((3, 1, 2),), ((0, 2, 3),), ((1, 40, 17),)],
    )
    for fn, ref in [(ops.softmax, softmax), (ops.log_softmax, log_softmax)]
    for dim in (-1, 1)
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_softmax(case, check, device):
    check(case, device)


def test_a_number_has_all_the_probability(device):
    assert ops.softmax(tensor(3.0), 0).item() == 1


def test_errors_name_what_is_wrong(device):
    with pytest.raises(DtypeError, match="softmax: operands are floating"):
        ops.softmax(tensor([1, 2]), 0)
    with pytest.raises(BoundsError, match="log_softmax: dim lies in"):
        ops.log_softmax(tensor([1.0, 2.0]), 1)
