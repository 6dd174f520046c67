"""Contractions against NumPy, and einsum's grammar."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import clnet
from clnet import linalg, ops
from clnet.errors import ArgumentError, DtypeError, ShapeError
from tests.kernels.launching import cpu_shaped, gpu_shaped
from tests.opcase import OpCase, every_check, normal, sliced, transposed

pytestmark = pytest.mark.device

contraction = partial(OpCase, layouts=(transposed, sliced), shapes=())

EQUATIONS = [
    ("ij,jk->ik", (7, 33), (33, 5)),
    ("bij,bjk", (2, 3, 4), (2, 4, 5)),
    ("ij->ji", (3, 4)),
    ("ii->i", (4, 4)),
    ("iij->j", (3, 3, 2)),
    ("i,j->ij", (3,), (4,)),
    ("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 6)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("ijk,jk->ik", (2, 3, 4), (3, 4)),
    ("b...,b->...", (2, 3, 4), (2,)),
    ("ij,kj->ik", (3, 1), (4, 1)),
]


def ends(*numbers):
    """Where groups end."""
    return clnet.tensor(numbers, dtype=clnet.int32)


def einsum(equation, *shapes):
    """A case of einsum; NumPy's is the reference."""
    return contraction(
        lambda *xs: ops.einsum(equation, *xs),
        lambda *xs: np.einsum(equation, *xs),
        [normal(*s) for s in shapes],
        k=max(max(s) for s in shapes) ** (len(shapes) - 1),
        ulps=16,
        grad2=len(shapes) > 1,
        name="einsum",
        label=equation,
        layouts=(transposed,),
    )


