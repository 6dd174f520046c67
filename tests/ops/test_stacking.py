"""Common shapes, tensors beside each other and cut, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import clnet
from clnet import ops
from clnet.errors import ArgumentError, ShapeError
from tests.opcase import OpCase, every_check, normal

pytestmark = pytest.mark.device


def case(name, fn, ref, *shapes, label=""):
    inputs = [normal(*s) for s in shapes or [(4, 6)]]
    return OpCase(fn, ref, inputs, layouts=(), shapes=(), name=name, label=label)


CASES = [
    case("atleast_1d", lambda x: ops.atleast_1d(x), np.atleast_1d, (3,)),
    case(
        "atleast_2d",
        lambda x, y: ops.atleast_2d(x, y),
        lambda x, y: [np.atleast_2d(x), y],
        (3,),
        (2, 3),
    ),
    case(
        "atleast_3d",
        lambda x, y: ops.atleast_3d([x, y]),
        lambda x, y: [np.atleast_3d(x), np.atleast_3d(y)],
        (3,),
        (2, 3),
    ),
    case("broadcast_tensors", ops.broadcast_tensors, np.broadcast_arrays, (3, 1), (4,)),
    case("expand_as", lambda x, y: x.expand_as(y) * y, lambda x, y: x * y, (4,), (3, 4)),
    case(
        "view_as", lambda x, y: x.view_as(y) * y, lambda x, y: x.reshape(2, 6) * y, (3, 4), (2, 6)
    ),
    case(
        "reshape_as",
        lambda x, y: x.T.reshape_as(y) * y,
        lambda x, y: x.T.reshape(2, 6) * y,
        (3, 4),
        (2, 6),
    ),
    case("ravel", ops.ravel, np.ravel),
    case("t", ops.t, np.transpose),
    case("t", ops.t, np.transpose, (4,), label="vector"),
    case("adjoint", ops.adjoint, lambda x: np.swapaxes(x, 1, 2), (2, 3, 4)),
    case(
        "column_stack",
        lambda x, y: ops.column_stack([x, y]),
        lambda x, y: np.column_stack([x, y]),
        (3,),
        (3, 2),
    ),
    case("block_diag", ops.block_diag, scipy.linalg.block_diag, (2, 3), (4,), (3, 1)),
    case(
        "cartesian_prod",
        ops.cartesian_prod,
        lambda x, y: np.stack([a.ravel() for a in np.meshgrid(x, y, indexing="ij")], 1),
        (3,),
        (4,),
    ),
    case("cartesian_prod", ops.cartesian_prod, lambda x: x, (3,), label="one"),
    case("diagflat", lambda x: ops.diagflat(x, -1), lambda x: np.diagflat(x, -1), (2, 3)),
    case("hsplit", lambda x: ops.hsplit(x, 3), lambda x: np.hsplit(x, 3)),
    case("hsplit", lambda x: ops.hsplit(x, [2]), lambda x: np.hsplit(x, [2]), (5,), label="vector"),
    case("vsplit", lambda x: ops.vsplit(x, [1, 3]), lambda x: np.vsplit(x, [1, 3])),
    case("dsplit", lambda x: ops.dsplit(x, 2), lambda x: np.dsplit(x, 2), (2, 3, 4)),
    case(
        "split_with_sizes",
        lambda x: ops.split_with_sizes(x, [1, 5], 1),
        lambda x: np.split(x, [1], 1),
    ),
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


def test_numbers_get_axes():
    x = clnet.tensor(2.0)
    assert [y.shape for y in (ops.atleast_1d(x), ops.atleast_2d(x), ops.atleast_3d(x))] == [
        (1,),
        (1, 1),
        (1, 1, 1),
    ]
    assert ops.atleast_3d(clnet.zeros(1, 2, 3)).shape == (1, 2, 3)


def test_elements_in_one_row_lie_side_by_side():
    x = clnet.arange(12.0).view(3, 4)
    assert ops.ravel(x[:, ::2]).stride() == ops.ravel(x[:, 0]).stride() == (1,)
    assert ops.ravel(x[:, 0]).tolist() == [0, 4, 8]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: ops.t(x[None]), ShapeError, "x has two axes at most"),
        (lambda x: ops.adjoint(x[0]), ShapeError, "x has two axes or more"),
        (lambda x: ops.block_diag(x[None]), ShapeError, "two axes at most"),
        (lambda x: ops.cartesian_prod(x), ShapeError, r"each is \(n,\)"),
        (lambda x: ops.hsplit(x, 2), ArgumentError, "the axis divides into the sections"),
        (lambda x: ops.vsplit(x[0], 2), ShapeError, "x has 2 axes or more"),
        (lambda x: ops.dsplit(x, 0), ShapeError, "x has 3 axes or more"),
        (lambda x: ops.broadcast_tensors(x, x.T), ShapeError, "broadcast_tensors"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call(clnet.zeros(2, 3))
