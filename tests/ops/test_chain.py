"""Products of several matrices against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import linalg, ops
from clnet.errors import ArgumentError
from tests.opcase import OpCase, every_check, normal

pytestmark = pytest.mark.device


def case(name, fn, ref, *inputs, label="", **options):
    options = {"k": 16, **options}
    return OpCase(fn, ref, inputs, layouts=(), shapes=(), name=name, label=label, **options)


CASES = [
    case(
        "linalg.multi_dot",
        lambda *m: linalg.multi_dot(m),
        lambda *m: np.linalg.multi_dot(m),
        normal(9),
        normal(9, 2),
        normal(2, 8),
        normal(8),
    ),
    case(
        "chain_matmul",
        ops.chain_matmul,
        lambda a, b, c, d: a @ b @ c @ d,
        normal(2, 9),
        normal(9, 3),
        normal(3, 8),
        normal(8, 4),
    ),
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


def test_one_matrix_is_copied_and_too_few_are_refused():
    x = clnet.tensor([[0.0, 2.0], [3.0, 0.0]])
    assert ops.chain_matmul(x).tolist() == x.tolist()
    with pytest.raises(ArgumentError, match="there are two or more"):
        linalg.multi_dot([x])