CASES = [
    contraction(ops.mv, np.matmul, [normal(7, 33), normal(33)], k=33, grad2=True),
    contraction(
        lambda x, y, s: ops.dot(x, y) * s,
        lambda x, y, s: np.dot(x, y) * s,
        [normal(33), normal(33), normal(9, grad=False)],
        k=33,
        name="dot",
        layouts=(sliced,),
        ulps=16,
    ),
    contraction(
        lambda a, b: ops.grouped_mm(a, b, offs=ends(2, 2, 5)),
        lambda a, b: np.concatenate([a[:2] @ b[0], a[2:5] @ b[2], 0 * a[5:] @ b[0]]),
        [normal(6, 9), normal(3, 9, 4)],
        k=9,
        grad2=True,
        name="grouped_mm",
    ),
    contraction(
        lambda a, b: ops.grouped_mm(a, b, offs=ends(1, 4)),
        lambda a, b: np.concatenate([a[0] @ b[:, :1], a[1] @ b[:, 1:4], 0 * a[0] @ b[:, 4:]], 1),
        [normal(2, 3, 9), normal(9, 5)],
        k=9,
        name="grouped_mm",
        label="columns",
    ),
    contraction(
        lambda a, b: ops.grouped_mm(a, b, offs=ends(4, 9)),
        lambda a, b: np.stack([a[:, :4] @ b[:4], a[:, 4:] @ b[4:]]),
        [normal(3, 9), normal(9, 5)],
        k=9,
        name="grouped_mm",
        label="inner",
    ),
    contraction(ops.grouped_mm, np.matmul, [normal(2, 3, 9), normal(2, 9, 5)], k=9, label="batch"),
    contraction(ops.inner, np.inner, [normal(2, 3, 9), normal(5, 9)], k=9, grad2=True),
    contraction(ops.outer, np.outer, [normal(7), normal(5)], k=7, layouts=(sliced,), grad2=True),
    contraction(ops.kron, np.kron, [normal(2, 3), normal(4, 5)], k=20, grad2=True),
    contraction(ops.kron, np.kron, [normal(3), normal(2, 2, 4)], k=20, label="axes"),
    contraction(
        lambda x, a, b: ops.addmm(x, a, b, beta=0.5, alpha=-2),
        lambda x, a, b: 0.5 * x - 2 * (a @ b),
        [normal(5), normal(7, 33), normal(33, 5)],
        k=33,
        name="addmm",
        grad2=True,
    ),
    contraction(
        lambda x, a, b: ops.addmv(x, a, b, alpha=3),
        lambda x, a, b: x + 3 * (a @ b),
        [normal(7), normal(7, 33), normal(33)],
        k=33,
        name="addmv",
    ),
    contraction(
        lambda x, a, b: ops.addr(x, a, b, beta=2),
        lambda x, a, b: 2 * x + np.outer(a, b),
        [normal(7, 5), normal(7), normal(5)],
        k=7,
        name="addr",
    ),
    contraction(
        lambda x, a, b: ops.baddbmm(x, a, b, beta=0.5),
        lambda x, a, b: 0.5 * x + a @ b,
        [normal(7, 1), normal(3, 7, 9), normal(3, 9, 5)],
        k=15,
        name="baddbmm",
    ),
    contraction(
        lambda x, a, b: ops.addbmm(x, a, b, alpha=0.5),
        lambda x, a, b: x + 0.5 * (a @ b).sum(0),
        [normal(7, 5), normal(3, 7, 9), normal(3, 9, 5)],
        k=27,
        name="addbmm",
    ),
    contraction(ops.tensordot, np.tensordot, [normal(2, 3, 4), normal(3, 4, 5)], k=12, grad2=True),
    contraction(
        lambda a, b: ops.tensordot(a, b, ([0, -1], [1, 0])),
        lambda a, b: np.tensordot(a, b, ([0, -1], [1, 0])),
        [normal(2, 3, 4), normal(4, 2, 5)],
        k=8,
        name="tensordot",
        label="pairs",
    ),
    contraction(
        lambda a, b: ops.tensordot(a, b, 0),
        lambda a, b: np.tensordot(a, b, 0),
        [normal(2, 3), normal(4)],
        k=6,
        name="tensordot",
        label="none",
    ),
    *(einsum(*row) for row in EQUATIONS),
    contraction(ops.trace, np.trace, [normal(4, 6)], k=4),
    contraction(
        lambda x, y: linalg.vecdot(x, y),
        lambda x, y: (x * y).sum(-1),
        [normal(3, 4), normal(4)],
        k=4,
        name="linalg.vecdot",
    ),
    contraction(ops.vdot, np.vdot, [normal(9), normal(9)], k=9),
    contraction(
        lambda x, y: linalg.cross(x, y),
        np.cross,
        [normal(5, 3), normal(5, 3)],
        k=16,
        name="linalg.cross",
    ),
    contraction(ops.cross, lambda x, y: np.cross(x, y, axis=0), [normal(3, 4), normal(3, 4)], k=16),
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


@pytest.mark.parametrize(
    ("shapes", "given", "error", "message"),
    [
        (((6, 4), (2, 4, 3)), {}, ArgumentError, "two axes"),
        (((2, 6, 4), (2, 4, 3)), {"offs": [3, 6]}, ArgumentError, "two axes"),
        (((6, 4), (2, 4, 3)), {"offs": [3, 7]}, ArgumentError, "grow"),
        (((6, 4), (2, 4, 3)), {"offs": [4, 3]}, ArgumentError, "grow"),
        (((6, 4), (2, 4, 3)), {"offs": [3]}, ShapeError, "each group"),
        (((6,), (2, 4, 3)), {"offs": [3]}, ShapeError, "two or three"),
        (((6, 4), (2, 4, 3)), {"offs": [3, 6], "dtype": clnet.int64}, DtypeError, "int32"),
        (((6, 4), (2, 4, 3)), {"offs": [3, 6], "out_dtype": clnet.float64}, DtypeError, "one"),
        (((6, 4), (2, 4, 3)), {"offs": [3, 6], "bias": clnet.ones(3)}, ArgumentError, "bias"),
    ],
)
def test_groups_are_refused_that_do_not_fit(shapes, given, error, message):
    given = dict(given)
    kind = given.pop("dtype", clnet.int32)
    if "offs" in given:
        given["offs"] = clnet.tensor(given["offs"], dtype=kind)
    with pytest.raises(error, match=message):
        ops.grouped_mm(*(clnet.ones(s) for s in shapes), **given)


def test_beta_zero_keeps_nan_out():
    x = clnet.full((2, 2), float("nan"))
    assert ops.addmm(x, clnet.ones(2, 3), clnet.ones(3, 2), beta=0).tolist() == [[3, 3], [3, 3]]


def test_einsum_takes_a_sequence_and_spaces():
    x = clnet.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert ops.einsum("i j -> ", [x]).item() == 10
    assert ops.einsum("ii", x).item() == 5


def test_einsum_by_numbers():
    """As NumPy's and PyTorch's; letters of the implied result are in the numbers' order."""
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal(s).astype(np.float32) for s in ((2, 3, 4), (2, 4, 5)))
    given = [clnet.tensor(a) for a in (x, y)]
    for numbers in (([0, 1, 2], [0, 2, 3], [0, 1, 3]), ([..., 1, 2], [..., 2, 3])):
        mine = [a for pair in zip(given, numbers, strict=False) for a in pair] + list(numbers[2:])
        theirs = [a for pair in zip((x, y), numbers, strict=False) for a in pair]
        expected = np.einsum(*theirs, *numbers[2:])
        np.testing.assert_allclose(clnet.einsum(*mine).numpy(), expected, rtol=1e-5, atol=1e-6)
    assert clnet.einsum(given[0], [51, 0, 30]).shape == (3, 4, 2)
    for wrong in ([60], [True, 0.5], 3):
        with pytest.raises(ArgumentError, match="followed by a list of numbers below 52"):
            clnet.einsum(given[0], wrong)


def test_einsum_of_nothing():
    assert ops.einsum("ij,jk->ik", clnet.ones(3, 0), clnet.ones(0, 5)).tolist() == [[0.0] * 5] * 3
    assert ops.einsum("ij,jk->ki", clnet.ones(0, 3), clnet.ones(3, 4)).shape == (4, 0)


def test_einsum_of_a_label_of_size_one_and_another():
    x, y = clnet.tensor([[1.0], [2.0]]), clnet.tensor([[1.0, 2.0, 3.0]])
    assert ops.einsum("ij,kj->ik", x, y).tolist() == [[6.0], [12.0]]


@pytest.mark.parametrize(
    ("equation", "shapes", "error", "message"),
    [
        ("i.j", [(2, 2)], ArgumentError, r"an equation has letters, ',', '\.\.\.' and '->'"),
        ("i,j->ij", [(2,)], ArgumentError, r"there is a term for each operand; got .*operands=1"),
        ("ij->k", [(2, 2)], ArgumentError, "the result's letters occur once there and in a term"),
        ("ij->ii", [(2, 2)], ArgumentError, "the result's letters occur once there and in a term"),
        ("ij", [(2,)], ShapeError, r"'ij' labels every axis; got x=\(2,\)"),
        ("i", [(2, 3)], ShapeError, r"'i' labels every axis; got x=\(2, 3\)"),
        ("ij,jk", [(2, 3), (4, 5)], ShapeError, r"label 'j' of 'ij,jk' has two sizes; got shapes="),
        ("ii", [(1, 3)], ShapeError, r"axes of one label 'i' are equal; got x=\(1, 3\)"),
    ],
)
def test_einsum_refuses_what_it_cannot_read(equation, shapes, error, message):
    with pytest.raises(error, match=rf"^einsum: {message}"):
        ops.einsum(equation, *(clnet.ones(*s) for s in shapes))


def test_errors_name_what_is_wrong():
    matrix, vector = clnet.ones(2, 3), clnet.ones(3)
    with pytest.raises(ShapeError, match=r"^mv: operands are a matrix and a vector; got a=\(3,\)"):
        ops.mv(vector, vector)
    with pytest.raises(ShapeError, match=r"^dot: operands are vectors of one size; got"):
        ops.dot(vector, clnet.ones(4))
    with pytest.raises(ShapeError, match=r"^inner: the last sizes are equal; got"):
        ops.inner(matrix, clnet.ones(2))
    with pytest.raises(ShapeError, match=r"^outer: operands are vectors; got"):
        ops.outer(matrix, vector)
    with pytest.raises(ShapeError, match=r"^tensordot: axes that meet have one size; got"):
        ops.tensordot(matrix, matrix, 1)
    with pytest.raises(ShapeError, match=r"^addmm: x broadcasts to the product; got x=\(4, 2, 2\)"):
        ops.addmm(clnet.ones(4, 2, 2), matrix, matrix.T)
    with pytest.raises(ShapeError, match=r"^addbmm: operands are stacks; got"):
        ops.addbmm(matrix, matrix, matrix)
    with pytest.raises(ShapeError, match=r"^trace: x is a matrix; got"):
        ops.trace(vector)
    with pytest.raises(ShapeError, match=r"^cross: an axis has three elements; got"):
        ops.cross(clnet.ones(2, 4), clnet.ones(2, 4))
    with pytest.raises(ShapeError, match=r"^cross: the axis has three elements; got"):
        linalg.cross(clnet.ones(2, 4), clnet.ones(2, 4))
    with pytest.raises(DtypeError, match=r"^mm: operands have one dtype; got"):
        ops.addmm(matrix, matrix, matrix.T.long())


@pytest.mark.parametrize("shaped", [cpu_shaped, gpu_shaped])
@pytest.mark.parametrize("shape", [(1,), (37,), (9000,), (3, 1, 50), (2, 3, 1, 700)], ids=str)
def test_products_that_are_numbers(device, monkeypatch, shaped, shape):
    monkeypatch.setattr(device, "target", shaped(device))
    rng = np.random.default_rng(0)
    for dtype, limit in ((np.float32, 1e-5), (np.float64, 1e-13)):
        a, b = (rng.standard_normal(shape).astype(dtype) for _ in range(2))
        x, y = (clnet.tensor(v, device=device).requires_grad_() for v in (a, b))
        z = x @ (y if x.ndim == 1 else y.transpose(-1, -2))
        expected = (a.astype(np.float64) * b).sum(-1)
        np.testing.assert_allclose(
            z.detach().numpy().reshape(expected.shape), expected, atol=9 * limit
        )
        gx, gy = clnet.autograd.grad([z.sum()], [x, y])
        np.testing.assert_array_equal(gx.numpy(), b)
        np.testing.assert_array_equal(gy.numpy(), a)
    assert clnet.zeros(0, device=device).dot(clnet.zeros(0, device=device)).item() == 0


def test_einsum_moves_no_axis_that_lies_right():
    """Each would be a node of the tape, and some 30 us there and back."""
    x, y = clnet.ones(2, 3, 4, requires_grad=True), clnet.ones(2, 4, 5)
    node = ops.einsum("bij,bjk->bik", x, y).grad_fn
    assert node.name() == "MatmulBackward0"
    assert "AccumulateGrad" in node.next_functions[0][0].name()
